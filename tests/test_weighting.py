"""Weighting curricula: known answers of MacAvaney et al. 2020, edges, and properties."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import gaussian_kde

from tests.support.scored_data import split_of
from trainables.core.randomness import generator
from trainables.curriculum.weighting import (
    KDE_ERROR,
    SELF_PACED_WEIGHTS,
    WEIGHTINGS,
    Losses,
    Weigher,
    ease_of,
    kde,
    losses_of,
    pairwise_ease,
    values_of,
    weights,
)
from trainables.data.instances import NONE, Batch
from tune_cl.testing.curricula import WEIGHTING

SCORES = [20, 17, 16.5, 16, 15, 15, 14, 13.5, 13, 12]


def test_known_weights() -> None:
    known = {0: 0.25, 1: 0.2875, 5: 0.4375, 10: 0.625, 19: 0.9625, 20: 1.0}
    assert {i: float(weights(np.asarray(0.25), i, 20)) for i in known} == pytest.approx(known)


@pytest.mark.parametrize(
    ("positive", "negative", "ease"), [(1, 2, 0.75), (2, 1, 0.25), (1, 1000, 0.9995), (1000, 1, 0.0005)]
)
def test_known_pairs_of_reciprocal_ranks(positive: int, negative: int, ease: float) -> None:
    assert pairwise_ease(np.asarray(1 / positive), np.asarray(1 / negative)) == pytest.approx(ease)


def test_known_normalized_scores() -> None:
    known = [1, 0.625, 0.5625, 0.5, 0.375, 0.375, 0.25, 0.1875, 0.125, 0]
    assert WEIGHTINGS["normalized_score"](split_of(SCORES)) == pytest.approx(known)


def test_known_smoothed_distribution() -> None:
    known = [0.946825, 0.770573, 0.713207, 0.647109, 0.498045, 0.498045, 0.344376, 0.272324, 0.206733, 0.102764]
    assert kde(split_of(SCORES)) == pytest.approx(known, abs=1e-6)


@pytest.mark.parametrize("size", [2, 3, 10, 100, 1000])
@pytest.mark.parametrize("shape", ["normal", "exponential", "outliers"])
def test_kde_is_that_of_scipy(size: int, shape: str) -> None:
    random = generator(size, shape)
    draw = {"normal": random.normal, "exponential": random.exponential, "outliers": random.standard_cauchy}[shape]
    score = draw(size=size)
    one = gaussian_kde(score)
    exact = [one.integrate_box_1d(-np.inf, x) for x in score]
    assert kde(split_of(list(score))) == pytest.approx(exact, abs=KDE_ERROR)


def test_kde_of_many_queries_is_that_of_each() -> None:
    queries = [list(generator(3, "scores", i).gamma(1, size=size)) for i, size in enumerate([5, 1, 300, 2, 40])]
    apart = np.concatenate([kde(split_of(scores)) for scores in queries])
    assert kde(split_of(*queries)) == pytest.approx(apart)


def test_the_code_ranks_what_is_outside_the_run_1000th() -> None:
    split = split_of([2, 1, math.nan])
    assert values_of("reciprocal_rank", split, code=True) == pytest.approx([1, 0.5, 0.001])
    assert values_of("reciprocal_rank", split, code=False) == pytest.approx([1, 0.5, 0])
    assert values_of("normalized_score", split, code=True) == pytest.approx([1, 0, 0])


def test_what_is_outside_the_run_ends_it_under_kde() -> None:
    """The smoothed share below the run's lowest score, as SciPy has it; nothing is known of an empty run."""
    split = split_of([*SCORES, math.nan], [7.0, math.nan], [math.nan])
    at_the_end = gaussian_kde(SCORES).integrate_box_1d(-np.inf, min(SCORES))
    assert kde(split)[[9, 10, 12, 13]] == pytest.approx([0.102764, 0.102764, 0.5, 0], abs=1e-6)
    assert at_the_end == pytest.approx(0.102764, abs=1e-6)
    assert values_of("kde", split, code=True)[[9, 10, 12]] == pytest.approx([0.102764, 0, 0], abs=1e-6)


LOSSES = np.array([0.0, 1.0, 2.0, 3.0, 4.0])  # the quantile at .5 is 2, so the threshold is 2 / (1 - i/4)


@pytest.mark.parametrize(
    ("name", "known"),
    [
        ("self_paced_linear", {0: [1, 0.5, 0, 0, 0], 2: [1, 0.75, 0.5, 0.25, 0], 4: [1, 1, 1, 1, 1]}),
        ("self_paced_mixture", {0: [1, 1, 0, 0, 0], 2: [1, 1, 1, 1 / 3, 0], 4: [1, 1, 1, 1, 1]}),
    ],
)
def test_known_self_paced_weights(name: str, known: dict[int, list[float]]) -> None:
    rows = np.arange(5)
    weigher = Weigher(4, False, True, losses=Losses(losses_of(LOSSES, False), 0.5, SELF_PACED_WEIGHTS[name]))
    found = {i: weigher(Batch(rows, rows, rows), i) for i in known}
    assert all(found[i] == pytest.approx(known[i]) for i in known)
    assert {at: weigher.used_share(at) for at in known} == {at: np.count_nonzero(row) / 5 for at, row in known.items()}


