"""What curricula change over all matched pairs: known answers, pairs that share a twin, intervals that hold."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from scipy.stats import t

from tune_cl.results import Effects
from tune_cl.verdict.effect_sentences import worded
from tune_cl.verdict.estimates import SeedNoise, effects_of

RNG = np.random.default_rng(5)
NOISE = RNG.normal(size=(40, 3))


def found(differences: Any, twins: Sequence[int] | None = None, settings: Any = None, **options: Any) -> Effects:
    count = len(differences)
    trials = [f"t{place:04d}" for place in range(count)]
    return effects_of(trials, np.asarray(differences), twins or range(count), settings or [{}] * count, **options)


@pytest.mark.parametrize("shape", [(6, 1), (6, 3), (6, 2, 20)])
def test_a_curriculum_that_does_nothing_has_effects_of_exactly_0(shape: tuple[int, ...]) -> None:
    settings = [{"curriculum.pacing": name} for name in ("root", "linear") * 3]
    told = found(np.zeros(shape), settings=settings, known=SeedNoise(0.0, 2))
    assert (told.mean, told.ci95, told.sd_pairs, told.sd_true, told.sd_true_ci95) == (0, (0, 0), 0, 0, (0, 0))
    assert [(one.value, one.effect, one.ci95, one.pairs) for one in told.by_value] == [
        ("root", 0, (0, 0), 3),
        ("linear", 0, (0, 0), 3),
    ]


def test_pairs_with_twins_of_their_own_are_a_one_way_analysis_of_variance() -> None:
    true = 0.02 * np.repeat([-1.0, 1.0], 20)
    differences = true[:, None] + 0.001 * (NOISE - NOISE.mean(axis=0))  # seeds move no pairs together
    told, means = found(differences), differences.mean(axis=1)
    half = t.ppf(0.975, 39) * means.std(ddof=1) / np.sqrt(40)
    wider = (told.ci95[1] - told.ci95[0]) / (2 * half)
    assert told.ci95[0] < means.mean() - half and told.ci95[1] > means.mean() + half and wider < 1.25
    alone = found(differences, bootstrap=False)
    assert alone.ci95 == pytest.approx((means.mean() - half, means.mean() + half), rel=1e-3)
    within = differences.var(axis=1, ddof=1).mean() * 40 / 39  # the seeds' means are 0: they took a degree of freedom
    assert told.sd_seeds == pytest.approx(np.sqrt(within), rel=0.02)
    assert told.sd_true == pytest.approx(np.sqrt(means.var(ddof=1) - within / 3), rel=1e-3)
    low, high = told.sd_true_ci95 or (0, 0)
    assert low < 0.0202 < high < 0.027


def test_noise_alone_is_no_difference_between_curricula() -> None:
    told = found(0.02 * NOISE)
    assert (told.sd_true_ci95 or (1, 1))[0] == 0 and (told.sd_true or 0) < 0.006


def test_pairs_that_share_a_twin_share_its_error() -> None:
    own, shared = found(0.01 * NOISE[:8]), found(0.01 * NOISE[:8], twins=[0] * 8)
    width = [one.ci95[1] - one.ci95[0] for one in (own, shared)]
    assert width[1] > 1.5 * width[0], "more pairs cannot average the twin's error out"
    assert shared.mean == own.mean and shared.sd_pairs == own.sd_pairs
    assert (shared.sd_seeds or 0) > (own.sd_seeds or 0), "half of the noise is common, and cannot be seen among pairs"


def test_one_seed_says_nothing_of_true_effects_unless_its_noise_is_known() -> None:
    differences = 0.02 * NOISE[:, :1]
    told = found(differences)
    assert (told.sd_seeds, told.sd_true, told.sd_true_ci95) == (None,) * 3
    known = found(differences, known=SeedNoise(0.02**2, 20))
    assert known.sd_seeds == 0.02 and (known.sd_true or 0) < 0.01 and known.mean == told.mean


def test_a_seed_that_changes_nothing_leaves_the_differences_as_true_effects() -> None:
    told = found([[0.01], [0.02], [0.06]], twins=[0, 0, 0], known=SeedNoise(0.0, 1))
    assert told.sd_seeds == 0 and told.sd_true == pytest.approx(told.sd_pairs) and told.mean == pytest.approx(0.03)
    assert told.ci95 == pytest.approx(found([[0.01], [0.02], [0.06]]).ci95), "only pairs are a sample"


def test_queries_are_a_sample_too() -> None:
    """A few queries that all curricula help make the mean uncertain, however many pairs and seeds there are."""
    helped = np.zeros(50)
    helped[:3] = 0.3
    differences = helped + 0.01 * RNG.normal(size=(40, 3, 50))
    low, high = found(differences).ci95
    assert low < 0 < high < 0.09
    one = found(np.repeat(differences, 3, axis=2), clusters=np.repeat(np.arange(50), 3))
    assert one.ci95 == pytest.approx((low, high)), "copies of queries are not further queries"


def test_values_of_keys_that_help_are_found_and_others_pulled_to_the_mean() -> None:
    rng = np.random.default_rng(1)
    settings = [
        {"curriculum.weighting": ("kde", "none")[at % 2], "curriculum.anti": at // 2 % 2 > 0, "delta": at / 40}
        | ({"curriculum.m": at} if at % 2 == 0 else {})
        for at in range(40)
    ]  # fmt: skip
    helps = np.array([0.03 if one["curriculum.weighting"] == "kde" else 0.0 for one in settings])
    told = found(helps[:, None] + 0.01 * rng.normal(size=(40, 2)), settings=settings)
    of = {(one.key, one.value): one for one in told.by_value}
    kde, none = of["curriculum.weighting", "kde"], of["curriculum.weighting", "none"]
    assert kde.ci95[0] > 0.02 > kde.effect - 0.01 and none.ci95[0] < 0 < none.ci95[1] and kde.pairs == none.pairs == 20
    assert abs(of["curriculum.anti", True].effect - told.mean) < 0.005
    bins = [one for one in told.by_value if one.key == "delta"]
    assert [one.value for one in bins] == ["0 to 0.325", "0.35 to 0.65", "0.675 to 0.975"]
    assert sum(one.pairs for one in told.by_value if one.key == "curriculum.m") == 20, "where the key has an effect"


@pytest.mark.parametrize("tail", [False, True])
def test_intervals_hold_the_truth(tail: bool) -> None:
    """docs/dev/effects-simulations.md has the table; this is its middle."""
    rng, rows = np.random.default_rng(3), []
    for _ in range(150):
        true = 0.01 * rng.normal(size=(32, 1))
        if tail:
            true = -0.04 * (rng.random((32, 1)) < 0.2) * rng.exponential(size=(32, 1))
        told = found(true + 0.015 * rng.normal(size=(32, 2)))
        low, high = told.sd_true_ci95 or (1, 1)
        mean = -0.008 if tail else 0
        rows.append((told.ci95[0] <= mean <= told.ci95[1], low <= true.std(ddof=1) <= high))
    assert np.all(np.mean(rows, axis=0) > 0.88)


def test_two_pairs_are_the_fewest_and_the_result_is_json() -> None:
    with pytest.raises(ValueError, match="2 or more"):
        found(NOISE[:1])
    made = found(NOISE[:2, :2], settings=[{"a": 1}, {"a": float("inf")}])
    assert Effects.model_validate_json(made.model_dump_json()) == made and made.by_value[1].value == "inf"


def harmful(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """True effects of 32 curricula, of which some harm, and their differences with two seeds each."""
    true = np.where(rng.random(32) < 0.3, -0.05 * rng.exponential(size=32), 0.004 * rng.normal(size=32))
    return true, true[:, None] + 0.012 * rng.normal(size=(32, 2))


def test_a_harmful_tail_promises_no_gain() -> None:
    """Of a normal distribution, the best of 32 on WikiQA was expected at more than twice the largest difference."""
    rng, errors = np.random.default_rng(7), []
    for _ in range(60):
        true, differences = harmful(rng)
        made = found(differences)
        assert made.best and made.most is not None and made.best.gain <= differences.mean(axis=1).max()
        assert made.most <= differences.mean(axis=1).max()
        errors.append(made.best.gain - true[int(made.best.trial_id[1:])])
    assert abs(np.mean(errors)) < 0.003


@pytest.mark.parametrize(("gain", "is_said"), [(0.0, True), (0.05, False)])
def test_nothing_to_find_is_said(gain: float, is_said: bool) -> None:
    made = worded(found(0.01 * NOISE + gain * (np.arange(40) % 2)[:, None]))
    assert any("Nothing to find" in one for one in made.sentences) == is_said
    assert made.worth_finding is not None and (made.worth_finding < 0.1) == is_said
