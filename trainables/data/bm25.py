"""BM25 over a corpus in memory, for given query-document pairs or as a ranking, in the two common variants."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from copy import copy
from dataclasses import dataclass
from itertools import islice
from typing import Literal

import numpy as np
from scipy.sparse import csr_array

from trainables.data.columns import RankingData, Split
from trainables.data.words import Cut, WordRows, index_words, look_up

Variant = Literal["lucene", "okapi"]
OKAPI_EPSILON = 0.25
_CELLS = 1 << 22  # dense scores in memory at once in `top`
_PAIRS = 1 << 14  # pairs scored at once by `pair_scores`
_TEXTS = 1 << 14  # documents read at once by `Statistics.of`


@dataclass(frozen=True)
class Statistics:
    """Statistics of a whole collection that BM25 needs, for the words of one vocabulary.

    documents    number of documents
    mean_length  mean number of words per document, those outside the vocabulary included
    holding      int64 [vocabulary]: number of documents with the word
    """

    documents: int
    mean_length: float
    holding: np.ndarray

    @classmethod
    def of(cls, texts: Iterable[str], vocabulary: tuple[str, ...], cut: Cut = "spaces") -> Statistics:
        """Reads the texts once; only a block of them is in memory at a time."""
        texts, count, length = iter(texts), 0, 0
        holding = np.zeros(len(vocabulary), np.int64)
        while block := list(islice(texts, _TEXTS)):
            rows = look_up(block, vocabulary, cut)
            holding += np.bincount(_counts(rows).indices, minlength=len(vocabulary))
            count, length = count + len(rows), length + len(rows.ids)
        return cls(count, length / max(1, count), holding)


class Bm25:
    """BM25 over documents given as word rows; queries are word rows in the documents' vocabulary.

    A query's score is the sum over its words, repeats included, of the word's weight in the document:
    lucene  idf * f / (f + norm),            idf = ln(1 + (N - n + .5) / (n + .5))   (Lucene >= 8, exact lengths)
    okapi   idf * f * (k1 + 1) / (f + norm), idf = ln(N - n + .5) - ln(n + .5), a negative one replaced by
            .25 times the mean idf of the vocabulary                                  (gensim 3.8, rank_bm25)
    with norm = k1 * (1 - b + b * length / mean length), f the word's count in the document, n the documents
    with the word, N all documents.
    """

    def __init__(
        self,
        documents: WordRows,
        variant: Variant = "lucene",
        k1: float = 0.9,
        b: float = 0.4,
        statistics: Statistics | None = None,
    ):
        """`statistics`: those of the collection that the documents are a part of, in their vocabulary; None: the
        documents are the collection. Okapi takes no parts, because its floor for idf is a mean over all words."""
        if statistics and variant == "okapi":
            raise ValueError("okapi needs all documents")
        counts = _counts(documents)
        whole = statistics or Statistics(
            len(documents),
            float(documents.lengths.mean()) if len(documents) else 0.0,
            np.bincount(counts.indices, minlength=len(documents.vocabulary)),
        )
        norm = k1 * (1 - b + b * documents.lengths / max(whole.mean_length, 1e-9))
        frequency = counts.data
        saturated = frequency / (frequency + np.repeat(norm, np.diff(counts.indptr)))
        idf = _idf(variant, whole.holding, whole.documents)
        scale = k1 + 1 if variant == "okapi" else 1.0
        self.weights = csr_array((scale * saturated * idf[counts.indices], counts.indices, counts.indptr), counts.shape)

    def __len__(self) -> int:
        return len(self.weights.indptr) - 1

    def within(self, rows: slice) -> Bm25:
        """The same weights over a part of the documents, whose rows then count from the start of the part."""
        part = copy(self)
        part.weights = self.weights[rows]
        return part

    def pair_scores(self, queries: WordRows, query_rows: np.ndarray, document_rows: np.ndarray) -> np.ndarray:
        """Scores of B pairs, float64 [B]; the rows (int [B] each) index `queries` and the documents."""
        return self.count_scores(_counts(queries), query_rows, document_rows)

    def count_scores(self, counts: csr_array, query_rows: np.ndarray, document_rows: np.ndarray) -> np.ndarray:
        """As `pair_scores`, with the word counts of the queries."""
        scores = np.zeros(len(query_rows))
        for start in range(0, len(query_rows), _PAIRS):
            part = slice(start, start + _PAIRS)
            shared = counts[query_rows[part]].multiply(self.weights[document_rows[part]])
            scores[part] = shared.sum(axis=1)
        return scores

    def top(self, queries: WordRows, k: int, query_rows: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
        """The k best documents per query (of all `queries`, or of the given rows: int [Q]), ties by document row.

        Returns document rows int64 [Q, K] and scores float64 [Q, K], K = min(k, documents), best first.
        """
        rows = np.arange(len(queries)) if query_rows is None else query_rows
        counts = _counts(queries)[rows]
        documents = np.empty((len(rows), min(k, len(self))), np.int64)
        scores = np.empty(documents.shape)
        step = max(1, _CELLS // max(1, len(self)))
        for start in range(0, len(documents), step):
            part = slice(start, start + step)
            dense = (counts[part] @ self.weights.T).toarray()
            documents[part] = _best(dense, documents.shape[1])
            scores[part] = np.take_along_axis(dense, documents[part], axis=1)
        return documents, scores


def candidate_scores(
    data: RankingData, split: Split, rows: np.ndarray | slice, variant: Variant, k1: float, b: float
) -> np.ndarray:
    """BM25 of the candidates in these rows for their queries, float64 [rows]; the collection is their documents."""
    documents, index = np.unique(split.document[rows], return_inverse=True)
    corpus = index_words((data.documents[document] for document in documents.tolist()), data.words)
    queries = look_up((data.query_text(query) for query in split.query.tolist()), corpus.vocabulary, corpus.cut)
    return Bm25(corpus, variant, k1, b).pair_scores(queries, split.owner[rows], index)


def streamed_scores(
    documents: Sequence[str],
    statistics: Statistics,
    queries: WordRows,
    query_rows: np.ndarray,
    document_rows: np.ndarray,
    k1: float,
    b: float,
) -> np.ndarray:
    """`Bm25.pair_scores` (lucene) of B pairs, float64 [B], with the words of only a block of them in memory.

    `statistics`: of all `documents`, in the vocabulary of `queries`. A document that several queries share is usually
    read only once.
    """
    order = np.argsort(document_rows, kind="stable")
    scores, counts = np.zeros(len(order)), _counts(queries)
    for start in range(0, len(order), _PAIRS):
        pairs = order[start : start + _PAIRS]
        distinct, index = np.unique(document_rows[pairs], return_inverse=True)
        words = look_up((documents[int(row)] for row in distinct), queries.vocabulary, queries.cut)
        scores[pairs] = Bm25(words, "lucene", k1, b, statistics).count_scores(counts, query_rows[pairs], index)
    return scores


def _best(scores: np.ndarray, k: int) -> np.ndarray:
    """Columns of the k highest scores per row, highest first, ties by column; int64 [rows, k], 0 <= k <= columns."""
    if not scores.size or not k:
        return np.empty((len(scores), k), np.int64)
    least = -np.partition(-scores, k - 1, axis=1)[:, k - 1 : k]
    row, column = np.nonzero(scores >= least)  # k per row, and all that tie with the last
    order = np.lexsort((column, -scores[row, column], row))
    starts = np.searchsorted(row, np.arange(len(scores)))
    return column[order][starts[:, None] + np.arange(k)]


def _counts(rows: WordRows) -> csr_array:
    """Word counts, float64 [texts, vocabulary]; unknown words are not counted."""
    inside = rows.ids >= 0
    cells = (np.ones(int(inside.sum())), (rows.owner[inside], rows.ids[inside]))
    return csr_array(cells, shape=(len(rows), len(rows.vocabulary)))


def _idf(variant: Variant, holding: np.ndarray, total: int) -> np.ndarray:
    """Inverse document frequency of each word, float64 [vocabulary]; `holding`: number of documents with it."""
    if variant == "lucene":
        return np.log1p((total - holding + 0.5) / (holding + 0.5))
    idf = np.log(total - holding + 0.5) - np.log(holding + 0.5)
    return np.where(idf < 0, OKAPI_EPSILON * idf.mean(), idf) if len(idf) else idf
