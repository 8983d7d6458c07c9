"""Trainings that fell out of the row, by the means over the queries, or the dev values, of a configuration's seeds."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from scipy.special import stdtr

from trainables.core.randomness import generator

TINY = 1e-12  # in place of an error of 0
UNLIKELY = 0.01  # a training so far below those above it, if they were alike, has collapsed
FALL = 0.1  # of the median: what falls less deep is not a collapse
OFTEN = 3  # collapses of a configuration: so many tell how often it fails, and its mean counts them as they are
FEWEST = 4  # trainings that can tell two groups


def collapsed(values: np.ndarray) -> np.ndarray:
    """Which trainings of one configuration collapsed, bool [N], by their means over the queries [N].

    From the middle downwards, each value is compared with all above it: the lowest that lies a tenth of the median
    below it, and so far below those above that another one would in 1 % of cases (Student's prediction), has collapsed,
    with all that are lower. At most the lower half can. docs/dev/verdict-simulations.md has the false alarms.
    """
    ordered, fallen = np.sort(values), (1 - FALL) * np.median(values)
    highest = -math.inf
    for below in range(1, (len(values) - 1) // 2 + 1):
        value, above = ordered[below - 1], ordered[below:]
        if value < fallen and _chance(value, above) < UNLIKELY:
            highest = value
    return values <= highest


def _chance(value: float | np.ndarray, others: np.ndarray) -> np.ndarray:
    """The probability that one more value like the others [N] is as low."""
    count = len(others)
    error = max(float(others.std(ddof=1)) * math.sqrt(1 + 1 / count), TINY)
    return stdtr(count - 1, (value - others.mean()) / error)


def rare_collapses(values: np.ndarray) -> np.ndarray:
    """`collapsed`, where fewer than OFTEN of a configuration's trainings are; none where more are."""
    fell = collapsed(values)
    return fell & (fell.sum() < OFTEN)


def two_groups(values: np.ndarray) -> bool:
    """Whether the trainings of a configuration fall into two groups, as where it fails under most seeds and works under
    some, by their means over the queries [N].

    The best division into two leaves so little variance within them as it does in 1 % of normal samples, and the lower
    group lies a tenth below the upper one. `collapsed` names single trainings that fall; it cannot, where these are
    the majority.
    """
    if len(values) < FEWEST:
        return False
    explained, low, high = _divided(values[None])
    return bool(explained[0] > _usually_explained(len(values)) and low[0] < (1 - FALL) * high[0])


def _divided(values: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The largest share of the variance that a division of values [R, N] into two explains, and both means, [R]."""
    ordered, count = np.sort(values, axis=1), values.shape[1]
    sizes = np.arange(1, count)
    sums = np.cumsum(ordered, axis=1)[:, :-1]
    low, high = sums / sizes, (ordered.sum(axis=1, keepdims=True) - sums) / (count - sizes)
    between = sizes * (count - sizes) / count * (high - low) ** 2
    rows, best = np.arange(len(values)), between.argmax(axis=1)
    total = np.maximum(count * ordered.var(axis=1), TINY**2)
    return between.max(axis=1) / total, low[rows, best], high[rows, best]


@lru_cache
def _usually_explained(count: int) -> float:
    """What a division of a normal sample explains in all but 1 % of cases."""
    drawn = generator(count, "two groups").standard_normal((20_000, count))
    return float(np.quantile(_divided(drawn)[0], 1 - UNLIKELY))


def untaught(devs: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Which trainings of a configuration stayed far below the others, bool [N], by their values on dev [N]: a tenth
    below the median of the search's trials [T] and further below them than one of N more would be in 1 % of cases
    (Student's prediction). Three trials or more can tell."""
    if len(others) < 3:
        return np.zeros(devs.shape, bool)
    fallen = devs < (1 - FALL) * np.median(others)
    return (_chance(devs, others) < UNLIKELY / len(devs)) & fallen
