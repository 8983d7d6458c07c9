"""What a search has come to, in types and as the document of `tune-cl run` and `resume`."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trainables.config.function import option_of
from trainables.core.errors import ConfigError, WorkFailed
from tune_cl.experiment.experiment import ARMS, CURRICULUM, PLAIN, Arm
from tune_cl.history.events import SearchEvent
from tune_cl.history.journal import first_event, read_events
from tune_cl.history.search_folder import TRIALS, SearchFolder
from tune_cl.history.state import Dev, SearchState, TrialState, experiment_of, over_curricula, replay
from tune_cl.history.tracking_uri import SQLITE, masked
from tune_cl.search.analysis import selection_bias
from tune_cl.search.remarks import Remark, remarks
from tune_cl.space.wording import PLAIN_TRAINING, LabelFree, label_free_of
from tune_cl.tracking.cursor import Cursor, load
from tune_cl.tracking.layout import PARENT, target, view_path

if TYPE_CHECKING:
    from trainables.evaluation.effects import Effects

CONFIG = "config.yaml"  # in a trial's folder: its complete configuration
BEST_RANKER = "best-ranker"  # the folder of the best trial's ranker, in TRIALS


@dataclass(frozen=True)
class Trial:
    """A trial at its best: `params` are the keys in force, `dev` the highest value of the metric on dev, `iteration`
    (from 1) the one that reached it."""

    trial_id: str
    params: dict[str, Any]
    dev: float
    iteration: int


@dataclass(frozen=True)
class ArmResult:
    """How much of a search was spent on an arm. `opened`: the keys that it searched."""

    trials: int
    iterations: int
    opened: tuple[str, ...]


@dataclass(frozen=True)
class FailedTwin:
    """A plain trial that failed: the curricula `twin_of` have nothing to compare with."""

    trial_id: str
    twin_of: tuple[str, ...]
    reason: str | None


@dataclass(frozen=True)
class SearchResult:
    """What a search has come to; the fields are those of `tune-cl run --json` (docs/reference/search.md).

    best, best_curriculum, baseline, default  the best trial of both arms, of either arm, and the first trial, if these
                                              have a dev value
    effects                                   what curricula change over its pairs that ran to the end; None for fewer
                                              than two
    plain                                     what its plain trials are called
    opened                                    all keys that it searched
    over_curricula, compares                  whether it is about curricula, and whether its arms differ
    address                                   of the Ray cluster that it ran on, if that is not a local one
    """

    search: str
    data: str
    ranker: str
    rankers: tuple[str, ...]
    metric: str
    trials: int
    stopped_early: int
    errored: int
    iterations: int
    seconds: float
    ended_by: str | None
    forecast: dict[str, Any]
    remarks: tuple[Remark, ...]
    effects: Effects | None
    plain: str
    best: Trial
    best_curriculum: Trial | None
    opened: tuple[str, ...]
    over_curricula: bool
    compares: bool
    selection_bias: float | None
    baseline: Trial | None
    default: Trial | None
    arms: dict[Arm, ArmResult]
    failed_twins: tuple[FailedTwin, ...]
    first_stage: LabelFree | None
    label_free: LabelFree | None
    best_ranker: str | None
    objective: str | None
    storage: str
    tracking_uri: str
    mlflow_run_id: str | None
    mlflow_view: str | None
    address: str | None = None

    @property
    def document(self) -> dict[str, Any]:
        """The JSON document of `run` and `resume`."""
        values = asdict(self)
        address = values.pop("address")
        return values | ({"address": address} if address else {})


def best_of(state: SearchState, arm: Arm | None = None) -> Trial | None:
    """The best trial, of an arm or of both."""
    ranked = state.ranked() if arm is None else state.ranked_of(arm)
    return _reached(*ranked[0]) if ranked else None


def _reached(trial: TrialState, at: Dev) -> Trial:
    return Trial(trial.trial, trial.params, at.dev, at.iteration)


def default_result(state: SearchState) -> Trial | None:
    """The first trial, which has the space's own defaults."""
    trial = state.baseline_trial()
    if not trial or trial.outcome == "failed" or not (at := trial.best(state.metric)):
        return None
    return _reached(trial, at)


