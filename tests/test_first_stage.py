"""First-stage scores inside a ranker's score: what they are, where they come from, and where they are missing."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.support.builders import tiny_data
from tests.support.trec_folder import write_trec_folder
from trainables.config.keys import TrainingConfig
from trainables.core.errors import ConfigError
from trainables.data.columns import RankingData, Split
from trainables.rankers.first_stage import ScoreAdditivity, first_stage_scores, require_first_stage
from trainables.training.prepared import prepare
from trainables.training.saved_ranker import load_ranker_folder
from trainables.training.trainer import Training
from tune_cl.cli import main

RANKER = {"name": "knrm", "vector_size": 16, "add_first_stage": True}
TRAINING = {"max_iterations": 2, "batches_per_iteration": 3, "batch_size": 8}


def with_scores(split: Split, scores: list[float]) -> Split:
    values = split.score.copy()
    values[: len(scores)] = scores
    return replace(split, score=values)


def without_scores(data: RankingData, *names: str) -> RankingData:
    emptied = {name: replace(data.splits[name], score=np.full(len(data.splits[name].score), np.nan)) for name in names}
    return replace(data, splits=data.splits | emptied)


def test_the_share_of_the_neural_score_starts_at_sigmoid_of_minus_one() -> None:
    additivity = ScoreAdditivity()
    neural, first_stage = torch.tensor([1.0, 0.0, 2.0]), torch.tensor([0.0, 1.0, -3.0])
    expected = [0.268941, 1 - 0.268941, 2 * 0.268941 - 3 * (1 - 0.268941)]
    assert additivity(neural, first_stage).tolist() == pytest.approx(expected, abs=1e-5)


def test_candidates_that_are_not_in_the_run_get_the_lowest_score() -> None:
    """The lowest of the query; of the split if the query has none."""
    split = tiny_data(queries=4, candidates=4).splits["train"]
    nan = float("nan")
    scores = first_stage_scores(with_scores(split, [3.0, nan, 2.0, nan, nan, nan, nan, nan, -50.0]))
    assert scores[:9].tolist() == [3.0, 2.0, 2.0, 2.0, -50.0, -50.0, -50.0, -50.0, -50.0]
    np.testing.assert_array_equal(scores[8:], with_scores(split, [nan] * 8 + [-50.0]).score[8:].astype(np.float32))
    assert scores.dtype == np.float32


def test_data_without_a_first_stage_is_refused() -> None:
    data = tiny_data()
    require_first_stage(data, data.splits)
    run = TrainingConfig.model_validate({"ranker": RANKER})
    with pytest.raises(ConfigError, match=r"^error: ranker\.add_first_stage: 'tiny' has no .* in its dev split; false"):
        prepare(run, without_scores(data, "dev"))
    assert prepare(TrainingConfig.model_validate({"ranker": RANKER | {"add_first_stage": False}}), data)


def trained(data: RankingData) -> Training:
    run = TrainingConfig.model_validate({"ranker": RANKER, "training": TRAINING})
    training = Training(run, prepare(run, data), device="cpu")
    while not training.finished:
        training.iterate()
    return training


def test_dev_scores_hold_the_first_stage_and_a_saved_ranker_repeats_them(tmp_path: Path) -> None:
    data = tiny_data(queries=8, candidates=5)
    training = trained(data)
    training.save_ranker(tmp_path / "ranker")
    ranker, dev = load_ranker_folder(tmp_path / "ranker"), data.splits["dev"]
    pairs = data.query_texts(), data.documents, dev.query[dev.owner], dev.document
    with_run = ranker.score(*pairs, first_stage_scores(dev))
    np.testing.assert_allclose(with_run, training.best_scores, rtol=1e-5, atol=1e-5)
    moved = ranker.score(*pairs, first_stage_scores(dev) + 1)
    share = 1 - ranker.module.get_parameter("additivity.alpha").sigmoid().item()
    np.testing.assert_allclose(moved - with_run, np.full(len(moved), share), rtol=1e-4)
    with pytest.raises(ConfigError, match=r"^error: ranker\.add_first_stage: .* bare texts have none; re-rank data"):
        ranker.score(*pairs)


def test_rerank_reads_the_run_of_a_folder_and_refuses_texts(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    data = tiny_data(queries=8, candidates=5)
    training = trained(data)
    training.save_ranker(tmp_path / "ranker")
    folder = write_trec_folder(data, tmp_path / "data")
    monkeypatch.chdir(tmp_path)
    rerank = ["rerank", "ranker", "--json"]
    assert main([*rerank, "--data", str(folder), "--split", "dev", "--output", "dev.txt"]) == 0
    rows = [line.split() for line in Path("dev.txt").read_text().splitlines()]
    ids = [data.document_ids[document] for document in data.splits["dev"].document]
    expected = dict(zip(ids, training.best_scores.tolist(), strict=True))
    assert {row[2]: float(row[4]) for row in rows} == pytest.approx(expected, rel=1e-4, abs=1e-4)
    Path("texts.txt").write_text("w1 w2\n")
    capfd.readouterr()
    assert main([*rerank, "--query", "w1", "--documents", "texts.txt"]) == 2
    assert "error: ranker.add_first_stage: " in capfd.readouterr().err
