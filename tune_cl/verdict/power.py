"""How likely a test was to find a gain, and how many seeds one needs, from the variances that its trainings show.

The whole intersection-union test is simulated: a gain counts as found only where it is shown against every opponent.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import stdtrit

from trainables.core.randomness import generator
from trainables.evaluation.crossed import Components, CrossedTest, error_and_freedom

DRAWS = 4000
MOST_SEEDS = 100  # that anybody would train
POWER = 0.8
GAIN = 0.02  # of which a verdict says how likely it was to be found


@dataclass(frozen=True)
class Design:
    """What the power of a test depends on. tests: of each duel of one curriculum, all with variances; queries: of the
    split, near-duplicates as one; level: two-sided, of each duel."""

    tests: Sequence[CrossedTest]
    queries: int
    level: float

    def required(self, seeds: int) -> np.ndarray:
        """The true gain over all opponents from which on each of many tests with so many seeds would show it, sorted,
        float64 [DRAWS]."""
        errors, needed = self._drawn(seeds)
        return np.sort((needed - errors).max(axis=1))

    def detectable(self, seeds: int) -> float:
        """The smallest gain that is shown with probability POWER."""
        return float(np.quantile(self.required(seeds), POWER))

    def power(self, seeds: int, gain: float = GAIN) -> float:
        """The probability that a gain is shown."""
        return float((self.required(seeds) <= gain).mean())

    def seeds_needed(self, gains: Sequence[float]) -> int | None:
        """The fewest seeds, 2 to 100, that show gains, one over each opponent, with probability POWER; None if these do
        not."""
        if min(gains) <= 0:
            return None
        low, high = 1, MOST_SEEDS
        if not self._enough(high, gains):
            return None
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if self._enough(middle, gains) else (middle, high)
        return high

    def _enough(self, seeds: int, gains: Sequence[float]) -> bool:
        errors, needed = self._drawn(seeds)
        return float(((errors + np.array(gains)) > needed).all(axis=1).mean()) >= POWER

    def _drawn(self, seeds: int) -> tuple[np.ndarray, np.ndarray]:
        """Errors of the mean differences, and what these would have to exceed to be shown, both [DRAWS, duels].

        Duels share the curriculum, which has half of the variance of each difference. The variance of seeds is
        estimated anew in each draw, with its own degrees of freedom; that of queries is known well.
        """
        rng = generator(seeds, "power of a verdict", len(self.tests))
        shared, own = rng.standard_normal((DRAWS, 1)), rng.standard_normal((DRAWS, len(self.tests)))
        common = (shared + own) / np.sqrt(2) if len(self.tests) > 1 else own
        errors, needed = np.empty_like(own), np.empty_like(own)
        for duel, test in enumerate(self.tests):
            of_seed, of_query = _mean_squares(test.components, seeds, self.queries)
            residual = test.components.residual
            freedom = test.seed_freedom * (seeds - 1) + test.lent
            estimates = of_seed * rng.chisquare(freedom, DRAWS) / freedom
            squares = estimates, of_query, residual
            error, degrees = error_and_freedom(squares, freedom, seeds, self.queries)
            whole = max(of_seed, of_query, of_seed + of_query - residual)
            errors[:, duel] = common[:, duel] * np.sqrt(whole / (seeds * self.queries))
            needed[:, duel] = stdtrit(degrees, 1 - self.level / 2) * error
        return errors, needed


def _mean_squares(components: Components, seeds: int, queries: int) -> tuple[float, float]:
    """Of seeds and of queries."""
    of_seed = components.residual + queries * components.of_seed
    of_query = components.residual + seeds * components.of_query
    return of_seed, of_query


def design_of(tests: Sequence[CrossedTest], queries: int, level: float) -> Design | None:
    """None where some duel shows no variance: one seed, or trainings that are equal."""
    varies = all(np.isfinite(test.p) and _varies(test.components) for test in tests)
    return Design(tests, queries, level) if varies else None


def _varies(components: Components) -> bool:
    return max(components.of_seed, components.of_query, components.residual) > 0
