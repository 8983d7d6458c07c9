"""Training instances: what a curriculum orders and a batch is drawn from."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from trainables.core.errors import DataError, Problem
from trainables.core.prose import counted
from trainables.data.columns import NO_RANK, Split

NONE, DRAWN = -1, -2  # no such document; a document drawn again at each use


@dataclass(frozen=True)
class Batch:
    """Samples of one optimiser step: instance rows, and candidate rows from `Instances.draw`; int64 [B] each."""

    instance: np.ndarray
    positive: np.ndarray
    negative: np.ndarray

    def __getitem__(self, part: slice) -> Batch:
        return Batch(self.instance[part], self.positive[part], self.negative[part])


@dataclass(frozen=True)
class Instances:
    """Rows of training instances over one split. Candidate rows index the split's candidates.

    pairwise   True: a sample is a (positive, negative) pair of one query; False: a single document with a label
    query      int32 [I]  row of the query in the split
    positive   int64 [I]  candidate row, or NONE for a fixed pointwise negative
    negative   int64 [I]  candidate row; NONE for a pointwise positive or a pair to classify; DRAWN for one drawn
                          again at each use
    easier     int64 [C]  candidate rows sorted by grade within each query, so that all documents below a
                          grade are a prefix of the query's part
    below      int64 [I]  length of the prefix that may be the instance's negative
    start      int64 [Q]  first candidate row of each query

    skipped_positives  relevant candidates without an instance, because their query has nothing less relevant
    """

    pairwise: bool
    query: np.ndarray
    positive: np.ndarray
    negative: np.ndarray
    easier: np.ndarray
    below: np.ndarray
    start: np.ndarray
    skipped_positives: int

    def __len__(self) -> int:
        return len(self.query)

    @property
    def fixed_positive(self) -> np.ndarray:
        """Candidate row of the positive that an instance is always trained on, int64 [I]; NONE for a pointwise
        negative, drawn or fixed."""
        return self.positive if self.pairwise else np.where(self.negative == DRAWN, NONE, self.positive)

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes for the user on what was left out."""
        if not self.skipped_positives:
            return ()
        skipped = counted(self.skipped_positives, "relevant training candidate")
        return (f"{skipped} left out: nothing less relevant stands beside them",)

    @classmethod
    def of_pairs(cls, split: Split) -> Instances:
        """Instances of a split of pairs to classify, one per pair: its one candidate is the positive."""
        rows = np.arange(len(split.document))
        return cls(
            pairwise=False,
            query=split.owner.astype(np.int32),
            positive=rows,
            negative=np.full(len(rows), NONE),
            easier=rows,
            below=np.zeros(len(rows), np.int64),
            start=split.offsets[:-1],
            skipped_positives=0,
        )

    def draw(self, rows: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Candidate rows (positive, negative) of the given instances; int64 [B] each, NONE where a sample has none.

        Negatives are drawn uniformly from the candidates that may be the instance's negative (MacAvaney et al.
        2020). A drawn pointwise negative replaces its positive.
        """
        positive, negative = self.positive[rows], self.negative[rows].copy()
        drawn = np.flatnonzero(negative == DRAWN)
        if len(drawn):
            sampled = rows[drawn]
            index = self.start[self.query[sampled]] + rng.integers(0, self.below[sampled])
            negative[drawn] = self.easier[index]
            if not self.pairwise:
                positive = positive.copy()
                positive[drawn] = NONE
        return positive, negative


def make_instances(split: Split, pairwise: bool, negatives: int | str, relevance_level: int) -> Instances:
    """Instances (positives with their negatives) of a training split.

    negatives = N: each positive has N negatives that are drawn again at each use (1 + N instances per positive if
    pointwise, N if pairwise); 'all': every candidate (pointwise) or every pair (pairwise) is an instance once.
    A positive has a grade of at least `relevance_level`. Its negatives have a lower grade than it if pairwise, a
    grade below `relevance_level` if pointwise. Positives without such a candidate are skipped and counted.
    Raises DataError if nothing is left.
    """
    owner, grade = split.owner, split.grade
    positives = np.flatnonzero(grade >= relevance_level)
    limit = grade[positives].astype(np.int64) if pairwise else np.full(len(positives), relevance_level)
    as_negative = _grade_as_negative(split)
    easier = np.lexsort((as_negative, owner))
    below = _count_below(split, as_negative[easier], owner[positives], limit)
    usable = below > 0
    skipped = int((~usable).sum())
    positives, below = positives[usable], below[usable]
    if not len(positives):
        raise DataError(
            Problem(
                "data.source",
                "no training query has both a relevant and a less relevant candidate",
                f"grades of {relevance_level} (evaluation.relevance_level) and below among the training candidates",
            )
        )
    if negatives == "all":
        query, positive, negative, below = _all(
            split, owner, grade, positives, below, easier, pairwise, relevance_level, as_negative
        )
    else:
        slots = [DRAWN] * int(negatives) if pairwise else [NONE] + [DRAWN] * int(negatives)
        query = np.repeat(owner[positives], len(slots))
        positive = np.repeat(positives, len(slots))
        negative = np.tile(np.asarray(slots, np.int64), len(positives))
        below = np.repeat(below, len(slots))
    return Instances(pairwise, query.astype(np.int32), positive, negative, easier, below, split.offsets[:-1], skipped)


def _grade_as_negative(split: Split) -> np.ndarray:
    """Grade of each candidate, int64 [C], but above all others for a document outside the run that was only added for
    being relevant (`data.unretrieved_positives: keep`): negatives come from the run."""
    outside = (split.rank == NO_RANK) & (split.rank != NO_RANK).any()
    return np.where(outside, int(split.grade.max(initial=0)) + 1, split.grade.astype(np.int64))


def _count_below(split: Split, sorted_grade: np.ndarray, query: np.ndarray, limit: np.ndarray) -> np.ndarray:
    """For each (query, limit), the number of the query's candidates with a grade below the limit."""
    low = int(sorted_grade.min(initial=0))
    span = max(int(sorted_grade.max(initial=0)), int(limit.max(initial=0))) - low + 2
    key = split.owner * span + (sorted_grade - low)  # ascending, as owners ascend, and grades within an owner
    return np.searchsorted(key, query * span + (limit - low)) - split.offsets[query]


def _all(split, owner, grade, positives, below, easier, pairwise, relevance_level, as_negative):
    """Every candidate of a usable query, or every pair of a positive and a lower-graded candidate."""
    if not pairwise:
        usable = np.isin(owner, owner[positives]) & ((grade >= relevance_level) | (as_negative < relevance_level))
        rows = np.flatnonzero(usable)
        relevant = grade[rows] >= relevance_level
        return (
            owner[rows],
            np.where(relevant, rows, NONE),
            np.where(relevant, NONE, rows),
            np.zeros(len(rows), np.int64),
        )
    query = np.repeat(owner[positives], below)
    positive = np.repeat(positives, below)
    within = np.arange(len(query)) - np.repeat(np.cumsum(below) - below, below)
    return query, positive, easier[split.offsets[query] + within], np.repeat(below, below)
