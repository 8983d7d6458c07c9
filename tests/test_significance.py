"""The paired t-test against SciPy's, the corrections against their definitions."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.stats
from hypothesis import assume, given
from hypothesis import strategies as st

from trainables.evaluation.crossed import crossed_tests, new_seeds_tests, these_seeds_test
from trainables.evaluation.significance import bootstrap_ci, holm, paired_t_test

P_VALUES = st.lists(st.one_of(st.floats(0, 1), st.sampled_from([0.0, 0.01, 0.05, 1.0])), min_size=1, max_size=12)
VALUES = st.integers(0, 20).map(lambda i: i / 20)


@given(st.lists(st.tuples(VALUES, VALUES), min_size=2, max_size=30))
def test_t_test_equals_scipy(pairs: list[tuple[float, float]]) -> None:
    values, reference = np.array(pairs).T
    assume(np.ptp(values - reference) > 1e-9)
    ours, theirs = paired_t_test(values, reference), scipy.stats.ttest_rel(values, reference)
    interval = theirs.confidence_interval(0.95)
    assert ours.t == pytest.approx(theirs.statistic)
    assert ours.p == pytest.approx(theirs.pvalue)
    assert ours.ci95 == pytest.approx((interval.low, interval.high))
    assert ours.difference == pytest.approx(values.mean() - reference.mean(), abs=1e-12)


def test_t_test_known_answer() -> None:
    """Differences 1, 2, 3: mean 2, standard error 1/sqrt(3); for two degrees of freedom p has a closed form."""
    test = paired_t_test(np.array([1.0, 2, 3]), np.zeros(3))
    assert test.t == pytest.approx(2 * math.sqrt(3))
    assert test.p == pytest.approx(1 - test.t / math.sqrt(2 + test.t**2))
    assert test.ci95 == pytest.approx((2 - 4.302653 / math.sqrt(3), 2 + 4.302653 / math.sqrt(3)))


def test_equal_series_show_no_difference() -> None:
    test = paired_t_test(np.array([0.1, 0.7, 0.3]), np.array([0.1, 0.7, 0.3]))
    assert (test.difference, test.t, test.p, test.ci95) == (0, 0, 1, (0, 0))


def test_rounding_is_no_difference() -> None:
    """The same values under other seeds: their means are added up in another order."""
    values = np.random.default_rng(0).random((3, 200)).round(3)
    found = these_seeds_test(values, values[[1, 2, 0]])
    assert (found.difference, found.p) == (0, 1)
    assert paired_t_test(np.array([0.1 + 0.2, 0.4, 0.7]), np.array([0.2, 0.3, 0.6])).t == math.inf


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize(("count", "p"), [(2, 0.5), (3, 0.25), (5, 0.0625), (6, 0.03125), (11, 2**-10)])
def test_one_and_the_same_difference_proves_no_more_than_random_signs(sign: int, count: int, p: float) -> None:
    """All signs alike by chance, up or down: 2 of 2^n cases. Where that is no proof, the interval excludes nothing. The
    t-test itself is what it is in every program."""
    by, zeros = np.full(count, 0.5 * sign), np.zeros(count)
    test = paired_t_test(by, zeros)
    assert (test.t, test.p, test.ci95) == (sign * math.inf, 0, (0.5 * sign, 0.5 * sign))
    assert bootstrap_ci(by) == ((0.5 * sign, 0.5 * sign) if p < 0.05 else (-1, 1))
    both = np.tile(by, (3, 1)), np.tile(zeros, (3, 1))
    assert these_seeds_test(*both).p == p and math.isnan(new_seeds_tests([both])[0].p)


@given(st.lists(st.integers(1, 50), min_size=2, max_size=5), st.integers(3, 60))
def test_rounding_is_no_variance_over_both(parts: list[int], over: int) -> None:
    """Rows and columns of a latin square have the same sum, here 0; in floating point roughly."""
    row = np.array([*parts, -sum(parts)]) / over
    square = np.stack([np.roll(row, place) for place in range(len(row))])
    assert new_seeds_tests([(square, np.zeros_like(square))])[0].p == 1


@pytest.mark.parametrize(("first", "second"), [([1.0], [1.0]), ([1.0, 2], [1.0]), ([], [])])
def test_unpaired_or_too_short_series_are_refused(first: list[float], second: list[float]) -> None:
    with pytest.raises(ValueError, match="equally long"):
        paired_t_test(np.array(first), np.array(second))


def naive_holm(p: list[float]) -> list[float]:
    """max over all smaller-or-equal p of p_(j) * (m - j), by rank j from 0."""
    ordered = sorted(p)
    steps = [(value, value * (len(p) - j)) for j, value in enumerate(ordered)]
    return [min(1.0, max(step for other, step in steps if other <= value)) for value in p]


@given(P_VALUES)
def test_holm_equals_its_definition_and_is_never_weaker_than_bonferroni(p: list[float]) -> None:
    adjusted = holm(np.array(p))
    assert adjusted == pytest.approx(naive_holm(p))
    assert np.all(adjusted >= p) and np.all(adjusted <= np.minimum(1.0, np.array(p) * len(p)) + 1e-15)


def test_holm_known_answer() -> None:
    assert holm(np.array([0.01, 0.04, 0.03, 0.005])) == pytest.approx([0.03, 0.06, 0.06, 0.02])


def test_variances_of_a_difference_are_those_of_its_layout() -> None:
    """Two seeds ±.3 and two queries ±.2 around .5, with a residual of ±.1: mean squares .36, .16 and .04."""
    signs = np.array([1.0, -1.0])
    differences = 0.5 + 0.3 * signs[:, None] + 0.2 * signs + 0.1 * np.outer(signs, signs)
    [test] = crossed_tests([(differences, np.zeros((2, 2)))])
    found = test.components
    assert (found.of_seed, found.of_query, found.residual) == pytest.approx((0.16, 0.06, 0.04))
