"""What is trained once for many trainings, a teacher or a pre-training, goes on where a session was broken off."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pytest

from tests.support.builders import tiny_data
from tests.support.trec_folder import write_trec_folder
from trainables.config.keys import TrainingConfig, validated
from trainables.core.cache import cache_root
from trainables.data.columns import RankingData, required_split
from trainables.training.pretraining import pretrained_start
from trainables.training.teachers import teacher_scores
from trainables.training.trainer import Training

RANKER = {"name": "conv_knrm", "vector_size": 8, "filters": 4}
KEYS = {"batches_per_iteration": 2, "batch_size": 8, "lr": 1e-2, "patience": 10}
Learned = Callable[[RankingData], Mapping[str, np.ndarray]]


@pytest.fixture(scope="module")
def data() -> RankingData:
    return tiny_data(queries=9, candidates=3, seed=51)


@pytest.fixture(params=["teacher", "pretrained"])
def kind(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def run(kind: str, tmp_path: Path) -> TrainingConfig:
    if kind == "teacher":
        curriculum = {"scoring": "model_loss", "pacing": "root"}
        return validated({"ranker": RANKER, "training": KEYS | {"max_iterations": 6}, "curriculum": curriculum})
    source = write_trec_folder(tiny_data(queries=8, candidates=3, seed=52), tmp_path / "related")
    keys = {"pretrain_data": str(source), "pretrain_iterations": 6}
    return validated({"ranker": RANKER, "training": KEYS | keys})


@pytest.fixture
def learned(kind: str, run: TrainingConfig) -> Learned:
    """What trials read of the training, as arrays by name."""
    if kind == "teacher":
        return lambda data: {"scores": teacher_scores(run, data, required_split(data, "train"))}
    return lambda data: pretrained_start(run, data)


class Iterations:
    """Counts those that are trained. `left`: until Ctrl-C."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch):
        self.trained, self.left = 0, 1000
        self._iterate = Training.iterate
        monkeypatch.setattr(Training, "iterate", lambda training: self(training))

    def __call__(self, training: Training) -> dict[str, float]:
        if not self.left:
            raise KeyboardInterrupt
        self.left -= 1
        self.trained += 1
        return self._iterate(training)


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterations:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "whole"))
    return Iterations(monkeypatch)


def hidden(kind: str) -> list[str]:
    """Names of states in the cache."""
    return sorted(path.name for path in (cache_root() / kind).glob(".*") if path.suffix != ".lock")


def test_a_second_session_goes_on_with_the_same_numbers(
    data: RankingData,
    kind: str,
    learned: Learned,
    counted: Iterations,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    whole = learned(data)
    assert counted.trained == 6 and hidden(kind) == []
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cut"))
    counted.trained, counted.left = 0, 4
    with pytest.raises(KeyboardInterrupt):
        learned(data)
    assert len(hidden(kind)) == 1, "a state"
    counted.left = 1000
    capsys.readouterr()
    again = learned(data)
    assert counted.trained == 6 and hidden(kind) == []
    assert "going on after iteration 4\n" in capsys.readouterr().err
    assert again.keys() == whole.keys() and all(np.array_equal(again[name], whole[name]) for name in whole)


def test_data_that_is_chosen_by_other_keys_takes_up_the_same_training(
    data: RankingData, counted: Iterations, tmp_path: Path
) -> None:
    """The content is in the key of the cache; which configuration it comes from is not."""
    tree = {"ranker": RANKER, "training": KEYS | {"max_iterations": 6}, "curriculum": {"scoring": "model_loss"}}
    counted.left = 4
    with pytest.raises(KeyboardInterrupt):
        teacher_scores(validated(tree), data, required_split(data, "train"))
    counted.left = 1000
    teacher_scores(validated(tree | {"data": {"top_k": 7}}), data, required_split(data, "train"))
    assert counted.trained == 6
