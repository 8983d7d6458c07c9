"""Damage of a saved training is told apart from trouble with a storage, disk or process; and what damage costs."""

from __future__ import annotations

import errno
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.builders import tiny_data
from tests.support.confirm_cases import confirm, data, search_folder, state_of, trainer
from tests.support.console import SMALL_OPTIONS
from tests.support.faults import ThreeIterations, stopping_after
from tests.support.letor_data import letor_data
from tests.support.tiny_trial import tiny_trial
from tests.support.trec_folder import write_trec_folder
from tests.support.tree_training import prepared_of, tree_run
from trainables.core.errors import Interrupted
from trainables.extras.trees import TreeTraining
from trainables.ranker_trainable import RankerTrainable
from trainables.training import checkpoint
from trainables.training.checkpoint import latest_iteration
from trainables.training.saves import DAMAGED, resumed_or_new
from trainables.training.trainer import Training
from tune_cl.cli import BAD_INPUT, DONE, INTERRUPTED, main
from tune_cl.history.search_folder import SearchFolder

__all__ = ["data", "search_folder", "trainer"]  # fixtures


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return tiny_trial(tmp_path_factory.mktemp("data"))


@pytest.fixture
def saved(config: dict[str, Any], tmp_path: Path) -> Path:
    """The folder of a checkpoint after two iterations."""
    trial, folder = RankerTrainable(config), tmp_path / "checkpoint_000002"
    folder.mkdir()
    trial.step()
    trial.step()
    trial.save_checkpoint(str(folder))
    return folder


def test_a_file_that_cannot_be_opened_is_not_damaged(saved: Path) -> None:
    """safetensors itself would say that it is not there."""
    (saved / checkpoint.TENSORS).unlink()
    (saved / checkpoint.TENSORS).symlink_to(saved / checkpoint.TENSORS)
    with pytest.raises(OSError, match="Too many levels of symbolic links") as raised:
        checkpoint.best_scores(saved)
    assert not isinstance(raised.value, DAMAGED)


def cut_short(model: Path) -> None:
    model.write_text(model.read_text()[: model.stat().st_size // 2])


@pytest.mark.parametrize("damage", [cut_short, Path.unlink, lambda model: model.write_text("")])
def test_trees_that_were_cut_short_are_damage(damage: Callable[[Path], Any], tmp_path: Path) -> None:
    """LightGBM ends the process if a file ends within its trees."""
    prepared = prepared_of(letor_data())
    training = TreeTraining(tree_run(), prepared)
    training.iterate()
    training.save(tmp_path)
    damage(tmp_path / "model.txt")
    with pytest.raises(DAMAGED):
        TreeTraining(tree_run(), prepared).load(tmp_path)


def spoil(folder: Path) -> None:
    weights = folder / checkpoint.TENSORS
    weights.write_bytes(weights.read_bytes()[:100])


def test_a_training_of_a_confirmation_whose_state_is_damaged_starts_again(
    search_folder: SearchFolder,
    trainer: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    cut = SearchFolder(tmp_path / "cut", "toy")
    shutil.copytree(search_folder.folder, cut.folder)
    whole = confirm(search_folder, seeds=2)
    with monkeypatch.context() as patch, pytest.raises(Interrupted):
        patch.setattr(Training, "iterate", stopping_after(2))
        confirm(cut, seeds=2)
    state = Path(list(state_of(cut).training_checkpoints.values())[-1][-1])
    spoil(state)
    capsys.readouterr()
    assert confirm(cut, seeds=2).model_dump(exclude={"storage", "tracking_uri"}) == whole.model_dump(
        exclude={"storage", "tracking_uri"}
    )
    [note] = [line for line in capsys.readouterr().err.splitlines() if "damaged" in line]
    assert note.startswith("note: ") and str(state) in note and "is damaged" in note


@pytest.fixture
def given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A command that trains alone in the folder `here`, and was stopped after an iteration; its output is `cut`."""
    made = tiny_data(queries={"train": 10, "dev": 5, "test": 5}, candidates=5, turns=1)
    write_trec_folder(made, tmp_path / "here" / "data")
    given = ["train", "--data", "data", *SMALL_OPTIONS, "--json", "--output", "cut"]

    def stop(*_: object) -> str:
        raise KeyboardInterrupt

    monkeypatch.chdir(tmp_path / "here")
    with monkeypatch.context() as patch:
        patch.setattr("tune_cl.api.train._progress", stop)
        assert main(given) == INTERRUPTED
    return given


def test_a_training_alone_whose_state_is_damaged_starts_again(
    given: list[str], capfd: pytest.CaptureFixture[str]
) -> None:
    state = latest_iteration(Path("cut/state").absolute())
    assert state is not None
    spoil(state)
    found = []
    for output in ("cut", "whole"):
        capfd.readouterr()
        assert main([*given[:-1], output]) == DONE
        out, told = capfd.readouterr()
        assert (f"{state.name} is damaged" in told) == (output == "cut") and "going on" not in told
        found.append({key: json.loads(out)[key] for key in ("dev", "best_iteration")})
    assert found[0] == found[1]


def test_a_training_that_was_moved_goes_on_and_one_of_another_version_is_kept(
    given: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "here").rename(tmp_path / "there")
    monkeypatch.chdir(tmp_path / "there")
    state = next(Path("cut/state").glob("*/state.json"))
    ours = state.read_text()
    state.write_text(ours.replace('"run": {', '"run": {"later": 1, '))
    assert state.read_text() != ours and main(given) == BAD_INPUT
    assert state.exists() and "cut contains another training" in capfd.readouterr().err
    state.write_text(ours)
    assert main(given) == DONE
    assert "going on after iteration 1" in capfd.readouterr().err


class Taken(ThreeIterations):
    """A training whose state cannot be loaded."""

    def __init__(self, error: Exception | None):
        self.error = error

    def load(self, folder: Path) -> None:
        if self.error is not None:
            raise self.error
        self.iteration = int((folder / "a").read_text())

    def close(self) -> None:
        """Nothing runs beside it."""


def raised(kind: type[Exception]) -> Exception:
    return kind(errno.ENOENT, "broken") if issubclass(kind, OSError) else kind("broken")


@pytest.mark.parametrize("error", [None, *map(raised, DAMAGED), OSError(errno.ENOSPC, "broken")])
def test_a_state_that_is_damaged_is_removed_and_no_other(error: Exception | None, tmp_path: Path) -> None:
    """Else the next session would find it again, in place of what this one saved."""
    training: Any = Taken(None)
    training.iterate()
    folder, told = tmp_path / "state", []
    checkpoint.save_iteration(folder, 1, training.save)
    made = [Taken(error), Taken(None)]

    def take_up() -> Any:
        return resumed_or_new(lambda: made.pop(0), folder, told.append)  # pyright: ignore[reportArgumentType]

    if error is None or isinstance(error, DAMAGED):
        assert take_up().iteration == (1 if error is None else 0)
    else:
        with pytest.raises(OSError, match="broken"):
            take_up()
    damaged = error is not None and isinstance(error, DAMAGED)
    assert folder.exists() is not damaged and len(told) == damaged and len(made) == 1 - damaged
