"""Saves of a running training: when one is due, and that one written while the training goes on holds what was then."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ray.train._internal.storage import StorageContext

from tests.support.builders import tiny_data
from tests.support.faults import Clock, ThreeIterations
from tests.support.letor_data import letor_data
from tests.support.tree_training import prepared_of, tree_run
from trainables.config.keys import TrainingRun
from trainables.core import storage
from trainables.extras.trees import TreeTraining
from trainables.ranker_trainable import LATE_CHECKPOINT, ClusterTrainable
from trainables.training import saves
from trainables.training.prepared import prepare
from trainables.training.saves import Saves
from trainables.training.trainer import Training


@pytest.mark.parametrize(
    ("iteration", "save", "waited", "behind"),
    [(0.05, 0.0625, 100, 0), (60.0, 1.0, 100, 0), (1.0, 0.2, 1, 49), (1.0, 2.0, 1, 5), (20.0, 2.0, 1, 99)],
    ids=["quick", "little", "each second", "dear", "each"],
)
def test_saves_take_a_tenth_of_the_time_and_the_training_waits_for_little_ones(
    iteration: float, save: float, waited: int, behind: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, counts = Clock(), [0, 0]
    monkeypatch.setattr(saves, "time", clock)
    made: Saves[None] = Saves()
    for _ in range(100):
        clock.now += iteration
        if made.due():
            counts[made.took > 0 and not made.may_block()] += 1
            with made.timed():
                clock.now += save
    assert counts == [waited, behind]
    assert save <= saves.QUICK or (sum(counts) - 1) * save <= saves.SHARE * clock.now


def test_one_save_is_written_at_a_time_and_its_error_is_raised_where_it_is_asked_for() -> None:
    made, go = Saves[str](), threading.Event()
    assert made.due() and made.poll() is None and made.wait() is None

    def write() -> str:
        assert go.wait(60)
        return "there"

    made.begin(write)
    assert not made.due() and made.poll() is None
    go.set()
    assert made.wait() == "there" and made.due() and made.poll() is None

    def fail() -> str:
        raise OSError("the disk is full")

    made.begin(fail)
    with pytest.raises(OSError, match="full"):
        made.wait()
    assert made.due() and made.wait() is None


RUNS = {
    "conv_knrm": {"ranker": {"name": "conv_knrm", "vector_size": 16, "filters": 8}},
    "self-paced bert": {
        "ranker": {"name": "bert", "model": "tiny", "vocabulary_size": 300},
        "curriculum": {"pacing": "linear", "scoring": "self_paced"},
    },
}


@pytest.mark.parametrize("name", [*RUNS, "trees"])
def test_a_snapshot_is_not_changed_by_what_the_training_does_next(name: str, tmp_path: Path) -> None:
    if name == "trees":
        training: Any = TreeTraining(tree_run(), prepared_of(letor_data()), share=False)
    else:
        settings = {"max_iterations": 4, "batches_per_iteration": 3, "batch_size": 8, "lr": 1e-2}
        run = TrainingRun.model_validate(RUNS[name] | {"training": settings})
        training = Training(run, prepare(run, tiny_data(queries=24, candidates=6, seed=5)), device="cpu")
    training.iterate()
    training.iterate()
    at_once, later = tmp_path / "at once", tmp_path / "later"
    for folder in (at_once, later):
        folder.mkdir()
    write = training.snapshot()
    training.save(at_once)
    training.iterate()
    write(later)
    files = sorted(path.name for path in at_once.iterdir())
    assert len(files) >= 4 and files == sorted(path.name for path in later.iterdir())
    assert all((at_once / file).read_bytes() == (later / file).read_bytes() for file in files)


def after_each_save(monkeypatch: pytest.MonkeyPatch, done: Callable[[], Any]) -> None:
    """Calls `done` as a part of each save."""
    save = saves.save_iteration

    def slowly(*arguments: Any) -> None:
        save(*arguments)
        done()

    monkeypatch.setattr(saves, "save_iteration", slowly)


@pytest.mark.parametrize("waits", [True, False])
@pytest.mark.parametrize("due", [True, False])
def test_the_last_state_is_saved_however_dear_and_each_is_told(
    due: bool, waits: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(saves.Saves, "due", lambda self: due)
    monkeypatch.setattr(saves.Saves, "may_block", lambda self: waits)
    told: list[str] = []
    training: Any = ThreeIterations()

    def saved() -> None:
        [folder] = tmp_path.iterdir()
        assert int((folder / "a").read_text()) == int(folder.name[-5:])
        told.append(folder.name)

    after_each_save(monkeypatch, saved)
    for _ in saves.iterations(training, tmp_path):
        pass
    assert told == (["iteration-00001", "iteration-00002"] if due else []) + ["iteration-00003"]


def test_a_training_that_is_stopped_finishes_the_save_that_has_begun(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(saves.Saves, "may_block", lambda self: False)
    training: Any = ThreeIterations()
    running, go = saves.iterations(training, tmp_path), threading.Event()
    after_each_save(monkeypatch, lambda: go.wait(60))
    next(running)
    threading.Timer(0.05, go.set).start()
    running.close()
    assert go.is_set() and [path.name for path in tmp_path.iterdir()] == ["iteration-00001"]


class Counting(ClusterTrainable):
    """Counts; its state is the count. `gate` holds back what is written in the background."""

    gate: threading.Event

    def setup(self, config: dict[str, Any]) -> None:
        self.gate = threading.Event()

    def step(self) -> dict[str, Any]:
        return {"iteration": self.iteration + 1, "done": self.iteration + 1 == self.config["iterations"]}

    def snapshot(self) -> Callable[[Path], None]:
        now = self.iteration

        def write(folder: Path) -> None:
            if threading.current_thread() is not threading.main_thread():
                assert self.gate.wait(60)
            (folder / "count").write_text(json.dumps(now))

        return write


@pytest.fixture
def counting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Counting:
    """A trial whose checkpoints are always due and always dear."""
    monkeypatch.setattr(Saves, "due", lambda self: self._behind is None)
    monkeypatch.setattr(Saves, "may_block", lambda self: False)
    trial = Counting({"iterations": 9})
    trial._storage = StorageContext(str(tmp_path / "storage"), "search", trial_dir_name="trial")
    return trial


def let_write(trial: Counting) -> None:
    """Waits until what has begun in the background is written, or has failed; holds back what comes next."""
    behind = trial.saves._behind
    assert behind is not None
    trial.gate.set()
    behind.exception(60)
    trial.gate.clear()


def told(saved: Any) -> tuple[str, int, int]:
    """Folder, iteration by its metrics, and content of a checkpoint."""
    folder = Path(saved.checkpoint.path)
    return folder.name, saved.metrics["iteration"], json.loads((folder / "count").read_text())


def test_a_dear_checkpoint_is_written_while_the_next_iterations_run(counting: Counting) -> None:
    first, second = counting.train(), counting.train()
    assert LATE_CHECKPOINT not in first | second and not first["should_checkpoint"] | second["should_checkpoint"]
    let_write(counting)
    third = counting.train()
    assert told(third[LATE_CHECKPOINT]) == ("checkpoint_000000", 1, 1)
    let_write(counting)
    fourth = counting.train()
    assert told(fourth[LATE_CHECKPOINT]) == ("checkpoint_000001", 3, 3)
    assert (
        fourth[LATE_CHECKPOINT].metrics["training_iteration"] == 3
        and LATE_CHECKPOINT not in fourth[LATE_CHECKPOINT].metrics
    )


def test_a_stop_takes_the_checkpoint_that_is_being_written_if_it_is_of_the_last_iteration(
    counting: Counting, tmp_path: Path
) -> None:
    counting.train()
    counting.gate.set()
    assert told(counting.save()) == ("checkpoint_000000", 1, 1)
    counting.gate.clear()
    counting.train()
    counting.train()
    counting.gate.set()  # of iteration 2, when 3 has ended: never told, and written over
    assert told(counting.save()) == ("checkpoint_000001", 3, 3)
    counting.gate.clear()
    counting.train()
    let_write(counting)
    assert told(counting.train()[LATE_CHECKPOINT]) == ("checkpoint_000002", 4, 4)
    folders = sorted(folder.name for folder in (tmp_path / "storage" / "search" / "trial").iterdir())
    assert folders == [f"checkpoint_{number:06d}" for number in range(3)]


def test_the_last_iteration_leaves_its_checkpoint_to_tune(counting: Counting) -> None:
    counting.config["iterations"] = 1
    result = counting.train()
    assert result["done"] and not result["should_checkpoint"] and counting.saves._behind is None


def test_a_checkpoint_that_finds_no_space_fails_the_next_iteration(
    counting: Counting, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(folder: Path) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(counting, "snapshot", lambda: full)
    monkeypatch.setattr(storage, "PAUSE", 0.0)
    counting.train()
    let_write(counting)
    with pytest.raises(OSError, match="No space"):
        counting.train()
