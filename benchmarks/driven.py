"""A search with real trainings in one process, without Ray: the same `Search` with its journal, sampler, scheduler and
checkpoints as in `tune-cl run`."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trainables.config.keys import TrainingRun
from trainables.core.errors import WorkFailed
from trainables.training.materials import Materials
from trainables.training.trainer import Training
from tune_cl.experiment.experiment import Experiment
from tune_cl.experiment.load import build
from tune_cl.history.journal import Journal
from tune_cl.search.driver import BASELINE_TRIAL, Plan, Search


@dataclass(frozen=True)
class Seen:
    """A trial after one more iteration; `best`: its highest dev value so far."""

    plan: Plan
    best: float


def driven(space: dict[str, Any], materials: Materials) -> Iterator[Seen]:
    """Runs the search of a space, one trial at a time, and yields each iteration until it ends or the caller stops."""
    experiment = build("space", space, {})
    with tempfile.TemporaryDirectory() as name, Journal(Path(name)) as journal:
        journal.append(_first_event(experiment))
        search = Search(experiment, journal, 1, lambda trial, checkpoint, run: Path(checkpoint))
        while isinstance(plan := search.next_trial(), Plan):
            training, goes_on = _begun(plan, materials), True
            while goes_on and not training.finished:
                metrics = _iterated(training)
                goes_on = search.result(plan.trial, metrics) and "failed" not in metrics
                yield Seen(plan, training.best_value)
            _leave(search, plan.trial, training, Path(name))


def _first_event(experiment: Experiment) -> dict[str, Any]:
    """The journal's first line."""
    named = {"name": "search", "space": "space", "data": {}, "storage": "", "metric": "map"}
    named |= {"ranker": "conv_knrm", "rankers": ["conv_knrm"]}
    return named | {
        "event": "search", "seed": experiment.seed, "baseline": BASELINE_TRIAL, "yaml": experiment.to_yaml(),
        "time": 0.0,
    }  # fmt: skip


def _begun(plan: Plan, materials: Materials) -> Training:
    """A trial's training, taken up from the plan's checkpoint if it has one."""
    training = Training(TrainingRun.model_validate(plan.as_config()["run"]), materials, device="cpu")
    if plan.checkpoint:
        training.load(Path(plan.checkpoint))
    return training


def _iterated(training: Training) -> dict[str, Any]:
    try:
        return training.iterate() | {"iteration": training.iteration}
    except WorkFailed as error:
        return {"failed": str(error), "iteration": training.iteration + 1}


def _leave(search: Search, trial: str, training: Training, folder: Path) -> None:
    """Saves the trial's state and tells the search that it has left."""
    state = folder / f"{trial}-{training.iteration:05d}"
    state.mkdir(exist_ok=True)
    training.save(state)
    search.checkpoint(trial, training.iteration, str(state))
    search.ended(trial)
