"""Old checkpoints are deleted beside a search. If it ends well, it waits for all deletions; otherwise for none."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import pytest

from trainables.core import storage
from tune_cl.ray.tuner import background_deletion


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


INTERRUPTED = """
import threading
from trainables.core import storage
from tune_cl.ray.tuner import background_deletion

def hang(address):
    reached.set()
    threading.Event().wait()

reached = threading.Event()
storage.remove_folder = hang
with background_deletion() as old:
    old.put("old")
    reached.wait()
    raise SystemExit(3)
"""


@pytest.mark.slow
def test_storage_that_hangs_does_not_keep_an_interrupted_process(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", INTERRUPTED], cwd=tmp_path, timeout=60, check=False)
    assert done.returncode == 3


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
