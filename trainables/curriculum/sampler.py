"""Which training instances a step sees, and how much each weighs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from trainables.curriculum import weighting
from trainables.curriculum.pacing import PACINGS
from trainables.randomness import generator


@dataclass(frozen=True)
class Curriculum:
    """The two functions of time that a curriculum consists of.

    order    int64 [I]   instance rows, easiest first (hardest first if anti)
    value    float64 [C] or None: the weighting heuristic's value of each candidate
    horizon  T in optimiser steps
    """

    order: np.ndarray
    value: np.ndarray | None
    pacing: str
    delta: float
    n: float
    horizon: float
    m: float
    anti: bool
    seed: int

    def share(self, step: int) -> float:
        """Share of the order that is open at an optimiser step (from 0)."""
        return PACINGS[self.pacing].share(step, self.horizon, self.delta, self.n)

    def pool(self, step: int, batch_size: int) -> int:
        """Instances open at a step: never fewer than a batch, if there are as many."""
        size = len(self.order)
        return min(size, max(batch_size, int(self.share(step) * size)))

    def draw(self, step: int, batches: int, batch_size: int) -> np.ndarray:
        """Instance rows for the next `batches` steps, int64 [batches, batch_size].

        All are drawn from the pool of the first of these steps, so that batches may then be rearranged by
        length without any instance coming before its time. Each batch is a uniform draw, without
        replacement inside the batch and with replacement across batches, as in Penha & Hauff's code.
        """
        pool = self.pool(step, batch_size)
        drawn = [_uniform(generator(self.seed, "batch", step + i), pool, batch_size) for i in range(batches)]
        return self.order[np.stack(drawn)]

    def weights(self, positive: np.ndarray, negative: np.ndarray, pairwise: bool, iteration: int) -> np.ndarray:
        """Weight of each sample, float64 [B]; candidate rows as from Instances.draw; iteration from 0."""
        if self.value is None or iteration >= self.m:
            return np.ones(len(positive))
        if pairwise:
            ease = weighting.pairwise_ease(self.value[positive], self.value[negative])
        else:
            relevant = positive >= 0
            ease = weighting.pointwise_ease(self.value[np.where(relevant, positive, negative)], relevant)
        return weighting.weights(1 - ease if self.anti else ease, iteration, self.m)


def easy_first(difficulty: np.ndarray, anti: bool = False) -> np.ndarray:
    """Instance rows by rising difficulty (falling if anti); equal ones stay in their order."""
    return np.argsort(-difficulty if anti else difficulty, kind="stable")


def _uniform(rng: np.random.Generator, pool: int, size: int) -> np.ndarray:
    return rng.choice(pool, size, replace=pool < size, shuffle=False)
