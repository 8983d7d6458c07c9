"""LambdaMART and the curricula of Ferro et al. (2018): trees against LightGBM's own, resuming, subsets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.builders import tiny_data
from tests.support.letor_data import letor_data
from tests.support.scored_data import split_of
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
from trainables.config.keys import TrainingConfig, validated
from trainables.core.errors import ConfigError, DataError
from trainables.curriculum.subset import best_queries
from trainables.data.columns import RankingData
from trainables.evaluation.metrics import Evaluator
from trainables.extras import trees
from trainables.extras.lambdamart import parameters
from trainables.extras.trees import TreeTraining, stages
from trainables.training.factory import load_saved, make_training, training_notes
from trainables.training.features import SavedFeatureRanker
from trainables.training.prepared import prepare


@pytest.fixture(scope="module")
def data() -> RankingData:
    return letor_data()


# -- against LightGBM alone ------------------------------------------------------------------------------------------


def test_plain_training_equals_one_call_of_lightgbm(data: RankingData) -> None:
    run = tree_run()
    assert_same_trees(trained(run, data), by_lightgbm(run, data, "lambdarank", TREES * ITERATIONS), data)


@pytest.mark.parametrize("switch", [TREES * 2, TREES * 2 + 1])
def test_mse_first_equals_two_calls_of_lightgbm(data: RankingData, switch: int) -> None:
    run = tree_run(objective_switch="mse", switch=switch)
    first = by_lightgbm(run, data, "regression", switch)
    second = by_lightgbm(run, data, "lambdarank", TREES * ITERATIONS - switch, start=first)
    training = trained(run, data)
    assert_same_trees(training, second, data)
    test = features_of(data, "test")
    assert training.booster is not None
    np.testing.assert_array_equal(training.booster.predict(test, num_iteration=switch), first.predict(test))


@pytest.mark.parametrize("subset", ["label_extremes", "relevant_count", "feature_ndcg"])
def test_subset_first_equals_two_calls_of_lightgbm(data: RankingData, subset: str) -> None:
    run = tree_run(subset=subset, switch=8, feature=1, subset_share=0.5)
    rows = stages(run, data, data.splits["train"])[0].rows
    assert 0 < len(rows) < len(data.splits["train"].document)
    first = by_lightgbm(run, data, "lambdarank", 8, rows)
    second = by_lightgbm(run, data, "lambdarank", TREES * ITERATIONS - 8, start=first)
    assert_same_trees(trained(run, data), second, data)


# -- what an iteration tells -----------------------------------------------------------------------------------------


def test_metrics_are_those_of_the_evaluator(data: RankingData) -> None:
    training = trained(tree_run(), data)
    dev = data.splits["dev"]
    expected = Evaluator(dev, data.document_ids)(training.score(dev), ["ndcg@10"])["ndcg@10"]
    assert training.history[-1]["dev_ndcg@10"] == expected.mean()
    np.testing.assert_array_equal(training.dev_values, expected)
    train = data.splits["train"]
    on_train = Evaluator(train, data.document_ids)(training.score(train), ["ndcg@10"])["ndcg@10"]
    assert training.history[-1]["train_loss"] == pytest.approx(1 - on_train.mean(), abs=1e-9)
    assert training.history[-1]["train_loss"] < training.history[0]["train_loss"]


def test_the_first_stage_tells_its_loss_and_share(data: RankingData) -> None:
    training = trained(tree_run(objective_switch="mse", subset="relevant_count", switch=8), data)
    split = data.splits["train"]
    rows = stages(training.run, data, split)[0].rows
    share = len(rows) / len(split.document)
    assert [row["available_share"] for row in training.history] == [share, share, 1, 1, 1]
    first = by_lightgbm(training.run, data, "regression", TREES, rows)
    error = np.square(first.predict(features_of(data, "train")) - split.grade).mean()
    assert training.history[0]["train_loss"] == pytest.approx(error, abs=1e-12)


# -- going on --------------------------------------------------------------------------------------------------------


def resumed_after(done: int, run: TrainingConfig, data: RankingData, folder: Path) -> TreeTraining:
    """A training that went on from the state after some iterations, at its end."""
    broken = TreeTraining(run, prepared_of(data))
    for _ in range(done):
        broken.iterate()
    broken.save(folder)
    resumed = TreeTraining(run, prepared_of(data))
    resumed.load(folder)
    while not resumed.finished:
        resumed.iterate()
    return resumed


@pytest.mark.parametrize("sampled", [False, True], ids=["all data", "sampled"])
@pytest.mark.parametrize("done", [1, 2, 3])
def test_a_resumed_training_is_an_unbroken_one(data: RankingData, tmp_path: Path, done: int, sampled: bool) -> None:
    ranker = {"feature_fraction": 0.5, "bagging_fraction": 0.7} if sampled else {}
    run = tree_run(ranker=ranker, objective_switch="mse", switch=10)
    unbroken, resumed = trained(run, data), resumed_after(done, run, data, tmp_path)
    assert_same_trees(resumed, unbroken.booster, data)
    timeless = [
        [{key: value for key, value in row.items() if key not in ("seconds", "samples_per_second")} for row in history]
        for history in (resumed.history, unbroken.history)
    ]
    assert timeless[0] == timeless[1]
    assert resumed.best_iteration == unbroken.best_iteration
    np.testing.assert_array_equal(resumed.best_scores, unbroken.best_scores)


def test_a_resumed_training_of_many_rows_has_the_bins_of_an_unbroken_one(
    data: RankingData, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """LightGBM draws the rows that it finds bins from; as if this data had more than its 200,000."""
    few = {"bin_construct_sample_cnt": 100}
    monkeypatch.setattr(trees, "parameters", lambda *chosen: parameters(*chosen) | few)
    run = tree_run(ranker={"feature_fraction": 0.5})
    unbroken, resumed = trained(run, data), resumed_after(1, run, data, tmp_path)
    assert_same_trees(resumed, unbroken.booster, data)


def test_a_saved_ranker_is_cut_at_the_best_iteration(data: RankingData, tmp_path: Path) -> None:
    training = make_training(tree_run(10), prepared_of(data))
    while not training.finished:
        training.iterate()
    expected = training.best_scores
    training.save_ranker(tmp_path / "ranker")
    saved = load_saved(tmp_path / "ranker")
    assert isinstance(saved, SavedFeatureRanker)
    assert isinstance(saved.ranker, trees.Trees) and saved.ranker.booster.num_trees() == training.best_iteration * TREES
    np.testing.assert_array_equal(saved.score_split(data, "dev"), expected)
    np.testing.assert_array_equal(training.score(data.splits["dev"]), expected)
    model = tmp_path / "ranker" / trees.MODEL
    model.write_text(model.read_text()[: model.stat().st_size // 2])
    with pytest.raises(DataError, match=r"ranker: cannot be read: .*model\.txt"):
        load_saved(tmp_path / "ranker")


def saturating_run() -> TrainingConfig:
    """Its first stage can split no further after some trees: later trees have lower numbers than their rounds."""
    keys = {"leaves": 4, "min_data_in_leaf": 30}
    run = tree_run(iterations=10, ranker=keys, subset="label_extremes", switch=20)
    return run.model_copy(update={"training": run.training.model_copy(update={"lr": 1.0})})


def test_trees_behind_a_stage_that_could_split_no_further_are_scored(tmp_path: Path) -> None:
    data = letor_data({"train": 60, "dev": 20, "test": 5})
    run, values = saturating_run(), []
    training = TreeTraining(run, prepared_of(data))
    evaluator = Evaluator(data.splits["dev"], data.document_ids)
    while not training.finished:
        values.append(training.iterate()["dev_ndcg@10"])
        assert training.booster is not None
        scores = training.booster.predict(features_of(data, "dev"), raw_score=True).astype(np.float32)
        assert values[-1] == evaluator(scores, ["ndcg@10"])["ndcg@10"].mean()
        if training.iteration == 7:
            training.save(tmp_path)
    assert training.trees[4] == training.trees[1] < training.rounds and training.trees[-1] > training.trees[4]
    again = TreeTraining(run, prepared_of(data))
    again.load(tmp_path)
    while not again.finished:
        again.iterate()
    assert [row["dev_ndcg@10"] for row in again.history] == values
    assert len(set(values[5:])) > 1 and training.best_iteration > 5
    training.cut_at_best()
    best = evaluator(training.score(data.splits["dev"]), ["ndcg@10"])["ndcg@10"].mean()
    assert best == max(values) == training.best_value


# -- subsets ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("share", "count"), [(0.25, 3), (0.01, 1), (1.0, 10)])
def test_a_share_that_is_no_whole_number_of_queries_is_rounded_up(share: float, count: int) -> None:
    kept = best_queries(split_of(*[[1.0]] * 10), np.arange(10.0), share)
    assert kept.tolist() == list(range(10 - count, 10))


def test_feature_ndcg_keeps_the_queries_the_feature_ranks_best(data: RankingData) -> None:
    split = data.splits["train"]
    run = tree_run(subset="feature_ndcg", switch=4, feature=2, subset_share=0.5)
    value = Evaluator(split, data.document_ids)(features_of(data, "train")[:, 1], ["ndcg@10"])["ndcg@10"]
    kept = np.unique(split.owner[stages(run, data, split)[0].rows])
    assert len(kept) == 20
    assert value[kept].min() >= np.delete(value, kept).max()


# -- what does not go together ---------------------------------------------------------------------------------------


def problems(tree: dict[str, Any]) -> dict[str, str]:
    with pytest.raises(ConfigError) as caught:
        validated(tree)
    return {problem.location: f"{problem.wrong}; {problem.right}" for problem in caught.value.problems}


def test_curricula_of_networks_are_refused_for_trees() -> None:
    curriculum = {"pacing": "root", "weighting": "difficulty", "objective_switch": "pointwise"}
    found = problems({"ranker": "lambdamart", "curriculum": curriculum})
    assert set(found) == {f"curriculum.{key}" for key in curriculum}
    assert "curriculum.subset" in found["curriculum.pacing"]


def test_curricula_of_trees_are_refused_for_networks() -> None:
    found = problems({"ranker": "conv_knrm", "curriculum": {"subset": "label_extremes"}})
    assert set(found) == {"curriculum.subset"}
    assert "lambdamart" in found["curriculum.subset"]


def test_wrong_data_is_told_before_training(data: RankingData) -> None:
    with pytest.raises(DataError, match="holds texts, no features"):
        prepare(tree_run(), tiny_data())
    with pytest.raises(DataError, match=r"holds features, no texts.*lambdamart"):
        prepare(validated({"ranker": "conv_knrm"}), data)
    with pytest.raises(DataError, match=r"curriculum\.feature: feature 9, but 'letor' has 8"):
        training_notes(tree_run(subset="feature_ndcg", feature=9), prepared_of(data))
    training_notes(tree_run(subset="feature_ndcg", feature=8, switch=8), prepared_of(data))  # its last feature
