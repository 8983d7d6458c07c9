"""A saved ranker as MLflow's pyfunc: `mlflow.pyfunc.load_model(uri).predict(DataFrame[query, document])`.

MLflow imports this module by the name that the model's file MLmodel has: nothing is unpickled, and no code travels.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from tune_cl.api.rankers import Ranker, load_ranker

COLUMNS = ("query", "document")


class PairScorer:
    """Scores the rows of a table with the columns `query` and `document`."""

    def __init__(self, ranker: Ranker):
        self.ranker = ranker

    def predict(self, model_input: pd.DataFrame, params: dict[str, object] | None = None) -> np.ndarray:
        """Scores float32 [rows]; of a ranker with K classes, their logits, float32 [rows, K]."""
        return self.ranker.predict(zip(*(model_input[name].astype(str) for name in COLUMNS), strict=True))


def _load_pyfunc(path: str) -> PairScorer:
    """What MLflow calls with the folder of the model."""
    return PairScorer(load_ranker(Path(path)))
