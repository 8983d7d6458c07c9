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
from scipy.special import chdtri, log_ndtr, roots_hermitenorm, roots_legendre

from tune_cl.experiment.search_keys import SearchConfig, price_of_an_hour
from tune_cl.history.state import SearchState

if TYPE_CHECKING:
    from tune_cl.experiment.experiment import Experiment


FEWEST_FINISHED = 8  # trials that a distribution of final values is fitted to
NODES, NEGLIGIBLE = 64, 1e-15  # of a quadrature: points per dimension, and the share of a distribution's tails left out


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
    """Best dev values, as means over seeds, of all configurations but the baseline that were not stopped."""
    return [fmean(values) for name, values in state.finals().items() if name != state.baseline]


def best_value(state: SearchState) -> float:
    """The best trial's dev value; once any configuration was repeated, its configuration's mean."""
    best = state.best()
    if not best:
        return math.nan
    return fmean(state.finals().get(best[0].configuration, [best[1].dev])) if state.repeats else best[1].dev


def chance_of_better(values: Sequence[float], best: float, margin: float, to_come: int) -> float | None:
    """The probability that any of `to_come` further trials ends more than `margin` above `best`.

    `values`: final values of n finished trials, taken as independent draws from one normal distribution, as the next
    ones are. Of that distribution their mean and SD alone are known, and what these are wrong by, all the next ones
    share: they lie at mean + SD / u · (z + z_0 / √n), where u = √(χ²_{n-1} / (n - 1)) and the standard normal z_0 are
    common to them and z is each one's own. Averaged over u and z_0 by quadrature; for one trial this is the predictive
    distribution, Student's t with n - 1 degrees of freedom at (x - mean) / (SD · √(1 + 1/n)). None for fewer than
    FEWEST_FINISHED values. The figure is too low where a sampler learns to draw better configurations, and too high in
    that trials stopped early, which would lower the mean, are left out.
    """
    n = len(values)
    if n < FEWEST_FINISHED or math.isnan(best):
        return None
    spread = stdev(values)
    if not spread:
        return float(best + margin < values[0])
    level = (best + margin - fmean(values)) / spread
    ratios, weights = _sd_ratios(n - 1)
    shared, shares = roots_hermitenorm(NODES)
    below = max(0, to_come) * log_ndtr(level * ratios[:, None] + shared / math.sqrt(n))
    return float(weights @ -np.expm1(below) @ shares / shares.sum())


def _sd_ratios(degrees: int) -> tuple[np.ndarray, np.ndarray]:
    """Where a sample's SD over the true one may lie (√(χ² / degrees)), and the weights of a quadrature there."""
    low, high = np.sqrt(chdtri(degrees, [1 - NEGLIGIBLE, NEGLIGIBLE]) / degrees)
    nodes, weights = roots_legendre(NODES)
    ratios = low + (high - low) * (nodes + 1) / 2
    weights = weights * np.exp((degrees - 1) * np.log(ratios) - degrees * (ratios**2 - 1) / 2)
    return ratios, weights / weights.sum()
