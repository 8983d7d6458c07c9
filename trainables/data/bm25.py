"""BM25 over a corpus in memory, for given query-document pairs or as a ranking, in the two common variants."""

from __future__ import annotations

from copy import copy
from typing import Literal

import numpy as np
from scipy.sparse import csr_array

from trainables.data.words import WordRows

Variant = Literal["lucene", "okapi"]
OKAPI_EPSILON = 0.25
_CELLS = 1 << 22  # dense scores held at once by `top`
_PAIRS = 1 << 14  # pairs scored at once by `pair_scores`


class Bm25:
    """BM25 over documents given as word rows; queries are word rows in the documents' vocabulary.

    A query's score is the sum over its words, repeats included, of the word's weight in the document:
    lucene  idf * f / (f + norm),            idf = ln(1 + (N - n + .5) / (n + .5))   (Lucene >= 8, exact lengths)
    okapi   idf * f * (k1 + 1) / (f + norm), idf = ln(N - n + .5) - ln(n + .5), a negative one replaced by
            .25 times the mean idf of the vocabulary                                  (gensim 3.8, rank_bm25)
    with norm = k1 * (1 - b + b * length / mean length), f the word's count in the document, n the documents
    with the word, N all documents.
    """

    def __init__(self, documents: WordRows, variant: Variant = "lucene", k1: float = 0.9, b: float = 0.4):
        counts = _counts(documents)
        norm = k1 * (1 - b + b * documents.lengths / max(documents.lengths.mean() if len(documents) else 0, 1e-9))
        frequency = counts.data
        saturated = frequency / (frequency + np.repeat(norm, np.diff(counts.indptr)))
        idf = _idf(variant, np.bincount(counts.indices, minlength=len(documents.vocabulary)), len(documents))
        scale = k1 + 1 if variant == "okapi" else 1.0
        self.weights = csr_array((scale * saturated * idf[counts.indices], counts.indices, counts.indptr), counts.shape)

    def __len__(self) -> int:
        return len(self.weights.indptr) - 1

    def within(self, rows: slice) -> Bm25:
        """The same weights over a part of the documents, whose rows are counted from its start."""
        part = copy(self)
        part.weights = self.weights[rows]
        return part

    def pair_scores(self, queries: WordRows, query_rows: np.ndarray, document_rows: np.ndarray) -> np.ndarray:
        """Scores of B pairs, float64 [B]; the rows (int [B] each) index `queries` and the documents."""
        counts = _counts(queries)
        scores = np.zeros(len(query_rows))
        for start in range(0, len(query_rows), _PAIRS):
            part = slice(start, start + _PAIRS)
            shared = counts[query_rows[part]].multiply(self.weights[document_rows[part]])
            scores[part] = shared.sum(axis=1)
        return scores

    def top(self, queries: WordRows, k: int, query_rows: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
        """The k best documents a query (all of `queries`, or the given rows: int [Q]), ties by document row.

        Returns document rows int64 [Q, K] and scores float64 [Q, K], K = min(k, documents), best first.
        """
        rows = np.arange(len(queries)) if query_rows is None else query_rows
        counts = _counts(queries)[rows]
        found = np.empty((len(rows), min(k, len(self))), np.int64)
        scores = np.empty(found.shape)
        step = max(1, _CELLS // max(1, len(self)))
        for start in range(0, len(found), step):
            part = slice(start, start + step)
            dense = (counts[part] @ self.weights.T).toarray()
            found[part] = _best(dense, found.shape[1])
            scores[part] = np.take_along_axis(dense, found[part], axis=1)
        return found, scores


def _best(scores: np.ndarray, k: int) -> np.ndarray:
    """Columns of the k highest scores a row, highest first, ties by column; int64 [rows, k], 0 <= k <= columns."""
    if not scores.size or not k:
        return np.empty((len(scores), k), np.int64)
    least = -np.partition(-scores, k - 1, axis=1)[:, k - 1 : k]
    row, column = np.nonzero(scores >= least)  # k a row, and all that tie with the last
    order = np.lexsort((column, -scores[row, column], row))
    starts = np.searchsorted(row, np.arange(len(scores)))
    return column[order][starts[:, None] + np.arange(k)]


def _counts(rows: WordRows) -> csr_array:
    """Word counts, float64 [texts, vocabulary]; unknown words count nowhere."""
    known = rows.ids >= 0
    cells = (np.ones(int(known.sum())), (rows.owner[known], rows.ids[known]))
    return csr_array(cells, shape=(len(rows), len(rows.vocabulary)))


def _idf(variant: Variant, holding: np.ndarray, total: int) -> np.ndarray:
    """Inverse document frequency of each word, float64 [vocabulary]; `holding` counts the documents with it."""
    if variant == "lucene":
        return np.log1p((total - holding + 0.5) / (holding + 0.5))
    idf = np.log(total - holding + 0.5) - np.log(holding + 0.5)
    return np.where(idf < 0, OKAPI_EPSILON * idf.mean(), idf) if len(idf) else idf
