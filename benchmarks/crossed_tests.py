"""Tests of a mean difference over seeds and queries, side by side; one of them gives the verdict of `tune-cl confirm`.

Each takes the summaries of many simulated confirmations at once and returns p-values [R, K]: R repetitions, K
configurations. docs/dev/verdict-simulations.md holds what `benchmarks/power.py grid` finds about them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import product

import numpy as np
from scipy.special import fdtrc, polygamma, stdtr, stdtrit

FEW_SEEDS = 12  # whose signs can all be permuted
TINY = 1e-12  # in place of a mean square of 0, which p@1 may have


@dataclass(frozen=True)
class Summary:
    """What the tests need of differences d[s, q] from the baseline.

    means      of each seed, [R, 1 + K, N], the baseline first
    of_query   mean square between queries, N times the variance of the query means, [R, K]
    residual   mean square of what neither seed nor query explains, [R, K]
    """

    means: np.ndarray
    of_query: np.ndarray
    residual: np.ndarray
    queries: int

    @property
    def seeds(self) -> int:
        return self.means.shape[2]

    @property
    def of_seeds(self) -> np.ndarray:
        """Mean of each seed's differences, [R, K, N]."""
        return self.means[:, 1:] - self.means[:, :1]

    @property
    def difference(self) -> np.ndarray:
        return self.of_seeds.mean(axis=2)

    @property
    def of_seed(self) -> np.ndarray:
        """Mean square between seeds, Q times the variance of the seeds' means, [R, K]."""
        return np.maximum(self.queries * self.of_seeds.var(axis=2, ddof=1), TINY)

    def select(self, count: int) -> Summary:
        """The first `count` configurations alone."""
        return Summary(self.means[:, : count + 1], self.of_query[:, :count], self.residual[:, :count], self.queries)


def two_sided(difference: np.ndarray, variance: np.ndarray, freedom: np.ndarray | float) -> np.ndarray:
    return 2 * stdtr(np.minimum(freedom, 1e9), -np.abs(difference) / np.sqrt(variance))


def total(summary: Summary, of_seed: np.ndarray) -> np.ndarray:
    """N Q times the variance of the mean, at least each part of it (Clark 1973, with the residual counted once)."""
    return np.maximum(np.maximum(of_seed, summary.of_query), of_seed + summary.of_query - summary.residual)


def crossed(summary: Summary, of_seed: np.ndarray, seed_freedom: np.ndarray | float, power: float) -> np.ndarray:
    """Student's t of the crossed variance; its degrees of freedom are those of the seeds' mean square times the ratio
    of the whole variance to it, to the `power`: 2 gives Satterthwaite's where queries are many, 0 the seeds' own."""
    whole = total(summary, of_seed)
    freedom = np.minimum(seed_freedom * (whole / of_seed) ** power, summary.queries - 1)
    return two_sided(summary.difference, whole / (summary.seeds * summary.queries), freedom)


def satterthwaite(summary: Summary, of_seed: np.ndarray, seed_freedom: np.ndarray | float) -> np.ndarray:
    """Satterthwaite (1946) with all three mean squares."""
    whole, few, many = total(summary, of_seed), seed_freedom, summary.queries - 1
    spread = of_seed**2 / few + summary.of_query**2 / many + summary.residual**2 / (few * many)
    return two_sided(summary.difference, whole / (summary.seeds * summary.queries), whole**2 / spread)


def over_queries(summary: Summary) -> np.ndarray:
    """Today's p_value: the seeds as given."""
    variance = summary.of_query / (summary.seeds * summary.queries)
    return two_sided(summary.difference, variance, summary.queries - 1)


def over_seeds(summary: Summary) -> np.ndarray:
    """t-test on the means of the seeds: the queries as given."""
    variance = summary.of_seed / (summary.seeds * summary.queries)
    return two_sided(summary.difference, variance, summary.seeds - 1)


def fewer_freedom(summary: Summary) -> np.ndarray:
    """The former p_both: min(N, Q) - 1 degrees of freedom."""
    return crossed(summary, summary.of_seed, summary.seeds - 1, power=0)


