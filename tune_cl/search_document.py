"""The document of `tune-cl run` and `resume`: what a search has come to."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from typing import Any

from trainables.config.function import option_of
from trainables.core.errors import ConfigError, WorkFailed
from tune_cl.experiment.experiment import ARMS, CURRICULUM, PLAIN, Arm
from tune_cl.history.journal import Event, read_events
from tune_cl.history.search_folder import TRIALS, SearchFolder
from tune_cl.history.state import Dev, SearchState, TrialState, experiment_of, over_curricula, replay
from tune_cl.history.tracking_uri import SQLITE, masked
from tune_cl.search.analysis import selection_bias
from tune_cl.search.remarks import remarks
from tune_cl.space.wording import PLAIN_TRAINING
from tune_cl.tracking.cursor import Cursor, load
from tune_cl.tracking.layout import PARENT, target, view_path

CONFIG = "config.yaml"  # in a trial's folder: its complete configuration
BEST_RANKER = "best-ranker"  # the folder of the best trial's ranker, in TRIALS


def best_of(state: SearchState, arm: Arm | None = None) -> dict[str, Any] | None:
    """The best trial, of an arm or of both, as the result document and MLflow show it."""
    ranked = state.ranked() if arm is None else state.ranked_of(arm)
    return _reached(*ranked[0]) if ranked else None


def _reached(trial: TrialState, at: Dev) -> dict[str, Any]:
    return {"trial_id": trial.trial, "params": trial.params, "dev": at.dev, "iteration": at.iteration}


def default_result(state: SearchState) -> dict[str, Any] | None:
    """The first trial, which has the space's own defaults, as the result document shows it."""
    trial = state.baseline_trial()
    if not trial or trial.outcome == "failed" or not (at := trial.best(state.metric)):
        return None
    return _reached(trial, at)


def search_document(
    state: SearchState, search_folder: SearchFolder, run_id: str | None, view: str | None
) -> dict[str, Any]:
    """The JSON document of `run` and `resume`. `run_id`, `view`: of the parent run in MLflow, once known.

    Raises WorkFailed if no trial gave a value.
    """
    counts, best = state.counts(), best_of(state)
    if best is None:
        reasons = {trial.reason for trial in state.trials.values() if trial.reason}
        raise WorkFailed(
            f"no trial of search '{state.name}' gave a dev value: "
            f"{'; '.join(sorted(reasons)) or 'none was run'}; log: {search_folder.journal}"
        )
    sound = [trial for trial in state.by_number() if trial.outcome != "failed"]
    return {
        "search": state.name,
        "data": state.data["name"],
        "ranker": state.ranker,
        "rankers": state.rankers,
        "metric": state.metric,
        "trials": len(state.trials),
        "stopped_early": counts["stopped_early"],
        "errored": counts["failed"],
        "iterations": state.iterations,
        "seconds": state.seconds,
        "ended_by": state.end.get("ended_by") if state.end else None,
        "forecast": state.forecast,
        **_interpreted(state),
        "best": best,
        "best_curriculum": best_of(state, CURRICULUM),
        "opened": list(dict.fromkeys(key for trial in state.by_number() for key in trial.point)),
        "over_curricula": over_curricula(state),
        "compares": over_curricula(state) if state.compares is None else state.compares,
        "selection_bias": selection_bias({trial.trial: [*trial.dev(state.metric).values()] for trial in sound}),
        "baseline": best_of(state, PLAIN),
        "default": default_result(state),
        "arms": {
            arm: {
                "trials": len(state.trials_of(arm)),
                "iterations": state.iterations_of(arm),
                "opened": state.opened_in(arm),
            }
            for arm in ARMS
        },
        "failed_twins": failed_twins(state),
        **{key: state.label_free.get(key) for key in ("first_stage", "label_free")},
        "best_ranker": str(search_folder.folder / TRIALS / BEST_RANKER)
        if (state.end or {}).get("checkpoint")
        else None,
        "objective": option_of(state.objective) or None,
        "storage": search_folder.address,
        "tracking_uri": masked(search_folder.tracking_uri),
        "mlflow_run_id": run_id,
        "mlflow_view": view,
    }


def failed_twins(state: SearchState) -> list[dict[str, Any]]:
    """Plain trials that failed, each with the curricula that have nothing to compare with."""
    failed = {pair.twin.trial: pair.twin for pair in state.pairs() if pair.twin.outcome == "failed"}
    of = {name: [pair.curriculum.trial for pair in state.pairs() if pair.twin.trial == name] for name in failed}
    return [{"trial_id": name, "twin_of": of[name], "reason": trial.reason} for name, trial in failed.items()]


def _interpreted(state: SearchState) -> dict[str, Any]:
    """Remarks on the search, and what curricula change over its pairs (None for fewer than two); neither where a
    plug-in that its space names is not loaded, which other facts do not need."""
    try:
        experiment = experiment_of(state)
    except ConfigError:
        return {"remarks": [], "effects": None, "plain": PLAIN_TRAINING}
    from tune_cl.effects.pairs import search_effects  # imports SciPy

    found = search_effects(state, experiment)
    return {
        "remarks": [asdict(remark) for remark in remarks(state, experiment)],
        "effects": found and found.effects.document(),
        "plain": experiment.plain_words,
    }


def recorded_document(search_folder: SearchFolder) -> dict[str, Any]:
    """The document of a search as its journal has it, finished or not; what MLflow has is read from the file beside it.
    Raises WorkFailed if no trial gave a value."""
    state = replay(read_events(search_folder.journal))
    return search_document(state, search_folder, *recorded_view(search_folder))


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


def _sent(search_folder: SearchFolder) -> tuple[Event, Cursor]:
    """The search's first event, and how far its journal has been sent to MLflow."""
    search = next(read_events(search_folder.journal))
    return search, load(search_folder.journal, target(search, search_folder.tracking_uri))