def search_result(
    state: SearchState,
    search_folder: SearchFolder,
    run_id: str | None = None,
    view: str | None = None,
    address: str | None = None,
) -> SearchResult:
    """The result of a search, finished or not. `run_id`, `view`: of the parent run in MLflow, once known.

    Raises WorkFailed if no trial gave a value.
    """
    counts, best = state.counts(), best_of(state)
    if best is None:
        raise _without_value(state, search_folder)
    found, effects, plain = _interpreted(state)
    first_stage, label_free = label_free_of(state.label_free)
    sound = [trial for trial in state.by_number() if trial.outcome != "failed"]
    ranker = search_folder.folder / TRIALS / BEST_RANKER
    return SearchResult(
        search=state.name,
        data=state.data["name"],
        ranker=state.ranker,
        rankers=tuple(state.rankers),
        metric=state.metric,
        trials=len(state.trials),
        stopped_early=counts["stopped_early"],
        errored=counts["failed"],
        iterations=state.iterations,
        seconds=state.seconds,
        ended_by=state.end.get("ended_by") if state.end else None,
        forecast=state.forecast,
        remarks=found,
        effects=effects,
        plain=plain,
        best=best,
        best_curriculum=best_of(state, CURRICULUM),
        opened=tuple(dict.fromkeys(key for trial in state.by_number() for key in trial.point)),
        over_curricula=over_curricula(state),
        compares=state.compares,
        selection_bias=selection_bias({trial.trial: [*trial.dev(state.metric).values()] for trial in sound}),
        baseline=best_of(state, PLAIN),
        default=default_result(state),
        arms={
            arm: ArmResult(len(state.trials_of(arm)), state.iterations_of(arm), tuple(state.opened_in(arm)))
            for arm in ARMS
        },
        failed_twins=failed_twins(state),
        first_stage=first_stage,
        label_free=label_free,
        best_ranker=str(ranker) if (state.end or {}).get("checkpoint") else None,
        objective=option_of(state.objective) or None,
        storage=search_folder.address,
        tracking_uri=masked(search_folder.tracking_uri),
        mlflow_run_id=run_id,
        mlflow_view=view,
        address=address,
    )


def failed_twins(state: SearchState) -> tuple[FailedTwin, ...]:
    """Plain trials that failed, each with the curricula that have nothing to compare with."""
    failed = {pair.twin.trial: pair.twin for pair in state.pairs() if pair.twin.outcome == "failed"}
    of = {name: [pair.curriculum.trial for pair in state.pairs() if pair.twin.trial == name] for name in failed}
    return tuple(FailedTwin(name, tuple(of[name]), trial.reason) for name, trial in failed.items())


def _interpreted(state: SearchState) -> tuple[tuple[Remark, ...], Effects | None, str]:
    """Remarks on the search, what curricula change over its whole pairs (None for fewer than two), and what its plain
    trials are called; the least where a plug-in that its space names is not loaded, which other facts do not need."""
    try:
        experiment = experiment_of(state)
    except ConfigError:
        return (), None, PLAIN_TRAINING
    from tune_cl.effects.pairs import search_effects  # imports SciPy

    found = search_effects(state, experiment)
    return tuple(remarks(state, experiment)), found and found.effects, experiment.plain_words


def recorded_result(search_folder: SearchFolder) -> SearchResult:
    """The result of a search as its journal has it, finished or not; what MLflow has is read from the file beside it.
    Raises WorkFailed if no trial gave a value."""
    state = replay(read_events(search_folder.journal))
    return search_result(state, search_folder, *recorded_view(search_folder))


def is_complete(search_folder: SearchFolder, state: SearchState) -> bool:
    """Whether a finished search has its report, and MLflow's database all of it. Only a SQLite file can be asked
    without MLflow, which takes seconds to load: False for any other store."""
    _, sent = _sent(search_folder)
    whole = sent.offset == search_folder.journal.stat().st_size and not sent.artifacts
    database = Path(search_folder.tracking_uri.removeprefix(SQLITE))
    if not (whole and report_is_current(search_folder, state) and database.is_file()):
        return False
    with closing(sqlite3.connect(f"{database.as_uri()}?mode=ro", uri=True)) as runs:
        return bool(runs.execute("SELECT 1 FROM runs WHERE run_uuid = ?", [sent.runs.get(PARENT)]).fetchone())


def report_is_current(search_folder: SearchFolder, state: SearchState) -> bool:
    """Whether a finished search has its report, announced to MLflow since its end: not an earlier one."""
    path = search_folder.report
    return path.exists() and path.name in {Path(artifact).name for artifact in state.artifacts}


def recorded_view(search_folder: SearchFolder) -> tuple[str | None, str | None]:
    """The id of the parent run in MLflow and the page of the trials there, as far as they have been sent."""
    search, sent = _sent(search_folder)
    view = view_path(search, sent.experiment) if sent.experiment else None
    return sent.runs.get(PARENT), view


def _sent(search_folder: SearchFolder) -> tuple[SearchEvent, Cursor]:
    """The search's first event, and how far its journal has been sent to MLflow."""
    search = first_event(search_folder.journal)
    return search, load(search_folder.journal, target(search, search_folder.tracking_uri))


def _without_value(state: SearchState, search_folder: SearchFolder) -> WorkFailed:
    reasons = {trial.reason for trial in state.trials.values() if trial.reason}
    why = "; ".join(sorted(reasons)) or "none was run"
    return WorkFailed(f"no trial of search '{state.name}' gave a dev value: {why}; log: {search_folder.journal}")
