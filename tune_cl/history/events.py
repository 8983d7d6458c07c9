"""The events of a journal, a class for each kind. A journal may come from a stranger: `misfit` checks what is read.

What is not required is new, or there may be none.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Annotated, Any, Literal, NotRequired, get_args, get_type_hints

from pydantic import Field, TypeAdapter, ValidationError
from typing_extensions import TypedDict

DEEPEST, LARGEST = 20, 2**53  # levels of a value; a number of which floats hold every digit
NESTED = (dict, list)
Whole = Annotated[int, Field(ge=-LARGEST, le=LARGEST)]
Arm = Literal["plain", "curriculum"]  # that of experiment.py, which a reader of journals need not load
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
    iteration: Whole
    dev: float


class BestTrial(DevReached):
    trial_id: str
    params: NotRequired[Point]


class LabelFreeMean(TypedDict):
    label: str
    mean: float


class ArmPlanned(TypedDict):
    """The trials of an arm, and the keys that they search."""

    trials: Whole
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
    seed: Whole
    baseline: str
    yaml: str
    storage: str
    tracking_uri: str
    versions: dict[str, str | None]
    opened: list[str]
    arms: dict[Arm, ArmPlanned]
    compares: bool
    git_commit: NotRequired[str | None]
    forecast: NotRequired[Mapping[str, float]]
    plugins: NotRequired[list[str]]
    objective: NotRequired[dict[str, Any] | None]


class SessionEvent(Timed):
    """A start or resume that has work to do."""

    event: Literal["session"]
    number: Whole


class LabelFreeEvent(Timed):
    """What ranks dev without training labels."""

    event: Literal["label_free"]
    first_stage: LabelFreeMean | None
    label_free: LabelFreeMean | None


class WarmStartEvent(Timed):
    """Results of earlier searches (`search.warm_start`)."""

    event: Literal["warm_start"]
    sources: list[dict[str, Any]]
    observations: list[dict[str, Any]]


class TrialEvent(Timed):
    """A trial begins, or goes on. chosen: of opened keys; anew: it begins again, `resume --retry-failed`; twins: of a
    plain one, the curricula that it is trained for."""

    event: Literal["trial"]
    trial: str
    number: Whole
    params: Point
    seed: Whole
    baseline: bool
    chosen: Point
    arm: Arm
    twin: NotRequired[str | None]
    twins: NotRequired[list[str]]
    led_by: NotRequired[Arm | None]
    anew: NotRequired[bool]


class ResultEvent(Timed):
    """What an iteration, from 1, gave. done: it was the trial's last."""

    event: Literal["result"]
    trial: str
    iteration: Whole
    metrics: Numbers
    done: NotRequired[bool]


class PauseEvent(Timed):
    """A trial waits and may go on later."""

    event: Literal["pause"]
    trial: str
    iteration: Whole
    reason: NotRequired[str | None]


class CheckpointEvent(Timed):
    event: Literal["checkpoint"]
    trial: str
    iteration: Whole
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
    seed: Whole
    metrics: Numbers
    trial: NotRequired[str | None]
    artifacts: NotRequired[str | None]


class TrainingCheckpointEvent(Timed):
    """Of a training of a confirmation that is under way."""

    event: Literal["training_checkpoint"]
    training: str
    iteration: Whole
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
    seeds: Whole
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


class ForecastEvent(Timed):
    """What has changed of the forecast since the search began."""

    event: Literal["forecast"]
    iterations_expected: Whole
    seconds_per_iteration: float
    hours_forecast: float
    cpu_hours_forecast: float
    gpu_hours_forecast: float


Event = (
    SearchEvent
    | SessionEvent
    | InterruptedEvent
    | LabelFreeEvent
    | ForecastEvent
    | WarmStartEvent
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
KINDS = {kind: one for one in get_args(Event) for kind in get_args(get_type_hints(one)["event"])}


@cache
def _adapter(kind: str) -> TypeAdapter[Any]:
    return TypeAdapter(KINDS[kind])


def misfit(event: Mapping[str, Any]) -> str | None:
    """What is wrong with an event, or None. Of a kind that is not known, only its depth is looked at."""
    for key, value in event.items():
        if isinstance(value, NESTED) and _is_deeper(value, DEEPEST):
            return f"'{key}' is nested more than {DEEPEST} levels deep"
    if event["event"] not in KINDS:
        return None
    try:
        _adapter(event["event"]).validate_python(event, strict=True)
    except ValidationError as wrong:
        key = str(wrong.errors(include_url=False)[0]["loc"][0])
        return f"'{key}' is {repr(event[key])[:60]}" if key in event else f"'{key}' is missing"
    return None


def _is_deeper(value: Any, levels: int) -> bool:
    """Whether an object or a list of JSON has more levels, its own included."""
    inside = value.values() if isinstance(value, dict) else value
    return levels < 1 or any(isinstance(one, NESTED) and _is_deeper(one, levels - 1) for one in inside)
