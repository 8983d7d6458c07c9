"""What a confirmation's training leaves in its folder, and where it goes on if it was killed at its end."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.support.builders import tiny_data
from tests.support.confirm_cases import confirm_run, read_values
from trainables.config.keys import TrainingConfig
from trainables.data.columns import RankingData
from trainables.training import conclusion as module
from trainables.training.checkpoint import write_json
from trainables.training.conclusion import RESULT
from trainables.training.prepared import PreparedData, prepare
from trainables.training.trainer import Training
from tune_cl.verdict.trainings import ended_result

RUN = TrainingConfig.model_validate(
    {
        "ranker": {"name": "conv_knrm", "vector_size": 8, "filters": 4},
        "training": {"batch_size": 8, "batches_per_iteration": 2, "max_iterations": 9, "patience": 2},
        "metric": "ndcg@10",
    }
)


@pytest.fixture(scope="module")
def data() -> RankingData:
    return tiny_data(queries=10, candidates=5)


@pytest.fixture(scope="module")
def prepared(data: RankingData) -> PreparedData:
    return prepare(RUN, data)


@pytest.fixture(scope="module")
def trained(prepared: PreparedData, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A training that was applied to test."""
    folder = tmp_path_factory.mktemp("trained")
    confirm_run(RUN, prepared, folder, "test")
    return folder


@pytest.fixture
def broken(trained: Path, tmp_path: Path) -> Path:
    """A copy for a test to damage."""
    return shutil.copytree(trained, tmp_path / "broken")


@pytest.fixture(scope="module")
def on_dev(prepared: PreparedData, trained: Path, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The result of the same training on dev."""
    folder = shutil.copytree(trained, tmp_path_factory.mktemp("dev") / "trained")
    confirm_run(RUN, prepared, folder, "dev")
    return ended_result(folder, "dev")


def test_the_result_is_of_the_best_iteration_and_of_all_that_were_trained(
    prepared: PreparedData, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    iterate, made = Training.iterate, []

    def of_two_seconds(training: Training) -> dict[str, float]:
        made.append(iterate(training))
        training.history[-1]["seconds"] = 2.0
        return made[-1]

    monkeypatch.setattr(Training, "iterate", of_two_seconds)
    confirm_run(RUN, prepared, tmp_path, "test")
    dev = [metrics["dev_ndcg@10"] for metrics in made]
    assert 1 < len(dev) < 9 and dev.index(max(dev)) == len(dev) - 3, "patience ended it"
    result = ended_result(tmp_path, "test")
    assert (result["dev"], result["dev_by_iteration"]) == (max(dev), dev)
    assert (result["best_iteration"], result["iterations"]) == (len(dev) - 2, len(dev))
    assert result["seconds"] == 2.0 * len(dev)


def test_files_of_a_split_name_its_queries_every_metric_and_the_ranker(trained: Path, data: RankingData) -> None:
    result = ended_result(trained, "test")
    ranked = [line.split() for line in (trained / "test" / result["run_file"]).read_text().splitlines()]
    assert {row[5] for row in ranked} == {"conv_knrm"}
    table = (trained / "test" / "test.per_query.tsv").read_text().splitlines()
    header, *rows = [line.split("\t") for line in table]
    asked = [data.query_ids[query] for query in data.splits["test"].query]
    assert [row[0] for row in rows] == asked and {row[0] for row in ranked} == set(asked)
    assert header[1:] == list(result["metrics"])
    for name, mean in result["metrics"].items():
        assert read_values(trained, "test", name).mean() == pytest.approx(mean)


def test_a_training_killed_before_its_result_is_not_trained_again(
    prepared: PreparedData, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By then its ranker and its record are there."""

    def killed(path: Path, document: Any) -> None:
        if path.name == RESULT:
            raise KeyboardInterrupt
        write_json(path, document)

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(module, "write_json", killed)
        confirm_run(RUN, prepared, tmp_path, "test")
    assert (tmp_path / "ranker").is_dir() and not (tmp_path / "test").exists()
    monkeypatch.setattr(Training, "iterate", lambda training: pytest.fail("trained again"))
    confirm_run(RUN, prepared, tmp_path, "test")
    assert ended_result(tmp_path, "test")


@pytest.mark.parametrize("name", ["training.json", "ranker/model.safetensors"])
def test_a_training_whose_ranker_or_record_is_damaged_is_made_again_with_the_same_values(
    name: str, prepared: PreparedData, broken: Path, on_dev: dict[str, Any]
) -> None:
    (broken / name).write_bytes(b"")
    [note] = confirm_run(RUN, prepared, broken, "dev")
    assert "is damaged" in note
    assert ended_result(broken, "dev") | {"seconds": 0.0} == on_dev | {"seconds": 0.0}
