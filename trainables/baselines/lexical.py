"""Lexical baselines, BM25 and SDM, over English terms: stems without stop words, as Lucene's English analysis."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, partial
from itertools import islice, pairwise
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, cast

import numpy as np
from scipy.sparse import csr_array

from trainables.config.keys import TrainingConfig
from trainables.core.errors import DataError, Problem
from trainables.core.prose import Countdown
from trainables.data.columns import RankingData, Split, TextColumn, require_texts, require_texts_to_rank
from trainables.data.words import UNKNOWN, Cut, number_words, words
from trainables.evaluation.metrics import Evaluator

if TYPE_CHECKING:
    from gensim.parsing.porter import PorterStemmer


STOPPED = -2
# Lucene's EnglishAnalyzer.ENGLISH_STOP_WORDS_SET, which Anserini uses too.
STOP_WORDS = frozenset(
    {
        "a", "an", "and", "are", "as", "at", "be", "but", "by", "for", "if",
        "in", "into", "is", "it", "no", "not", "of", "on", "or", "such", "that",
        "the", "their", "then", "there", "these", "they", "this", "to", "was", "will", "with",
    }
)  # fmt: skip


@cache
def _stemmer() -> PorterStemmer:
    from gensim.parsing.porter import PorterStemmer  # takes a second to import

    return PorterStemmer()


def term(word: str) -> str | None:
    """Porter stem of a word, None for a stop word."""
    return None if word in STOP_WORDS else _stemmer().stem(word)


def terms(text: str, cut: Cut = "spaces") -> list[str]:
    """The terms of a text in their order."""
    return [stem for stem in map(term, words(text, cut)) if stem is not None]


class TermNumbers(dict[bytes, int]):
    """Number of a word's term in a vocabulary, UNKNOWN if that lacks it, STOPPED for a stop word.

    Each distinct word is stemmed only once, when it is first met.
    """

    def __init__(self, vocabulary: Mapping[str, int]):
        super().__init__()
        self._vocabulary = vocabulary

    def __missing__(self, word: bytes) -> int:
        stem = term(word.decode())
        self[word] = STOPPED if stem is None else self._vocabulary.get(stem, UNKNOWN)
        return self[word]


_DOCUMENTS = 1 << 16  # read at once
_NONE = np.empty(0, np.int32)
Columns = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


@dataclass(frozen=True)
class Occurrences:
    """Where terms occur in a collection of N documents, in the order of the text.

    term      int32 [W]
    document  int32 [W]
    position  int32 [W]  index among the document's terms, without stop words
    lengths   int64 [N]  number of terms per document
    """

    term: np.ndarray
    document: np.ndarray
    position: np.ndarray
    lengths: np.ndarray


def find_terms(documents: TextColumn, vocabulary: dict[str, int], cut: Cut = "spaces") -> Occurrences:
    """Occurrences of a vocabulary's terms; memory holds these and a block of the collection."""
    numbers = TermNumbers(vocabulary)
    progress = Countdown("read", len(documents), "document")
    texts, start = iter(documents), 0
    parts = [(_NONE, _NONE, _NONE, np.empty(0, np.int64))]
    while block := list(islice(texts, _DOCUMENTS)):
        parts.append(_find_in(block, start, numbers, cut))
        start += len(block)
        progress.tell(start)
    term, document, position, lengths = (np.concatenate(columns) for columns in zip(*parts, strict=True))
    return Occurrences(term, document, position, lengths)


