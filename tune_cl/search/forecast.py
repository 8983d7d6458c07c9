"""What a search will take, from the first iterations of its baseline."""

from __future__ import annotations

from tune_cl.experiment import Experiment
from tune_cl.journal import Event, SearchState

MEASURED = 2  # iteration of the baseline that is measured: the first warms up


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
