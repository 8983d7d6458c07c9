"""Trainings of trees for tests, and LightGBM's own for comparison."""

from __future__ import annotations

from typing import Any

import lightgbm as lgb
import numpy as np

from trainables.config.keys import TrainingConfig, validated
from trainables.data.columns import RankingData
from trainables.extras.lambdamart import learnable_features, parameters
from trainables.extras.trees import TreeTraining, settings_of
from trainables.training.prepared import NO_TEXTS, PreparedData

TREES, ITERATIONS = 4, 5  # trees per iteration, iterations per training


def tree_run(iterations: int = ITERATIONS, ranker: dict[str, Any] | None = None, **curriculum: Any) -> TrainingConfig:
    keys = {"name": "lambdamart", "leaves": 6, "min_data_in_leaf": 5, "trees_per_iteration": TREES, **(ranker or {})}
    training = {"lr": 0.1, "max_iterations": iterations, "patience": iterations}
    return validated({"ranker": keys, "training": training, "curriculum": curriculum, "metric": "ndcg@10"})


def prepared_of(data: RankingData) -> PreparedData:
    return PreparedData(data, NO_TEXTS)


def trained(run: TrainingConfig, data: RankingData) -> TreeTraining:
    training = TreeTraining(run, prepared_of(data))
    while not training.finished:
        training.iterate()
    return training


def features_of(data: RankingData, split: str) -> np.ndarray:
    return learnable_features(data)[data.splits[split].document]


def by_lightgbm(
    run: TrainingConfig,
    data: RankingData,
    objective: Any,
    rounds: int,
    rows: np.ndarray | None = None,
    start: Any = None,
) -> lgb.Booster:
    """The trees of LightGBM's own training, in one call."""
    split = data.splits["train"]
    rows = np.arange(len(split.document)) if rows is None else rows
    sizes = np.bincount(split.owner[rows], minlength=len(split))
    dataset = lgb.Dataset(features_of(data, "train")[rows], split.grade[rows], group=sizes[sizes > 0])
    settings = parameters(settings_of(run), run.training.lr, objective, int(split.grade.max()))
    dataset.free_raw_data = False
    return lgb.train(settings | {"num_threads": 1, "seed": 0}, dataset, rounds, init_model=start)


def assert_same_trees(training: TreeTraining, booster: lgb.Booster, data: RankingData) -> None:
    assert training.booster is not None and training.booster.num_trees() == booster.num_trees()
    for split in ("train", "dev", "test"):
        np.testing.assert_array_equal(
            training.booster.predict(features_of(data, split)), booster.predict(features_of(data, split))
        )
