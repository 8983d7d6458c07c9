"""Ray's folder on this machine: nobody else can enter it, and it goes with the search."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import ray

from tests.support.commands import ROOT, on_path
from tune_cl.ray import access as module
from tune_cl.ray.access import LOCK, LONGEST_SOCKET, PREFIX, ray_folder
from tune_cl.ray.session import ray_session

pytestmark = pytest.mark.slow

NOBODY = 65534
HOLDS_ONE = """
import time
from tune_cl.ray.access import ray_folder
with ray_folder() as folder:
    (folder / "logs").mkdir(parents=True)
    print(folder, flush=True)
    time.sleep(600)
"""


@pytest.fixture
def temporary(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder of temporary files, with a path that is short enough for sockets."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        monkeypatch.delenv("RAY_TMPDIR", raising=False)
        monkeypatch.setenv("TMPDIR", folder)
        monkeypatch.setattr(tempfile, "tempdir", None)
        yield Path(folder)


def in_another_process() -> tuple[subprocess.Popen[str], Path]:
    """A process that holds a folder, and the folder."""
    environment = os.environ | {"PYTHONPATH": on_path(str(ROOT))}
    process = subprocess.Popen([sys.executable, "-c", HOLDS_ONE], env=environment, stdout=subprocess.PIPE, text=True)
    assert process.stdout
    return process, Path(process.stdout.readline().strip()).parent


def test_nobody_else_can_enter_the_folder_of_a_local_ray(temporary: Path) -> None:
    """Ray's own would have been 0777, with all that is below."""
    with ray_session(None):
        [folder] = temporary.iterdir()
        assert folder.name.startswith(PREFIX)
        assert folder.stat().st_mode & 0o777 == 0o700 and folder.stat().st_uid == os.getuid()
        ray.get(ray.remote(lambda: None).remote())
        sockets = [path for path in folder.rglob("*") if path.is_socket()]
        assert sockets and all(len(os.fsencode(path)) <= LONGEST_SOCKET for path in sockets)
        longest = max(len(path.name) for path in sockets)
        assert longest <= len(Path(module.SOCKET).name)
        assert list(folder.rglob("raylet.out"))
    assert list(temporary.iterdir()) == []


def test_a_folder_goes_where_ray_cannot_start(temporary: Path) -> None:
    with pytest.raises(ConnectionError), ray_folder():
        raise ConnectionError
    assert list(temporary.iterdir()) == []


def test_the_folder_of_a_killed_search_goes_with_the_next_one(temporary: Path) -> None:
    process, folder = in_another_process()
    with ray_folder():
        assert folder.is_dir(), "its search was alive"
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert folder.is_dir()
    with ray_folder() as own:
        assert [*temporary.iterdir()] == [own.parent]


def test_what_is_not_such_a_folder_of_ours_stays(temporary: Path) -> None:
    elsewhere, unlocked, link, opened = (
        temporary / name for name in ("other", f"{PREFIX}a", f"{PREFIX}b", f"{PREFIX}c")
    )
    for folder in (elsewhere, unlocked, opened):
        folder.mkdir(mode=0o700)
    for folder in (elsewhere, opened):
        (folder / LOCK).touch()
    opened.chmod(0o777)
    link.symlink_to(elsewhere)
    with ray_folder():
        pass
    assert sorted(temporary.iterdir()) == sorted([elsewhere, unlocked, link, opened]) and (elsewhere / LOCK).exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
def test_the_folders_of_others_stay(temporary: Path) -> None:
    other = temporary / f"{PREFIX}a"
    other.mkdir(mode=0o700)
    (other / LOCK).touch()
    os.chown(other, NOBODY, NOBODY)
    with ray_folder():
        pass
    assert (other / LOCK).exists()


def test_where_paths_would_be_too_long_for_sockets_it_is_in_tmp(
    temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    long = temporary / ("x" * 100)
    monkeypatch.setenv("RAY_TMPDIR", str(long))
    with ray_folder() as folder:
        assert folder.parent.parent == Path("/tmp") and list(long.iterdir()) == []


def test_the_folder_that_the_user_has_chosen_for_ray_is_used(temporary: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_TMPDIR", str(temporary / "t"))
    with ray_folder() as folder:
        assert folder.parent.parent == temporary / "t"
