"""Paired tests over queries and seeds, and corrections for testing several systems at once."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
from scipy.special import digamma, nctdtrinc, polygamma, stdtr, stdtrit

from trainables.core.randomness import generator
from trainables.core.registry import Entry, Registry

AnyNumber = Any  # a float, or an array of them
LEVEL = 0.95  # of intervals
RESAMPLES = 10_000
MOST_SEEDS = 100  # that anybody would train
TINY = 1e-12  # in place of a mean square of 0
UNLIKELY = 0.01  # a training so far below those above it, if they were alike, has collapsed
FALL = 0.1  # of the median: what falls less deep is not a collapse
OFTEN = 3  # collapses of a configuration: so many tell how often it fails, and its mean counts them as they are
FEW = 2  # seeds, which have the degrees of freedom of their variance alone: those that lie close would get too many
CAUTION = 3.0  # exponent: how fast others' variances lose their say on seeds that vary more than theirs
ALIKE = 1e6  # prior degrees of freedom of variances that do not differ
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

    seed_freedom  degrees of freedom of the seeds' variance, for each of the N - 1 that a paired test alone would have
    lent          further ones, from the seeds of other configurations
    error         standard error of the mean difference; 0 where all differences are 0, or the seed changes nothing
    freedom       degrees of freedom of the t-distribution that p comes from
    """

    p: float
    ci95: tuple[float, float]
    components: Components
    seed_freedom: float = 1.0
    lent: float = 0.0
    error: float = 0.0
    freedom: float = math.inf


UNKNOWN = CrossedTest(math.nan, (math.nan, math.nan), Components(math.nan, math.nan, math.nan), math.nan)
Pair = tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True)
class SeedPrior:
    """How much seeds moved the means over the queries of the other configurations of a confirmation: the variances, and
    the degrees of freedom of each."""

    variances: tuple[float, ...]
    freedoms: tuple[float, ...]


def seed_prior(means: Iterable[np.ndarray]) -> SeedPrior:
    """From the means over the queries [N_i] of each configuration's seeds. Trainings that collapsed do not count; one
    seed says nothing, and equal means are not a variance."""
    sound = [each[~collapsed(each)] for each in means]
    several = [each for each in sound if len(each) > 1 and np.ptp(each)]
    variances = [float(each.var(ddof=1)) for each in several]
    return SeedPrior(tuple(variances), tuple(len(each) - 1.0 for each in several))


@dataclass(frozen=True)
class Spread:
    """Variance of the difference of two trainings' means over the queries, from one seed to the next; degrees of
    freedom of its estimate, and those that others have lent to it."""

    variance: float
    freedom: float
    lent: float = 0.0


def crossed_tests(pairs: Sequence[Pair], paired: bool = True) -> list[CrossedTest]:
    """Tests mean(values - reference) = 0 for each of several pairs, both [N seeds, Q queries].

    paired: whether equal seeds make pairs, as where all trainings start from the same pretrained weights, which a seed
    moves alike in both arms. Where it draws the initial weights, the arms are two samples: pairs would halve the
    degrees of freedom and cancel next to nothing.

    Crossed random effects (Clark 1973): the squared error of the mean is that over queries plus that over seeds minus
    the residual's, which both contain, and at least as large as that over queries. A handful of seeds tells little of
    their variance, so configurations lend each other theirs. docs/dev/verdict-simulations.md has the tests that this
    one was chosen from.
    """
    if len(pairs[0][0]) < 2:
        return [UNKNOWN] * len(pairs)
    spreads = _paired_spreads(pairs) if paired else _unpaired_spreads(pairs)
    return [_crossed(*pair, spread, paired) for pair, spread in zip(pairs, spreads, strict=True)]


def _paired_spreads(pairs: Sequence[Pair]) -> list[Spread]:
    """Of the differences at equal seed. Those from the same reference lend each other their variance (`moderated`);
    those of one configuration from several references do not, for these are unlike: its own settings without the
    curriculum vary much less beside it than another champion."""
    spreads: dict[int, Spread] = {}
    references = [reference.tobytes() for _, reference in pairs]
    for one in dict.fromkeys(references):
        places = [place for place, reference in enumerate(references) if reference == one]
        moderated = _moderated_spreads([pairs[place] for place in places])
        spreads |= dict(zip(places, moderated, strict=True))
    return [spreads[place] for place in range(len(pairs))]