def _find_in(texts: list[str], start: int, numbers: TermNumbers, cut: Cut) -> Columns:
    number, offsets = number_words(texts, partial(map, numbers.__getitem__), cut)
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

    def __init__(self, documents: TextColumn, queries: dict[int, str], cut: Cut = "spaces"):
        vocabulary: dict[str, int] = {}
        self._numbers = {
            query: [vocabulary.setdefault(each, len(vocabulary)) for each in terms(text, cut)]
            for query, text in queries.items()
        }
        self.occurrences = find_terms(documents, vocabulary, cut)
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

    def matches(self, split: Split) -> Matches:
        """What the queries and candidates of a split share, term by term."""
        return self.match(split, self.numbers(split), self.counts, self.idf)

    def match(self, split: Split, queries: Sequence[Sequence[int]], counts: csr_array, idf: np.ndarray) -> Matches:
        """Matches of the columns of `counts` (terms, or windows of terms) that a query has, in its candidates.

        `queries`: the columns of each query, repeats included; `idf`: float64 [columns].
        """
        in_query = cast(csr_array, _query_matrix(queries, len(idf))[split.owner])
        contained = cast(csr_array, counts[split.document])
        in_document = _pattern(in_query).multiply(contained).tocsr()
        weighted = in_query.multiply(_pattern(contained)).tocsr()  # the same cells in the same order
        candidate = np.repeat(np.arange(len(split.document)), np.diff(in_document.indptr))
        length = self.relative_length[split.document[candidate]]
        weight = weighted.data * idf[weighted.indices]
        return Matches(candidate, in_document.data, weight, length, len(split.document))


def count_matrix(rows: np.ndarray, columns: np.ndarray, shape: tuple[int, int]) -> csr_array:
    """How often each cell (row, column) is given, float64, in canonical form."""
    matrix = csr_array((np.ones(len(rows)), (rows, columns)), shape=shape)
    matrix.sum_duplicates()
    return matrix


def _query_matrix(queries: Sequence[Sequence[int]], columns: int) -> csr_array:
    owner = np.repeat(np.arange(len(queries)), [len(query) for query in queries])
    flat = np.array([number for query in queries for number in query], np.int64)
    return count_matrix(owner, flat, (len(queries), columns))


def _pattern(matrix: csr_array) -> csr_array:
    return csr_array((np.ones_like(matrix.data), matrix.indices, matrix.indptr), shape=matrix.shape)


Params = dict[str, Any]
Scorer = Callable[[Params], np.ndarray]


class Baseline(ABC):
    """An unsupervised ranker of one data set. splits: those it will score; their queries must be given from the
    start."""

    grid: ClassVar[tuple[Params, ...]] = ()  # parameters to choose from; empty = nothing to choose
    classifies: ClassVar[bool] = False  # whether its scores tell classes of pairs apart
    ranker: ClassVar[str | None] = None  # the ranker whose `ranker.*` keys, with their defaults, it reads

    def __init__(self, data: RankingData, run: TrainingConfig, splits: Sequence[str]):
        (require_texts if self.classifies else require_texts_to_rank)(data)
        self.data, self.run = data, run

    @abstractmethod
    def defaults(self) -> Params:
        """Parameters of the default setting; a point of `grid` replaces some of them."""

    @abstractmethod
    def scorer(self, split: Split) -> Scorer:
        """Computes all that no parameter changes; the result maps parameters to scores, float64 [C]."""

    def grid_best(self, name: str) -> GridBest:
        """The point of the grid with the highest mean of the run's metric on a split; the first of ties."""
        metric, split, defaults = self.run.metric, self.data.splits[name], self.defaults()
        score = self.scorer(split)
        evaluator = Evaluator(split, self.data.document_ids, self.run.evaluation.relevance_level)
        points = [{**defaults, **point} for point in self.grid]
        values = [float(evaluator(score(point), [metric])[metric].sum()) / len(split) for point in points]
        best = int(np.argmax(values))
        return GridBest(points[best], values[best], len(points))


class GridBest(NamedTuple):
    """The best point of a grid. `params`: all parameters; `value`: the metric there; `points`: number of points."""

    params: Params
    value: float
    points: int


class Oracle(Baseline):
    """The best order of the candidates, by their judged grades: what no ranker that reorders them can exceed."""

    def defaults(self) -> Params:
        return {}

    def scorer(self, split: Split) -> Scorer:
        return lambda params: np.maximum(split.grade, 0).astype(np.float64)


class Lexical(Baseline):
    """Scores by the terms that query and document share."""

    def __init__(self, data: RankingData, run: TrainingConfig, splits: Sequence[str]):
        super().__init__(data, run, splits)
        queries = np.concatenate([data.splits[name].query for name in splits])
        texts = {query: data.query_text(query) for query in queries.tolist()}
        self.postings = Postings(data.documents, texts, data.words)
        if not self.postings.occurrences.lengths.any():
            raise DataError(Problem("data.source", f"no document of '{data.name}' has a word", "data with texts"))


