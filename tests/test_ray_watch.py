"""What is said when one of Ray's own processes ends; processes of the same names stand for Ray's."""

from __future__ import annotations

import shutil
import subprocess
import threading
from pathlib import Path

import pytest

from tune_cl.ray import watch as module
from tune_cl.ray.watch import Watch

pytestmark = pytest.mark.slow


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    told: list[str] = []
    monkeypatch.setattr(module, "end_command", told.append)
    monkeypatch.setattr(module, "STARTS", 0.1)
    return told


def started(folder: Path, watch: Watch, name: str = "raylet", seconds: str = "60") -> subprocess.Popen[bytes]:
    program = folder / name
    program.symlink_to(str(shutil.which("sleep")))
    process = subprocess.Popen([program, seconds])
    watch.add(process, [str(program), seconds])
    return process


def wait(process: subprocess.Popen[bytes]) -> None:
    """Until it has ended and all is said of it."""
    process.wait()
    for thread in threading.enumerate():
        if thread.name == "watch of Ray":
            thread.join()


def test_a_process_that_is_killed_is_named_with_the_command_to_go_on(tmp_path: Path, said: list[str]) -> None:
    watch = Watch("tune-cl resume toy")
    process = started(tmp_path, watch)
    process.kill()
    wait(process)
    [line] = said
    assert "raylet" in line and "killed" in line and line.endswith("Go on with: tune-cl resume toy")


def test_while_ray_starts_it_tells_itself_of_processes_that_end_by_themselves(tmp_path: Path, said: list[str]) -> None:
    """As on a busy machine, where it is started once more."""
    wait(started(tmp_path, Watch(), seconds="0.1"))
    assert said == []


def test_once_ray_has_started_it_needs_all_of_them(tmp_path: Path, said: list[str]) -> None:
    watch = Watch()
    process = started(tmp_path, watch, "gcs_server", seconds="0.1")
    watch.started()
    wait(process)
    assert len(said) == 1 and "gcs_server" in said[0]


@pytest.mark.parametrize("name", ["raylet", "log_monitor"])
def test_what_is_meant_to_end_or_is_not_needed_is_not_told_of(name: str, tmp_path: Path, said: list[str]) -> None:
    watch = Watch()
    process = started(tmp_path, watch, name)
    watch.started()
    if name == "raylet":
        watch.forget()
    process.kill()
    wait(process)
    assert said == []
