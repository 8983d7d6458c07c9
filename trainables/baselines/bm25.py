"""BM25 (Robertson et al. 1994) as a baseline, with the grid of MacAvaney et al. (2020)."""

from __future__ import annotations

from trainables.baselines.base import Lexical, Params, Scorer, Search
from trainables.data.columns import Split


class Bm25Baseline(Lexical):
    """Lucene's BM25 over stemmed terms; the formula is that of `trainables.data.bm25`."""

    grid = tuple({"k1": k1 / 10, "b": b / 20} for k1 in range(1, 41) for b in range(21))

    def defaults(self) -> Params:
        """`data.bm25.k1` and `data.bm25.b`, by default .9 and .4 (Anserini)."""
        return self.run.data.bm25.model_dump()

    def search(self, params: Params) -> Search:
        saturated = self.postings.saturated(params["k1"], params["b"])
        return lambda split: self.postings.best(split, saturated, self.run.data.top_k)

    def scorer(self, split: Split) -> Scorer:
        matches = self.postings.matches(split)
        return lambda params: matches.bm25(params["k1"], params["b"])
