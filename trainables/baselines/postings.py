"""Where the terms of some queries occur in a collection, which is read only once, and BM25 over them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import cast

import numpy as np
from scipy.sparse import csr_array

from trainables.baselines.terms import STOPPED, TermNumbers, terms
from trainables.countdown import Countdown
from trainables.data.columns import Split, TextColumn
from trainables.data.words import number_words

_DOCUMENTS = 1 << 16  # read at once
_NONE = np.empty(0, np.int32)
_ROUNDING = 1e-6  # relative; more than float32, as which scores are compared, can round away
Columns = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


@dataclass(frozen=True)
class Occurrences:
    """Where terms occur in a collection of N documents, in the order of the text.

    term      int32 [W]
    document  int32 [W]
    position  int32 [W]  place among the document's terms, without stop words
    lengths   int64 [N]  number of terms per document
    """

    term: np.ndarray
    document: np.ndarray
    position: np.ndarray
    lengths: np.ndarray


def find_terms(documents: TextColumn, vocabulary: dict[str, int]) -> Occurrences:
    """Occurrences of a vocabulary's terms; memory holds these and a block of the collection."""
    numbers = TermNumbers(vocabulary)
    progress = Countdown("read", len(documents), "document")
    texts, start = iter(documents), 0
    parts = [(_NONE, _NONE, _NONE, np.empty(0, np.int64))]
    while block := list(islice(texts, _DOCUMENTS)):
        parts.append(_find_in(block, start, numbers))
        start += len(block)
        progress.tell(start)
    term, document, position, lengths = (np.concatenate(columns) for columns in zip(*parts, strict=True))
    return Occurrences(term, document, position, lengths)


def _find_in(texts: list[str], start: int, numbers: TermNumbers) -> Columns:
    number, offsets = number_words(texts, numbers.__getitem__)
    owner = np.repeat(np.arange(len(texts)), np.diff(offsets))
    counted = number != STOPPED
    number, owner = number[counted], owner[counted]
    lengths = np.bincount(owner, minlength=len(texts))
    position = np.arange(len(owner)) - (np.cumsum(lengths) - lengths)[owner]
    wanted = number >= 0
    return number[wanted], (start + owner[wanted]).astype(np.int32), position[wanted].astype(np.int32), lengths


@dataclass(frozen=True)
class Matches:
    """What queries and their candidates share: one row per candidate and term (or window) of its query in it.

    candidate  int64 [M]    ascending
    count      float64 [M]  how often the term occurs in the document
    weight     float64 [M]  inverse document frequency, times the term's count in the query
    length     float64 [M]  length of the document over the mean length
    candidates              number of candidates of all queries, C
    """

    candidate: np.ndarray
    count: np.ndarray
    weight: np.ndarray
    length: np.ndarray
    candidates: int

    def bm25(self, k1: float, b: float) -> np.ndarray:
        """Scores by Lucene's BM25 (`trainables.data.bm25`), float64 [C]; 0 for a candidate without a match."""
        saturated = self.count / (self.count + k1 * (1 - b + b * self.length))
        return np.bincount(self.candidate, self.weight * saturated, minlength=self.candidates)


