"""The verdict's statistics: against SciPy and known answers, and in simulations without any true difference."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import scipy.special
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from trainables.core.randomness import generator
from trainables.evaluation.collapses import collapsed, untaught
from trainables.evaluation.crossed import crossed_tests, new_seeds_tests, prior_freedom, these_seeds_test
from trainables.evaluation.significance import bootstrap_ci, clustered


def series(seeds: int, queries: int, shift: float = 0.0, number: int = 0) -> np.ndarray:
    return shift + generator(number, "series").normal(0.5, 0.1, (seeds, queries))


def p_new(differences: np.ndarray) -> float:
    return new_seeds_tests([(differences, np.zeros_like(differences))])[0].p


def test_new_seeds_known_answer() -> None:
    """Differences a[seed] + b[query], a = -1, 0, 1, b = 1, 2, 3, 4: squared standard errors 1/3 and 5/12, mean 2.5; the
    seeds' two degrees of freedom times (3/4) / (1/3), but no more than the queries' three."""
    differences = np.array([[-1.0], [0.0], [1.0]]) + np.array([1.0, 2.0, 3.0, 4.0])
    assert p_new(differences) == pytest.approx(2 * scipy.stats.t.sf(2.5 / math.sqrt(3 / 4), 3))
    closer = np.array([[-1.0], [0.0], [1.0]]) + np.array([1.0, 2.0, 2.0, 2.0])
    whole = 1 / 3 + 1 / 16
    assert p_new(closer) == pytest.approx(2 * scipy.stats.t.sf(1.75 / math.sqrt(whole), 2 * whole * 3))


def test_new_seeds_count_what_is_in_both_errors_once() -> None:
    """Differences 3 ± 1 by seed ± 1 by query ± .5 by both together: squared errors 1 and 1 less .25, the residual mean
    square 1 over 4 values (Clark 1973). Two seeds have one degree of freedom, whatever the queries add."""
    differences = 3 + np.array([[-1.0], [1.0]]) + np.array([-1.0, 1.0]) + np.array([[0.5, -0.5], [-0.5, 0.5]])
    assert p_new(differences) == pytest.approx(2 * scipy.stats.t.sf(3 / math.sqrt(1 + 1 - 0.25), 1))
    wide = np.array([[-1.0], [1.0]]) + np.array([1.0, 2.0, 3.0])
    assert p_new(wide) == pytest.approx(2 * scipy.stats.t.sf(2 / math.sqrt(4 / 3), 1))


# Mean squares of seed, query and residual by statsmodels 0.15.0, anova_lm(ols("d ~ C(s) + C(q)")).
SPREAD = np.array([[0.10, 0.02, -0.04, 0.08], [0.09, 0.08, 0.03, 0.15], [0.09, 0.04, 0.10, 0.23]])
CLOSE = np.array([[0.03, 0.07, 0.01, -0.02], [0.09, 0.01, 0.06, 0.11], [-0.01, 0.02, 0.03, 0.05]])
OF_SPREAD, OF_CLOSE = (0.005758333333, 0.009163888889, 0.001913888889), (0.002700000000, 0.000119444444, 0.001911111111)


@pytest.mark.parametrize(("differences", "squares"), [(SPREAD, OF_SPREAD), (CLOSE, OF_CLOSE)])
def test_new_seeds_as_statsmodels_mean_squares_say(
    differences: np.ndarray, squares: tuple[float, float, float]
) -> None:
    of_seed, of_query, residual = squares
    whole = max(of_seed, of_query, of_seed + of_query - residual)
    freedom = min(2 * whole / of_seed, 3)
    expected = 2 * scipy.stats.t.sf(differences.mean() / math.sqrt(whole / 12), freedom)
    assert p_new(differences) == pytest.approx(expected, rel=1e-6)


def test_configurations_lend_each_other_the_variance_of_seeds() -> None:
    """Two that agree: the mean of both mean squares, with the freedom that their correlation leaves (Smyth 2004). SciPy
    and NumPy give correlation and variances."""
    zeros = np.zeros_like(SPREAD)
    tests = new_seeds_tests([(SPREAD, zeros), (CLOSE, zeros)])
    correlation = np.corrcoef(SPREAD.mean(axis=1), CLOSE.mean(axis=1))[0, 1]
    pooled = 2 / ((1 + correlation**2) / 2)
    excess = np.log([OF_SPREAD[0], OF_CLOSE[0]]).var(ddof=1) - scipy.special.polygamma(1, 1)
    assert excess < 0, "they differ less than chance explains"
    mean = (OF_SPREAD[0] + OF_CLOSE[0]) / 2
    for test, own, values in zip(tests, (OF_SPREAD, OF_CLOSE), (SPREAD, CLOSE), strict=True):
        of_seed = ((pooled - 2) * mean + 2 * own[0]) / pooled
        whole = max(of_seed, own[1], of_seed + own[1] - own[2])
        freedom = min(pooled * whole / of_seed, 3)
        expected = 2 * scipy.stats.t.sf(values.mean() / math.sqrt(whole / 12), freedom)
        assert test.p == pytest.approx(expected, rel=1e-6)


DIFFERENCES = st.integers(2, 5).flatmap(
    lambda seeds: st.integers(2, 6).flatmap(
        lambda queries: st.lists(
            st.lists(st.lists(st.integers(-9, 10), min_size=queries, max_size=queries), min_size=seeds, max_size=seeds),
            min_size=1,
            max_size=3,
        )
    )
)


@given(DIFFERENCES, st.randoms(use_true_random=False))
def test_p_new_and_its_interval(drawn: list[list[list[int]]], random: Any) -> None:
    """The interval excludes 0 exactly where p is below .05; p is at least that over queries, and the order of seeds and
    queries, and which of two is called the reference, changes nothing."""
    values = np.array(drawn) / 20
    zeros = np.zeros_like(values[0])
    tests = new_seeds_tests([(each, zeros) for each in values])
    tests += [new_seeds_tests([(each, zeros)])[0] for each in values]
    seeds, queries = (random.sample(range(size), size) for size in zeros.shape)
    drawn_again = [each[seeds][:, queries] for each in values]
    again = new_seeds_tests([(each, zeros) for each in drawn_again])
    again += [new_seeds_tests([(zeros, each)])[0] for each in drawn_again]
    for place, (test, other) in enumerate(zip(tests, again, strict=True)):
        if math.isnan(test.p):
            assert math.isnan(other.p)
            continue
        low, high = test.ci95
        turned = (-high, -low) if place >= len(values) else (low, high)
        assert other.p == pytest.approx(test.p) and other.ci95 == pytest.approx(turned, abs=1e-9)
        of_these = these_seeds_test(values[place % len(values)], zeros).p
        if of_these != 2.0 ** (1 - len(queries)):  # that of equal means of the queries
            assert test.p >= of_these * (1 - 1e-9)
        if abs(test.p - 0.05) > 1e-6:
            assert (low > 0 or high < 0) == (test.p < 0.05)


def test_one_seed_says_nothing_of_seeds_and_equal_values_nothing_at_all() -> None:
    values = series(1, 10)
    assert math.isnan(new_seeds_tests([(values, values[:, ::-1])])[0].p)
    assert new_seeds_tests([(series(2, 10), series(2, 10))])[0].p == these_seeds_test(values, values).p == 1


def spiked(queries: int, rng: np.random.Generator) -> np.ndarray:
    """Differences as of average precision: half of them 0, the rest with long tails about 0."""
    return np.where(rng.random(queries) < 0.5, 0, 0.2 * rng.standard_t(3, queries))


@pytest.mark.parametrize("queries", [20, 200])
def test_bootstrap_interval_is_the_symmetric_one_of_scipys_resamples(queries: int) -> None:
    rng = generator(queries, "spiked")
    differences = spiked(queries, rng)
    differences[0] = 3.0  # an outlier, which makes the interval wider than Student's
    mean, error = differences.mean(), scipy.stats.sem(differences)

    def t(values: np.ndarray, axis: int) -> np.ndarray:
        return np.abs(values.mean(axis=axis) - mean) / scipy.stats.sem(values, axis=axis)

    drawn = scipy.stats.bootstrap((differences,), t, method="percentile", n_resamples=10_000, rng=rng)
    assert np.quantile(drawn.bootstrap_distribution, 0.95) > 1.01 * scipy.stats.t.ppf(0.975, queries - 1)
    half = np.quantile(drawn.bootstrap_distribution, 0.95) * error
    assert bootstrap_ci(differences) == pytest.approx((mean - half, mean + half), abs=0.05 * half)


@pytest.mark.parametrize("queries", [20, 100])
def test_bootstrap_interval_leaves_the_true_mean_out_no_more_often_than_it_says(queries: int) -> None:
    rng = generator(0, "coverage")
    intervals = [bootstrap_ci(spiked(queries, rng) + 0.1, resamples=1000) for _ in range(400)]
    assert np.mean([low <= 0.1 <= high for low, high in intervals]) >= 0.95 - 3 * math.sqrt(0.05 * 0.95 / 400)


# -- seeds that are two samples, and what others show of theirs --------------------------------------------------------


def test_two_samples_of_seeds_as_welch_has_it() -> None:
    """Where queries are all alike but for the residual, Welch's test of the seeds' means, by SciPy: his degrees of
    freedom times what the error of the queries adds."""
    values, reference = series(5, 40, 0.3, number=3) + FIVE, series(5, 40, number=4) + 0.2 * FIVE
    [test] = crossed_tests([(values, reference)], paired=False)
    theirs: Any = scipy.stats.ttest_ind(values.mean(axis=1), reference.mean(axis=1), equal_var=False)
    assert test.seed_freedom * 4 == pytest.approx(float(theirs.df))
    error = abs(values.mean() - reference.mean()) / abs(float(theirs.statistic))
    assert error * (1 - 1e-9) <= test.error <= 1.05 * error and test.freedom >= float(theirs.df) * (1 - 1e-9)


FIVE = np.array([[0.2], [-0.1], [0.15], [-0.2], [0.0]])


def test_other_arms_lend_their_seeds_unless_these_vary_less() -> None:
    """The degrees of freedom are those of both; seeds that vary far more than others' keep their own, and get none."""
    own = [series(3, 400, number=number) + 0.02 * FIVE[:3] for number in (1, 2)]
    more = [series(3, 400, number=number) + 0.02 * FIVE[:3] for number in range(3, 11)]
    [alone], [helped, *_] = (
        crossed_tests([(own[0], one) for one in (own[1], *others)], paired=False) for others in ([], more)
    )
    assert helped.lent > 2 and helped.freedom > alone.freedom and alone.lent == 0
    noisy = own[0] + FIVE[:3]
    [kept], [cautious, *_] = (
        crossed_tests([(noisy, own[1]), *((more[0], one) for one in others)], paired=False) for others in ([], more[1:])
    )
    assert cautious.error == kept.error and cautious.lent < 0.01


