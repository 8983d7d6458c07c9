"""Tree trainings that begin alike grow their first stage once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lightgbm as lgb
import numpy as np
import pytest

from tests.support.letor_data import letor_data
from tests.support.tree_training import (
    ITERATIONS,
    TREES,
    assert_same_trees,
    by_lightgbm,
    features_of,
    prepared_of,
    trained,
    tree_run,
)
from trainables.data.columns import RankingData
from trainables.extras.trees import Prefixes, TreeTraining


@pytest.fixture(scope="module")
def data() -> RankingData:
    return letor_data()


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))


@pytest.fixture
def grown(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many rounds each call asks LightGBM for."""
    asked: list[int] = []
    train, update = lgb.train, lgb.Booster.update

    def counted_train(params: Any, data: Any, rounds: int, **keys: Any) -> lgb.Booster:
        asked.append(rounds)
        with monkeypatch.context() as inside:
            inside.setattr(lgb.Booster, "update", update)
            return train(params, data, rounds, **keys)

    def counted_update(booster: lgb.Booster) -> bool:
        asked.append(1)
        return update(booster)

    monkeypatch.setattr("lightgbm.train", counted_train)
    monkeypatch.setattr(lgb.Booster, "update", counted_update)
    return asked


@pytest.mark.parametrize("order", [(8, 12, 16), (16, 12, 8), (12, 16, 8)])
def test_switch_points_share_one_first_stage(
    own_cache: None, grown: list[int], data: RankingData, order: tuple[int, ...]
) -> None:
    runs = [tree_run(objective_switch="mse", switch=switch) for switch in order]
    shared = [trained(run, data, share=True) for run in runs]
    total = TREES * ITERATIONS
    assert sum(grown) == max(order) + sum(total - switch for switch in order)
    for run, training in zip(runs, shared, strict=True):
        assert_same_trees(training, trained(run, data).booster, data)


def test_shared_trees_are_not_counted_as_trained_on(own_cache: None, data: RankingData) -> None:
    first, again = (trained(tree_run(objective_switch="mse", switch=2 * TREES), data, share=True) for _ in range(2))
    assert [row["samples_per_second"] > 0 for row in first.history] == [True] * ITERATIONS
    assert [row["samples_per_second"] > 0 for row in again.history] == [False, False] + [True] * (ITERATIONS - 2)


def test_a_subset_and_plain_training_are_shared_too(own_cache: None, grown: list[int], data: RankingData) -> None:
    for switch in (8, 12):
        trained(tree_run(subset="relevant_count", switch=switch), data, share=True)
    assert sum(grown) == 12 + 12 + 8
    grown.clear()
    plain = trained(tree_run(), data, share=True)
    longer = trained(tree_run(ITERATIONS + 1), data, share=True)
    assert sum(grown) == TREES * (ITERATIONS + 1)
    assert_same_trees(longer, trained(tree_run(ITERATIONS + 1), data).booster, data)
    assert_same_trees(trained(tree_run(), data, share=True), plain.booster, data)


def test_other_trees_are_not_shared(own_cache: None, grown: list[int], data: RankingData) -> None:
    first = {"objective_switch": "mse", "switch": 8}
    trained(tree_run(2, **first), data, share=True)
    grown.clear()
    others = [
        (tree_run(2, {"leaves": 5}, **first), data),
        (tree_run(2, **first | {"subset": "label_extremes"}), data),
        (tree_run(2, subset="label_extremes", switch=8), data),
        (tree_run(2, **first), letor_data(seed=1)),
    ]
    for run, other in others:
        trained(run, other, share=True)
    assert sum(grown) == len(others) * 8


def test_seeds_share_trees_that_are_not_sampled_alone(data: RankingData) -> None:
    def key(seed: int, trees: int = TREES, **ranker: float) -> str:
        run = tree_run(ranker={"trees_per_iteration": trees} | ranker, objective_switch="mse", switch=4)
        return TreeTraining(run.model_copy(update={"seed": seed}), prepared_of(data))._prefix_key()

    assert key(1) == key(2) == key(1, trees=2)
    assert len({key(1, bagging_fraction=0.6), key(2, bagging_fraction=0.6), key(1, 2, bagging_fraction=0.6)}) == 3


def test_entries_appear_whole_and_the_longest_serves(own_cache: None, data: RankingData) -> None:
    booster = by_lightgbm(tree_run(), data, "regression", 10)
    store = Prefixes("key")
    assert store.at(1) is None and store.rounds() == []
    store.keep(6, booster)
    store.keep(10, booster)
    store.keep(8, booster)  # no effect: 10 are there
    assert store.rounds() == [6, 10]
    seven = Prefixes("key").at(7)
    assert seven is not None and seven.num_trees() == 7
    test = features_of(data, "test")
    np.testing.assert_array_equal(seven.predict(test), booster.predict(test, num_iteration=7))
    assert store.at(11) is None
