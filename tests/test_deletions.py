"""Old checkpoints are deleted beside a search, which waits for it only if it ends well; and those that earlier sessions
left, but nobody else's."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from trainables.core import storage
from tune_cl.history.state import SearchState, TrialState
from tune_cl.ray.tuner import CHECKPOINTS_PER_TRIAL, background_deletion, last_checkpoints


class Slow:
    """Deletes folders when it is opened, or after some seconds."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, seconds: float):
        self.reached, self.opened, self.seconds = threading.Event(), threading.Event(), seconds
        self.remove = storage.remove_folder
        monkeypatch.setattr(storage, "remove_folder", self)

    def __call__(self, address: str) -> None:
        self.reached.set()
        self.opened.wait(self.seconds)
        self.remove(address)

    def let_go(self) -> None:
        """Returns when the thread has ended."""
        self.opened.set()
        for thread in deleters():
            thread.join(60)


def made(path: Path) -> str:
    """The address of a checkpoint there."""
    path.mkdir()
    return str(path)


def deleters() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "deletions"]


def test_the_rest_is_waited_for_where_the_search_ends_well(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Slow(monkeypatch, 0.2)
    with background_deletion() as old:
        for number in range(3):
            old.put(made(tmp_path / str(number)))
    assert list(tmp_path.iterdir()) == [] and deleters() == []


def test_an_interrupted_search_leaves_the_rest_to_its_thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    slow = Slow(monkeypatch, 20)
    with pytest.raises(KeyboardInterrupt), background_deletion() as old:
        old.put(made(tmp_path / "old"))
        assert slow.reached.wait(60)
        raise KeyboardInterrupt
    assert (tmp_path / "old").is_dir()
    assert all(thread.daemon for thread in deleters()), "storage that hangs would keep the process"
    slow.let_go()
    assert deleters() == [] and list(tmp_path.iterdir()) == []


def test_storage_that_stays_away_is_not_waited_for_for_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(storage, "PATIENCE", 0.05)
    slow = Slow(monkeypatch, 20)
    with background_deletion() as old:
        old.put(made(tmp_path / "old"))
        assert slow.reached.wait(60)
    assert (tmp_path / "old").is_dir()
    slow.let_go()
    assert deleters() == [] and list(tmp_path.iterdir()) == []


def test_a_checkpoint_that_cannot_be_deleted_is_told_and_one_that_is_gone_is_not(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "state").touch()
    with background_deletion() as old:
        for name in ("file/below", "gone", "old"):
            old.put(str(tmp_path / name))
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
    [told] = caplog.messages
    assert told.startswith(f"the old checkpoint {tmp_path}/file/below could not be deleted: ")


def test_a_checkpoint_is_let_go_of_though_another_one_of_its_iteration_was_written() -> None:
    """A driver was killed between the last checkpoint of a trial and its end; so was the one after it."""
    root = "/runs/toy/ray"
    first = [f"{root}/session-1/t1-a/checkpoint_{number:06d}" for number in range(8)]
    again = f"{root}/session-2/t1-b/checkpoint_000000"
    state = SearchState("toy", {}, "knrm", ["knrm"], "map", 1, "t0", "", {}, True, 0.0)
    state.trials["t1"] = TrialState("t1", 1, {}, 1, False, "curriculum")
    for iteration, path in [*enumerate(first, 1), (8, again)]:
        state.apply({"event": "checkpoint", "trial": "t1", "iteration": iteration, "path": path, "time": 0.0})
    assert set(last_checkpoints(state.trials["t1"].every_checkpoint, root)) == {*first[-CHECKPOINTS_PER_TRIAL:], again}


@pytest.mark.parametrize("root", ["/runs/toy/ray", "s3://b/runs/toy/ray"])
def test_only_checkpoints_of_the_search_itself_are_taken_from_a_journal(root: str) -> None:
    """A journal may be a copy."""
    own = [f"{root}/session-1/t1-a/checkpoint_{number:06d}" for number in range(4)]
    again = f"{root}/session-2/t1-b/checkpoint_000000"
    others = [
        "/",
        root,
        f"{root}/session-1",
        f"{root}/../ray/t1/checkpoint_000000",
        f"{root.replace('/toy/', '/toy-2/')}/session-1/t1-a/checkpoint_000009",
    ]
    trial = TrialState("t1", 1, {}, 1, False, "curriculum", checkpoints=dict(enumerate([*own, again, *others])))
    assert last_checkpoints(trial.every_checkpoint, root) == [*own[-CHECKPOINTS_PER_TRIAL:], again]
    assert last_checkpoints(trial.every_checkpoint, "/elsewhere") == []