@pytest.mark.parametrize("known", [3.0, 8.0, 40.0])
def test_prior_degrees_of_freedom_are_those_that_variances_were_drawn_with(known: float) -> None:
    """Smyth's estimate, from 20,000 variances with 4 degrees of freedom each."""
    rng = generator(int(known), "smyth")
    true = 2e-4 * known / rng.chisquare(known, 20_000)
    drawn = true * rng.chisquare(4, 20_000) / 4
    assert prior_freedom(drawn, np.full(20_000, 4.0)) == pytest.approx(known, rel=0.15)
    alike = prior_freedom(np.full(5, 1e-4), np.full(5, 4.0))
    assert alike > 1e5, "estimates that differ less than chance explains"


# -- trainings that collapse, and near-duplicate queries ---------------------------------------------------------------

FELL = [0.59, 0.60, 0.465, 0.61, 0.598, 0.468, 0.60, 0.605, 0.594, 0.601]  # seen for real: two of ten


def with_means(means: list[float], queries: int = 60, number: int = 0) -> np.ndarray:
    """Values [N, Q] whose means over the queries are exactly these."""
    drawn = generator(number, "fell").normal(0, 0.1, (len(means), queries))
    return np.array(means)[:, None] + drawn - drawn.mean(axis=1, keepdims=True)


