"""Trainings that fell out of the row, by the means over the queries, or the dev values, of a configuration's seeds."""

from __future__ import annotations

import math

import numpy as np
from scipy.special import stdtr

TINY = 1e-12  # in place of an error of 0
UNLIKELY = 0.01  # a training so far below those above it, if they were alike, has collapsed
FALL = 0.1  # of the median: what falls less deep is not a collapse
OFTEN = 3  # collapses of a configuration: so many tell how often it fails, and its mean counts them as they are


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


def untaught(devs: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Which trainings of a configuration stayed far below the others, bool [N], by their values on dev [N]: a tenth
    below the median of the search's trials [T] and further below them than one of N more would be in 1 % of cases
    (Student's prediction). Three trials or more can tell."""
    if len(others) < 3:
        return np.zeros(devs.shape, bool)
    fallen = devs < (1 - FALL) * np.median(others)
    return (_chance(devs, others) < UNLIKELY / len(devs)) & fallen
