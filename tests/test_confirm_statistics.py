"""The verdict's statistics: against SciPy and known answers, and in simulations without any true difference."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.stats

from benchmarks.power import Noise, draw, estimate, rates
from trainables.core.randomness import generator
from trainables.evaluation.significance import SeededTest, bootstrap_ci, paired_t_test, seeded_test
from tune_cl.confirmation.document import LEAST, chances, survivors
from tune_cl.confirmation.verdict import Corrected, best_on_dev, higher, judge, leader, verdict_of

REPETITIONS = 1000
MOST = 0.05 + 3 * math.sqrt(0.05 * 0.95 / REPETITIONS)  # three standard errors of the count above the level


def series(seeds: int, queries: int, shift: float = 0.0, number: int = 0) -> np.ndarray:
    return shift + generator(number, "series").normal(0.5, 0.1, (seeds, queries))


def test_seeded_test_is_the_paired_tests_it_names() -> None:
    values, reference = series(4, 30, number=1), series(4, 30, number=2)
    test = seeded_test(values, reference)
    assert test.difference == pytest.approx((values - reference).mean())
    assert test.p_value == paired_t_test(values.mean(axis=0), reference.mean(axis=0)).p
    assert test.p_per_seed == pytest.approx(scipy.stats.ttest_rel(values, reference, axis=1).pvalue)


def test_over_both_known_answer() -> None:
    """Differences a[seed] + b[query], a = ±1, b = 1, 2, 3: squared standard errors 1 and 1/3, mean 2."""
    differences = np.array([[-1.0], [1.0]]) + np.array([1.0, 2.0, 3.0])
    expected = 2 * scipy.stats.t.sf(2 / math.sqrt(4 / 3), 1)
    assert seeded_test(differences, np.zeros((2, 3))).p_both == pytest.approx(expected)


def test_over_both_counts_what_is_in_both_errors_once() -> None:
    """Differences 3 ± 1 by seed ± 1 by query ± .5 by both together: squared errors 1 and 1 less .25, the residual mean
    square 1 over 4 values (Clark 1973)."""
    differences = 3 + np.array([[-1.0], [1.0]]) + np.array([-1.0, 1.0]) + np.array([[0.5, -0.5], [-0.5, 0.5]])
    expected = 2 * scipy.stats.t.sf(3 / math.sqrt(1 + 1 - 0.25), 1)
    assert seeded_test(differences, np.zeros((2, 2))).p_both == pytest.approx(expected)


def test_over_both_has_the_freedom_of_the_fewer() -> None:
    """Four seeds and two queries: one degree of freedom."""
    of_seeds = np.array([-1.0, 0.0, 1.0, 0.5])
    differences = of_seeds[:, None] + np.array([1.0, 2.0])
    expected = 2 * scipy.stats.t.sf(1.625 / math.sqrt(0.25 + of_seeds.var(ddof=1) / 4), 1)
    assert seeded_test(differences, np.zeros((4, 2))).p_both == pytest.approx(expected)


def test_over_both_is_never_surer_than_the_test_over_seeds() -> None:
    """Query means do not vary, residuals do: the sum of both errors less the residual is below that of seeds."""
    wave = np.array([0.3, -0.3, 0.1, -0.1])
    differences = np.array([0.1 + wave, 0.3 - wave])
    expected = 2 * scipy.stats.t.sf(0.2 / math.sqrt(0.02 / 2), 1)
    assert seeded_test(differences, np.zeros((2, 4))).p_both == pytest.approx(expected)


def test_over_both_is_never_surer_than_the_test_over_queries() -> None:
    for number in range(50):
        test = seeded_test(series(3, 20, 0.02, number), series(3, 20, 0.0, 1000 + number))
        assert test.p_both >= test.p_value


def test_one_seed_says_nothing_of_seeds_and_equal_values_nothing_at_all() -> None:
    values = series(1, 10)
    assert math.isnan(seeded_test(values, values[:, ::-1]).p_both)
    same = seeded_test(series(2, 10), series(2, 10))
    assert (same.p_value, same.p_both, same.difference) == (1, 1, 0)


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


@pytest.mark.parametrize("queries", [2, 3, 10, 43])
def test_bootstrap_interval_never_shows_what_the_test_does_not(queries: int) -> None:
    rng = generator(queries, "small")
    for differences in [*rng.standard_normal((50, queries)), *(spiked(queries, rng) for _ in range(50))]:
        test, interval = paired_t_test(differences, np.zeros(queries)), bootstrap_ci(differences, resamples=200)
        assert interval[0] <= test.ci95[0] + 1e-12 and interval[1] >= test.ci95[1] - 1e-12


@pytest.mark.parametrize("queries", [2, 3, 5])
def test_bootstrap_interval_of_few_queries_is_finite(queries: int) -> None:
    """Many resamples hold a single query, repeated; their spread, which the interval divides by, is 0."""
    assert np.isfinite(bootstrap_ci(np.arange(queries) + 0.5)).all()


def test_bootstrap_interval_is_the_same_again_and_has_no_width_for_equal_differences() -> None:
    differences = series(1, 50)[0]
    assert bootstrap_ci(differences) == bootstrap_ci(differences)
    assert bootstrap_ci(np.full(7, 0.25)) == (0.25, 0.25)
    for count in (6, 7, 10):  # their mean is not exactly .1
        low, high = bootstrap_ci(np.full(count, 0.1))
        assert low == high == pytest.approx(0.1)


@pytest.mark.parametrize("queries", [20, 100])
def test_bootstrap_interval_leaves_the_true_mean_out_no_more_often_than_it_says(queries: int) -> None:
    rng = generator(0, "coverage")
    intervals = [bootstrap_ci(spiked(queries, rng) + 0.1, resamples=1000) for _ in range(400)]
    assert np.mean([low <= 0.1 <= high for low, high in intervals]) >= 0.95 - 3 * math.sqrt(0.05 * 0.95 / 400)


@pytest.mark.parametrize(
    ("shifts", "verdict", "marks"),
    [
        ((0.0, 0.2), "better", ["", "‡"]),
        ((-0.2, 0.2), "better", ["", "‡"]),
        ((-0.2, 0.0), "worse", ["", ""]),
        ((0.0, -0.2), "no difference shown", ["", ""]),  # the worse one is not the one that the search recommends
        ((0.0, 0.0), "no difference shown", ["", ""]),
    ],
)
def test_verdict_rule(shifts: tuple[float, float], verdict: str, marks: list[str]) -> None:
    baseline = series(3, 40)
    others = [series(3, 40, shift, number) for number, shift in enumerate(shifts, 1)]
    judged = judge([(values, baseline) for values in others], "holm")
    assert (verdict_of(judged, judged[0]), [one.marks for one in judged]) == (verdict, marks)


@pytest.mark.parametrize(("p", "mark"), [(0.01, "‡"), (0.0101, "†"), (0.05, "†"), (0.0501, "")])
def test_marks_and_worse_begin_at_95_percent(p: float, mark: str) -> None:
    """p of at most .05 and .01; only values above the baseline are marked (Penha & Hauff 2020, Table 5)."""
    above, level, below = (Corrected(SeededTest(by, (p,), p, p), p, p) for by in (0.01, 0.0, -0.01))
    assert [one.marks for one in (above, level, below)] == [mark, "", ""]
    assert [one.worse for one in (above, level, below)] == [False, False, bool(mark)]


def test_p_over_both_is_corrected_as_well_and_is_none_with_one_seed() -> None:
    wave = np.tile([1.0, -1.0], 50)
    values = [np.array([0.3, 0.32])[:, None] + wave, *(np.array([0.1, -0.1])[:, None] + wave for _ in range(2))]
    first, *_ = judge([(one, np.zeros((2, 100))) for one in values], "bonferroni")
    assert first.p_both_adjusted == pytest.approx(3 * first.test.p_both) and 0 < first.test.p_both < 1 / 3
    [alone] = judge([(values[0], np.zeros((2, 100)))], "bonferroni")
    assert alone.p_both_adjusted == first.test.p_both
    of_one_seed = judge([(one[:1], np.zeros((1, 100))) for one in values], "bonferroni")
    assert all(math.isnan(one.p_both_adjusted) for one in of_one_seed)


def test_the_verdict_is_about_the_largest_marked_difference_or_the_first() -> None:
    rows = [{"marks": mark, "difference": by} for mark, by in (("", 0.05), ("†", 0.02), ("‡", 0.03), ("", 0.05))]
    document = {"configurations": rows}
    assert leader(document) is rows[2] and higher(document) is rows[0]
    unmarked = {"configurations": [rows[0], rows[3]]}
    assert leader(unmarked) is rows[0] and higher(unmarked) is None, "none is higher than one that is level"
    assert best_on_dev(document) == "the best on dev"
    for others in ("failed", "dropped"):
        assert best_on_dev(document | {others: [{}]}) == "the best on dev of those tested"


def test_marks_follow_the_corrected_value() -> None:
    """p near .03: a dagger if tested alone, none beside two other configurations."""
    wave = np.tile([1.0, -1.0], 50)
    baseline, value = np.zeros((2, 100)), np.tile(0.22 + wave, (2, 1))
    [alone] = judge([(value, baseline)], "holm")
    assert alone.marks == "†" and 0.02 < alone.p_adjusted < 0.04
    among = judge([(values, baseline) for values in (value, np.tile(wave, (2, 1)), np.tile(wave, (2, 1)))], "holm")
    assert among[0].marks == "" and among[0].p_adjusted == pytest.approx(3 * alone.p_adjusted)


@pytest.mark.parametrize("seeds", [1, 3])
def test_without_a_true_difference_the_error_rate_stays_at_the_level_stated(seeds: int) -> None:
    """Query noise, and residual noise drawn anew by every seed; three configurations against a baseline, after Holm."""
    found = rates(Noise(0.06, 0.0, 0.12), seeds, 200, configurations=3, repetitions=REPETITIONS)
    assert found["any"] <= MOST
    assert found["better"] <= MOST and found["worse"] <= MOST
    assert found["uncorrected"] > MOST, "three tests without correction err more often: the simulation can fail"


def test_where_seeds_move_all_queries_only_the_test_over_both_keeps_the_level() -> None:
    """The limit that docs/verdict.md states: p_value speaks of these seeds, p_both of new ones."""
    found = rates(Noise(0.02, 0.02, 0.05), 3, 1000, configurations=3, repetitions=REPETITIONS)
    assert found["any"] > 3 * 0.05
    assert found["any_both"] <= MOST


def test_power_grows_with_queries_and_seeds_and_the_difference_is_found() -> None:
    noise = Noise(0.06, 0.0, 0.12)
    few, more_seeds, more_queries = (
        rates(noise, seeds, queries, 3, 100, difference=0.02)["found"]
        for seeds, queries in ((1, 150), (5, 150), (1, 1500))
    )
    assert few < more_seeds and few < more_queries and more_queries > 0.9


def test_noise_is_estimated_from_values_that_have_it() -> None:
    noise = Noise(0.05, 0.03, 0.1)
    baseline, values = draw(noise, (2, 60, 2000), generator(0, "estimate"))
    assert vars(estimate(values, baseline)) == pytest.approx(vars(noise), rel=0.2)


def race(dev: np.ndarray) -> tuple[int, int]:
    """Winner and number of trainings (the baseline's included) of a race over dev values [1 + C, seeds]."""
    running = np.arange(1, len(dev))
    trainings = 0
    for seen in range(1, dev.shape[1] + 1):
        trainings += 1 + len(running)
        running = running[survivors(dev[np.r_[0, running], :seen], dev.shape[1])]
    return int(running[0]), trainings


def test_a_race_ends_with_the_winner_of_the_full_design_and_saves_trainings() -> None:
    """Five configurations, ten seeds; a configuration is on average 1 SD of the seeds away from the next."""
    same, trainings, repetitions = 0, 0, 400
    for repetition in range(repetitions):
        rng = generator(repetition, "race")
        dev = rng.normal(0, 0.01, (6, 1)) + rng.normal(0, 0.01, 10) + rng.normal(0, 0.01, (6, 10))
        winner, cost = race(dev)
        same += winner == 1 + dev[1:].mean(axis=1).argmax()
        trainings += cost
    assert same / repetitions > 0.9
    assert trainings / repetitions < 0.75 * 60


def test_the_chance_to_win_is_as_often_true_as_it_says() -> None:
    """Of those given a chance of 20 to 40 %, or below LEAST, after 3 of 6 seeds, as many end above the leader."""
    given, true = [], []
    for repetition in range(2000):
        rng = generator(repetition, "chances")
        dev = rng.normal(0, 0.01, (4, 1)) + rng.normal(0.5, 0.01, (4, 6))
        given.append(chances(dev[:, :3], 6))
        means = dev[1:].mean(axis=1)
        true.append(means > means[dev[1:, :3].mean(axis=1).argmax()])
    chance, above = np.concatenate(given), np.concatenate(true)
    for within in ((chance > 0.2) & (chance < 0.4), chance < LEAST):
        assert np.count_nonzero(within) > 400
        assert above[within].mean() == pytest.approx(chance[within].mean(), abs=0.05)


def test_what_a_seed_adds_to_all_changes_no_chance() -> None:
    dev = np.array([[0.50, 0.51, 0.49], [0.55, 0.54, 0.56], [0.53, 0.55, 0.52]])
    assert chances(dev + np.array([0.1, -0.2, 0.05]), 5) == pytest.approx(chances(dev, 5))


def test_nobody_is_dropped_after_one_seed_and_only_the_leader_is_left_after_all() -> None:
    dev = np.array([[0.5, 0.5], [0.9, 0.8], [0.1, 0.2]])
    assert survivors(dev[:, :1], 5).tolist() == [True, True]
    assert survivors(dev, 5).tolist() == [True, False]
    assert chances(dev, 2).tolist() == [1, 0]
    assert chances(np.full((3, 2), 0.5), 5).tolist() == [1, 1], "equal values: all lead"
