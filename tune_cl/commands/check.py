"""Example: tune-cl check penha2020_pacing --data ../data/wikiqa --set ranker.model=tiny

Validates a search space without searching, and forecasts its cost from a few measured steps on this machine."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from typing import Any

from tune_cl.commands.settings import add_experiment, add_overrides, experiment_of
from tune_cl.commands.tables import table
from tune_cl.experiment import Experiment
from tune_cl.search.config import SearchConfig


def add_arguments(parser: ArgumentParser) -> None:
    add_experiment(parser)
    add_overrides(parser)


def execute(options: Namespace) -> dict[str, Any]:
    experiment = experiment_of(options)
    from trainables.training.device import best_device
    from trainables.training.forecast import seconds_per_iteration  # imports torch: input errors come first
    from trainables.training.materials import prepare

    run, resources = experiment.base_run(), experiment.search.resources
    device = str(best_device()) if resources.gpu else "cpu"  # a trial that reserves no GPU trains on none
    seconds = seconds_per_iteration(run, prepare(run), max(1, int(resources.cpu)), device)
    notes = list(experiment.notes)  # told only now that the data is known to fit
    if resources.gpu and device == "cpu" and not run.grows_trees:
        notes.append("a trial reserves a GPU, but this machine has none: a step is measured on its CPU")
    for note in notes:
        print(f"note: {note}", file=sys.stderr)
    document = experiment.describe()
    hours = document["iterations_expected"] * seconds / 3600
    iterations_before = _pretraining_iterations(experiment)
    before = iterations_before * seconds / 3600
    return document | {
        "pretraining_iterations": iterations_before,
        "seconds_per_iteration": seconds,
        "hours_forecast": before + hours / _at_a_time(experiment.search),
        "gpu_hours_forecast": (before + hours) * resources.gpu,
    }


def _pretraining_iterations(experiment: Experiment) -> int:
    """Iterations at most of all pre-trainings, which come one after the other before the first trial."""
    from trainables.training.materials import materials_key

    trainings = {materials_key(run): run.training for run in experiment.distinct_rankers()}
    return sum(keys.pretrain_iterations for keys in trainings.values() if keys.pretrain_data is not None)


def _at_a_time(search: SearchConfig) -> int:
    """Trials that this machine runs at a time; one where it holds none."""
    from tune_cl.search.places import held, this_machine  # imports Ray

    places = max(1, held([{"Resources": this_machine()}], search.resources))
    return min(places, search.max_concurrent or places)


def render(document: dict[str, Any]) -> str:
    rows = [(key, _shown(value)) for key, value in document.items()]
    return table(["", "value"], rows)


def _shown(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "none"
    if isinstance(value, float):
        return f"{value:.3g}"
    return "unlimited (continuous)" if value is None else str(value)
