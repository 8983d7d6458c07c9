"""The test of two configurations over seeds and queries: both are samples, which cross.

Crossed random effects (Clark 1973): the squared error of the mean difference is that over queries plus that over seeds
minus the residual's, which both contain. A handful of seeds tells little of their variance, so configurations lend each
other theirs. docs/dev/verdict-simulations.md has the tests that this one was chosen from.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import digamma, polygamma, stdtr, stdtrit

from trainables.evaluation.collapses import collapsed, rare_collapses
from trainables.evaluation.significance import LEVEL, PairedTest, paired_t_test, random_signs_p, standard_error

Numbers = Any  # a float, or an array of them
TINY = 1e-12  # in place of a mean square of 0
FEW = 2  # seeds, which have the degrees of freedom of their variance alone: those that lie close would get too many
CAUTION = 3.0  # exponent: how fast others' variances lose their say on seeds that vary more than theirs
ALIKE = 1e6  # prior degrees of freedom of variances that do not differ
Pair = tuple[np.ndarray, np.ndarray]  # values and reference, both [N seeds, Q queries]


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


@dataclass(frozen=True)
class Spread:
    """Variance of the difference of two trainings' means over the queries, from one seed to the next; degrees of
    freedom of its estimate, and those that others have lent to it."""

    variance: float
    freedom: float
    lent: float = 0.0


def these_seeds_test(values: np.ndarray, reference: np.ndarray) -> PairedTest:
    """Paired t-test over queries on the query means over seeds, both [N, Q], Q at least 2: applies to these very seeds
    on new queries. Where all differences are equal, p is that of random signs."""
    test = paired_t_test(values.mean(axis=0), reference.mean(axis=0))
    return replace(test, p=random_signs_p(values.shape[1])) if math.isinf(test.t) else test


def new_seeds_tests(
    pairs: Sequence[Pair], seed_matters: Sequence[bool] | None = None, paired: bool = True
) -> list[CrossedTest]:
    """Tests mean(values - reference) = 0 for each pair, for new seeds on new queries, with and without rare collapses;
    all [N, Q], rows of the same seeds, Q at least 2.

    `seed_matters`: False for a pair whose seeds all give the same training, which is tested over queries alone: N
    copies tell no more of new seeds than one. None: True for all.
    """
    matters = seed_matters or [True] * len(pairs)
    sampled = [pair for pair, of_pair in zip(pairs, matters, strict=True) if of_pair]
    crossed = iter(guarded_tests(sampled, paired) if sampled else [])
    return [next(crossed) if of_pair else _over_queries(*pair) for pair, of_pair in zip(pairs, matters, strict=True)]


def _over_queries(values: np.ndarray, reference: np.ndarray) -> CrossedTest:
    test = these_seeds_test(values, reference)
    if math.isinf(test.t):
        return UNKNOWN
    variance = float((values - reference).mean(axis=0).var(ddof=1))
    return CrossedTest(test.p, test.ci95, Components(0.0, variance, 0.0))


# -- trainings that collapse ---------------------------------------------------------------------------------------


def guarded_tests(pairs: Sequence[Pair], paired: bool) -> list[CrossedTest]:
    """`crossed_tests` where trainings collapse.

    One training that falls out of the row is not a sample to learn a variance from, and says little of how often it
    happens: a difference is shown only if it shows with and without the seeds of rare collapses. With fewer than two
    other seeds nothing is known. Of a configuration that often fails, its mean counts: otherwise the power to show that
    it does would fall as seeds are added, for the more there are, the surer it is that some collapse.
    """
    tests = crossed_tests(pairs, paired)
    for place, (values, reference) in enumerate(pairs):
        sound = ~(rare_collapses(values.mean(axis=1)) | rare_collapses(reference.mean(axis=1)))
        if not sound.all():
            tests[place] = _guarded(tests[place], pairs, place, sound, paired)
    return tests


def _guarded(every: CrossedTest, pairs: Sequence[Pair], place: int, sound: np.ndarray, paired: bool) -> CrossedTest:
    """p is the largest of all seeds, of the sound ones, and of the interval around all that holds that of the sound
    ones; 1 where the two differ in sign."""
    kept = [(values[sound], reference[sound]) for values, reference in pairs]
    without = crossed_tests(kept, paired)[place] if sound.sum() > 1 else UNKNOWN
    if math.isnan(every.p) or math.isnan(without.p) or not without.error:
        return UNKNOWN
    mean, sound_mean = (
        round(float((values - reference).mean()), 12) for values, reference in (pairs[place], kept[place])
    )
    wider = without.error + abs(mean - sound_mean) / float(stdtrit(without.freedom, (1 + LEVEL) / 2))
    of_all, of_both = p_of(mean, every.error, every.freedom), p_of(mean, wider, without.freedom)
    of_sound = 1.0 if mean * sound_mean < 0 else p_of(sound_mean, without.error, without.freedom)
    if of_both > of_all:
        every = replace(every, error=wider, freedom=without.freedom)
    return _student(mean, max(of_all, of_sound, of_both), every)


# -- the test ------------------------------------------------------------------------------------------------------


def crossed_tests(pairs: Sequence[Pair], paired: bool = True) -> list[CrossedTest]:
    """Tests mean(values - reference) = 0 for each of several pairs.

    paired: whether equal seeds make pairs, as where all trainings start from the same pretrained weights, which a seed
    moves alike in both arms. Where it draws the initial weights, the arms are two samples: pairs would halve the
    degrees of freedom and cancel next to nothing.
    """
    if len(pairs[0][0]) < 2:
        return [UNKNOWN] * len(pairs)
    spreads = _paired_spreads(pairs) if paired else _unpaired_spreads(pairs)
    return [_crossed(*pair, spread, paired) for pair, spread in zip(pairs, spreads, strict=True)]


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
    return _student(mean, p_of(mean, error, freedom), test)


def mean_squares(differences: np.ndarray) -> tuple[float, float, float]:
    """Mean squares of seeds, queries and residual of d [N, Q]; what is 0 but for rounding is 0."""
    seeds, queries = differences.shape
    of_query, of_seed, mean = (
        np.round(each, 12) for each in (differences.mean(axis=0), differences.mean(axis=1), differences.mean())
    )  # as in `paired_t_test`
    rest = differences - of_query - of_seed[:, None] + mean
    residual = float((rest**2).sum()) / ((seeds - 1) * (queries - 1))
    return seeds * queries * standard_error(of_seed) ** 2, seeds * queries * standard_error(of_query) ** 2, residual


def error_and_freedom(
    squares: tuple[Numbers, Numbers, Numbers], seed_freedom: Numbers, seeds: int, queries: int
) -> tuple[Numbers, Numbers]:
    """Standard error of the mean difference and its degrees of freedom, from mean squares of seeds, queries and
    residual.

    The degrees of freedom are those of the seeds' mean square times the ratio of the whole to it. Satterthwaite's
    (1946) would be times its square: too many for few seeds that happen to lie close together, as even the ratio is for
    FEW or less.
    """
    whole = _whole(*squares)
    ratio = whole / np.maximum(squares[0], TINY) if seeds > FEW else 1.0
    return np.sqrt(whole / (seeds * queries)), np.minimum(seed_freedom * ratio, queries - 1)


def _whole(of_seed: Numbers, of_query: Numbers, residual: Numbers) -> Numbers:
    """N Q times the squared error of the mean, from mean squares."""
    return np.maximum(np.maximum(of_seed, of_query), of_seed + of_query - residual)


def p_of(difference: float, error: float, freedom: float) -> float:
    """Student's two-sided p."""
    return float(2 * stdtr(freedom, -abs(difference / error)))


