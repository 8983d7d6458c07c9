"""How long a search takes at one speed: that of its default training, measured before it starts or on its own first
iterations."""

from __future__ import annotations

from typing import Any

from tune_cl.experiment.experiment import Experiment
from tune_cl.experiment.forecast import Span, forecast_of, within_budgets
from tune_cl.history.state import SearchState

DECIDING = (  # keys of which each value has a speed of its own
    "ranker.name",
    "ranker.model",
    "training.batches_per_iteration",
    "training.batch_size",
    "training.max_length",
)
MEASURED = 2  # the iteration of a training that is measured: the first warms up


def span_of(seconds: float, experiment: Experiment, iterations: int, concurrent: int) -> tuple[Span, int]:
    """The hours of a search whose trials would make so many iterations, `concurrent` at a time, if its budgets let
    them, and the iterations within the budgets. `seconds`: an iteration's."""
    hours, most = iterations * seconds / 3600, experiment.max_iterations
    longest = min(iterations, most) * seconds / 3600  # the default's training, in one process
    filled = min(concurrent, hours / longest) if longest else concurrent  # on average; no more than there are trials
    span = within_budgets(experiment.search, hours, most * seconds / 3600, filled)
    return span, round(iterations * span.training / hours) if span.ends else iterations


def speed_note(experiment: Experiment) -> list[str]:
    """A note if trials differ in speed."""
    opened = [key for key in DECIDING if key in experiment.space.leaves]
    what = "the forecast has the default's speed, and trials differ in it"
    return [f"{', '.join(opened)}: {what}"] if opened else []


def forecast_event(experiment: Experiment, state: SearchState, trial: str, concurrent: int) -> dict[str, Any] | None:
    """The journal's event once the default has made its measured iteration; None after any other result. `concurrent`:
    trials at a time."""
    results, resources = state.trials[trial].results, experiment.search.resources
    measured = min(MEASURED, experiment.max_iterations)
    if not state.trials[trial].baseline or next(reversed(results), None) != measured:
        return None
    seconds = results[measured]["seconds"]
    expected = forecast_of(experiment, concurrent)["iterations_expected"]
    span, iterations = span_of(seconds, experiment, expected, concurrent)
    forecast = {
        "iterations_expected": iterations,
        "seconds_per_iteration": seconds,
        "hours_forecast": span.hours,
        "cpu_hours_forecast": span.training * resources.cpus,
        "gpu_hours_forecast": span.training * resources.gpus,
    }
    return {"event": "forecast"} | forecast if forecast.items() - state.forecast.items() else None
