"""RankingData: queries, documents and candidates as flat arrays.

Flat arrays are memory-mapped from the cache, go through the Ray object store without a copy, and never
turn into one Python object per row.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from mmap import MADV_DONTNEED
from typing import TYPE_CHECKING, Literal, overload

import numpy as np

from trainables.core.errors import DataError, Problem

if TYPE_CHECKING:
    import pyarrow

SplitName = Literal["train", "dev", "test"]
SPLITS: tuple[SplitName, ...] = ("train", "dev", "test")
ONE_DOMAIN = ("all",)  # `domains` of data that does not say where its queries come from
UNJUDGED = -1  # grade of a document without a judgment, in columns that also hold such documents
MAX_GRADE = int(np.iinfo(np.int16).max)
FLOAT32_END = 2.0**128 - 2.0**103  # smallest number that rounds to an infinite float32, as which trec_eval keeps scores
NO_RANK = 0  # first-stage rank of a candidate that is not in the run
Task = Literal["ranking", "classification"]
_TEXTS_A_BLOCK = 1 << 14  # decoded together
_RELEASED = 1 << 20  # bytes read at once, from which the pages of a mapped file are given back


@dataclass(frozen=True)
class TextColumn(Sequence[str]):
    """N texts in one UTF-8 buffer. `data`: uint8 [bytes]; `offsets`: int64 [N + 1]."""

    data: np.ndarray
    offsets: np.ndarray

    @classmethod
    def of(cls, texts: Iterable[str]) -> TextColumn:
        """The texts in one column, in memory."""
        buffer, offsets = bytearray(), array("q", [0])
        for text in texts:
            buffer += text.encode()
            offsets.append(len(buffer))
        data = np.frombuffer(buffer, np.uint8)
        data.flags.writeable = False
        return cls(data, np.array(offsets, np.int64))

    def arrow(self) -> pyarrow.LargeStringArray:
        """The column as an array of Arrow, without a copy."""
        import pyarrow  # here: it takes a tenth of a second

        buffers = [None, pyarrow.py_buffer(self.offsets), pyarrow.py_buffer(self.data)]
        return pyarrow.Array.from_buffers(pyarrow.large_string(), len(self), buffers)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> list[str]: ...
    def __getitem__(self, index: int | slice) -> str | list[str]:
        if isinstance(index, slice):
            start, stop, step = index.indices(len(self))
            return self._run(start, stop) if step == 1 else [self[i] for i in range(start, stop, step)]
        index = int(index)
        if not 0 <= index < len(self):
            raise IndexError(index)
        return self.data[self.offsets[index] : self.offsets[index + 1]].tobytes().decode()

    def __iter__(self) -> Iterator[str]:
        for start in range(0, len(self), _TEXTS_A_BLOCK):
            yield from self._run(start, min(start + _TEXTS_A_BLOCK, len(self)))

    def _run(self, start: int, stop: int) -> list[str]:
        """The texts of adjacent rows, their bytes copied at once: four times as fast as one by one."""
        if stop <= start:
            return []
        ends = (self.offsets[start : stop + 1] - self.offsets[start]).tolist()
        raw = self.data[self.offsets[start] : self.offsets[stop]].tobytes()
        if len(raw) >= _RELEASED:
            _release(self.data)
        return [raw[first:last].decode() for first, last in pairwise(ends)]


def _release(values: np.ndarray) -> None:
    """Takes a file's pages out of the process's memory, if the array is a memory map; the operating system keeps them
    as long as it has room. Without this, reading a collection from start to end would fill the memory with it."""
    mapped = getattr(values.base, "_mmap", None)
    if mapped is not None:
        mapped.madvise(MADV_DONTNEED)


@dataclass(frozen=True)
class Split:
    """The queries of one split and their candidates; the candidates of query i are rows offsets[i]:offsets[i + 1].

    query     int32 [Q]      index into RankingData's queries
    offsets   int64 [Q + 1]
    document  int32 [C]      index into RankingData's documents
    grade     int16 [C]      judged grade, -1 = unjudged (counts as not relevant everywhere)
    rank      int32 [C]      first-stage rank from 1, NO_RANK = not in the run
    score     float64 [C]    first-stage score, NaN = not in the run
    judged_grade   int16 [J]     grades of all judged documents of the query, candidates or not
    judged_offsets int64 [Q + 1] (trec_eval counts relevant documents from the qrels, not from the run)
    given     int32 [C]      ascends in the order in which the data lists a query's candidates; None: the order here
    judged_document int32 [J]    the judged documents, -1 = not in the collection; None: they are all candidates
    teacher   float32 [C]    scores of a teacher that the data gives, NaN = not given; None: the data gives none
    """

    query: np.ndarray
    offsets: np.ndarray
    document: np.ndarray
    grade: np.ndarray
    rank: np.ndarray
    score: np.ndarray
    judged_grade: np.ndarray
    judged_offsets: np.ndarray
    given: np.ndarray | None = None
    teacher: np.ndarray | None = None
    judged_document: np.ndarray | None = None

    @classmethod
    def listed(cls, start: int, sizes: np.ndarray, document: np.ndarray, grade: np.ndarray) -> Split:
        """A split without a first-stage ranking: its queries, numbered from `start` on, have so many candidates each,
        which keep their order."""
        offsets, judged = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64), grade != UNJUDGED
        return cls(
            query=np.arange(start, start + len(sizes), dtype=np.int32),
            offsets=offsets,
            document=document.astype(np.int32),
            grade=grade.astype(np.int16),
            rank=np.full(len(grade), NO_RANK, np.int32),
            score=np.full(len(grade), np.nan),
            judged_grade=grade[judged].astype(np.int16),
            judged_offsets=np.concatenate([[0], np.cumsum(judged)])[offsets].astype(np.int64),
        )

    def __len__(self) -> int:
        return len(self.query)

    @property
    def sizes(self) -> np.ndarray:
        """Number of candidates per query, int64 [Q]."""
        return np.diff(self.offsets)

    @property
    def owner(self) -> np.ndarray:
        """For each candidate row, the row of its query in this split, int64 [C]."""
        return np.repeat(np.arange(len(self)), self.sizes)

    @property
    def judgments(self) -> Rated:
        """The judged documents; where the data does not name them, its candidates are all that it judges."""
        if self.judged_document is None:
            return Rated(self.owner, self.document, self.grade).where(self.grade != UNJUDGED)
        query = np.repeat(np.arange(len(self)), np.diff(self.judged_offsets))
        return Rated(query, self.judged_document, self.judged_grade)


@dataclass(frozen=True)
class RankingData:
    """One data set. A query (context) is one or more utterances; in ad-hoc retrieval it is one.

    utterance_offsets  int64 [queries + 1]: utterances of query i are rows offsets[i]:offsets[i + 1] of `utterances`
    domain             int16 [queries]: index into `domains`
    digest             identifies the content: equal digests, equal data
    notes              for the user: what was dropped or noticed on reading
    features           float32 [documents, F] if the data has features instead of texts (LETOR), which are then
                       empty; else None
    task               classification: each query has one candidate, and its grade is an index into `classes`
    classes            names of the classes; empty for ranking
    retrieved          whether the candidates of all splits were retrieved by BM25 (not given, nor the judged documents)
    words              how texts are cut into words, as trainables.data.words has it
    group              int32 [queries]: equal for near-duplicate queries, as far as the reader knows; None: it does not
    own                int32 [queries]: the document that is the query itself and so no candidate, -1 = none; None: no
                       query has one
    """

    name: str
    digest: str
    document_ids: TextColumn
    documents: TextColumn
    query_ids: TextColumn
    utterances: TextColumn
    utterance_offsets: np.ndarray
    domain: np.ndarray
    domains: tuple[str, ...]
    splits: dict[str, Split]
    notes: tuple[str, ...] = field(default=())
    features: np.ndarray | None = None
    task: Task = "ranking"
    classes: tuple[str, ...] = ()
    retrieved: bool = False
    words: Literal["spaces", "script", "bigrams"] = "spaces"
    group: np.ndarray | None = None
    own: np.ndarray | None = None

    @property
    def turns(self) -> np.ndarray:
        """Number of utterances per query, int64 [queries]."""
        return np.diff(self.utterance_offsets)

    def query_utterances(self, query: int) -> list[str]:
        """The utterances of a query, by its row."""
        return self.utterances[int(self.utterance_offsets[query]) : int(self.utterance_offsets[query + 1])]

    def query_text(self, query: int) -> str:
        """The utterances joined by a space, as Penha & Hauff (2020) feed them to the ranker."""
        return " ".join(self.query_utterances(query))

    def query_texts(self) -> TextColumn:
        """`query_text` of every query, by row."""
        return TextColumn.of(self.query_text(i) for i in range(len(self.query_ids)))


def required_split(data: RankingData, name: str) -> Split:
    """The named split. Raises DataError if it is missing or empty."""
    split = data.splits.get(name)
    if split is None or not len(split):
        raise DataError(Problem("data.source", f"'{data.name}' has no {name} split", f"data with {name} queries"))
    return split


def require_texts(data: RankingData) -> None:
    """Raises DataError for data without texts (LETOR), which text rankers cannot read."""
    if data.features is not None:
        wrong = f"'{data.name}' holds features, no texts"
        raise DataError(
            Problem("data.source", wrong, "use data with texts, or ranker lambdamart, which reads features")
        )


def require_features(data: RankingData, ranker: str) -> np.ndarray:
    """The data's features, float32 [documents, F]. Raises DataError for data without them, which the ranker reads."""
    if data.features is None:
        wrong = f"'{data.name}' holds texts, no features"
        right = f"for {ranker} give --data a LETOR folder (train.txt with rows LABEL qid:N INDEX:VALUE ...)"
        raise DataError(Problem("data.source", wrong, right))
    return data.features


