"""Which training instances a step sees."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from trainables.core.randomness import generator
from trainables.curriculum.pacing import Schedule


@dataclass
class BatchSampler:
    """Draws batches from the open part of an order.

    order  int64 [I]: instance rows, easiest first (hardest first if anti)
    """

    order: np.ndarray
    schedule: Schedule
    seed: int

    def pool(self, step: int, batch_size: int) -> range:
        """Positions of the order open at a step: never fewer than a batch, if there are as many."""
        size = len(self.order)
        start, end = self.schedule.bounds(step)
        low = min(int(start * size), max(0, size - batch_size))
        return range(low, min(size, max(low + batch_size, int(end * size))))

    def draw(self, step: int, batches: int, batch_size: int) -> np.ndarray:
        """Instance rows for the next `batches` steps, int64 [batches, batch_size].

        All are drawn from the pool of the first of these steps, so the batches can be rearranged by length without any
        instance coming before its time. Each batch is an independent uniform draw, a function of (seed, step) alone,
        as in Penha & Hauff's code; within a batch there is no replacement. Where everything is open, the draw is that
        of plain training, whatever the order: a curriculum that closes nothing trains exactly as its twin does.
        """
        pool = self.pool(step, batch_size)
        positions = np.stack([self._batch(step + i, pool, batch_size) for i in range(batches)])
        return positions if len(pool) == len(self.order) else self.order[positions]

    def _batch(self, step: int, pool: range, size: int) -> np.ndarray:
        """Positions in the order."""
        rng = generator(self.seed, "batch", step)
        return pool.start + rng.choice(len(pool), size, replace=len(pool) < size, shuffle=False)


def easy_first(difficulty: np.ndarray, anti: bool = False) -> np.ndarray:
    """Instance rows by rising difficulty (falling if anti); ties keep their order."""
    return np.argsort(-difficulty if anti else difficulty, kind="stable")
