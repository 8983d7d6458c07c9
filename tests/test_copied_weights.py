"""A training that goes on from what another configuration has learned (scheduler pbt)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.builders import tiny_data
from trainables.config.keys import TrainingRun
from trainables.core.errors import DataError
from trainables.training.materials import Materials, prepare
from trainables.training.trainer import Training


def run_of(lr: float, filters: int = 4) -> TrainingRun:
    return TrainingRun.model_validate(
        {
            "ranker": {"name": "conv_knrm", "vector_size": 8, "filters": filters},
            "training": {"lr": lr, "batch_size": 4, "batches_per_iteration": 2, "max_iterations": 5},
        }
    )


@pytest.fixture(scope="module")
def materials() -> Materials:
    return prepare(run_of(1e-3), tiny_data(turns=1))


def folder_of(training: Training, folder: Path) -> Path:
    folder.mkdir()
    training.save(folder)
    return folder


def test_a_training_goes_on_from_another_configuration(materials: Materials, tmp_path: Path) -> None:
    source = Training(run_of(1e-3), materials, "cpu")
    source.iterate()
    source.iterate()
    saved = folder_of(source, tmp_path / "source")
    copy, same = Training(run_of(5e-2), materials, "cpu"), Training(run_of(1e-3), materials, "cpu")
    with pytest.raises(DataError, match="another configuration"):
        copy.load(saved)
    copy.adopt(saved)
    same.adopt(saved)
    assert copy.iteration == 2 and not copy.finished and copy.best_value == float("-inf")
    assert same.iterate()["train_loss"] == source.iterate()["train_loss"]
    copy.iterate()
    assert copy.best_iteration == 3 and copy.best_value == copy.history[2]["dev_map"]
    assert copy.history[:2] == source.history[:2] and copy.history[2] != source.history[2]

    resumed = Training(run_of(5e-2), materials, "cpu")
    resumed.load(folder_of(copy, tmp_path / "copy"))
    assert resumed.best_value == copy.best_value
    assert resumed.iterate()["dev_map"] == copy.iterate()["dev_map"]


def test_a_copy_that_was_saved_before_it_went_on_has_no_best_of_its_own(materials: Materials, tmp_path: Path) -> None:
    source = Training(run_of(1e-3), materials, "cpu")
    source.iterate()
    source.iterate()
    copy, resumed = Training(run_of(5e-2), materials, "cpu"), Training(run_of(5e-2), materials, "cpu")
    copy.adopt(folder_of(source, tmp_path / "source"))
    resumed.load(folder_of(copy, tmp_path / "copy"))
    assert not resumed.has_best and resumed.best_value == float("-inf")
    resumed.iterate()
    assert resumed.best_iteration == 3


def test_another_ranker_is_refused(materials: Materials, tmp_path: Path) -> None:
    source = Training(run_of(1e-3), materials, "cpu")
    source.iterate()
    other = run_of(1e-3, filters=8)
    with pytest.raises(DataError, match="another ranker"):
        Training(other, materials, "cpu").adopt(folder_of(source, tmp_path / "source"))
