"""What a search has come to, by its journal, and what is left of a finished one to complete."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from statistics import fmean
from typing import Any, cast

from trainables.core.errors import ConfigError, WorkFailed
from tune_cl.experiment.arms import CURRICULUM, PLAIN, Arm
from tune_cl.history.journal import read_events
from tune_cl.history.search_folder import TRIALS, SearchFolder
from tune_cl.history.state import RAN_TO_THE_END, SearchState, TrialState, experiment_of, replay
from tune_cl.history.tracking_uri import masked
from tune_cl.results import Effects, Outcome, Remark, SearchResult, Trial
from tune_cl.search.remarks import remarks
from tune_cl.space.wording import PLAIN_TRAINING, label_free_of
from tune_cl.tracking.record import read_record

CONFIG = "config.yaml"  # in a trial's folder: its complete configuration
BEST_RANKER = "best-ranker"  # the folder of the best trial's ranker, in TRIALS
SHOWN = 3  # reasons of failed trials that an error names


def search_result(state: SearchState, search_folder: SearchFolder, run_id: str | None = None) -> SearchResult:
    """The result of a search, finished or not. `run_id`: of the parent run in MLflow, where that is known.

    Raises WorkFailed if no trial gave a value.
    """
    best = best_of(state)
    if best is None:
        raise _without_value(state, search_folder)
    found, effects, plain = _interpreted(state)
    first_stage, label_free = label_free_of(state.label_free)
    ranker = search_folder.folder / TRIALS / BEST_RANKER
    return SearchResult(
        name=state.name,
        space=state.space,
        data=state.data["name"],
        ranker=", ".join(state.rankers),
        metric=state.metric,
        plain=plain if state.compares else None,
        configuration=_configuration(state),
        trials=tuple(trials_of(state)),
        best=best,
        best_curriculum=best_of(state, CURRICULUM),
        best_plain=best_of(state, PLAIN),
        default=_default(state),
        effects=effects,
        first_stage=first_stage,
        label_free=label_free,
        remarks=found,
        iterations=state.iterations,
        seconds=state.seconds,
        ended_by=state.end.get("ended_by") if state.end else None,
        storage=str(search_folder.storage),
        tracking_uri=masked(search_folder.tracking_uri),
        mlflow_run_id=run_id,
        checkpoint=str(ranker) if (state.end or {}).get("checkpoint") else None,
    )


def recorded_result(search_folder: SearchFolder) -> SearchResult:
    """The result as the journal has it; what MLflow has is read from the file beside it. Raises WorkFailed if no trial
    gave a value."""
    state = replay(read_events(search_folder.journal))
    return search_result(state, search_folder, recorded_run_id(search_folder))


def trials_of(state: SearchState) -> list[Trial]:
    """All trials that have begun, by number."""
    opened, values = _opened(state), state.dev_by_seed()
    trials = state.by_number()
    return [_trial(trial, state.metric, opened, values.get(trial.repeats or trial.trial)) for trial in trials]


def best_of(state: SearchState, arm: Arm | None = None) -> str | None:
    """The id of the best trial on dev, of an arm or of both."""
    ranked = state.ranked() if arm is None else state.ranked_of(arm)
    return ranked[0][0].trial if ranked else None


def _trial(trial: TrialState, metric: str, opened: list[str], values: list[float] | None) -> Trial:
    """values: the dev values of its settings, of all seeds."""
    reached = trial.best(metric)
    outcome = "completed" if trial.outcome in RAN_TO_THE_END else trial.outcome
    return Trial(
        trial_id=trial.trial,
        label=trial.words,
        arm=trial.arm,
        twin=trial.twin if trial.arm == CURRICULUM else None,
        repeats=trial.repeats,
        seed=trial.seed,
        outcome=cast("Outcome | None", outcome),
        dev=reached.dev if reached else None,
        mean=fmean(values) if values else None,
        iteration=reached.iteration if reached else None,
        iterations=trial.iterations,
        seconds=trial.seconds,
        params={key: trial.params[key] for key in opened if key in trial.params},
    )


def _opened(state: SearchState) -> list[str]:
    """The keys that either arm searches."""
    return list(dict.fromkeys([*state.opened_in(CURRICULUM), *state.opened_in(PLAIN)]))


def _configuration(state: SearchState) -> dict[str, Any]:
    """The keys in force that no trial searches; of one that the arms do not share, the curricula's value."""
    opened, found = set(_opened(state)), {}
    for trial in [*state.trials_of(CURRICULUM), *state.trials_of(PLAIN)]:
        found = {key: value for key, value in trial.params.items() if key not in opened} | found
    return found


def _default(state: SearchState) -> str | None:
    """The first trial, which has the space's own defaults, if it has a dev value."""
    trial = state.baseline_trial()
    return trial.trial if trial and trial.outcome != "failed" and trial.best(state.metric) else None


def _interpreted(state: SearchState) -> tuple[tuple[Remark, ...], Effects | None, str]:
    """Remarks on the search, what curricula change over its whole pairs (None for fewer than two), and what its plain
    trials are called; the least where a plug-in that its space names is not loaded, which other facts do not need."""
    try:
        experiment = experiment_of(state)
    except ConfigError:
        return (), None, PLAIN_TRAINING
    from tune_cl.verdict.pairs import search_effects  # imports SciPy

    found = search_effects(state, experiment)
    return tuple(remarks(state, experiment)), found, experiment.arms.plain_words


def rows_of(trials: list[Trial]) -> Iterator[Mapping[str, Any]]:
    """The columns of `Search.trials`: the fields of a trial, then its searched keys (None where one has no effect)."""
    keys = dict.fromkeys(key for trial in trials for key in trial.params)
    for trial in trials:
        yield trial.model_dump(exclude={"params"}) | {key: trial.params.get(key) for key in keys}


def report_is_current(search_folder: SearchFolder, state: SearchState) -> bool:
    """Whether a finished search has its report, announced to MLflow since its end: not an earlier one."""
    path = search_folder.report
    return path.exists() and path.name in {Path(artifact).name for artifact in state.artifacts}


def recorded_run_id(search_folder: SearchFolder) -> str | None:
    """The id of the parent run in MLflow, once it has been sent."""
    record = read_record(search_folder.folder, search_folder.tracking_uri)
    return record.run_id if record else None


def _without_value(state: SearchState, search_folder: SearchFolder) -> WorkFailed:
    reasons = sorted({trial.reason for trial in state.trials.values() if trial.reason})
    why = "; ".join(reasons[:SHOWN]) or "none was run"
    if len(reasons) > SHOWN:
        why += f"; {len(reasons) - SHOWN:,} more"
    return WorkFailed(f"no trial of search '{state.name}' gave a dev value: {why}; log: {search_folder.journal}")
