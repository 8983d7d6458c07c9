"""A trained ranker as a step of a PyTerrier pipeline: `bm25 >> pt.text.get_text(index) >> TuneClRanker("FOLDER")`.

Needs the extra `pyterrier` (`pip install tune-cl[pyterrier]`); no Java, unless the pipeline's other steps do.
"""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pyterrier as pt

from tune_cl.api.arguments import require_texts
from tune_cl.api.rankers import Ranker, load_ranker


class TuneClRanker(pt.Transformer):
    """Scores the documents of each query again. It reads the columns qid, query, docno and `text_column`, and gives the
    same rows with `score` and `rank` (from 0), best first within a query.

    `ranker`: a folder, a cross-encoder's hub name, or what `tune_cl.load_ranker` returned.
    """

    def __init__(self, ranker: str | Path | Ranker, text_column: str = "text"):
        super().__init__()
        self.ranker = ranker if isinstance(ranker, Ranker) else load_ranker(ranker)
        self.text_column = text_column

    def transform(self, inp: pd.DataFrame) -> pd.DataFrame:
        """Raises KeyError if a column is missing, as PyTerrier's own transformers do, and DataError for a row without
        a text."""
        texts = list(inp[self.text_column])
        require_texts((f"{self.text_column} of row {row}", text) for row, text in enumerate(texts))
        pairs = list(zip(inp["query"].astype(str), texts, strict=True))
        return pt.model.add_ranks(inp.assign(score=self.ranker.predict(pairs).astype("float64")))