class Bm25Baseline(Lexical):
    """Lucene's BM25 over stemmed terms; the formula is that of `trainables.data.bm25`."""

    grid = tuple({"k1": k1 / 10, "b": b / 20} for k1 in range(1, 41) for b in range(21))

    def defaults(self) -> Params:
        """`data.bm25.k1` and `data.bm25.b`, by default .9 and .4 (Anserini)."""
        return self.run.data.bm25.model_dump()

    def scorer(self, split: Split) -> Scorer:
        matches = self.postings.matches(split)
        return lambda params: matches.bm25(params["k1"], params["b"])


IntOrArray = Any  # int, or int64 [n]
WINDOW = 8
STEPS = 10  # of a weight from 0 to 1 in the grid


class Sdm(Lexical):
    """Weights tw, ow, uw (sum 1); k1 and b are those of `data.bm25`."""

    grid = tuple(
        {"tw": tw / STEPS, "ow": ow / STEPS, "uw": (STEPS - tw - ow) / STEPS}
        for tw in range(STEPS, -1, -1)
        for ow in range(STEPS - tw, -1, -1)
    )

    def defaults(self) -> Params:
        return {"tw": 0.85, "ow": 0.1, "uw": 0.05, **self.run.data.bm25.model_dump()}

    def scorer(self, split: Split) -> Scorer:
        parts = [self.postings.matches(split), self._windows(split, True), self._windows(split, False)]
        k1, b = self.run.data.bm25.k1, self.run.data.bm25.b
        terms, ordered, unordered = (part.bm25(k1, b) for part in parts)
        # A query of one term has no windows: its score is that of the term, whatever the weights.
        single = np.array([len(numbers) == 1 for numbers in self.postings.numbers(split)], bool)[split.owner]

        def score(params: Params) -> np.ndarray:
            combined = params["tw"] * terms + params["ow"] * ordered + params["uw"] * unordered
            return np.where(single, terms, combined)

        return score

    def _windows(self, split: Split, ordered: bool) -> Matches:
        """Matches of the queries' neighbours in the split's candidates."""
        postings = self.postings
        pairs = [
            [_key(first, second, postings.size, ordered) for first, second in pairwise(numbers)]
            for numbers in postings.numbers(split)
        ]
        pairs_used = np.unique(np.array([key for query in pairs for key in query], np.int64))
        counts = count_windows(postings.occurrences, pairs_used, postings.size, ordered)
        idf = postings.idf[pairs_used // postings.size] + postings.idf[pairs_used % postings.size]
        columns = [np.searchsorted(pairs_used, query).tolist() for query in pairs]
        return postings.match(split, columns, counts, idf)


def _key(first: IntOrArray, second: IntOrArray, size: int, ordered: bool) -> IntOrArray:
    """The number of a pair of terms, or of each of several; unordered, it is that of the smaller term first."""
    return first * size + second if ordered else np.minimum(first, second) * size + np.maximum(first, second)


def count_windows(occurrences: Occurrences, pairs_used: np.ndarray, size: int, ordered: bool) -> csr_array:
    """How often each pair of terms forms an ordered or unordered window in each document, float64 [N, pairs].

    `pairs_used`: their numbers (`_key`), int64 [pairs], ascending.
    """
    rows, columns = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    for step in range(1, 2 if ordered else WINDOW):  # positions ascend: `step` occurrences on is as far or farther
        first, second = slice(None, -step), slice(step, None)
        document = occurrences.document[first]
        apart = occurrences.position[second] - occurrences.position[first]
        near = (document == occurrences.document[second]) & (apart < (2 if ordered else WINDOW))
        one = occurrences.term[first][near].astype(np.int64)
        other = occurrences.term[second][near].astype(np.int64)
        key = _key(one, other, size, ordered)
        column = np.searchsorted(pairs_used, key)
        of_queries = np.flatnonzero(column < len(pairs_used))
        of_queries = of_queries[pairs_used[column[of_queries]] == key[of_queries]]
        rows.append(document[near][of_queries])
        columns.append(column[of_queries])
    return count_matrix(np.concatenate(rows), np.concatenate(columns), (len(occurrences.lengths), len(pairs_used)))
