"""Weighting heuristics (MacAvaney et al. 2020) as an order: the difficulty of an instance is 1 - its mean ease D."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from trainables.curriculum.scored import CODE, Scored
from trainables.curriculum.weighting import pairwise_ease, pointwise_ease, values_of
from trainables.data.instances import DRAWN, NONE, Instances


def hardness(heuristic: str) -> Callable[[Scored], np.ndarray]:
    """The scoring function of a weighting heuristic, given by name.

    1 - D (Eq. 5, 6) is linear in the negative's value, so its mean over the negatives that may be drawn is 1 - D at
    their mean value.
    """

    def function(scored: Scored) -> np.ndarray:
        instances, value = scored.instances, values_of(heuristic, scored.split, scored.reference == CODE)
        negative = _negative_values(instances, value)
        if instances.pairwise:
            return 1 - pairwise_ease(value[instances.positive], negative)
        relevant = instances.negative == NONE
        return 1 - pointwise_ease(np.where(relevant, value[instances.positive], negative), relevant)

    return function


def _negative_values(instances: Instances, value: np.ndarray) -> np.ndarray:
    """Value of each instance's negative, float64 [I]: that of a fixed one, or the mean over those that may be drawn.

    Meaningless where an instance has no negative.
    """
    negative = value[instances.negative]
    drawn = np.flatnonzero(instances.negative == DRAWN)
    if len(drawn):
        negative[drawn] = _mean_below(instances, value, drawn)
    return negative


def _mean_below(instances: Instances, value: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Mean value of the documents that may become the negative of each of the given instances, float64 [B]."""
    start = instances.start[instances.query[rows]].astype(np.int64)
    # Most instances of a query draw from the same documents: these are summed only once.
    parts, which = np.unique(np.stack([start, instances.below[rows]]), axis=1, return_inverse=True)
    first, count = parts
    bounds = np.stack([first, first + count], axis=1).ravel()
    sums = np.add.reduceat(np.append(value[instances.easier], 0.0), bounds)[::2]
    return (sums / count)[which]
