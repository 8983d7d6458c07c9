"""Paired tests over queries and seeds, and corrections for testing several systems at once."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import nctdtrinc, polygamma, stdtr, stdtrit

from trainables.core.randomness import generator
from trainables.core.registry import Entry, Registry

AnyNumber = Any  # a float, or an array of them
LEVEL = 0.95  # of intervals
RESAMPLES = 10_000
MOST_SEEDS = 100  # that anybody would train
TINY = 1e-12  # in place of a mean square of 0
UNLIKELY = 0.01  # a training so far below those above it, if they were alike, has collapsed
FALL = 0.1  # of the median: what falls less deep is no collapse
VALUES_A_CHUNK = 2**22  # drawn at a time by a bootstrap: 32 MB


@dataclass(frozen=True)
class PairedTest:
    """Two-sided paired t-test; `ci95` is of the mean difference. Equal differences other than 0 make `t` infinite and p
    0, as in every program: `seeded_tests`, which verdicts are made of, does not accept that as proof."""

    difference: float
    t: float
    p: float
    ci95: tuple[float, float]


def paired_t_test(values: np.ndarray, reference: np.ndarray) -> PairedTest:
    """Tests mean(values - reference) = 0; both [Q], paired by position, Q at least 2 (Student 1908).

    Differences that are all zero give t = 0 and p = 1.
    """
    values, reference = np.asarray(values, np.float64), np.asarray(reference, np.float64)
    if values.shape != reference.shape or values.ndim != 1 or len(values) < 2:
        shapes = f"{values.shape} and {reference.shape}"
        raise ValueError(f"a paired t-test needs two equally long series of 2 or more values, not {shapes}")
    differences = np.round(values - reference, 12)  # equal means summed in another order differ by rounding
    mean, error, count = float(differences.mean()), _error(differences), len(differences)
    without_spread = math.copysign(math.inf, mean) if mean else 0.0
    t = mean / error if error else without_spread
    half = float(stdtrit(count - 1, (1 + LEVEL) / 2)) * error
    return PairedTest(mean, t, float(2 * stdtr(count - 1, -abs(t))), (mean - half, mean + half))


def _error(values: np.ndarray) -> float:
    """Standard error of the mean of values [N]: exactly 0 if all are equal, not roughly."""
    return float(values.std(ddof=1)) / math.sqrt(len(values)) if np.ptp(values) else 0.0


def _random_signs_p(count: int) -> float:
    """Two-sided p of `count` equal differences, which show no error to divide by: random signs (Fisher 1935) would make
    all of them alike in 2 of 2^count cases."""
    return 2.0 ** (1 - count)


@dataclass(frozen=True)
class Components:
    """Variances of a difference d[s, q]: of seeds (which move all queries at once), of queries, and the residual."""

    of_seed: float
    of_query: float
    residual: float


@dataclass(frozen=True)
class CrossedTest:
    """Seeds and queries both taken as samples: applies to new seeds on new queries. `ci95` excludes 0 exactly where
    `p` is below .05. All NaN where there is nothing to test with: one seed, or equal differences other than 0.

    seed_freedom  degrees of freedom of the seeds' mean square, for each of the N - 1 that a test alone would have
    error         standard error of the mean difference; 0 where all differences are 0, or the seed changes nothing
    freedom       degrees of freedom of the t-distribution that p comes from
    """

    p: float
    ci95: tuple[float, float]
    components: Components
    seed_freedom: float = 1.0
    error: float = 0.0
    freedom: float = math.inf


UNKNOWN = CrossedTest(math.nan, (math.nan, math.nan), Components(math.nan, math.nan, math.nan), math.nan)


def crossed_tests(differences: Sequence[np.ndarray]) -> list[CrossedTest]:
    """Tests mean(d) = 0 for each of several differences d [N seeds, Q queries] from a baseline at the same seed.

    Crossed random effects (Clark 1973): the squared error of the mean is that over queries plus that over seeds minus
    the residual's, which both contain, and at least as large as that over queries. A handful of seeds tells little of
    their variance, so the configurations lend each other theirs (`moderated`). docs/dev/verdict-simulations.md has
    the tests that this one was chosen from.
    """
    if len(differences[0]) < 2:
        return [UNKNOWN] * len(differences)
    squares = [mean_squares(each) for each in differences]
    deviations = np.array([each.mean(axis=1) - each.mean() for each in differences])
    of_seed, freedom = moderated(np.array([square[0] for square in squares]), deviations)
    columns = zip(differences, squares, of_seed, freedom, strict=True)
    return [_crossed(each, (float(seed), *square[1:]), float(free)) for each, square, seed, free in columns]


def collapsed(values: np.ndarray) -> np.ndarray:
    """Which trainings of one configuration collapsed, bool [..., N], by their means over the queries [..., N].

    From the middle downwards, each value is compared with all above it: the lowest that lies a tenth of the median
    below it, and so far below those above that another one would in 1 % of cases (Student's prediction), has collapsed,
    with all that are lower. At most the lower half can. docs/dev/verdict-simulations.md has the false alarms.
    """
    ordered, count = np.sort(values, axis=-1), values.shape[-1]
    fallen = (1 - FALL) * np.median(values, axis=-1)
    highest = np.full(values.shape[:-1], -np.inf)
    for below in range(1, (count - 1) // 2 + 1):
        above, value = ordered[..., below:], ordered[..., below - 1]
        error = np.maximum(above.std(axis=-1, ddof=1) * math.sqrt(1 + 1 / (count - below)), TINY)
        chance = stdtr(count - below - 1, (value - above.mean(axis=-1)) / error)
        highest = np.where((chance < UNLIKELY) & (value < fallen), value, highest)
    return values <= highest[..., None]


def clustered(values: np.ndarray, clusters: Sequence[int] | np.ndarray | None) -> np.ndarray:
    """Values [N, Q] of queries as values [N, G] of their clusters, with the same mean: near-duplicates count as one.
    `clusters`: a number for each query; None: each its own cluster.

    A cluster's value is the sum of its queries' deviations from the mean, times G / Q (Liang & Zeger 1986), so that
    unequal sizes do no harm.
    """
    kinds, places = np.unique(np.arange(values.shape[1]) if clusters is None else clusters, return_inverse=True)
    if len(kinds) == values.shape[1]:
        return values
    mean = values.mean(axis=1, keepdims=True)
    sums = np.array([np.bincount(places, row) for row in values - mean])
    return mean + sums * (len(kinds) / values.shape[1])


def mean_squares(differences: np.ndarray) -> tuple[float, float, float]:
    """Mean squares of seeds, queries and residual of d [N, Q]; what is 0 but for rounding is 0."""
    seeds, queries = differences.shape
    of_query, of_seed, mean = (
        np.round(each, 12) for each in (differences.mean(axis=0), differences.mean(axis=1), differences.mean())
    )  # as in `paired_t_test`
    rest = differences - of_query - of_seed[:, None] + mean
    residual = float((rest**2).sum()) / ((seeds - 1) * (queries - 1))
    return seeds * queries * _error(of_seed) ** 2, seeds * queries * _error(of_query) ** 2, residual


def moderated(of_seed: np.ndarray, deviations: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean squares of the seeds [..., K] shrunk towards their mean as far as they agree (Smyth 2004), and their degrees
    of freedom [..., K]. deviations [..., K, N]: the seeds' means less their mean.

    All differences share the baseline, so the mean of K mean squares has (N - 1) / (mean squared correlation) degrees
    of freedom, not K (N - 1); shrinking adds at most that many. Mean squares that differ by more than chance explains
    keep to themselves.
    """
    count, few = of_seed.shape[-1], deviations.shape[-1] - 1
    if count == 1:
        return of_seed, np.full(of_seed.shape, float(few))
    covariance = deviations @ deviations.swapaxes(-1, -2)
    variance = np.maximum(np.diagonal(covariance, axis1=-2, axis2=-1), TINY)
    squared = covariance**2 / (variance[..., :, None] * variance[..., None, :])
    pooled = few / np.maximum(squared.mean(axis=(-2, -1)), 1 / count)
    excess = np.log(np.maximum(of_seed, TINY)).var(axis=-1, ddof=1) - polygamma(1, few / 2)
    # trigamma(x) is roughly 1 / x
    prior = np.minimum(2 / np.maximum(excess, TINY), np.maximum(pooled - few, 0.0))[..., None]
    shrunk = (prior * of_seed.mean(axis=-1, keepdims=True) + few * of_seed) / (prior + few)
    return shrunk, np.broadcast_to(prior + few, of_seed.shape)


def _whole(of_seed: AnyNumber, of_query: AnyNumber, residual: AnyNumber) -> AnyNumber:
    """N Q times the squared error of the mean, from mean squares."""
    return np.maximum(np.maximum(of_seed, of_query), of_seed + of_query - residual)


def _freedom(
    whole: AnyNumber, of_seed: AnyNumber, seed_freedom: AnyNumber, seeds: AnyNumber, queries: int
) -> AnyNumber:
    """Degrees of freedom of `_whole`: those of the seeds' mean square times the ratio of the whole to it.

    Satterthwaite's (1946) would be times its square: too many for three seeds that happen to lie close together, as
    even the ratio is for two.
    """
    ratio = np.where(np.asarray(seeds) > 2, whole / np.maximum(of_seed, TINY), 1.0)
    return np.minimum(seed_freedom * ratio, queries - 1)


def error_and_freedom(
    squares: tuple[AnyNumber, AnyNumber, AnyNumber], seed_freedom: AnyNumber, seeds: AnyNumber, queries: int
) -> tuple[np.ndarray, np.ndarray]:
    """Standard error of the mean difference and its degrees of freedom, from mean squares of seeds, queries and
    residual."""
    whole = _whole(*squares)
    return np.sqrt(whole / (seeds * queries)), np.asarray(_freedom(whole, squares[0], seed_freedom, seeds, queries))


def p_of(difference: AnyNumber, error: AnyNumber, freedom: AnyNumber) -> np.ndarray:
    """Student's two-sided p."""
    return 2 * stdtr(freedom, -np.abs(difference / error))


def guarded(
    every: tuple[AnyNumber, AnyNumber, AnyNumber], sound: tuple[AnyNumber, AnyNumber, AnyNumber]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """p, error and degrees of freedom for a difference that must show with all seeds and with the sound ones alone,
    each given as (difference, error, freedom).

    p is the larger one, 1 where the two differ in sign. The interval that error and freedom give is that of all seeds,
    or that around their difference which holds that of the sound ones.
    """
    difference, error, freedom = every
    wider = sound[1] + np.abs(difference - sound[0]) / stdtrit(sound[2], (1 + LEVEL) / 2)
    of_all, of_both = p_of(*every), p_of(difference, wider, sound[2])
    of_sound = np.where(difference * sound[0] < 0, 1.0, p_of(*sound))
    weaker = of_both > of_all
    p = np.maximum(np.maximum(of_all, of_sound), of_both)
    return p, np.where(weaker, wider, error), np.where(weaker, sound[2], freedom)


def _crossed(differences: np.ndarray, squares: tuple[float, float, float], seed_freedom: float) -> CrossedTest:
    seeds, queries = differences.shape
    mean = round(float(differences.mean()), 12)
    if _whole(*squares) == 0:
        return UNKNOWN if mean else CrossedTest(1.0, (0.0, 0.0), Components(0.0, 0.0, 0.0))
    error, freedom = (float(each) for each in error_and_freedom(squares, seed_freedom, seeds, queries))
    of_seed, of_query, residual = squares
    components = Components(max(0.0, of_seed - residual) / queries, max(0.0, of_query - residual) / seeds, residual)
    p = float(p_of(mean, error, freedom))
    return _student(mean, p, error, freedom, components, seed_freedom / (seeds - 1))


def _student(
    mean: float, p: float, error: float, freedom: float, components: Components, seed_freedom: float
) -> CrossedTest:
    half = float(stdtrit(freedom, (1 + LEVEL) / 2)) * error
    return CrossedTest(p, (mean - half, mean + half), components, seed_freedom, error, freedom)


def guarded_tests(differences: Sequence[np.ndarray], sound: Sequence[np.ndarray]) -> list[CrossedTest]:
    """`crossed_tests` where trainings collapse. sound: for each difference, the seeds without a collapse in either of
    its two trainings, bool [N].

    One training that falls out of the row is no sample to learn a variance from, and says little of how often it
    happens: a difference is shown only if it shows with and without these seeds. With fewer than two sound seeds
    nothing is known.
    """
    every = crossed_tests(differences)
    return [
        test if keep.all() else _guarded(test, differences, place, keep)
        for place, (test, keep) in enumerate(zip(every, sound, strict=True))
    ]


def _guarded(test: CrossedTest, differences: Sequence[np.ndarray], place: int, keep: np.ndarray) -> CrossedTest:
    without = crossed_tests([each[keep] for each in differences])[place] if keep.sum() > 1 else UNKNOWN
    if math.isnan(test.p) or math.isnan(without.p) or not without.error:
        return UNKNOWN
    means = [round(float(each.mean()), 12) for each in (differences[place], differences[place][keep])]
    every, sound = (means[0], test.error, test.freedom), (means[1], without.error, without.freedom)
    p, error, freedom = (float(each) for each in guarded(every, sound))
    return _student(means[0], p, error, freedom, test.components, test.seed_freedom)


def detectable(
    components: Components, seeds: int, queries: int, seed_freedom: float = 1.0, level: float = 0.05, power: float = 0.8
) -> float:
    """The smallest difference that `crossed_tests` would show at `level` with probability `power`, for a design of 2 or
    more seeds. `seed_freedom` as in CrossedTest. NaN where the components are."""
    of_seed = components.residual + queries * components.of_seed
    of_query = components.residual + seeds * components.of_query
    if max(of_seed, of_query) == 0:
        return 0.0
    squares = of_seed, of_query, components.residual
    error, freedom = error_and_freedom(squares, seed_freedom * (seeds - 1), seeds, queries)
    return float(nctdtrinc(freedom, 1 - power, stdtrit(freedom, 1 - level / 2)) * error)


def seeds_needed(
    difference: float,
    components: Components,
    queries: int,
    seed_freedom: float = 1.0,
    level: float = 0.05,
    power: float = 0.8,
) -> int | None:
    """The fewest seeds, 2 to 100, that would show a difference with probability `power`; None if these do not."""
    enough = (
        seeds
        for seeds in range(2, MOST_SEEDS + 1)
        if detectable(components, seeds, queries, seed_freedom, level, power) <= abs(difference)
    )
    return next(enough, None)


@dataclass(frozen=True)
class SeededTest:
    """One configuration against the reference, each with the same N seeds on the same Q queries.

    p_per_seed  paired t-test over queries at each seed (Penha & Hauff 2020, Table 5)
    p_value     paired t-test over queries on the query means over seeds: applies to these very seeds on new queries;
                where all differences are equal, that of random signs
    new         seeds and queries both as samples: applies to new seeds on new queries, with and without trainings that
                collapsed; the test over queries where the seed changes nothing
    """

    difference: float
    p_per_seed: tuple[float, ...]
    p_value: float
    new: CrossedTest


def seeded_tests(
    pairs: Sequence[tuple[np.ndarray, np.ndarray]], seed_matters: Sequence[bool] | None = None
) -> list[SeededTest]:
    """Tests mean(values - reference) = 0 for each pair; all [N, Q], rows of the same seeds, Q at least 2.

    `seed_matters`: False for a pair whose seeds all give the same training: N copies tell no more of new seeds than
    one. None: True for all.
    """
    matters = seed_matters or [True] * len(pairs)
    sampled = [pair for pair, of_pair in zip(pairs, matters, strict=True) if of_pair]
    sound = [~np.logical_or(*(collapsed(each.mean(axis=1)) for each in pair)) for pair in sampled]
    crossed = iter(guarded_tests([values - reference for values, reference in sampled], sound) if sampled else [])
    return [_seeded(*pair, next(crossed) if of_pair else None) for pair, of_pair in zip(pairs, matters, strict=True)]


def _seeded(values: np.ndarray, reference: np.ndarray, crossed: CrossedTest | None) -> SeededTest:
    """`crossed`: None where the seed changes nothing."""
    over_queries = paired_t_test(values.mean(axis=0), reference.mean(axis=0))
    equal = math.isinf(over_queries.t)
    p_value = _random_signs_p(values.shape[1]) if equal else over_queries.p
    per_seed = tuple(paired_t_test(*pair).p for pair in zip(values, reference, strict=True))
    if crossed is None:
        variance = float((values - reference).mean(axis=0).var(ddof=1))
        alone = CrossedTest(over_queries.p, over_queries.ci95, Components(0.0, variance, 0.0))
        crossed = UNKNOWN if equal else alone
    return SeededTest(over_queries.difference, per_seed, p_value, crossed)


def bootstrap_ci(differences: np.ndarray, resamples: int = RESAMPLES) -> tuple[float, float]:
    """Symmetric 95 % bootstrap-t interval (Hall 1988) of the mean of differences [Q], Q at least 2. It is never
    narrower than Student's, so it excludes 0 only where the paired t-test does too. Each call gives the same numbers;
    equal differences give an interval of no width, or [-1, 1] if there are fewer than 6 and they are not 0.

    BCa would miss the true mean twice as often as it claims if half of the differences are 0 and the rest have long
    tails (docs/dev/verdict-simulations.md).
    """
    values = np.round(np.asarray(differences, np.float64), 12)
    mean = float(values.mean())
    error = _error(values)
    if error == 0:  # metrics lie in [0, 1], so their differences in [-1, 1]
        return (-1.0, 1.0) if mean and _random_signs_p(len(values)) > 1 - LEVEL else (mean, mean)
    furthest = np.quantile(_resampled_t(values - mean, resamples), LEVEL, method="higher")
    half = max(float(furthest), float(stdtrit(len(values) - 1, (1 + LEVEL) / 2))) * error
    return mean - half, mean + half


def _resampled_t(deviations: np.ndarray, resamples: int) -> np.ndarray:
    """|t| of `resamples` samples drawn with replacement from deviations [Q] whose mean is 0; samples without any spread
    are left out."""
    rng, count = generator(0, "bootstrap"), len(deviations)
    rows = max(1, VALUES_A_CHUNK // count)
    values = [np.zeros(0)]
    for start in range(0, resamples, rows):
        drawn = deviations[rng.integers(count, size=(min(rows, resamples - start), count))]
        errors, means = drawn.std(axis=1, ddof=1) / math.sqrt(count), drawn.mean(axis=1)
        spread = np.ptp(drawn, axis=1) > 0
        values.append(np.abs(means[spread]) / errors[spread])
    return np.concatenate(values)


def holm(p: np.ndarray) -> np.ndarray:
    """Step-down: the i-th smallest of m p-values times m - i + 1, made monotone (Holm 1979)."""
    order, adjusted = np.argsort(p, kind="stable"), np.empty(len(p))
    stepped = np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1))
    adjusted[order] = np.minimum(stepped, 1.0)
    return adjusted


def bonferroni(p: np.ndarray) -> np.ndarray:
    """Each p-value times their number (Dunn 1961)."""
    return np.minimum(p * len(p), 1.0)


def benjamini_hochberg(p: np.ndarray) -> np.ndarray:
    """False discovery rate: the i-th smallest of m p-values times m / i, made monotone (Benjamini & Hochberg 1995)."""
    from scipy.stats import false_discovery_control  # here: it takes half a second

    return np.asarray(false_discovery_control(p))


FALSE_DISCOVERY = "false discovery rate, step-up", "Benjamini & Hochberg 1995"
CORRECTIONS: Registry[Callable[[np.ndarray], np.ndarray]] = Registry(
    "correction",
    Entry("holm", holm, "family-wise error, step-down; never weaker than bonferroni", "Holm 1979"),
    Entry("bonferroni", bonferroni, "family-wise error, every p-value times their number", "Dunn 1961"),
    Entry("bh", benjamini_hochberg, *FALSE_DISCOVERY),
    Entry("benjamini-hochberg", benjamini_hochberg, *FALSE_DISCOVERY),
    Entry("none", np.copy, "p-values as they are", ""),
)


def adjust(p_values: np.ndarray | list[float], correction: str = "holm") -> np.ndarray:
    """Adjusted p-values in the order given, float64 [m]. Raises ConfigError for an unknown correction."""
    p = np.asarray(p_values, np.float64)
    if not np.all((p >= 0) & (p <= 1)):
        raise ValueError(f"p-values outside [0, 1]: {p}")
    return CORRECTIONS[correction](p)