def require_texts_to_rank(data: RankingData) -> None:
    """Raises DataError for data without texts to rank: features, or pairs to classify."""
    require_texts(data)
    if data.task == "classification":
        wrong = f"'{data.name}' is pairs to classify ({', '.join(data.classes)}), not documents to rank"
        raise DataError(Problem("data.source", wrong, "use data with several candidates a query"))


def id_ranks(documents: np.ndarray, document_ids: TextColumn) -> np.ndarray:
    """For each of N document rows, the rank from 0 of its id among the sorted ids of these rows, int64 [N]."""
    distinct, inverse = np.unique(documents, return_inverse=True)
    rank = np.empty(len(distinct), np.int64)
    rank[_sorted_rows(document_ids, distinct.astype(np.int64))] = np.arange(len(distinct))
    return rank[inverse]


def grouped_order(query: np.ndarray, *keys: np.ndarray) -> np.ndarray:
    """Rows by query, then by the keys, the first of which decides first; int64 [N]. Like `np.lexsort`, but quick where
    each query's rows stand together in this order, as in a run."""
    together = bool((query[1:] >= query[:-1]).all())
    rows = np.arange(len(query)) if together else np.argsort(query, kind="stable")
    settled = query[rows[1:]] != query[rows[:-1]]  # which neighbours need no further key
    for key in keys:
        before, after = key[rows[:-1]], key[rows[1:]]
        if not (settled | (before <= after)).all():
            return np.lexsort((*reversed(keys), query))
        settled |= before < after
    return rows