def _moderated_spreads(pairs: Sequence[Pair]) -> list[Spread]:
    """Of pairs with the same reference."""
    of_seeds = np.array([(values - reference).mean(axis=1) for values, reference in pairs])
    deviations = of_seeds - of_seeds.mean(axis=1, keepdims=True)
    variances = np.array([_error(each) ** 2 * len(each) for each in np.round(of_seeds, 12)])
    return [Spread(float(one), float(free)) for one, free in zip(*moderated(variances, deviations), strict=True)]


def _unpaired_spreads(pairs: Sequence[Pair]) -> list[Spread]:
    """Of the two arms as two samples (Welch 1947); the arms of the other pairs lend them theirs."""
    arms = {values.tobytes(): np.round(values.mean(axis=1), 12) for pair in pairs for values in pair}
    spreads = []
    for pair in pairs:
        contents = {values.tobytes() for values in pair}
        variances = np.array([_error(arms[values.tobytes()]) ** 2 * len(values) for values in pair])
        others = seed_prior(means for key, means in arms.items() if key not in contents)
        few = len(pair[0]) - 1.0
        variance, freedom = welch(variances, few)
        spreads.append(_lent(variances, few, float(variance), float(freedom), others))
    return spreads


def welch(variances: np.ndarray, freedom: float) -> tuple[np.ndarray, np.ndarray]:
    """The sum of two variances [..., 2] of `freedom` degrees of freedom each, and its own [...] (Welch 1938)."""
    whole = variances.sum(axis=-1)
    return whole, freedom * whole**2 / np.maximum((variances**2).sum(axis=-1), TINY**2)


def _lent(own: np.ndarray, few: float, variance: float, freedom: float, others: SeedPrior) -> Spread:
    """`own`: variances of the seeds of each arm, with `few` degrees of freedom each."""
    if not others.variances or not own.any():
        return Spread(variance, freedom)
    known, freedoms = np.array(others.variances), np.array(others.freedoms)
    alike = prior_freedom(np.append(own, known), np.append(np.full(len(own), few), freedoms))
    mean, borrowable = pooled_prior(known, freedoms, alike, len(own))
    found, lent = borrowed(variance, freedom, mean, borrowable)
    return Spread(float(found), freedom, float(lent))


def prior_freedom(variances: np.ndarray, freedoms: np.ndarray) -> np.ndarray:
    """How alike true variances are, from estimates [..., E] with `freedoms` [E]: the degrees of freedom of the scaled
    inverse chi-squared distribution that they come from (Smyth 2004, by the moments of their logarithms)."""
    logs = np.log(np.maximum(variances, TINY**2)) - digamma(freedoms / 2) + np.log(freedoms / 2)
    excess = logs.var(axis=-1, ddof=1) - polygamma(1, freedoms / 2).mean()
    return np.where(excess > 2 / ALIKE, 2 * _inverse_trigamma(np.maximum(excess, 2 / ALIKE)), ALIKE)


def _inverse_trigamma(values: np.ndarray) -> np.ndarray:
    """By Newton's steps, which rise to it from 1/2 + 1/value (Smyth 2004, appendix)."""
    found = 0.5 + 1 / values
    for _ in range(10):
        now = polygamma(1, found)
        found = found + now * (1 - now / values) / polygamma(2, found)
    return found


def pooled_prior(variances: np.ndarray, freedoms: np.ndarray, alike: AnyNumber, arms: int) -> tuple[Any, Any]:
    """The variance that the seeds of `arms` configurations together have by what others [..., E] show, and its degrees
    of freedom: fewer the less alike configurations are (`prior_freedom`), and the less is known of the others."""
    whole = freedoms.sum()
    return arms * (variances * freedoms).sum(axis=-1) / whole, 1 / (1 / (arms * alike) + 1 / whole)


def borrowed(
    variance: AnyNumber, freedom: AnyNumber, others: AnyNumber, borrowable: AnyNumber, caution: float = CAUTION
) -> tuple[np.ndarray, np.ndarray]:
    """A variance with the help of what others show, and the degrees of freedom that these lend.

    It is shrunk towards theirs where it is smaller, never where it is larger: seeds that vary more than others' are not
    made to look like them, and these lend less the larger it is."""
    ratio = variance / np.maximum(others, TINY**2)
    lent = borrowable * np.minimum(1.0, np.maximum(ratio, TINY) ** -caution)
    shrunk = (lent * others + freedom * variance) / (lent + freedom)
    return np.where(ratio < 1, shrunk, variance), lent


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


def rare_collapses(values: np.ndarray) -> np.ndarray:
    """`collapsed`, where fewer than OFTEN of a configuration's trainings are; none where more are."""
    fell = collapsed(values)
    return fell & (fell.sum(axis=-1, keepdims=True) < OFTEN)


