"""Training instances: what a curriculum orders and a batch is drawn from."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from trainables.core.errors import DataError, Problem
from trainables.core.prose import counted
from trainables.data.columns import NO_RANK, Split

NONE, DRAWN = -1, -2  # no such document; a document drawn again at each use
KEYS_AT_A_TIME = 1 << 22  # random numbers drawn at a time for lists: 32 MB


@dataclass(frozen=True)
class Batch:
    """Samples of one optimiser step: instance rows, and candidate rows from `Instances.draw`; int64 [B] each, or
    [B, N] the negatives of lists."""

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
    easier     int64 [P]  candidate rows from which negatives are drawn
    start      int64 [I]  where the part of `easier` begins that holds the instance's possible negatives
    below      int64 [I]  length of that part

    skipped_positives  relevant candidates without an instance, because their query has nothing less relevant
    list_size  N: a sample is a positive with a list of N negatives; 0: a sample has one negative at most
    unscored   candidates left out because they lack the teacher's score that the loss reads
    """

    pairwise: bool
    query: np.ndarray
    positive: np.ndarray
    negative: np.ndarray
    easier: np.ndarray
    start: np.ndarray
    below: np.ndarray
    skipped_positives: int
    list_size: int = 0
    unscored: int = 0

    def __len__(self) -> int:
        return len(self.query)

    @property
    def fixed_positive(self) -> np.ndarray:
        """Candidate row of the positive that an instance is always trained on, int64 [I]; NONE for a pointwise
        negative, drawn or fixed."""
        return self.positive if self.pairwise else np.where(self.negative == DRAWN, NONE, self.positive)

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes for the user on what was left out or repeated."""
        notes = []
        if self.unscored:
            unscored = counted(self.unscored, "training candidate")
            notes.append(f"{unscored} left out: the data gives no teacher's score for them, which the loss reads")
        if self.skipped_positives:
            skipped = counted(self.skipped_positives, "relevant training candidate")
            notes.append(f"{skipped} unusable: their query has no candidate that is less relevant")
        if short := int((self.below < self.list_size).sum()):
            lists = counted(short, "list")
            notes.append(f"{lists} of {len(self)} have fewer than {self.list_size} negatives to draw from: some repeat")
        return tuple(notes)

    @property
    def documents_a_sample(self) -> int:
        """Query-document pairs that the ranker scores for a sample."""
        return 1 + (self.list_size or self.pairwise)

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
            start=split.offsets[:-1],
            below=np.zeros(len(rows), np.int64),
            skipped_positives=0,
        )

    def draw(self, rows: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Candidate rows (positive, negative) of the given instances; int64 [B] each, NONE where a sample has none.
        The negatives of lists are [B, N], without repetition where there are enough.

        Negatives are drawn uniformly from the candidates that may be the instance's negative (MacAvaney et al.
        2020). A drawn pointwise negative replaces its positive.
        """
        if self.list_size:
            return self.positive[rows], self._draw_lists(rows, rng)
        positive, negative = self.positive[rows], self.negative[rows].copy()
        drawn = np.flatnonzero(negative == DRAWN)
        if len(drawn):
            sampled = rows[drawn]
            index = self.start[sampled] + rng.integers(0, self.below[sampled])
            negative[drawn] = self.easier[index]
            if not self.pairwise:
                positive = positive.copy()
                positive[drawn] = NONE
        return positive, negative

    def _draw_lists(self, rows: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Negatives of lists, int64 [B, N]."""
        below, count = self.below[rows], self.list_size
        index = rng.integers(0, below[:, None], (len(rows), count))
        enough = np.flatnonzero(below >= count)
        for part in np.array_split(enough, 1 + below.max(initial=0) * len(enough) // KEYS_AT_A_TIME):
            width = below[part].max(initial=count)
            keys = rng.random((len(part), width))
            keys[np.arange(width) >= below[part, None]] = np.inf
            index[part] = np.argpartition(keys, count - 1, axis=1)[:, :count]
        return self.easier[self.start[rows, None] + index]


@dataclass(frozen=True)
class HardNegatives:
    """Negatives come from ranks `first` to `last` (from 1) among a positive's possible negatives, the hardest first.

    hardness  float [C] of each candidate, higher = harder; NaN: unknown, after all others
    """

    hardness: np.ndarray
    first: int
    last: int


def make_instances(
    split: Split,
    pairwise: bool,
    negatives: int | str,
    relevance_level: int,
    lists: bool = False,
    hard: HardNegatives | None = None,
    scored: np.ndarray | None = None,
) -> Instances:
    """Instances (positives with their negatives) of a training split.

    negatives = N: each positive has N negatives that are drawn again at each use (1 + N instances per positive if
    pointwise, N if pairwise, one if `lists`); 'all': every candidate (pointwise) or every pair (pairwise) is an
    instance once. `hard` narrows what is drawn from. `scored`, bool [C]: candidates that can be trained on; None: all.
    A positive has a grade of at least `relevance_level`. Its negatives have a lower grade than it if pairwise, a
    grade below `relevance_level` if pointwise. Positives without such a candidate are skipped and counted.
    Raises DataError if nothing is left.
    """
    owner, grade = split.owner, split.grade
    scored = np.ones(len(grade), bool) if scored is None else scored
    positive = np.flatnonzero((grade >= relevance_level) & scored)
    limit = grade[positive].astype(np.int64) if pairwise else np.full(len(positive), relevance_level)
    as_negative = _grade_as_negative(split, scored)
    easier = np.lexsort((as_negative, owner))
    below = _count_below(split, as_negative[easier], owner[positive], limit)
    usable = below > 0
    skipped = int((~usable).sum())
    positive, below = positive[usable], below[usable]
    if not len(positive):
        raise _no_instances(relevance_level, scored)
    start = split.offsets[owner[positive]]
    if negatives != "all":
        if hard is not None:
            easier, start, below = _hardest(easier, start, below, hard)
        slots = [DRAWN] * (1 if lists else int(negatives))
        slots = slots if pairwise else [NONE, *slots]
        negative = np.tile(np.asarray(slots, np.int64), len(positive))
        positive, start, below = (np.repeat(column, len(slots)) for column in (positive, start, below))
        query = owner[positive]
    elif pairwise:
        within = np.arange(below.sum()) - np.repeat(np.cumsum(below) - below, below)
        positive, start, below = (np.repeat(column, below) for column in (positive, start, below))
        query, negative = owner[positive], easier[start + within]
    else:
        of_usable = np.isin(owner, owner[positive])
        rows = np.flatnonzero(of_usable & ((grade >= relevance_level) | (as_negative < relevance_level)))
        relevant, query = grade[rows] >= relevance_level, owner[rows]
        positive, negative = np.where(relevant, rows, NONE), np.where(relevant, NONE, rows)
        start, below = split.offsets[query], np.zeros(len(rows), np.int64)
    list_size = int(negatives) if lists else 0
    unscored = int((~scored).sum())
    query = query.astype(np.int32)
    return Instances(pairwise, query, positive, negative, easier, start, below, skipped, list_size, unscored)


def _no_instances(relevance_level: int, scored: np.ndarray) -> DataError:
    with_scores = "" if scored.all() else " with a teacher's score"
    wrong = f"no training query has both a relevant and a less relevant candidate{with_scores}"
    right = f"grades of {relevance_level} (evaluation.relevance_level) and below among the training candidates"
    return DataError(Problem("data.source", wrong, right if scored.all() else f"scores.train.tsv with {right}"))


def _hardest(
    easier: np.ndarray, start: np.ndarray, below: np.ndarray, hard: HardNegatives
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """`easier`, `start` and `below` of the instances, cut to the ranks of `hard`; to the last candidates of a query
    that has fewer."""
    parts, part_of = np.unique(np.stack([start, below]), axis=1, return_inverse=True)
    begin, length = parts  # positives of one query and grade share their negatives
    starts = np.cumsum(length) - length
    part = np.repeat(np.arange(len(length)), length)
    rows = easier[np.arange(len(part)) + (begin - starts)[part]]
    hardness = hard.hardness[rows]
    rows = rows[np.lexsort((-np.where(np.isnan(hardness), -np.inf, hardness), part))]
    low, high = np.minimum(hard.first, length) - 1, np.minimum(hard.last, length)
    return rows, (starts + low)[part_of], (high - low)[part_of]


def _grade_as_negative(split: Split, scored: np.ndarray) -> np.ndarray:
    """Grade of each candidate, int64 [C], but above all others for what is not a negative: a document not `scored`, or
    one outside the run that was only added for being relevant (`data.unretrieved_positives: keep`)."""
    outside = (split.rank == NO_RANK) & (split.rank != NO_RANK).any()
    return np.where(outside | ~scored, int(split.grade.max(initial=0)) + 1, split.grade.astype(np.int64))


def _count_below(split: Split, sorted_grade: np.ndarray, query: np.ndarray, limit: np.ndarray) -> np.ndarray:
    """For each (query, limit), the number of the query's candidates with a grade below the limit."""
    low = int(sorted_grade.min(initial=0))
    span = max(int(sorted_grade.max(initial=0)), int(limit.max(initial=0))) - low + 2
    key = split.owner * span + (sorted_grade - low)  # ascending, as owners ascend, and grades within an owner
    return np.searchsorted(key, query * span + (limit - low)) - split.offsets[query]
