"""The events of a journal, a class for each kind. What is not required is new, or there may be none."""

from __future__ import annotations

from typing import Any, Literal, NotRequired, TypedDict

from tune_cl.results import Arm

Point = dict[str, bool | int | float | str | list[Any] | None]  # values of configuration keys
Numbers = dict[str, float]


class Timed(TypedDict):
    time: float  # unix seconds


class Fingerprint(TypedDict):
    """The data that a search read, and the digests by which a change is seen: of the data, of pre-training data, of
    files of word vectors, and of encoders."""

    name: str
    digest: str
    pretrain_digest: NotRequired[str | None]
    files: NotRequired[dict[str, str]]
    encoders: NotRequired[dict[str, str]]


class DevReached(TypedDict):
    iteration: int
    dev: float


class BestTrial(DevReached):
    trial_id: str
    params: NotRequired[Point]


class LabelFreeMean(TypedDict):
    label: str
    mean: float


class ArmPlanned(TypedDict):
    """The trials of an arm, and the keys that they search."""

    trials: int
    opened: list[str]


class SearchEvent(Timed):
    """The first one: what is searched. compares: whether the baseline sets the arms apart."""

    event: Literal["search"]
    name: str
    space: str
    data: Fingerprint
    ranker: str
    rankers: list[str]
    metric: str
    seed: int
    baseline: str
    yaml: str
    storage: str
    tracking_uri: str
    versions: dict[str, str | None]
    opened: list[str]
    arms: dict[Arm, ArmPlanned]
    compares: bool
    git_commit: NotRequired[str | None]
    plugins: NotRequired[list[str]]
    objective: NotRequired[dict[str, Any] | None]
    checkpoints: NotRequired[str]  # the address of Ray's files, if they are not in the search's folder


class SessionEvent(Timed):
    """A start or resume that has work to do."""

    event: Literal["session"]
    number: int


class LabelFreeEvent(Timed):
    """What ranks dev without training labels."""

    event: Literal["label_free"]
    first_stage: LabelFreeMean | None
    label_free: LabelFreeMean | None


class TrialEvent(Timed):
    """A trial begins, or goes on. chosen: of opened keys; twin: of a curriculum, the plain trial with its other
    settings, of a plain one the curriculum that it is trained for; repeats: the trial whose settings it has under
    another seed."""

    event: Literal["trial"]
    trial: str
    number: int
    params: Point
    seed: int
    baseline: bool
    chosen: Point
    arm: Arm
    twin: NotRequired[str | None]
    repeats: NotRequired[str | None]


class ResultEvent(Timed):
    """What an iteration, from 1, gave. done: it was the trial's last."""

    event: Literal["result"]
    trial: str
    iteration: int
    metrics: Numbers
    done: NotRequired[bool]


class PauseEvent(Timed):
    """A trial waits and may go on later."""

    event: Literal["pause"]
    trial: str
    iteration: int
    reason: NotRequired[str | None]


class CheckpointEvent(Timed):
    event: Literal["checkpoint"]
    trial: str
    iteration: int
    path: str


class TextEvent(Timed):
    """`machine`: what a trial computes with; `note`: what the user should know of it, such as a lost checkpoint."""

    event: Literal["machine", "note"]
    trial: str
    text: str


class EndEvent(Timed):
    """How a trial ended. artifacts: the folder of its files."""

    event: Literal["end"]
    trial: str
    outcome: str
    reason: NotRequired[str | None]
    best: NotRequired[DevReached | None]
    artifacts: NotRequired[str | None]


class SearchEndEvent(Timed):
    """The search has come to its end. ended_by: the budget that was used up; checkpoint: the folder of the best
    ranker."""

    event: Literal["search_end"]
    best: BestTrial | None
    cost: Numbers
    seconds: float
    ended_by: NotRequired[str | None]
    checkpoint: NotRequired[str | None]


class ConfirmationEvent(Timed):
    """A training of a confirmation."""

    event: Literal["confirmation"]
    label: str
    params: Point
    seed: int
    metrics: Numbers
    trial: NotRequired[str | None]
    artifacts: NotRequired[str | None]


class TrainingCheckpointEvent(Timed):
    """Of a training of a confirmation that is under way."""

    event: Literal["training_checkpoint"]
    training: str
    iteration: int
    path: str


class VerdictEvent(Timed):
    """What a confirmation found on a split, with so many seeds of each configuration.

    curricula       labels of those tested
    difference ..   those of the least favourable opponent; None where nothing can be said of new trainings
    description     in Markdown
    configurations  label, trial, params, values (a mean a seed) and roles of what was compared
    """

    event: Literal["verdict"]
    split: str
    curricula: list[str]
    seeds: int
    verdict: str
    difference: float
    ci95: list[float] | None
    p: float | None
    opponent: str
    description: str
    configurations: list[dict[str, Any]]


class ArtifactEvent(TypedDict):
    """A file or folder for the parent run."""

    event: Literal["artifact"]
    path: str
    folder: NotRequired[str | None]


class InterruptedEvent(Timed):
    """It was stopped, and may be resumed."""

    event: Literal["interrupted"]


Event = (
    SearchEvent
    | SessionEvent
    | InterruptedEvent
    | LabelFreeEvent
    | TrialEvent
    | ResultEvent
    | PauseEvent
    | CheckpointEvent
    | TextEvent
    | EndEvent
    | SearchEndEvent
    | ConfirmationEvent
    | TrainingCheckpointEvent
    | VerdictEvent
    | ArtifactEvent
)
