"""evaluation.relevance_level: what counts as relevant, wherever a ranking is judged, trained on or shown."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.support.builders import tiny_data
from tests.support.confirm_cases import confirm_run
from tests.support.scored_data import make_data, scored_of, split_of
from tests.support.training_runs import make_run, start
from tests.support.trec_folder import write_trec_folder
from trainables.config.keys import TrainingConfig
from trainables.curriculum.scoring import CODE, SCORINGS
from trainables.curriculum.subset import SUBSETS, Labelled
from trainables.data.columns import RankingData
from trainables.evaluation.metrics import Evaluator
from trainables.training import losses
from trainables.training import trainer as training
from trainables.training.checkpoint import read_json
from trainables.training.prepared import prepare
from tune_cl.api.evaluate import evaluate
from tune_cl.cli import DONE, main

LEVEL_2 = {"relevance_level": 2}


@pytest.fixture(scope="module")
def graded() -> RankingData:
    """Tiny data whose relevant documents have grade 2; of the others, those in even rows have grade 1."""
    data = tiny_data(queries=24, candidates=6, seed=5)
    splits = {}
    for name, split in data.splits.items():
        grade = np.where(split.grade == 1, 2, np.where(split.document % 2 == 0, 1, 0)).astype(np.int16)
        splits[name] = replace(split, grade=grade, judged_grade=grade, judged_offsets=split.offsets)
    return replace(data, splits=splits, digest="graded")


@pytest.fixture(scope="module")
def folder(graded: RankingData, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_trec_folder(graded, tmp_path_factory.mktemp("graded") / "data")


def level_2(run: TrainingConfig) -> TrainingConfig:
    return run.model_copy(update={"evaluation": run.evaluation.model_copy(update=LEVEL_2)})


def mean_at(level: int, data: RankingData, scores: np.ndarray) -> float:
    return float(Evaluator(data.splits["dev"], data.document_ids, level)(scores, ["map"])["map"].mean())


# -- judging ---------------------------------------------------------------------------------------------------------


def test_a_training_is_judged_by_the_level_on_dev_and_on_test(graded: RankingData) -> None:
    done = start(make_run(evaluation=LEVEL_2), graded)
    done.iterate()
    at = [mean_at(level, graded, done.best_scores) for level in (1, 2)]
    assert done.best_value == pytest.approx(at[1]) and at[0] != pytest.approx(at[1])
    found = training.test_metrics(done.run, done.prepared, graded.splits["dev"], done.best_scores)
    assert found["map"] == pytest.approx(at[1])


def test_a_confirmation_judges_by_the_level(folder: Path, tmp_path: Path) -> None:
    run = make_run(evaluation=LEVEL_2, data={"source": str(folder)}, training={"max_iterations": 1})
    confirm_run(run, prepare(run), tmp_path, "test")
    result = read_json(tmp_path / "test" / "result.json")
    assert result["metrics"]["map"] == pytest.approx(by_trec_eval(folder, tmp_path / "test" / result["run_file"]))


def by_trec_eval(folder: Path, run: str | Path) -> float:
    [at_1], [at_2] = (evaluate(folder / "qrels.test.txt", run, ["map"], relevance_level=level).runs for level in (1, 2))
    assert at_1.metrics != at_2.metrics
    return at_2.metrics["map"]


def document(capfd: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    assert main([*arguments, "--set", "evaluation.relevance_level=2", "--json"]) == DONE
    return json.loads(capfd.readouterr().out)


def test_the_baseline_command_judges_by_the_level(
    folder: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "bm25.txt"
    found = document(capfd, "baseline", str(folder), "bm25", "--output", str(output))
    assert found["metrics"]["map"] == pytest.approx(by_trec_eval(folder, output))


# -- training --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("loss", ["pairwise", "pointwise"])
def test_positives_of_a_training_reach_the_level(loss: str, graded: RankingData) -> None:
    batcher = start(make_run(training={"loss": loss}, evaluation=LEVEL_2), graded).batcher
    positives = batcher.instances.positive
    assert set(batcher.split.grade[positives[positives >= 0]].tolist()) == {2}


def test_a_training_labels_by_the_level_of_its_run(graded: RankingData) -> None:
    one = start(make_run(training={"loss": "pointwise", "negatives": "all"}, evaluation=LEVEL_2), graded)
    batch = next(one.batcher.batches(0, 1))
    score = torch.linspace(-1, 1, len(one.batcher.split.document))
    grade = one.batcher.split.grade[np.where(batch.positive >= 0, batch.positive, batch.negative)]
    assert 1 in grade
    rows = one._rows(batch)[0]
    expected = losses.pointwise(score[rows], torch.tensor(grade), losses.LossSettings(relevance_level=2))
    torch.testing.assert_close(one._losses(rows[None], score[rows], "pointwise"), expected)


# -- curricula -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("reference", "kept"), [("paper", [0.4, 0.8, 0.9]), (CODE, [0.4, 0.8])])
def test_scorings_by_a_model_take_relevance_from_the_level(reference: str, kept: list[float]) -> None:
    made = make_data([["a"]], [[("x", 1), ("y", 2), ("z", 0)]])
    logits = np.log(np.array([0.6, 0.8, 0.1]) / np.array([0.4, 0.2, 0.9])).astype(np.float32)
    scored = scored_of(made, reference=reference, teacher=lambda: logits, relevance_level=2)
    assert SCORINGS["model_loss"](scored)[0] == pytest.approx(-np.log(kept).mean())


@pytest.mark.parametrize(("level", "kept"), [(1, [0, 1]), (2, [2, 3])])
def test_relevant_count_counts_from_the_level(level: int, kept: list[int]) -> None:
    split = replace(split_of([2.0, 1.0], [2.0, 1.0]), grade=np.array([1, 1, 2, 0], np.int16))
    assert SUBSETS["relevant_count"](Labelled(split, None, 0.5, 1, level)).tolist() == kept
