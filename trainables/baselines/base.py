"""What every baseline provides: scores of a split's candidates as a function of a few parameters."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from trainables.baselines.postings import Postings
from trainables.config import TrainingRun
from trainables.countdown import Countdown
from trainables.data.columns import NO_RANK, RankingData, Split, require_texts_to_rank
from trainables.data.combine import some_queries
from trainables.data.readers.assembly import Rated, grades_of
from trainables.errors import DataError, Problem

CELLS = 1 << 20  # queries times documents matched at once: some 300 MB where queries are long
Params = dict[str, Any]
Scorer = Callable[[Params], np.ndarray]
Search = Callable[[Split], tuple[np.ndarray, np.ndarray]]  # offsets int64 [Q + 1], document int32 [C]


@dataclass(frozen=True)
class Pool:
    """What is ranked for the queries of a split; documents ranked below `depth` count as not retrieved."""

    split: Split
    depth: int | None = None


class Baseline(ABC):
    """An unsupervised ranker of one data set.

    splits      those it will score; their queries must be known from the start
    collection  whether to rank all documents, to a depth of `data.top_k`, instead of the splits' candidates; if so,
                the candidates of `data` must be the judged documents, because grades are taken from them
    """

    grid: ClassVar[tuple[Params, ...]] = ()  # parameters to choose from; empty = nothing to choose
    retrieves: ClassVar[bool] = False  # whether it can rank a whole collection
    ranker: ClassVar[str | None] = None  # the ranker whose `ranker.*` keys, with their defaults, it reads

    def __init__(self, data: RankingData, run: TrainingRun, splits: Sequence[str], collection: bool = False):
        require_texts_to_rank(data)
        if collection and not self.retrieves:
            raise ValueError(f"{type(self).__name__} ranks candidates only")
        self.data = data
        self.run = run
        self.collection = collection

    @abstractmethod
    def defaults(self) -> Params:
        """Parameters of the default setting; a point of `grid` replaces some of them."""

    @abstractmethod
    def scorer(self, split: Split) -> Scorer:
        """Computes all that no parameter changes; the result maps parameters to scores, float64 [C]."""

    def pools(self, name: str, params: Params | None = None) -> Iterator[Pool]:
        """What is ranked on a split, in parts of consecutive queries that fit in memory. With `params`, documents that
        these rank below the depth may be missing."""
        yield Pool(self.data.splits[name])


class Lexical(Baseline):
    """Scores by the terms that query and document share."""

    retrieves = True

    def __init__(self, data: RankingData, run: TrainingRun, splits: Sequence[str], collection: bool = False):
        super().__init__(data, run, splits, collection)
        queries = np.concatenate([data.splits[name].query for name in splits])
        self.postings = Postings(data.documents, {query: data.query_text(query) for query in queries.tolist()})
        if not self.postings.occurrences.lengths.any():
            raise DataError(Problem("data.source", f"no document of '{data.name}' has a word", "data with texts"))

    def pools(self, name: str, params: Params | None = None) -> Iterator[Pool]:
        if not self.collection:
            yield from super().pools(name)
            return
        split, step = self.data.splits[name], max(1, CELLS // max(1, len(self.postings)))
        search = self.postings.matching if params is None else self.search(params)
        progress = Countdown("ranked for", len(split), "query")
        for start in range(0, len(split), step):
            end = min(start + step, len(split))
            part = some_queries(split, np.arange(start, end))
            yield Pool(self._with_candidates(part, *search(part)), self.run.data.top_k)
            progress.tell(end)

    def search(self, params: Params) -> Search:
        """Finds, for the queries of a split, all documents that these parameters may rank within the depth."""
        return self.postings.matching

    def _with_candidates(self, split: Split, offsets: np.ndarray, document: np.ndarray) -> Split:
        """The split with these documents as candidates, none of them in a run."""
        owner = np.repeat(np.arange(len(split)), np.diff(offsets))
        judged = Rated(split.owner, split.document, split.grade)
        return replace(
            split,
            offsets=offsets,
            document=document,
            grade=grades_of(judged, owner, document, len(self.postings)),
            rank=np.full(len(document), NO_RANK, np.int32),
            score=np.full(len(document), np.nan),
            given=None,
        )