def _student(mean: float, p: float, test: CrossedTest) -> CrossedTest:
    """With this p, and the interval of its error and degrees of freedom."""
    half = float(stdtrit(test.freedom, (1 + LEVEL) / 2)) * test.error
    return replace(test, p=p, ci95=(mean - half, mean + half))


# -- how much seeds vary -------------------------------------------------------------------------------------------


def _paired_spreads(pairs: Sequence[Pair]) -> list[Spread]:
    """Of the differences at equal seed. Those from the same reference lend each other their variance (`moderated`);
    those of one configuration from several references do not, for these are unlike: its own settings without the
    curriculum vary much less beside it than another champion."""
    spreads: dict[int, Spread] = {}
    references = [reference.tobytes() for _, reference in pairs]
    for one in dict.fromkeys(references):
        places = [place for place, reference in enumerate(references) if reference == one]
        of_seeds = np.array([(pairs[place][0] - pairs[place][1]).mean(axis=1) for place in places])
        spreads |= dict(zip(places, moderated(of_seeds), strict=True))
    return [spreads[place] for place in range(len(pairs))]


def moderated(of_seeds: np.ndarray) -> list[Spread]:
    """Variances of K differences [K, N seeds] from one reference, shrunk towards their mean as far as they agree
    (Smyth 2004).

    All share the reference, so the mean of K variances has (N - 1) / (mean squared correlation) degrees of freedom, not
    K (N - 1); shrinking adds at most that many. Variances that differ by more than chance explains keep to themselves.
    """
    few = of_seeds.shape[1] - 1.0
    variances = np.array([standard_error(each) ** 2 * len(each) for each in np.round(of_seeds, 12)])
    if len(variances) == 1:
        return [Spread(float(variances[0]), few)]
    deviations = of_seeds - of_seeds.mean(axis=1, keepdims=True)
    covariance = deviations @ deviations.T
    own = np.maximum(np.diagonal(covariance), TINY)
    squared = covariance**2 / (own[:, None] * own)
    pooled = few / max(squared.mean(), 1 / len(variances))
    excess = np.log(np.maximum(variances, TINY)).var(ddof=1) - polygamma(1, few / 2)
    prior = min(2 / max(excess, TINY), max(pooled - few, 0.0))  # trigamma(x) is roughly 1 / x
    shrunk = (prior * variances.mean() + few * variances) / (prior + few)
    return [Spread(float(variance), float(prior + few)) for variance in shrunk]