def ranks(query: np.ndarray, score: np.ndarray, document: np.ndarray, ids: TextColumn) -> tuple[np.ndarray, np.ndarray]:
    """(rows sorted by query and rank, their ranks from 1): by score, ties by document id, both descending. Scores are
    compared as float32, as trec_eval does."""
    single = -score.astype(np.float32)
    rows = grouped_order(query, single)
    same = (query[rows[1:]] == query[rows[:-1]]) & (single[rows[1:]] == single[rows[:-1]])
    if same.any():  # ids are compared within ties alone
        tied = np.zeros(len(rows), bool)
        tied[1:] |= same
        tied[:-1] |= same
        tie = np.concatenate([[0], np.cumsum(~same)])[tied]
        inside = rows[tied]
        rows[tied] = inside[np.lexsort((-id_ranks(document[inside], ids), tie))]
    starts = np.flatnonzero(np.diff(query[rows], prepend=-1))
    first = np.repeat(starts, np.diff(starts, append=len(rows)))
    return rows, np.arange(len(rows)) - first + 1


def _sorted_rows(texts: TextColumn, rows: np.ndarray) -> np.ndarray:
    """Positions in `rows` (int64 [N]) by the texts in these rows. Arrow sorts UTF-8 as Python sorts strings, without an
    object for each; the rows are a buffer because it imports pandas to look at a NumPy array."""
    import pyarrow  # here: it takes a tenth of a second, and many only read columns
    from pyarrow import compute

    numbers = pyarrow.Array.from_buffers(pyarrow.int64(), len(rows), [None, pyarrow.py_buffer(rows)])
    order = compute.call_function("array_sort_indices", [texts.arrow().take(numbers)])
    return np.frombuffer(order.buffers()[1], np.uint64, len(rows)).astype(np.int64)


@dataclass(frozen=True)
class Rated:
    """Rated documents of a split's queries, one per row (qrels: grades; run: scores).

    query     int64 [n]  row of the query in the split
    document  int64 [n]  row of the collection, -1 = not in it
    value     float64 [n]
    """

    query: np.ndarray
    document: np.ndarray
    value: np.ndarray

    @classmethod
    def of(cls, rows: Sequence[tuple[int, int, float]]) -> Rated:
        """From rows (query, document, value)."""
        query, document, value = zip(*rows, strict=True) if rows else ((), (), ())
        return cls(np.array(query, np.int64), np.array(document, np.int64), np.array(value, np.float64))

    def __len__(self) -> int:
        return len(self.query)

    def where(self, rows: np.ndarray) -> Rated:
        """The selected rows; `rows`: bool [n] or int."""
        return Rated(self.query[rows], self.document[rows], self.value[rows])

    def values_at(self, query: np.ndarray, document: np.ndarray, documents: int, absent: float) -> np.ndarray:
        """The value of each (query, document), `absent` if it has none; float64 [n]. `documents`: of the collection."""
        inside = self.where(self.document >= 0)
        keys, pairs = inside.query * documents + inside.document, query * documents + document
        order = np.argsort(keys)
        if not len(keys):
            return np.full(len(pairs), absent, np.float64)
        rows = order[np.minimum(np.searchsorted(keys, pairs, sorter=order), len(keys) - 1)]
        return np.where(keys[rows] == pairs, inside.value[rows], absent)

    def grades_at(self, query: np.ndarray, document: np.ndarray, documents: int) -> np.ndarray:
        """`values_at` as grades, UNJUDGED where there is none; int16 [n]."""
        return self.values_at(query, document, documents, UNJUDGED).astype(np.int16)
