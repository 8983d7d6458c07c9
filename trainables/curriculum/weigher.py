"""How much each sample of a batch counts at an iteration."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.stats import rankdata

from trainables.curriculum.weighting import pairwise_ease, pointwise_ease, weights
from trainables.data.instances import NONE, Batch

CODE_EPSILON = 1e-8  # added to D by the paper's code to avoid weights of 0


@dataclass(frozen=True)
class Weigher:
    """Weights of samples by their ease D (MacAvaney et al. 2020, Eq. 3).

    value     float64 [C] or None: the heuristic's value of each candidate
    relevant  bool [C] or None: candidates whose D in a pointwise sample is their value v, not 1 - v
    ease      float64 [I] or None: D of each instance, used where there is no `value`
    epsilon   added to D
    """

    m: float
    anti: bool
    pairwise: bool
    value: np.ndarray | None = None
    relevant: np.ndarray | None = None
    ease: np.ndarray | None = None
    epsilon: float = 0.0

    def __call__(self, samples: Batch, iteration: int) -> np.ndarray:
        """Weight of each sample at an iteration (from 0), float64 [B].

        A sample holds at most one negative: with N negatives, a positive makes N samples, each with its own weight.
        """
        if iteration >= self.m or (self.value is None and self.ease is None):
            return np.ones(len(samples.instance))
        ease = self._ease(samples)
        return weights((1 - ease if self.anti else ease) + self.epsilon, iteration, self.m)

    def _ease(self, samples: Batch) -> np.ndarray:
        if self.value is None or self.relevant is None:
            assert self.ease is not None
            return self.ease[samples.instance]
        if self.pairwise:
            return pairwise_ease(self.value[samples.positive], self.value[samples.negative])
        rows = np.where(samples.positive == NONE, samples.negative, samples.positive)
        return pointwise_ease(self.value[rows], self.relevant[rows])

    def with_difficulty(self, difficulty: np.ndarray) -> Weigher:
        """The weigher for a new difficulty of the instances; the same weigher if it does not read difficulty."""
        return self if self.ease is None else replace(self, ease=ease_of(difficulty))


def ease_of(difficulty: np.ndarray) -> np.ndarray:
    """D = 1 - rank-normalised difficulty, float64 [I]: 1 for the easiest, 0 for the hardest; ties share a rank."""
    if len(difficulty) < 2:
        return np.ones(len(difficulty))
    return 1 - (rankdata(difficulty) - 1) / (len(difficulty) - 1)
