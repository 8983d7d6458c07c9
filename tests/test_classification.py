"""Pairs to classify: losses, accuracy, training under curricula, files, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.support.builders import tiny_data
from tests.support.confirm_cases import confirm_run, read_values
from tests.support.console import Console
from tests.support.data_folders import FORMS, write_folder
from tests.support.pair_data import load_pairs, pair_folder
from trainables.config.keys import TrainingConfig
from trainables.config.task_fit import require_fit
from trainables.core.errors import ConfigError, DataError, WorkFailed
from trainables.curriculum.scoring import SCORINGS, Scored
from trainables.data.columns import RankingData
from trainables.data.instances import NONE, Instances
from trainables.evaluation.metrics import METRICS
from trainables.evaluation.per_query import Accuracy, evaluator_of
from trainables.training import losses
from trainables.training.losses import LossSettings
from trainables.training.prepared import prepare, prepared_key
from trainables.training.saved_ranker import load_ranker_folder
from trainables.training.teachers import completed
from trainables.training.trainer import Training
from tune_cl.api.rerank import rerank
from tune_cl.experiment.load import build
from tune_cl.inputs import RankerArtifacts as Artifacts

SMALL = {"max_iterations": 3, "batches_per_iteration": 10, "batch_size": 16, "lr": 1e-2, "loss": "cross_entropy"}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> RankingData:
    return load_pairs(tmp_path_factory.mktemp("pairs"))


def make_run(**sections: Any) -> TrainingConfig:
    training = SMALL | sections.pop("training", {})
    ranker = {"name": "embedding_mlp", "vector_size": 16}
    keys = {"ranker": ranker, "training": training, "metric": "accuracy", "seed": 1}
    return TrainingConfig.model_validate(keys | sections)


def start(run: TrainingConfig, data: RankingData) -> Training:
    return Training(run, completed(run, prepare(run, data)), device="cpu")


def finish(training: Training) -> Training:
    while not training.finished:
        training.iterate()
    return training


def numbers(training: Training) -> list[tuple[float, float]]:
    return [(row["dev_accuracy"], row["train_loss"]) for row in training.history]


# -- losses and accuracy -----------------------------------------------------------------------------------------


def test_losses_of_logits() -> None:
    logits, classes = torch.tensor([[2.0, -1.0, 0.5], [0.0, 0.0, 0.0]]), torch.tensor([0, 2])
    probability = logits.softmax(1)
    cross_entropy = losses.class_cross_entropy(logits, classes, LossSettings())
    torch.testing.assert_close(cross_entropy, -torch.stack([probability[0, 0], probability[1, 2]]).log())
    smoothed = losses.class_cross_entropy(logits, classes, LossSettings(label_smoothing=0.3))
    torch.testing.assert_close(smoothed, 0.7 * cross_entropy - 0.3 * probability.log().mean(1))
    hinge = losses.class_hinge(logits, classes, LossSettings())
    expected = [1 + float(probability[0, 2] - probability[0, 0]), 1.0]
    assert hinge.tolist() == pytest.approx(expected)
    of_keras = torch.tensor([[0.1, 0.8, 0.1], [0.1, 0.7, 0.2]]).log()
    assert losses.class_hinge(of_keras, torch.tensor([1, 0]), LossSettings()).tolist() == pytest.approx([0.3, 1.6])


def test_accuracy_counts_the_highest_logit(data: RankingData) -> None:
    split = data.splits["dev"]
    logits = np.eye(3, dtype=np.float32)[np.roll(split.grade, 1)]
    logits[0] = 0.5  # all equal: the first class
    expected = np.roll(split.grade, 1) == split.grade
    expected[0] = split.grade[0] == 0
    judge = evaluator_of(data, split, 1)
    assert judge(logits)["accuracy"].tolist() == expected.astype(float).tolist()
    with pytest.raises(ConfigError, match="'map' judges rankings, not classes; accuracy"):
        judge(logits, ["map"])
    logits[1, 2] = np.nan
    with pytest.raises(WorkFailed, match="the logits of 1 of 24 pairs"):
        judge(logits)


def test_of_rankings_accuracy_is_precision_at_1() -> None:
    ranked = tiny_data(queries=6)
    split = ranked.splits["test"]
    values = evaluator_of(ranked, split, 1)(split.score)
    assert list(values) == list(METRICS) and 0 < values["accuracy"].sum() < 6
    assert values["accuracy"].tolist() == values["p@1"].tolist()


# -- training ----------------------------------------------------------------------------------------------------


def test_each_pair_is_an_instance(data: RankingData) -> None:
    split = data.splits["train"]
    instances = Instances.of_pairs(split)
    positive, negative = instances.draw(np.array([5, 3]), np.random.default_rng(0))
    assert len(instances) == 60 and positive.tolist() == [5, 3] and negative.tolist() == [NONE, NONE]


@pytest.mark.parametrize(
    ("ranker", "loss"),
    [
        ("embedding", "cross_entropy"),
        ("embedding", "hinge"),
        ("embedding_mlp", "hinge"),
        ("conv_knrm", "cross_entropy"),
    ],
)
def test_it_learns(ranker: str, loss: str, data: RankingData) -> None:
    keys = {"name": ranker, "vector_size": 16, "train_vectors": True}
    training = finish(start(make_run(ranker=keys, training={"loss": loss}), data))
    assert training.best_value > 0.6, numbers(training)


def test_the_teacher_sees_the_class_of_a_pair(data: RankingData) -> None:
    split = data.splits["train"]
    logits = np.random.default_rng(0).normal(0, 2, (60, 3)).astype(np.float32)
    scored = Scored(data, split, Instances.of_pairs(split), seed=0, teacher=lambda: logits)
    probability = torch.from_numpy(logits).double().softmax(1).numpy()
    right = probability[np.arange(60), split.grade]
    others = [
        max(p for place, p in enumerate(row) if place != grade)
        for row, grade in zip(probability, split.grade, strict=True)
    ]
    np.testing.assert_allclose(SCORINGS["model_margin"](scored), others - right, rtol=1e-9)
    np.testing.assert_allclose(SCORINGS["model_loss"](scored), -np.log(right), rtol=1e-9)


def test_a_saved_ranker_knows_its_classes(data: RankingData, tmp_path: Path) -> None:
    training = start(make_run(), data)
    training.iterate()
    training.save_ranker(tmp_path / "ranker")
    saved, split = load_ranker_folder(tmp_path / "ranker"), data.splits["test"]
    assert saved.classes == data.classes
    logits = saved.score(data.query_texts(), data.documents, split.query, split.document)
    np.testing.assert_allclose(logits, training.score(split), rtol=1e-4, atol=1e-5)


# -- what fits -------------------------------------------------------------------------------------------------------


def test_everything_that_does_not_fit_is_named_with_its_fix() -> None:
    run = TrainingConfig.model_validate(
        {
            "curriculum": {
                "pacing": "root", "scoring": "bm25_std", "weighting": "kde", "objective_switch": "mse",
            },
            "training": {"negatives": 3},
            "evaluation": {"relevance_level": 2},
        }
    )  # fmt: skip
    with pytest.raises(ConfigError) as caught:
        require_fit(run, "classification")
    right = {problem.location: problem.right for problem in caught.value.problems}
    assert right["metric"] == "accuracy" and right["training.loss"] == "cross_entropy or hinge"
    assert right["curriculum.weighting"] == "one of none, difficulty, self_paced_linear, self_paced_mixture"
    assert right["curriculum.scoring"].startswith("one of random, self_paced, context_words, ")
    rest = right.keys() - {"metric", "training.loss", "curriculum.weighting", "curriculum.scoring"}
    assert rest == {"training.negatives", "evaluation.relevance_level", "curriculum.objective_switch"}


def test_metric_and_loss_follow_the_data_unless_given(tmp_path: Path) -> None:
    pairs = str(pair_folder(tmp_path))
    plain = build("plain", {"data": pairs}, {})
    assert (plain.base.run.metric, plain.base.run.training.loss) == ("accuracy", "cross_entropy")
    assert build("hinge", {"data": pairs, "training": {"loss": "hinge"}}, {}).base.run.training.loss == "hinge"
    space = {"metric": "map", "training": {"loss": {"choice": ["pairwise", "hinge"]}}}
    over = build("over", space, {"data.source": pairs})
    assert (over.base.run.metric, over.base.run.training.loss) == ("accuracy", "cross_entropy")
    assert [note.partition(":")[0] for note in over.notes] == ["metric is left out", "training.loss is left out"]
    with pytest.raises(ConfigError, match="'map' judges rankings"):
        build("fixed", {"data": pairs, "metric": "map"}, {})
    with pytest.raises(ConfigError, match="'map' judges rankings"):
        build("both", space, {"data.source": pairs, "metric": "map"})
    with pytest.raises(ConfigError, match="'pairwise' learns to rank"):
        build("drawn", space | {"data": pairs, "metric": "accuracy"}, {})
    assert build("ranking", space | {"metric": "map"}, {}).base.run.metric == "map"


# -- files and commands -----------------------------------------------------------------------------------------


def test_train_then_rerank(tmp_path: Path, console: Console) -> None:
    folder, output = pair_folder(tmp_path / "pairs"), tmp_path / "a"
    sets = [f"training.{key}={value}" for key, value in SMALL.items()] + ["ranker.train_vectors=true"]
    options = " --set ".join(["", *sets])
    trained = console.document(f"train --data {folder} --ranker embedding --output {output} --test{options}")
    assert trained["metric"] == "accuracy" and trained["test"].keys() == {"accuracy"}
    predictions = Path(trained["run_file"])
    header, *rows = [line.split("\t") for line in predictions.read_text().splitlines()]
    names = ["contradiction", "entailment", "neutral"]
    assert predictions.name == "test.predictions.tsv" and len(rows) == 24
    assert header == ["query_id", "document_id", "gold", "predicted", *(f"p_{name}" for name in names)]
    assert np.mean([gold == predicted for _, _, gold, predicted, *_ in rows]) == trained["test"]["accuracy"]
    for _, _, _, predicted, *probability in rows:
        values = [float(value) for value in probability]
        assert names[values.index(max(values))] == predicted and sum(values) == pytest.approx(1, abs=1e-5)
    again = tmp_path / "again.tsv"
    console.document(f"rerank {trained['checkpoint']} --data {folder} --output {again}")
    assert [line.split("\t")[:4] for line in again.read_text().splitlines()] == [header[:4], *(row[:4] for row in rows)]


def test_a_ranker_refuses_data_of_another_task(data: RankingData, tmp_path: Path) -> None:
    training = start(make_run(), data)
    training.iterate()
    training.save_ranker(tmp_path / "ranker")
    other = write_folder(tmp_path / "wikiqa", FORMS["wikiqa"])
    with pytest.raises(DataError, match=r"'wikiqa' is not what the ranker learned from; pairs of the classes"):
        rerank(tmp_path / "ranker", other)


def test_confirmation_and_artifacts_have_predictions(data: RankingData, tmp_path: Path) -> None:
    run = make_run()
    prepared = prepare(run, data)
    confirm_run(run, prepared, tmp_path / "seed", "test")
    result = json.loads((tmp_path / "seed" / "test" / "result.json").read_text())
    values = read_values(tmp_path / "seed", "test", "accuracy")
    assert result["run_file"] == "test.predictions.tsv"
    assert set(values.tolist()) <= {0.0, 1.0} and values.mean() == pytest.approx(result["metrics"]["accuracy"])
    training = Training(run, prepared, device="cpu")
    training.iterate()
    (tmp_path / "state").mkdir()
    training.save(tmp_path / "state")
    folder = Artifacts(tmp_path / "trials", {prepared_key(run): prepared})("t1", tmp_path / "state", run)
    assert {path.name for path in folder.iterdir()} == {"dev.predictions.tsv", "dev.per_query.tsv", "config.yaml"}
    assert (folder / "dev.per_query.tsv").read_text().splitlines()[0] == "query_id\taccuracy"
    assert Accuracy(data.splits["dev"])(training.best_scores)["accuracy"].mean() == training.best_value
