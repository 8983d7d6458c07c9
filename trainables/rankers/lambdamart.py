"""LambdaMART over feature vectors, by LightGBM (Burges 2010; Ke et al. 2017).

Not a network over texts: `trainables.training.trees` trains it, tree by tree.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from trainables.core.errors import DataError, Problem
from trainables.data.columns import RankingData
from trainables.rankers.settings import LambdaMartSettings

Objective = Literal["regression", "lambdarank"]
HIGHEST_LABEL = 30  # the highest whose gain 2^label - 1 LightGBM can hold
LARGEST_QUERY = 10_000  # most documents per query that LightGBM's lambdarank takes


def parameters(settings: LambdaMartSettings, lr: float, objective: Objective, highest_label: int) -> dict[str, Any]:
    """LightGBM's parameters for a stage, except those that depend on machine or moment (threads, seed).

    `deterministic` with `force_col_wise` makes trees the same for any number of threads. The rows that bins are found
    from, where there are more than 200,000, are always the same ones: a training that goes on has another seed.
    """
    values: dict[str, Any] = {
        "objective": objective,
        "learning_rate": lr,
        "num_leaves": settings.leaves,
        "min_data_in_leaf": settings.min_data_in_leaf,
        "max_bin": settings.max_bin,
        "data_random_seed": 1,
        "feature_fraction": settings.feature_fraction,
        "deterministic": True,
        "force_col_wise": True,
        "verbosity": -1,
    }
    if settings.bagging_fraction < 1:
        values |= {"bagging_fraction": settings.bagging_fraction, "bagging_freq": 1, "bagging_by_query": True}
    if objective == "lambdarank":
        labels = range(max(highest_label, 1) + 1)
        values |= {
            "lambdarank_truncation_level": settings.truncation_level,
            "lambdarank_norm": settings.lambdarank_norm,
            "label_gain": [label if settings.gain == "linear" else 2**label - 1 for label in labels],
        }
    return values


def require_features(data: RankingData) -> np.ndarray:
    """The data's features, float32 [documents, F]. Raises DataError for data that LambdaMART cannot learn from."""
    if data.features is None:
        wrong = f"'{data.name}' holds texts, no features"
        right = "for lambdamart give --data a LETOR folder (train.txt with rows LABEL qid:N INDEX:VALUE ...)"
        raise DataError(Problem("data.source", wrong, right))
    train = data.splits.get("train")
    if train is not None and len(train):
        longest = int(train.sizes.max())
        if longest > LARGEST_QUERY:
            wrong = f"a training query has {longest:,} documents"
            raise DataError(Problem("data.source", wrong, f"at most {LARGEST_QUERY:,} a query for lambdamart"))
        if train.grade.max() > HIGHEST_LABEL:
            wrong = f"label {train.grade.max()} in the training data"
            raise DataError(Problem("data.source", wrong, f"labels from 0 to {HIGHEST_LABEL} for lambdamart"))
        filled = train.offsets[:-1][train.sizes > 0]
        if (np.maximum.reduceat(train.grade, filled) == np.minimum.reduceat(train.grade, filled)).all():
            wrong = "no training query has both a relevant and a less relevant candidate"
            raise DataError(Problem("data.source", wrong, "labels that differ within a query"))
    return data.features