def larger_p(summary: Summary) -> np.ndarray:
    """Both tests must reject (F1 and F2 of Raaijmakers et al. 1999)."""
    return np.maximum(over_queries(summary), over_seeds(summary))


def quasi_f(summary: Summary) -> np.ndarray:
    """F' of Clark (1973): (MS_mean + MS_residual) / (MS_seed + MS_query), Satterthwaite's freedom above and below."""
    above = summary.seeds * summary.queries * summary.difference**2
    of_seed, of_query = summary.of_seed, summary.of_query
    few, many = summary.seeds - 1, summary.queries - 1
    top, bottom = above + summary.residual, of_seed + of_query
    top_freedom = top**2 / (above**2 + summary.residual**2 / (few * many))
    bottom_freedom = bottom**2 / (of_seed**2 / few + of_query**2 / many)
    return fdtrc(top_freedom, bottom_freedom, top / bottom)


def reml(summary: Summary) -> np.ndarray:
    """REML of the balanced design with Kenward and Roger's (1997) freedom: a negative component is 0, and its mean
    square is pooled with the residual's."""
    few, many = summary.seeds - 1, summary.queries - 1
    both = few * many
    joint = (few * summary.of_seed + both * summary.residual) / (few + both)
    without = np.maximum(summary.of_query, joint)  # no component of seeds
    own = satterthwaite(summary, summary.of_seed, few)
    plain = two_sided(summary.difference, without / (summary.seeds * summary.queries), many)
    return np.where(summary.of_seed <= summary.residual, plain, own)


def correlation_freedom(summary: Summary) -> np.ndarray:
    """Degrees of freedom of a mean square pooled over the configurations: (N - 1) / mean squared correlation of their
    seeds' means, which share the baseline, [R, 1]."""
    deviations = summary.of_seeds - summary.difference[..., None]
    covariance = deviations @ deviations.transpose(0, 2, 1)
    variance = np.einsum("rkk->rk", covariance)
    squared = covariance**2 / np.maximum(variance[:, :, None] * variance[:, None, :], TINY**2)
    return (summary.seeds - 1) / np.maximum(squared.mean(axis=(1, 2)), 1 / squared.shape[1])[:, None]


def pooled(summary: Summary) -> tuple[np.ndarray, np.ndarray]:
    """Mean square of the seeds pooled over the configurations, and its degrees of freedom."""
    shared = summary.of_seed.mean(axis=1, keepdims=True)
    return np.broadcast_to(shared, summary.of_seed.shape), correlation_freedom(summary)


def larger_pooled(summary: Summary) -> tuple[np.ndarray, np.ndarray]:
    """The pooled mean square, or a configuration's own where that is larger."""
    shared, freedom = pooled(summary)
    return np.maximum(shared, summary.of_seed), freedom


def moderated(summary: Summary) -> tuple[np.ndarray, np.ndarray]:
    """Mean squares shrunk towards each other as far as their logarithms agree (Smyth 2004)."""
    few, count = summary.seeds - 1, summary.of_seed.shape[1]
    shared, freedom = pooled(summary)
    if count == 1:
        return shared, freedom
    logs = np.log(summary.of_seed)
    excess = np.maximum(logs.var(axis=1, ddof=1) - polygamma(1, few / 2), 1e-6)
    prior = 2 / excess  # roughly the inverse of the trigamma function at half the degrees of freedom
    prior = np.minimum(prior, np.maximum(freedom[:, 0] - few, 0))[:, None]
    return (prior * shared + few * summary.of_seed) / (prior + few), prior + few


def unpaired(summary: Summary) -> tuple[np.ndarray, np.ndarray]:
    """The seeds' variances of configuration and baseline added (Welch 1947), as if equal seeds had nothing in common;
    the freedom is Satterthwaite's over the two."""
    variance = summary.queries * summary.means.var(axis=2, ddof=1)
    plain, others = variance[:, :1], variance[:, 1:]
    return plain + others, (summary.seeds - 1) * (plain + others) ** 2 / (plain**2 + others**2)


