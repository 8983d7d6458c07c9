"""How likely a test is to find a gain, from the variances that trainings show.

The whole intersection-union test is simulated: a gain counts as found only where it is shown against every opponent.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import stdtrit

from trainables.core.randomness import generator
from trainables.evaluation.crossed import CrossedTest, error_and_freedom

DRAWS = 4000
POWER = 0.8
GAIN = 0.02  # of which a verdict says how likely it was to be found


@dataclass(frozen=True)
class Design:
    """What the power of a test depends on. tests: of each duel of one curriculum, all with variances; queries: of the
    split, near-duplicates as one; level: two-sided, of each duel."""

    tests: Sequence[CrossedTest]
    queries: int
    level: float

    def detectable(self, seeds: int) -> float:
        """The smallest gain that is shown with probability POWER."""
        return float(np.quantile(self.required(seeds), POWER))

    def power(self, seeds: int, gain: float = GAIN) -> float:
        """The probability that a gain is shown."""
        return float((self.required(seeds) <= gain).mean())

    def required(self, seeds: int) -> np.ndarray:
        """The true gain over all opponents from which on each of many tests with so many seeds would show it, sorted,
        float64 [DRAWS].

        Duels share the curriculum, which has half of the variance of each difference. The variance of seeds is
        estimated anew in each draw, with its own degrees of freedom; that of queries is known well.
        """
        rng = generator(seeds, "power of a verdict", len(self.tests))
        shared, own = rng.standard_normal((DRAWS, 1)), rng.standard_normal((DRAWS, len(self.tests)))
        common = (shared + own) / np.sqrt(2) if len(self.tests) > 1 else own
        missing = np.empty_like(own)
        for duel, test in enumerate(self.tests):
            residual = test.components.residual
            of_seed = residual + self.queries * test.components.of_seed  # mean squares
            of_query = residual + seeds * test.components.of_query
            freedom = test.seed_freedom * (seeds - 1) + test.lent
            estimates = of_seed * rng.chisquare(freedom, DRAWS) / freedom
            error, degrees = error_and_freedom((estimates, of_query, residual), freedom, seeds, self.queries)
            whole = max(of_seed, of_query, of_seed + of_query - residual)
            needed = stdtrit(degrees, 1 - self.level / 2) * error
            missing[:, duel] = needed - common[:, duel] * np.sqrt(whole / (seeds * self.queries))
        return np.sort(missing.max(axis=1))


def design_of(tests: Sequence[CrossedTest], queries: int, level: float) -> Design | None:
    """None where some duel shows no variance: one seed, or trainings that are equal."""
    for test in tests:
        components = test.components
        if not np.isfinite(test.p) or not (components.of_seed or components.of_query or components.residual):
            return None
    return Design(tests, queries, level)