def two_groups(values: np.ndarray) -> np.ndarray:
    """Whether the trainings of a configuration fall into two groups, as where it fails under most seeds and works under
    some, bool [...], by their means over the queries [..., N].

    The best division into two leaves so little variance within them as it does in 1 % of normal samples, and the lower
    group lies a tenth below the upper one. `collapsed` names single trainings that fall; it cannot, where these are
    the majority. Four trainings or more can tell.
    """
    if values.shape[-1] < 4:
        return np.zeros(values.shape[:-1], bool)
    explained, low, high = _divided(values)
    return (explained > _usually_explained(values.shape[-1])) & (low < (1 - FALL) * high)


def _divided(values: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The largest share of the variance that a division of sorted values into two explains, and both means [...]."""
    ordered, count = np.sort(values, axis=-1), values.shape[-1]
    sizes = np.arange(1, count)
    sums = np.cumsum(ordered, axis=-1)[..., :-1]
    whole = ordered.sum(axis=-1, keepdims=True)
    low, high = sums / sizes, (whole - sums) / (count - sizes)
    between = sizes * (count - sizes) / count * (high - low) ** 2
    best = between.argmax(axis=-1)[..., None]
    total = np.maximum(count * ordered.var(axis=-1), TINY**2)
    of_low, of_high = (np.take_along_axis(each, best, -1)[..., 0] for each in (low, high))
    return between.max(axis=-1) / total, of_low, of_high


@lru_cache
def _usually_explained(count: int) -> float:
    """What a division of a normal sample explains in all but 1 % of cases."""
    drawn = generator(count, "two groups").standard_normal((20_000, count))
    return float(np.quantile(_divided(drawn)[0], 1 - UNLIKELY))


def untaught(devs: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Which trainings of a configuration stayed far below the others, bool [..., N], by their values on dev [..., N]:
    a tenth below the median of the search's trials [..., T] and further below them than one of N more would be in 1 %
    of cases (Student's prediction). Three trials or more can tell."""
    count = others.shape[-1]
    if count < 3:
        return np.zeros(devs.shape, bool)
    error = np.maximum(others.std(axis=-1, ddof=1) * math.sqrt(1 + 1 / count), TINY)[..., None]
    chance = stdtr(count - 1, (devs - others.mean(axis=-1)[..., None]) / error)
    fallen = devs < (1 - FALL) * np.median(others, axis=-1)[..., None]
    return (chance < UNLIKELY / devs.shape[-1]) & fallen


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

    Satterthwaite's (1946) would be times its square: too many for few seeds that happen to lie close together, as even
    the ratio is for FEW or less.
    """
    ratio = np.where(np.asarray(seeds) > FEW, whole / np.maximum(of_seed, TINY), 1.0)
    return np.minimum(seed_freedom * ratio, queries - 1)


def error_and_freedom(
    squares: tuple[AnyNumber, AnyNumber, AnyNumber],
    seed_freedom: AnyNumber,
    seeds: AnyNumber,
    queries: int,
) -> tuple[np.ndarray, np.ndarray]:
    """Standard error of the mean difference and its degrees of freedom, from mean squares of seeds, queries and
    residual."""
    whole = _whole(*squares)
    freedom = _freedom(whole, squares[0], seed_freedom, seeds, queries)
    return np.sqrt(whole / (seeds * queries)), np.asarray(freedom)


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


def _crossed(values: np.ndarray, reference: np.ndarray, spread: Spread, paired: bool) -> CrossedTest:
    differences = values - reference
    seeds, queries = differences.shape
    mean = round(float(differences.mean()), 12)
    of_seed, of_query, residual = mean_squares(differences)
    if _whole(of_seed, of_query, residual) == 0:
        return UNKNOWN if mean else CrossedTest(1.0, (0.0, 0.0), Components(0.0, 0.0, 0.0))
    of_seed = queries * spread.variance
    if not paired:
        residual = mean_squares(values)[2] + mean_squares(reference)[2]
    squares, known = (of_seed, of_query, residual), spread.freedom + spread.lent
    error, freedom = (float(each) for each in error_and_freedom(squares, known, seeds, queries))
    components = Components(max(0.0, of_seed - residual) / queries, max(0.0, of_query - residual) / seeds, residual)
    test = CrossedTest(0.0, (0.0, 0.0), components, spread.freedom / (seeds - 1), spread.lent, error, freedom)
    return _student(mean, float(p_of(mean, error, freedom)), test)


def _student(mean: float, p: float, test: CrossedTest) -> CrossedTest:
    """With this p, and the interval of its error and degrees of freedom."""
    half = float(stdtrit(test.freedom, (1 + LEVEL) / 2)) * test.error
    return replace(test, p=p, ci95=(mean - half, mean + half))


def guarded_tests(pairs: Sequence[Pair], sound: Sequence[np.ndarray], paired: bool = True) -> list[CrossedTest]:
    """`crossed_tests` where trainings collapse. sound: for each pair, the seeds without a rare collapse in either of
    its two trainings, bool [N].

    One training that falls out of the row is not a sample to learn a variance from, and says little of how often it
    happens: a difference is shown only if it shows with and without these seeds. With fewer than two sound seeds
    nothing is known. Of a configuration that often fails, its mean counts: otherwise the power to show that it does
    would fall as seeds are added, for the more there are, the surer it is that some collapse.
    """
    every = crossed_tests(pairs, paired)
    return [
        test if keep.all() else _guarded(test, pairs, place, keep, paired)
        for place, (test, keep) in enumerate(zip(every, sound, strict=True))
    ]


def _guarded(test: CrossedTest, pairs: Sequence[Pair], place: int, keep: np.ndarray, paired: bool) -> CrossedTest:
    kept = [(values[keep], reference[keep]) for values, reference in pairs]
    without = crossed_tests(kept, paired)[place] if keep.sum() > 1 else UNKNOWN
    if math.isnan(test.p) or math.isnan(without.p) or not without.error:
        return UNKNOWN
    means = [round(float((values - reference).mean()), 12) for values, reference in (pairs[place], kept[place])]
    every, sound = (means[0], test.error, test.freedom), (means[1], without.error, without.freedom)
    p, error, freedom = (float(each) for each in guarded(every, sound))
    return _student(means[0], p, replace(test, error=error, freedom=freedom))


def detectable(
    components: Components,
    seeds: int,
    queries: int,
    seed_freedom: float = 1.0,
    level: float = 0.05,
    power: float = 0.8,
    lent: float = 0.0,
) -> float:
    """The smallest difference that `crossed_tests` would show at `level` with probability `power`, for a design of 2 or
    more seeds. `seed_freedom`, `lent` as in CrossedTest. NaN where the components are."""
    of_seed = components.residual + queries * components.of_seed
    of_query = components.residual + seeds * components.of_query
    if max(of_seed, of_query) == 0:
        return 0.0
    squares = of_seed, of_query, components.residual
    error, freedom = error_and_freedom(squares, seed_freedom * (seeds - 1) + lent, seeds, queries)
    return float(nctdtrinc(freedom, 1 - power, stdtrit(freedom, 1 - level / 2)) * error)


@dataclass(frozen=True)
class SeededTest:
    """One configuration against the reference, each with the same N seeds on the same Q queries.

    p_value     paired t-test over queries on the query means over seeds: applies to these very seeds on new queries;
                where all differences are equal, that of random signs
    new         seeds and queries both as samples: applies to new seeds on new queries, with and without rare collapses;
                the test over queries where the seed changes nothing
    """

    difference: float
    p_value: float
    new: CrossedTest


def seeded_tests(
    pairs: Sequence[Pair], seed_matters: Sequence[bool] | None = None, paired: bool = True
) -> list[SeededTest]:
    """Tests mean(values - reference) = 0 for each pair; all [N, Q], rows of the same seeds, Q at least 2.

    `seed_matters`: False for a pair whose seeds all give the same training: N copies tell no more of new seeds than
    one. None: True for all.
    """
    matters = seed_matters or [True] * len(pairs)
    sampled = [pair for pair, of_pair in zip(pairs, matters, strict=True) if of_pair]
    sound = [~np.logical_or(*(rare_collapses(each.mean(axis=1)) for each in pair)) for pair in sampled]
    crossed = iter(guarded_tests(sampled, sound, paired) if sampled else [])
    return [_seeded(*pair, next(crossed) if of_pair else None) for pair, of_pair in zip(pairs, matters, strict=True)]


def _seeded(values: np.ndarray, reference: np.ndarray, crossed: CrossedTest | None) -> SeededTest:
    """`crossed`: None where the seed changes nothing."""
    over_queries = paired_t_test(values.mean(axis=0), reference.mean(axis=0))
    equal = math.isinf(over_queries.t)
    p_value = _random_signs_p(values.shape[1]) if equal else over_queries.p
    if crossed is None:
        variance = float((values - reference).mean(axis=0).var(ddof=1))
        alone = CrossedTest(over_queries.p, over_queries.ci95, Components(0.0, variance, 0.0))
        crossed = UNKNOWN if equal else alone
    return SeededTest(over_queries.difference, p_value, crossed)


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
