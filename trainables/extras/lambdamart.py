"""LambdaMART over feature vectors, by LightGBM (Burges 2010; Ke et al. 2017).

Not a network over texts: `trainables.extras.trees` trains it, tree by tree. PyTorch is not needed to check its keys.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

import numpy as np
from pydantic import Field

from trainables.core.errors import DataError, Problem
from trainables.data.columns import RankingData, require_features
from trainables.rankers import RankerKind
from trainables.rankers.settings import RankerSettings

TreeObjective = Literal["regression", "lambdarank"]
HIGHEST_LABEL = 30  # the highest whose gain 2^label - 1 LightGBM can hold
LARGEST_QUERY = 10_000  # most documents per query that LightGBM's lambdarank takes


class LambdaMartSettings(RankerSettings):
    """LightGBM's parameters, under names that are usual in the field. Which implementation the paper used is not known,
    so what it leaves open has LightGBM's default."""

    default_lr = 0.05

    name: Literal["lambdamart"] = "lambdamart"
    leaves: int = Field(default=64, ge=2, le=131_072, description="leaves of a tree")
    trees_per_iteration: int = Field(
        default=10, ge=1, description="trees between two evaluations on dev: one iteration"
    )
    min_data_in_leaf: int = Field(default=20, ge=1, description="training documents in a leaf at least")
    max_bin: int = Field(default=255, ge=2, le=65_535, description="histogram bins of a feature at most")
    truncation_level: int = Field(
        default=30, ge=1, description="pairs of documents count if one of them is ranked so high"
    )
    lambdarank_norm: bool = Field(default=True, description="whether a query's lambdas are normalised")
    gain: Literal["exponential", "linear"] = Field(
        default="exponential",
        description="the gain of label l in the training objective: 2^l - 1, or l as in trec_eval",
    )
    feature_fraction: float = Field(
        default=1.0, gt=0, le=1, description="the fraction of the features that is drawn again for each tree"
    )
    bagging_fraction: float = Field(
        default=1.0, gt=0, le=1, description="the fraction of the queries that is drawn again for each tree"
    )

    @property
    def draws(self) -> bool:
        """Whether trees are grown on random parts of the data."""
        return self.feature_fraction < 1 or self.bagging_fraction < 1

    @property
    def rounds_per_iteration(self) -> int:
        return self.trees_per_iteration

    def refused(self, run: Any) -> Iterator[Problem]:
        curriculum = run.curriculum
        right = "curriculum.subset or curriculum.objective_switch: mse, with curriculum.switch (trees)"
        for key, value in (
            ("curriculum.pacing", curriculum.pacing),
            ("curriculum.weighting", curriculum.weighting),
            ("curriculum.negatives.schedule", curriculum.negatives.schedule),
        ):
            if value != "none":
                yield Problem(key, f"'{value}' does not apply to {self.name}, which grows trees on all its data", right)
        switch = curriculum.objective_switch
        if switch not in ("none", "mse"):
            yield Problem("curriculum.objective_switch", f"'{switch}' does not apply to {self.name}", "none or mse")
        if run.training.max_iterations < 1:
            yield Problem("training.max_iterations", f"{self.name} without trees ranks nothing", "1 or more")


KIND = RankerKind(LambdaMartSettings, training="trainables.extras.trees:TreeTraining", staged=True, on_cpu=True)


def parameters(settings: LambdaMartSettings, lr: float, objective: TreeObjective, highest_label: int) -> dict[str, Any]:
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


def learnable_features(data: RankingData) -> np.ndarray:
    """The data's features, float32 [documents, F]. Raises DataError for data that LambdaMART cannot learn from."""
    features = require_features(data, "lambdamart")
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
    return features
