"""When a whole search ends: `search.hours`, `search.iterations`, `search.cost`, `search.stop_when`.

When a budget is used up, running trials stop at their next result; when a better trial is merely improbable, they run
to their end. Either way no further trial starts, and the baseline is never stopped.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from statistics import fmean, stdev
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import stdtr

from tune_cl.experiment.search_keys import SearchConfig, price_of_an_hour
from tune_cl.history.state import SearchState

if TYPE_CHECKING:
    from tune_cl.experiment.experiment import Experiment


FEWEST_FINISHED = 8  # trials that a distribution of final values is fitted to


def budgets(search: SearchConfig) -> dict[str, float]:
    """What may end a search before its trials are used up, by key."""
    keys = {
        "search.iterations": search.iterations,
        "search.hours": search.hours,
        "search.cost": search.cost,
        "search.stop_when.probability": search.stop_when.probability,
    }
    return {key: limit for key, limit in keys.items() if limit is not None}


def ending(experiment: Experiment, state: SearchState) -> str | None:
    """Why the search ends now; None while it goes on."""
    return used_up(experiment, state) or improbable(experiment, state)


def used_up(experiment: Experiment, state: SearchState) -> str | None:
    """Which budget is used up, in words; None while some of each is left."""
    search = experiment.search
    for key, used, limit in (
        ("hours", hours_so_far(state), search.hours),
        ("iterations", state.iterations, search.iterations),
        ("cost", cost_so_far(search, state), search.cost),
    ):
        if limit is not None and used >= limit:
            return f"search.{key} are used up" if key != "cost" else "search.cost is used up"
    return None


def improbable(experiment: Experiment, state: SearchState) -> str | None:
    """Says that `search.stop_when` finds a better trial improbable; None where it does not, or is not set. Looks
    through all results."""
    stop = experiment.search.stop_when
    if stop.probability is None:
        return None
    to_come = experiment.trials - len(state.trials) + sum(trial.paused for trial in state.open_trials())
    if not to_come:
        return None
    chance = chance_of_better(finals(state), best_value(state), stop.margin, to_come)
    if chance is None or chance >= stop.probability:
        return None
    return f"a better trial is improbable: {chance:.2g} < {stop.probability:g} (search.stop_when)"


def hours_so_far(state: SearchState) -> float:
    """Hours of all sessions up to now, without the time between them."""
    return (state.seconds + max(0.0, time.time() - state.time)) / 3600


def cost_so_far(search: SearchConfig, state: SearchState) -> float:
    """What the trials' reserved cores and GPUs cost at `search.price`."""
    return state.training_seconds / 3600 * price_of_an_hour(search)


def finals(state: SearchState) -> list[float]:
    """Best dev values of all trials but the baseline that were not stopped."""
    return [at.dev for trial, at in state.finished() if trial.trial != state.baseline]


def best_value(state: SearchState) -> float:
    """The best trial's dev value."""
    best = state.best()
    return best[1].dev if best else math.nan


def chance_of_better(values: Sequence[float], best: float, margin: float, to_come: int) -> float | None:
    """The probability that any of `to_come` further trials ends more than `margin` above `best`.

    `values`: final values of n finished trials, taken as independent draws from one normal distribution, as are those
    to come. One of these exceeds a level with the probability p that Student's t with n - 1 degrees of freedom gives it
    at (level - mean) / (SD · √(1 + 1/n)), and any of them with 1 - (1 - p)^to_come. That is a little too high, for all
    share the error of mean and SD; so the search rather goes on. None for fewer than FEWEST_FINISHED values.
    """
    n = len(values)
    if n < FEWEST_FINISHED or math.isnan(best):
        return None
    spread = stdev(values)
    if not spread:
        return float(best + margin < values[0])
    level = (best + margin - fmean(values)) / (spread * math.sqrt(1 + 1 / n))
    return float(-np.expm1(to_come * np.log1p(-stdtr(n - 1, -level))))