@pytest.mark.parametrize("first", [0.3, 0.8])
def test_mixture_weights_are_those_of_the_paper(first: float) -> None:
    """v = ζ / ℓ - ζ / λ₁ between λ₂ and λ₁, and ζ = λ₁ λ₂ / (λ₁ - λ₂)."""
    second = first / 2
    zeta = first * second / (first - second)
    loss = np.linspace(second, first, 9)
    assert SELF_PACED_WEIGHTS["self_paced_mixture"](loss / first) == pytest.approx(zeta / loss - zeta / first)


@pytest.mark.parametrize(
    ("difficulty", "anti", "losses"),
    [([1, 3], False, [1, 3]), ([-1, 3], False, [0, 4]), ([-1, 3], True, [4, 0]), ([0, 0], True, [0, 0])],
)
def test_difficulty_as_losses(difficulty: list[float], anti: bool, losses: list[float]) -> None:
    assert losses_of(np.array(difficulty, np.float64), anti).tolist() == losses


@pytest.mark.parametrize("name", [name for name, heuristic in WEIGHTINGS.items() if heuristic])
def test_every_heuristic_keeps_the_contract(name: str) -> None:
    """Those promises that it does not make as a scoring."""
    for promise in WEIGHTING:
        promise(name)
    *listed, outside = WEIGHTINGS[name](split_of([2, 1, math.nan]))
    assert outside == (min(listed) if name == "kde" else 0)
    assert (WEIGHTINGS[name](split_of([math.nan, math.nan])) == 0).all(), "nothing to go by"


@given(ease=st.floats(0, 1), m=st.floats(1, 200), i=st.integers(0, 300))
def test_weight_rises_to_one_at_m(ease: float, m: float, i: int) -> None:
    now, later = weights(np.asarray(ease), i, m), weights(np.asarray(ease), i + 1, m)
    assert ease - 1e-12 <= now <= later + 1e-12 <= 1 + 1e-12
    assert i < m or now == 1


def test_ease_of_instances_is_their_place_in_the_order() -> None:
    assert ease_of(np.asarray([5.0, 1, 9, 5, 7])) == pytest.approx([0.625, 1, 0, 0.625, 0.25])
    assert ease_of(np.asarray([3.0])) == pytest.approx([1])


def batch(positive: list[int], negative: list[int]) -> Batch:
    return Batch(np.arange(len(positive)), np.asarray(positive), np.asarray(negative))


PAIRS, DOCUMENTS = batch([0, 4], [4, 0]), batch([0, NONE], [NONE, 4])  # candidates at ranks 1 and 5


def weigher(pairwise: bool, **changes) -> Weigher:
    value = WEIGHTINGS["reciprocal_rank"](split_of(SCORES))
    return Weigher(10, pairwise=pairwise, **({"anti": False, "value": value, "relevant": value == 1} | changes))


@pytest.mark.parametrize(
    ("pairwise", "samples", "at_0", "at_5"),
    [(True, PAIRS, [0.9, 0.1], [0.95, 0.55]), (False, DOCUMENTS, [1, 0.8], [1, 0.9])],
)
def test_sample_weights_follow_sample_and_iteration(pairwise: bool, samples: Batch, at_0: list, at_5: list) -> None:
    weigh, against = weigher(pairwise), weigher(pairwise, anti=True)
    assert weigh(samples, 0) == pytest.approx(at_0)
    assert weigh(samples, 5) == pytest.approx(at_5)
    assert weigh(samples, 10) == pytest.approx([1, 1])
    assert against(samples, 0) == pytest.approx(1 - np.asarray(at_0))


def test_weights_may_come_from_the_instances_difficulty() -> None:
    weigh = Weigher(10, anti=False, pairwise=True, ease=ease_of(np.asarray([3.0, 1.0])))
    assert weigh(PAIRS, 0) == pytest.approx([0, 1])
    assert weigh.with_difficulty(np.asarray([1.0, 3.0]))(PAIRS, 0) == pytest.approx([1, 0])
    assert weigher(True).with_difficulty(np.asarray([1.0, 3.0]))(PAIRS, 0) == pytest.approx([0.9, 0.1])


def test_the_code_adds_a_little_to_the_ease() -> None:
    assert weigher(True, epsilon=1e-8)(PAIRS, 0)[1] - 0.1 == pytest.approx(1e-8)
    turned = weigher(True, epsilon=1e-8, anti=True)(PAIRS, 0)  # w = (1 - D) + 1e-8: added to the reversed ease
    assert turned[0] - 0.1 == pytest.approx(1e-8)
