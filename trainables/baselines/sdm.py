"""Sequential dependence model (Metzler & Croft 2005) over BM25, with Anserini's weights.

A query's score is tw * S(terms) + ow * S(ordered) + uw * S(unordered), S the BM25 score over
terms      the query's terms
ordered    neighbours in the query that are also neighbours in the document, in the same order
unordered  neighbours in the query that occur in the document within a window of 8 terms, in any order
A window's count is the number of pairs of positions that fit it; its inverse document frequency is the sum of its
two terms', as Lucene scores spans. Stop words are removed first, from queries and documents. The authors use smoothed
language models instead of BM25. Anserini, unlike this, allows one term inside an ordered window.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from scipy.sparse import csr_array

from trainables.baselines.base import Lexical, Params, Scorer
from trainables.baselines.postings import Matches, Occurrences, count_matrix
from trainables.data.columns import Split

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
        known = np.unique(np.array([key for query in pairs for key in query], np.int64))
        counts = count_windows(postings.occurrences, known, postings.size, ordered)
        idf = postings.idf[known // postings.size] + postings.idf[known % postings.size]
        columns = [np.searchsorted(known, query).tolist() for query in pairs]
        return postings.match(split, columns, counts, idf)


def _key(first: int, second: int, size: int, ordered: bool) -> int:
    return first * size + second if ordered else min(first, second) * size + max(first, second)


def count_windows(occurrences: Occurrences, known: np.ndarray, size: int, ordered: bool) -> csr_array:
    """How often each pair of terms forms an ordered or unordered window in each document, float64 [N, pairs].

    `known`: int64 [pairs], ascending: first term * size + second term, for unordered windows the smaller first.
    """
    rows, columns = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    for step in range(1, 2 if ordered else WINDOW):  # positions ascend: `step` occurrences on is as far or farther
        first, second = slice(None, -step), slice(step, None)
        document = occurrences.document[first]
        apart = occurrences.position[second] - occurrences.position[first]
        near = (document == occurrences.document[second]) & (apart < (2 if ordered else WINDOW))
        left = occurrences.term[first][near].astype(np.int64)
        right = occurrences.term[second][near].astype(np.int64)
        key = left * size + right if ordered else np.minimum(left, right) * size + np.maximum(left, right)
        at = np.searchsorted(known, key)
        asked = np.flatnonzero(at < len(known))
        asked = asked[known[at[asked]] == key[asked]]
        rows.append(document[near][asked])
        columns.append(at[asked])
    return count_matrix(np.concatenate(rows), np.concatenate(columns), (len(occurrences.lengths), len(known)))
