"""Training instances."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import chisquare

from trainables.config.keys import validated
from trainables.core.errors import DataError
from trainables.core.randomness import generator
from trainables.data.columns import NO_RANK, Split
from trainables.data.instances import DRAWN, NONE, HardNegatives, make_instances
from trainables.training.trainer import _instances

GRADES = [[0, 2, -1, 1, 0], [1, 1], [0, 3]]


def graded(grades: list[list[int]]) -> Split:
    sizes = [len(row) for row in grades]
    total = sum(sizes)
    return Split(
        query=np.arange(len(grades), dtype=np.int32),
        offsets=np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64),
        document=np.arange(total, dtype=np.int32),
        grade=np.asarray([g for row in grades for g in row], np.int16),
        rank=np.concatenate([np.arange(1, size + 1) for size in sizes]).astype(np.int32),
        score=np.arange(total, 0, -1).astype(np.float64),
        judged_grade=np.empty(0, np.int16),
        judged_offsets=np.zeros(len(grades) + 1, np.int64),
    )


def test_all_pairs_have_a_lower_graded_negative() -> None:
    instances = make_instances(graded(GRADES), pairwise=True, negatives="all", relevance_level=1)
    pairs = sorted(zip(instances.positive.tolist(), instances.negative.tolist(), strict=True))
    assert pairs == [(1, 0), (1, 2), (1, 3), (1, 4), (3, 0), (3, 2), (3, 4), (8, 7)]
    assert instances.skipped_positives == 2


def test_all_pointwise_instances_are_the_candidates_of_usable_queries() -> None:
    instances = make_instances(graded(GRADES), pairwise=False, negatives="all", relevance_level=1)
    positive, negative = instances.draw(np.arange(len(instances)), generator(0, "test"))
    assert positive.tolist() == [NONE, 1, NONE, 3, NONE, NONE, 8]
    assert negative.tolist() == [0, NONE, 2, NONE, 4, 7, NONE]


def test_drawn_negatives_are_uniform_over_lower_grades() -> None:
    instances = make_instances(graded(GRADES), pairwise=True, negatives=1, relevance_level=1)
    assert instances.positive.tolist() == [1, 3, 8] and (instances.negative == DRAWN).all()
    positive, negative = instances.draw(np.zeros(4000, np.int64), generator(1, "test"))
    assert (positive == 1).all()
    drawn, counts = np.unique(negative, return_counts=True)
    assert drawn.tolist() == [0, 2, 3, 4]
    assert chisquare(counts).pvalue > 0.001


@pytest.mark.parametrize("given", [None, [4, 9, 0, 2, 7, 5, 6, 8, 1]])
@pytest.mark.parametrize("loss", ["pairwise", "pointwise"])
def test_the_fixed_negative_is_the_first_that_the_data_lists(loss: str, given: list[int] | None) -> None:
    """Penha & Hauff's one negative for each context; as many others as there are positives."""
    split = replace(graded(GRADES), given=None if given is None else np.array(given, np.int32))
    run = validated({"ranker": "conv_knrm", "training": {"negatives": "first", "loss": loss}})
    instances = _instances(run, split, None)
    drawn = [instances.draw(np.arange(len(instances)), generator(seed, "test"))[1].tolist() for seed in range(5)]
    assert all(one == drawn[0] for one in drawn)
    expected = [0, 0, 7] if given is None else [2, 2, 7]
    assert [row for row in drawn[0] if row != NONE] == expected
    assert not run.in_force().keys() & {"training.hard_negatives", "training.negative_ranks"}


def test_pointwise_negatives_are_not_relevant() -> None:
    instances = make_instances(graded(GRADES), pairwise=False, negatives=2, relevance_level=2)
    assert len(instances) == 6  # two positives of grade 2 or more, each with two drawn negatives
    positive, negative = instances.draw(np.arange(6), generator(2, "test"))
    assert (positive >= 0).tolist() == [True, False, False] * 2
    assert set(negative[positive < 0].tolist()) <= {0, 2, 3, 4, 7}


def partly_found(ranks: list[int]) -> Split:
    """One query with grades 0, 3 and 1, and these ranks in the run."""
    return replace(graded([[0, 3, 1]]), rank=np.array(ranks, np.int32))


@pytest.mark.parametrize("pairwise", [True, False])
@pytest.mark.parametrize("negatives", ["all", 3])
def test_what_the_run_did_not_find_is_no_negative(pairwise: bool, negatives: int | str) -> None:
    """Such a candidate is there only because it is relevant: here of grade 1, below the other's 3."""
    instances = make_instances(partly_found([1, 2, NO_RANK]), pairwise, negatives, 1 if pairwise else 3)
    drawn = instances.draw(np.arange(len(instances)), generator(0, "test"))[1]
    assert set(drawn[drawn >= 0].tolist()) == {0}


def test_without_any_run_every_candidate_may_be_a_negative() -> None:
    instances = make_instances(partly_found([NO_RANK] * 3), True, "all", 1)
    assert sorted(zip(instances.positive.tolist(), instances.negative.tolist(), strict=True)) == [
        (1, 0), (1, 2), (2, 0),
    ]  # fmt: skip


def test_nothing_to_train_on_is_an_error_of_the_data() -> None:
    with pytest.raises(DataError, match="no training query has both"):
        make_instances(graded([[1, 1], [0, 0]]), pairwise=True, negatives=1, relevance_level=1)


# -- lists and hard negatives --------------------------------------------------------------------------------------


def test_a_list_holds_distinct_negatives_where_there_are_enough() -> None:
    instances = make_instances(graded(GRADES), True, 3, 1, lists=True)
    assert instances.positive.tolist() == [1, 3, 8] and instances.documents_a_sample == 4
    positive, negative = instances.draw(np.repeat([0, 1, 2], 500), generator(1, "test"))
    assert negative.shape == (1500, 3) and (positive[:500] == 1).all()
    assert all(len(set(row)) == 3 for row in negative[:1000].tolist())
    assert set(negative[500:1000].ravel().tolist()) == {0, 2, 4} and set(negative[1000:].ravel().tolist()) == {7}
    drawn, counts = np.unique(negative[:500], return_counts=True)
    assert drawn.tolist() == [0, 2, 3, 4] and chisquare(counts).pvalue > 0.001
    assert instances.notes[-1] == "1 list of 3 have fewer than 3 negatives to draw from: some repeat"


@pytest.mark.parametrize(
    ("ranks", "first", "second"),
    [((1, 2), {4, 3}, {4, 2}), ((2, 3), {3, 2}, {2, 0}), ((4, 9), {0}, {0}), ((1, 9), {4, 3, 2, 0}, {4, 2, 0})],
)
@pytest.mark.parametrize("pairwise", [True, False])
def test_hard_negatives_come_from_the_named_ranks(
    ranks: tuple[int, int], first: set[int], second: set[int], pairwise: bool
) -> None:
    """The positives of grades 2 and 1 of one query have other negatives; what is unknown comes last."""
    hardness = np.asarray([np.nan, 9, 1, 2, 3, 0, 0, 5, 5])
    instances = make_instances(graded(GRADES), pairwise, 1, 1, hard=HardNegatives(hardness, *ranks))
    rows = np.flatnonzero(instances.negative == DRAWN)
    drawn = [set(instances.draw(np.full(200, row), generator(3, "test"))[1].tolist()) for row in rows]
    assert drawn == ([first, second, {7}] if pairwise else [second, second, {7}])