class Postings:
    """The terms of given queries in all documents.

    `queries`: texts by the number that `Split.query` uses. Statistics (document frequencies, mean length) are
    those of the whole collection.
    """

    def __init__(self, documents: TextColumn, queries: dict[int, str]):
        vocabulary: dict[str, int] = {}
        self._numbers = {query: _numbers(terms(text), vocabulary) for query, text in queries.items()}
        self.occurrences = find_terms(documents, vocabulary)
        self.size = len(vocabulary)
        lengths = self.occurrences.lengths
        self.relative_length = lengths / max(lengths.mean() if len(lengths) else 0.0, 1e-9)

    def __len__(self) -> int:
        return len(self.occurrences.lengths)

    def numbers(self, split: Split) -> list[list[int]]:
        """Term numbers of the split's queries, in their order."""
        return [self._numbers[query] for query in split.query.tolist()]

    @cached_property
    def counts(self) -> csr_array:
        """How often each term occurs in each document, float64 [N, terms]."""
        return count_matrix(self.occurrences.document, self.occurrences.term, (len(self), self.size))

    @cached_property
    def idf(self) -> np.ndarray:
        """ln(1 + (N - n + .5) / (n + .5)), n the documents with the term; float64 [terms]."""
        holding = np.bincount(self.counts.indices, minlength=self.size)
        return np.log1p((len(self) - holding + 0.5) / (holding + 0.5))

    def saturated(self, k1: float, b: float) -> csr_array:
        """f / (f + norm) of BM25 for each term in each document with it, float64 [terms, N]."""
        lists = cast(csr_array, self.counts.T.tocsr())
        norm = k1 * (1 - b + b * self.relative_length)
        lists.data /= lists.data + norm[lists.indices]
        return lists

    def best(self, split: Split, saturated: csr_array, depth: int) -> tuple[np.ndarray, np.ndarray]:
        """(offsets int64 [Q + 1], document int32 [C]): the `depth` best documents for each query by BM25, and those
        that may tie with the last of them, by row.

        Reads the lists of a query's terms and no document: nothing is looked up or sorted for the millions of documents
        that a common word matches, such as their ids.
        """
        found, scores = [np.empty(0, np.int32)], np.empty(len(self))
        for numbers in self.numbers(split):
            scores[:] = 0
            for number in numbers:
                part = slice(*saturated.indptr[number : number + 2])
                scores[saturated.indices[part]] += self.idf[number] * saturated.data[part]
            found.append(_highest(scores, depth))
        return np.cumsum([len(rows) for rows in found]), np.concatenate(found)

    def matches(self, split: Split) -> Matches:
        return self.match(split, self.numbers(split), self.counts, self.idf)

    def match(self, split: Split, queries: Sequence[Sequence[int]], counts: csr_array, idf: np.ndarray) -> Matches:
        """Matches of the columns of `counts` (terms, or windows of terms) that a query has, in its candidates.

        `queries`: the columns of each query, repeats included; `idf`: float64 [columns].
        """
        asked = _rows(_query_matrix(queries, len(idf)), split.owner)
        held = _rows(counts, split.document)
        in_document = _pattern(asked).multiply(held).tocsr()
        in_query = asked.multiply(_pattern(held)).tocsr()  # the same cells in the same order
        candidate = np.repeat(np.arange(len(split.document)), np.diff(in_document.indptr))
        length = self.relative_length[split.document[candidate]]
        weight = in_query.data * idf[in_query.indices]
        return Matches(candidate, in_document.data, weight, length, len(split.document))

    def matching(self, split: Split) -> tuple[np.ndarray, np.ndarray]:
        """(offsets int64 [Q + 1], document int32 [C]): all documents with a term of the query, by row."""
        asked = _pattern(_query_matrix(self.numbers(split), self.size))
        found = cast(csr_array, asked @ _pattern(self.counts).T)
        found.sort_indices()
        return found.indptr.astype(np.int64), found.indices.astype(np.int32)


def _highest(scores: np.ndarray, depth: int) -> np.ndarray:
    """Rows of the `depth` highest scores above 0, and of those that may tie with the last of them; int32, ascending."""
    rest = len(scores) - depth
    least = np.partition(scores, rest)[rest] * (1 - _ROUNDING) if rest > 0 else 0.0
    return np.flatnonzero((scores > 0) & (scores >= least)).astype(np.int32)


def _numbers(found: list[str], vocabulary: dict[str, int]) -> list[int]:
    return [vocabulary.setdefault(each, len(vocabulary)) for each in found]


def count_matrix(rows: np.ndarray, columns: np.ndarray, shape: tuple[int, int]) -> csr_array:
    """How often each cell (row, column) is given, float64, in canonical form."""
    matrix = csr_array((np.ones(len(rows)), (rows, columns)), shape=shape)
    matrix.sum_duplicates()
    return matrix


def _query_matrix(queries: Sequence[Sequence[int]], columns: int) -> csr_array:
    owner = np.repeat(np.arange(len(queries)), [len(query) for query in queries])
    flat = np.array([number for query in queries for number in query], np.int64)
    return count_matrix(owner, flat, (len(queries), columns))


def _rows(matrix: csr_array, rows: np.ndarray) -> csr_array:
    return cast(csr_array, matrix[rows])


def _pattern(matrix: csr_array) -> csr_array:
    return csr_array((np.ones_like(matrix.data), matrix.indices, matrix.indptr), shape=matrix.shape)