def _unpaired_spreads(pairs: Sequence[Pair]) -> list[Spread]:
    """Of the two arms as two samples (Welch 1947); the arms of the other pairs lend them theirs."""
    arms = {values.tobytes(): np.round(values.mean(axis=1), 12) for pair in pairs for values in pair}
    spreads = []
    for pair in pairs:
        own = {values.tobytes() for values in pair}
        variances = np.array([standard_error(arms[key.tobytes()]) ** 2 * len(key) for key in pair])
        others = [means for key, means in arms.items() if key not in own]
        spreads.append(lent(welch(variances, len(pair[0]) - 1.0), variances, others))
    return spreads


def welch(variances: np.ndarray, freedom: float) -> Spread:
    """The sum of two variances [2] of `freedom` degrees of freedom each (Welch 1938)."""
    whole = float(variances.sum())
    return Spread(whole, freedom * whole**2 / max(float((variances**2).sum()), TINY**2))


def lent(spread: Spread, own: np.ndarray, others: Sequence[np.ndarray]) -> Spread:
    """A spread with the help of what the seeds of other configurations show.

    own [2]: variances of the two arms; others: means over the queries of each other configuration's seeds. Trainings
    that collapsed do not count; one seed says nothing, and equal means are not a variance. The more alike
    configurations are and the more is known of the others, the more degrees of freedom these lend. A variance is
    shrunk towards theirs where it is smaller, never where it is larger: seeds that vary more than others' are not made
    to look like them, and these lend less the larger it is.
    """
    sound = [means[~collapsed(means)] for means in others]
    sound = [means for means in sound if len(means) > 1 and np.ptp(means)]
    if not sound or not own.any():
        return spread
    few = np.full(2, len(others[0]) - 1.0)
    variances, freedoms = (
        np.array([means.var(ddof=1) for means in sound]),
        np.array([len(means) - 1.0 for means in sound]),
    )
    alike = prior_freedom(np.append(own, variances), np.append(few, freedoms))
    whole = freedoms.sum()
    theirs = 2 * float((variances * freedoms).sum() / whole)
    lendable = 1 / (1 / (2 * alike) + 1 / whole)
    ratio = spread.variance / max(theirs, TINY**2)
    freedom = float(lendable * min(1.0, max(ratio, TINY) ** -CAUTION))
    if ratio >= 1:
        return replace(spread, lent=freedom)
    shrunk = (freedom * theirs + spread.freedom * spread.variance) / (freedom + spread.freedom)
    return Spread(float(shrunk), spread.freedom, freedom)


def prior_freedom(variances: np.ndarray, freedoms: np.ndarray) -> float:
    """How alike true variances are, from estimates [E] with `freedoms` [E]: the degrees of freedom of the scaled
    inverse chi-squared distribution that they come from (Smyth 2004, by the moments of their logarithms)."""
    logs = np.log(np.maximum(variances, TINY**2)) - digamma(freedoms / 2) + np.log(freedoms / 2)
    excess = float(logs.var(ddof=1) - polygamma(1, freedoms / 2).mean())
    return 2 * _inverse_trigamma(excess) if excess > 2 / ALIKE else ALIKE


def _inverse_trigamma(value: float) -> float:
    """By Newton's steps, which rise to it from 1/2 + 1/value (Smyth 2004, appendix)."""
    found = 0.5 + 1 / value
    for _ in range(10):
        now = polygamma(1, found)
        found = found + now * (1 - now / value) / polygamma(2, found)
    return float(found)