def cochran(summary: Summary, of_seed: np.ndarray, seed_freedom: np.ndarray | float) -> np.ndarray:
    """Cochran's (1964) mean of two quantiles, that of the seeds' freedom and that of the queries', each weighed by its
    share of the variance. Of p-values only those are told apart that Holm compares with .05."""
    whole = total(summary, of_seed)
    share = np.minimum(of_seed / whole, 1)
    t = np.abs(summary.difference) / np.sqrt(whole / (summary.seeds * summary.queries))
    p = np.ones_like(t)
    for level in LEVELS:
        quantile = share * stdtrit(seed_freedom + 0 * t, 1 - level / 2)
        quantile += (1 - share) * stdtrit(summary.queries - 1, 1 - level / 2)
        p = np.where(t >= quantile, level, p)
    return p


LEVELS = tuple(0.05 / count for count in range(1, 7))  # what Holm compares with


def sign_permutation(summary: Summary) -> np.ndarray:
    """Fisher's (1935) random signs of the seeds' mean differences; the queries as given."""
    if summary.seeds > FEW_SEEDS:
        return np.full_like(summary.difference, np.nan)
    signs = np.array(list(product((1, -1), repeat=summary.seeds - 1)))
    signs = np.concatenate([np.ones((len(signs), 1)), signs], axis=1)
    flipped = np.abs(summary.of_seeds @ signs.T)
    return (flipped >= flipped[..., :1] * (1 - 1e-9)).mean(axis=2)


def pigeonhole(summary: Summary) -> np.ndarray:
    """Seeds and queries drawn with replacement, each by itself (Owen 2007): the variance that the resamples would have
    in the limit, and a normal quantile."""
    few, many = summary.seeds, summary.queries
    seed = (few - 1) / few * summary.of_seed
    query = (many - 1) / many * summary.of_query
    rest = (few - 1) * (many - 1) / (few * many) * summary.residual
    return two_sided(summary.difference, (seed + query + rest) / (few * many), np.inf)


def _of(estimate: Callable[[Summary], tuple[np.ndarray, np.ndarray]], power: float) -> Callable[[Summary], np.ndarray]:
    return lambda summary: crossed(summary, *estimate(summary), power)


def own(summary: Summary) -> tuple[np.ndarray, np.ndarray]:
    return summary.of_seed, np.full_like(summary.of_seed, summary.seeds - 1)


TESTS: dict[str, Callable[[Summary], np.ndarray]] = {
    "over queries (p_value)": over_queries,
    "over seeds": over_seeds,
    "min(N, Q) - 1 (p_both)": fewer_freedom,
    "F1 and F2": larger_p,
    "quasi F'": quasi_f,
    "REML, Kenward-Roger": reml,
    "signs of seeds": sign_permutation,
    "pigeonhole bootstrap": pigeonhole,
    "own, Satterthwaite": lambda summary: satterthwaite(summary, *own(summary)),
    "own, power 1.5": _of(own, 1.5),
    "own, power 1": _of(own, 1),
    "own, Cochran": lambda summary: cochran(summary, *own(summary)),
    "pooled, Satterthwaite": lambda summary: satterthwaite(summary, *pooled(summary)),
    "pooled, power 1.5": _of(pooled, 1.5),
    "pooled, power 1": _of(pooled, 1),
    "pooled, Cochran": lambda summary: cochran(summary, *pooled(summary)),
    "larger of own and pooled, Satterthwaite": lambda summary: satterthwaite(summary, *larger_pooled(summary)),
    "larger of own and pooled, power 1": _of(larger_pooled, 1),
    "moderated, Satterthwaite": lambda summary: satterthwaite(summary, *moderated(summary)),
    "moderated, power 1.5": _of(moderated, 1.5),
    "moderated, power 1": _of(moderated, 1),
    "unpaired, Satterthwaite": lambda summary: satterthwaite(summary, *unpaired(summary)),
    "unpaired, power 1": _of(unpaired, 1),
}
