"""Weighting curricula: known answers of MacAvaney et al. 2020, edges, and properties."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainables.curriculum.weighting import WEIGHTINGS, pairwise_ease, pointwise_ease, weights
from trainables.data.columns import NO_RANK, Split

SCORES = [20, 17, 16.5, 16, 15, 15, 14, 13.5, 13, 12]


def split_of(*queries: list[float]) -> Split:
    """A split whose candidates have the given first-stage scores, best first; NaN = not in the run."""
    sizes = [len(scores) for scores in queries]
    score = np.asarray([s for scores in queries for s in scores], np.float64)
    rank = np.concatenate([np.arange(1, size + 1) for size in sizes] or [np.empty(0)]).astype(np.int32)
    return Split(
        query=np.arange(len(queries), dtype=np.int32),
        offsets=np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64),
        document=np.arange(len(score), dtype=np.int32),
        grade=np.zeros(len(score), np.int16),
        rank=np.where(np.isnan(score), NO_RANK, rank),
        score=score,
        judged_grade=np.empty(0, np.int16),
        judged_offsets=np.zeros(len(queries) + 1, np.int64),
    )


def test_known_weights() -> None:
    known = {0: 0.25, 1: 0.2875, 5: 0.4375, 10: 0.625, 19: 0.9625, 20: 1.0}
    assert {i: float(weights(np.asarray(0.25), i, 20)) for i in known} == pytest.approx(known)


def test_weights_never_reach_one_when_m_is_infinite() -> None:
    assert float(weights(np.asarray(0.25), 10**6, math.inf)) == 0.25


@pytest.mark.parametrize(
    ("positive", "negative", "ease"), [(1, 2, 0.75), (2, 1, 0.25), (1, 1000, 0.9995), (1000, 1, 0.0005)]
)
def test_known_pairs_of_reciprocal_ranks(positive: int, negative: int, ease: float) -> None:
    assert pairwise_ease(np.asarray(1 / positive), np.asarray(1 / negative)) == pytest.approx(ease)


def test_known_normalized_scores() -> None:
    known = [1, 0.625, 0.5625, 0.5, 0.375, 0.375, 0.25, 0.1875, 0.125, 0]
    assert WEIGHTINGS["normalized_score"](split_of(SCORES)) == pytest.approx(known)


def test_each_query_has_its_own_scale() -> None:
    value = WEIGHTINGS["normalized_score"](split_of([3, 1], [100, 50, 0], [7]))
    assert value == pytest.approx([1, 0, 1, 0.5, 0, 0.5])


@pytest.mark.parametrize("name", [name for name in WEIGHTINGS if name != "none"])
class TestContract:
    """Every heuristic, at the edges where a run says little."""

    @given(st.lists(st.lists(st.floats(-50, 50) | st.just(math.nan), max_size=6), max_size=5))
    def test_values_lie_between_0_and_1(self, name: str, queries: list[list[float]]) -> None:
        split = split_of(
            *(sorted(scores, key=lambda s: (math.isnan(s), -s if not math.isnan(s) else 0)) for scores in queries)
        )
        value = WEIGHTINGS[name](split)
        assert value.shape == split.document.shape
        assert ((value >= 0) & (value <= 1)).all()

    def test_better_ranked_is_higher(self, name: str) -> None:
        assert (np.diff(WEIGHTINGS[name](split_of(SCORES))) <= 0).all()

    def test_a_candidate_outside_the_run_is_below_all(self, name: str) -> None:
        assert WEIGHTINGS[name](split_of([2, 1, math.nan]))[-1] == 0

    def test_an_empty_run_gives_nothing_to_go_by(self, name: str) -> None:
        assert (WEIGHTINGS[name](split_of([math.nan, math.nan])) == 0).all()


@given(ease=st.floats(0, 1), m=st.floats(1, 200), i=st.integers(0, 300))
def test_weight_rises_to_one_at_m(ease: float, m: float, i: int) -> None:
    now, later = weights(np.asarray(ease), i, m), weights(np.asarray(ease), i + 1, m)
    assert ease - 1e-12 <= now <= later + 1e-12 <= 1 + 1e-12
    assert i < m or now == 1


@given(st.lists(st.tuples(st.floats(0, 1), st.booleans()), min_size=1, max_size=9))
def test_pointwise_ease_of_the_other_label_is_the_complement(samples: list[tuple[float, bool]]) -> None:
    value, relevant = np.asarray([v for v, _ in samples]), np.asarray([r for _, r in samples])
    assert pointwise_ease(value, relevant) == pytest.approx(1 - pointwise_ease(value, ~relevant))