@pytest.mark.parametrize(
    ("means", "fell"),
    [
        (FELL, [2, 5]),
        ([0.5, 0.51, 0.49, 0.35], [3]),
        ([0.5, 0.51, 0.49, 0.47], []),  # a tenth of the median or less
        ([0.3, 0.5, 0.7, 0.9, 0.1], []),  # far apart all the same
        ([0.5, 0.5, 0.5, 0.2], [3]),
        ([0.5, 0.2], []),  # which of two?
        ([0.5], []),
        ([0.5] * 6, []),
        ([0.5, 0.9, 0.5, 0.5, 0.51], []),  # nobody falls upwards
    ],
)
def test_collapsed_trainings_are_those_that_fall_out_of_the_row(means: list[float], fell: list[int]) -> None:
    assert np.flatnonzero(collapsed(np.array(means))).tolist() == fell


def test_ordinary_seeds_are_rarely_called_collapsed() -> None:
    drawn = generator(1, "ordinary").standard_normal((3000, 5))
    for sd, most in ((0.01, 0.002), (0.03, 0.05)):
        assert np.mean([collapsed(0.5 + sd * row).any() for row in drawn]) < most


def test_a_difference_shows_only_with_and_without_the_seeds_that_collapsed() -> None:
    """Two collapses of plain alone make the mean differ, those of the other arm hide a difference: neither is shown."""
    sound = [0.6 if value < 0.5 else value for value in FELL]
    other = with_means([value + 0.001 for value in sound], number=2)
    plain = with_means(FELL, number=1)
    [found] = new_seeds_tests([(other, plain)])
    keep = ~collapsed(np.array(FELL))
    both = (*crossed_tests([(other, plain)]), *crossed_tests([(other[keep], plain[keep])]))
    assert found.p >= max(each.p for each in both) and found.ci95[0] < 0 < found.ci95[1]
    assert these_seeds_test(other, plain).difference == pytest.approx(0.0277)
    [clear] = new_seeds_tests([(other + 0.3, plain)])
    assert clear.p < 0.001 and clear.ci95[0] > 0
    low, high = clear.ci95
    half = (high - low) / 2
    assert half == pytest.approx(scipy.stats.t.ppf(0.975, clear.freedom) * clear.error)


