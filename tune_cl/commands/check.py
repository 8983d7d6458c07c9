"""Example: tune-cl check penha2020_pacing --data ../data/wikiqa --set ranker.model=tiny

Validates a search space without searching, and forecasts its cost from a few measured steps on this machine."""

from __future__ import annotations

import os
import sys
from argparse import ArgumentParser, Namespace
from typing import Any

from tune_cl.commands.settings import add_experiment, add_overrides, experiment_of
from tune_cl.commands.tables import table
from tune_cl.experiment import Experiment


def add_arguments(parser: ArgumentParser) -> None:
    add_experiment(parser)
    add_overrides(parser)


def execute(options: Namespace) -> dict[str, Any]:
    experiment = experiment_of(options)
    for note in experiment.notes:
        print(f"note: {note}", file=sys.stderr)
    from trainables.training.forecast import seconds_per_iteration  # imports torch: input errors come first
    from trainables.training.materials import prepare

    run, resources = experiment.base_run(), experiment.search.resources
    seconds = seconds_per_iteration(run, prepare(run), max(1, int(resources.cpu)))
    document = experiment.describe()
    hours = document["iterations_expected"] * seconds / 3600
    iterations_before = _pretraining_iterations(experiment)
    before = iterations_before * seconds / 3600
    return document | {
        "pretraining_iterations": iterations_before,
        "seconds_per_iteration": seconds,
        "hours_forecast": before + hours / _at_a_time(experiment.search.max_concurrent, resources.cpu),
        "gpu_hours_forecast": (before + hours) * resources.gpu,
    }


def _pretraining_iterations(experiment: Experiment) -> int:
    """Iterations at most of all pre-trainings, which come one after the other before the first trial."""
    from trainables.training.materials import materials_key

    trainings = {materials_key(run): run.training for run in experiment.distinct_rankers()}
    return sum(keys.pretrain_iterations for keys in trainings.values() if keys.pretrain_data is not None)


def _at_a_time(most: int | None, cpu: float) -> int:
    """Trials that this machine runs at a time."""
    places = max(1, int((os.cpu_count() or 1) / cpu)) if cpu else os.cpu_count() or 1
    return min(places, most) if most else places


def render(document: dict[str, Any]) -> str:
    rows = [(key, _shown(value)) for key, value in document.items()]
    return table(["", "value"], rows)


def _shown(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "none"
    if isinstance(value, float):
        return f"{value:.3g}"
    return "unlimited (continuous)" if value is None else str(value)
