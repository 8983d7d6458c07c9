"""What a search will take: trials and iterations before it starts, hours from the first iterations of its baseline."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from statistics import mean
from typing import TYPE_CHECKING, Any

from trainables.randomness import generator
from tune_cl.journal import Event
from tune_cl.search.schedulers import SCHEDULERS, setup_of
from tune_cl.state import SearchState

if TYPE_CHECKING:
    from tune_cl.experiment import Experiment

DRAWS = 256
MEASURED = 2  # iteration of the baseline that is measured: the first warms up
GOES_ON = 0.57
"""Share of configurations that get a further seed, of those that came to the end with all before it (`search.repeats`):
.60 and .54 in searches of 6 and 12 trainings on the recorded curves (benchmarks/repeats.py)."""


def forecast_of(experiment: Experiment) -> dict[str, int]:
    """Trials and iterations of a search, the baseline included, before anything of it has run.

    `iterations_expected` is a mean over configurations of the space, drawn at random where it is large, of what the
    scheduler lets a trial make; trainings that end by `training.patience` make it less. With `search.repeats` the
    baseline has all its seeds at once, of the other configurations that come to their end GOES_ON get another, and
    all these trainings run to their end: `repeats_expected` says how many they are.
    """
    most, seeds, trials = experiment.max_iterations, experiment.search.repeats, experiment.trials
    a_trial, to_the_end = _expected_of_a_trial(experiment)
    again = to_the_end * sum(GOES_ON**seed for seed in range(1, seeds))  # repeats of a configuration
    tried = max(0, trials - seeds) / (1 + again)
    if (combinations := experiment.space.combinations()) is not None:
        tried = min(tried, combinations)
    repeats = min(seeds, trials) - 1 + tried * again
    told = {
        "trials": trials,
        "iterations_at_most": trials * most,
        "iterations_expected": round(most * (1 + repeats) + tried * a_trial),
    }
    return told | ({"repeats_expected": round(repeats)} if seeds > 1 else {})


def _expected_of_a_trial(experiment: Experiment) -> tuple[float, float]:
    """Iterations of a trial that is no repeat, and the share of them that make the last one."""
    most = experiment.max_iterations
    if experiment.search.scheduler == "none":
        return float(most), 1.0
    space, combinations = experiment.space, experiment.space.combinations()
    if combinations is not None and combinations <= DRAWS:
        choices: list[Mapping[str, Any]] = list(space.grid())
    else:
        choices = [space.sample(generator(experiment.seed, "forecast", draw)) for draw in range(DRAWS)]
    graces, setup = [experiment.grace(choice) for choice in choices], setup_of(experiment)
    iterations = [
        mean(SCHEDULERS[experiment.search.scheduler](shorter).expected_iterations(grace) for grace in graces)
        for shorter in (setup, replace(setup, max_iterations=most - 1))
    ]
    return iterations[0], min(1.0, iterations[0] - iterations[1]) if most > 1 else 1.0


def forecast_event(experiment: Experiment, state: SearchState, slots: int) -> Event | None:
    """The journal's event once the baseline has reported the iteration that is measured, None before and after.

    Trials run `slots` at a time, at the baseline's pace beside them, and as many iterations as
    `Experiment.forecast` expects.
    """
    baseline = state.baseline_trial()
    measured = min(MEASURED, experiment.max_iterations)
    if baseline is None or measured not in baseline.results or "hours_forecast" in state.forecast:
        return None
    seconds = baseline.results[measured]["seconds"]
    iterations = (state.forecast or experiment.forecast())["iterations_expected"]
    resources, hours = experiment.search.resources, iterations * seconds / 3600
    return {
        "event": "forecast",
        "seconds_per_iteration": seconds,
        "hours_forecast": hours / slots,
        "cpu_hours_forecast": hours * resources.cpu,
        "gpu_hours_forecast": hours * resources.gpu,
    }