def with_falls(arm: int, seeds: int, rate: float, number: int, lead: float = 0.0) -> list[np.ndarray]:
    """Two arms, of which one falls by .2 in `rate` of its trainings, and has a `lead` when it does not."""
    rng = generator(number, f"falls {seeds}")
    pair = [0.6 + rng.normal(0, 0.01, (seeds, 1)) + rng.normal(0, 0.16, (seeds, 150)) for _ in range(2)]
    pair[arm] += lead - 0.2 * (rng.random((seeds, 1)) < rate)
    return pair


def shown(pairs: list[list[np.ndarray]]) -> float:
    """The fraction of pairs that differ significantly."""
    return float(np.mean([new_seeds_tests([(one, other)])[0].p <= 0.05 for one, other in pairs]))


def test_more_seeds_make_a_training_that_never_fails_significantly_better_than_one_that_often_does() -> None:
    """It is .07 better on average. With and without the seeds that collapsed, .23 at 10 seeds, .09 at 20, .01 at 40:
    the more seeds, the surer that some collapsed."""
    power = [shown([with_falls(1, seeds, 0.35, number) for number in range(200)]) for seeds in (10, 20, 40)]
    assert 0.3 < power[0] < 0.55 and 0.82 < power[1] < 0.97 and power[2] > 0.98


def test_arms_with_equal_means_of_which_one_often_fails_err_as_without_a_guard() -> None:
    """Few seeds miss the failures of the arm that is better without them: .15 of 10 seeds err."""
    for seeds, most in ((10, 0.21), (20, 0.12), (40, 0.12)):
        drawn = [with_falls(1, seeds, 0.17, number, lead=0.17 * 0.2) for number in range(200)]
        unguarded = float(np.mean([crossed_tests([(one, other)])[0].p <= 0.05 for one, other in drawn]))
        assert unguarded - 0.03 <= shown(drawn) <= unguarded < most


def test_untaught_trainings_are_below_the_untrained_ranker_or_far_below_all_other_trials() -> None:
    trials = np.array([0.44, 0.45, 0.46, 0.43, 0.45])
    assert untaught(np.array([0.44, 0.30, 0.41]), trials).tolist() == [False, True, False]
    drawn = 0.5 + 0.03 * generator(3, "ordinary").standard_normal((2000, 11))
    assert np.mean([untaught(row[:5], row[5:]).any() for row in drawn]) < 0.02


@given(st.lists(st.integers(0, 5), min_size=3, max_size=40), st.integers(0, 100))
def test_clusters_keep_the_mean_of_each_seed(clusters: list[int], number: int) -> None:
    values = series(3, len(clusters), number=number)
    found = clustered(values, clusters)
    assert found.shape == (3, len(set(clusters)))
    assert found.mean(axis=1) == pytest.approx(values.mean(axis=1))


def test_copies_of_queries_prove_no_more_than_the_queries() -> None:
    values = series(4, 30, number=3)
    copies, clusters = np.repeat(values, 5, axis=1), np.repeat(np.arange(30), 5)
    assert p_new(clustered(copies - 0.51, clusters)) == pytest.approx(p_new(values - 0.51))
    assert p_new(copies - 0.51) < p_new(values - 0.51)
