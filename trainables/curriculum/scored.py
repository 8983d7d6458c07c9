"""What a scoring function reads, and statistics over the candidates of each query."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from trainables.data.columns import RankingData, Split
from trainables.data.instances import Instances
from trainables.errors import WorkFailed
from trainables.rankers.settings import TRAINED_VECTORS

PAPER, CODE = "paper", "code"


@dataclass(frozen=True)
class Groups:
    """Some candidates of each query: `rows` of the split, int64 [K]; those of query i at offsets[i]:offsets[i + 1].

    Each group is summed on its own, so that no query's value depends on the queries before it.
    """

    rows: np.ndarray
    offsets: np.ndarray

    @property
    def sizes(self) -> np.ndarray:
        """Number of candidates per query, int64 [Q]."""
        return np.diff(self.offsets)

    @property
    def owner(self) -> np.ndarray:
        """Position of each candidate's query, int64 [K]."""
        return np.repeat(np.arange(len(self.sizes)), self.sizes)

    def sums(self, values: np.ndarray) -> np.ndarray:
        """Sum of the values [K] of each group, float64 [Q]; an empty group gives 0."""
        sums = np.zeros(len(self.sizes))
        held = self.sizes > 0
        if held.any():
            sums[held] = np.add.reduceat(values.astype(np.float64, copy=False), self.offsets[:-1][held])
        return sums

    def means(self, values: np.ndarray) -> np.ndarray:
        """Mean of each group, float64 [Q]; an empty group gives 0."""
        return self.sums(values) / np.maximum(self.sizes, 1)

    def deviations(self, values: np.ndarray, ddof: int) -> np.ndarray:
        """Standard deviation of each group, float64 [Q]; ddof 1 for a sample's. A group of one or none gives 0."""
        squares = self.sums((values - np.repeat(self.means(values), self.sizes)) ** 2)
        return np.sqrt(squares / np.maximum(self.sizes - ddof, 1))


@dataclass(frozen=True)
class Scored:
    """What a scoring function may look at.

    reference        `paper`, or `code` where the code of Penha & Hauff (2020) differs
    relevance_level  lowest relevant grade
    vectors          word vectors: `train`, or the path of a file
    teacher          returns a trained ranker's scores of the split's candidates: logits of relevance, float32 [C], or
                     class logits, float32 [C, K], for pairs to classify
    """

    data: RankingData
    split: Split
    instances: Instances
    seed: int
    reference: str = PAPER
    relevance_level: int = 1
    vectors: str = TRAINED_VECTORS
    teacher: Callable[[], np.ndarray] | None = None

    def teacher_scores(self) -> np.ndarray:
        """The teacher's scores, float32 [C] or [C, K]. Raises WorkFailed if there is no teacher."""
        if self.teacher is None:
            raise WorkFailed("this scoring needs a trained teacher, and none was given")
        return self.teacher()

    @cached_property
    def groups(self) -> Groups:
        """The candidates that count: all of a query's (paper), or only the first relevant and the first other one in
        the order that the data gives (code)."""
        split = self.split
        if self.reference == PAPER:
            return Groups(np.arange(len(split.document)), split.offsets)
        owner, relevant = split.owner, split.grade >= self.relevance_level
        firsts = [_firsts(owner, chosen, split.given) for chosen in (relevant, ~relevant)]
        rows = np.sort(np.concatenate(firsts))
        sizes = np.bincount(owner[rows], minlength=len(split))
        return Groups(rows, np.concatenate([[0], np.cumsum(sizes)]))

    def spread(self, values: np.ndarray) -> np.ndarray:
        """Standard deviation over each query's candidates in `groups`, float64 [Q]; ddof 1 (paper) or 0 (code)."""
        return self.groups.deviations(values, ddof=1 if self.reference == PAPER else 0)

    def of_queries(self, values: np.ndarray) -> np.ndarray:
        """One value per query of the split [Q], repeated for each of its instances [I]."""
        return values[self.instances.query]


def _firsts(owner: np.ndarray, chosen: np.ndarray, given: np.ndarray | None) -> np.ndarray:
    """For each owner that has chosen rows, the one that the data gives first."""
    rows = np.flatnonzero(chosen)
    if given is not None:
        rows = rows[np.lexsort((given[rows], owner[rows]))]
    return rows[np.unique(owner[rows], return_index=True)[1]]
