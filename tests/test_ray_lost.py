"""One of Ray's own processes is killed below a search, as by a machine that has no memory left."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from tests.support.builders import tiny_data
from tests.support.commands import UNHURRIED, start, wait_for_events
from tests.support.trec_folder import write_trec_folder
from tune_cl.history.journal import read_events
from tune_cl.history.state import replay

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif("ALONE" not in os.environ, reason="needs a machine of its own: ALONE=1 pytest"),
]


@pytest.fixture
def workdir(tmp_path: Path) -> Path:
    write_trec_folder(tiny_data(queries={"train": 30, "dev": 12, "test": 12}, candidates=5, turns=1), tmp_path / "data")
    (tmp_path / "toy.yaml").write_text(UNHURRIED)
    return tmp_path


def begun(workdir: Path) -> subprocess.Popen[str]:
    return start(workdir, "run", "toy.yaml", "--data", "data", "--storage", "runs")


def rays(running: subprocess.Popen[str], name: str) -> psutil.Process:
    """The process of Ray's of this name below the command, as soon as there is one."""
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        assert running.poll() is None, running.communicate()[1]
        for process in psutil.Process(running.pid).children(recursive=True):
            if process.name().startswith(name):
                return process
        time.sleep(0.05)
    raise AssertionError(f"no {name} below the command")


def ended(running: subprocess.Popen[str]) -> str:
    """What a command said that has to end with status 1 by itself, well before Ray's own minute."""
    below = psutil.Process(running.pid).children(recursive=True)
    _, said = running.communicate(timeout=40)
    assert running.returncode == 1, said
    # an agent of Ray's that is left may wait a minute for the GCS before it ends
    assert not psutil.wait_procs(below, timeout=90)[1], "Ray's other processes stay behind"
    return said


def in_the_search(running: subprocess.Popen[str], workdir: Path) -> None:
    wait_for_events(running, workdir / "runs" / "toy" / "journal.jsonl", "result", 2)


def as_ray_starts(running: subprocess.Popen[str], workdir: Path) -> None:
    """Once the GCS serves: before that Ray notices itself."""
    rays(running, "raylet")


@pytest.mark.parametrize(
    "name, when",
    [("gcs_server", as_ray_starts), ("gcs_server", in_the_search), ("raylet", in_the_search),
     ("ray::DashboardA", in_the_search)],
)  # fmt: skip
def test_the_command_ends_at_once_and_says_how_to_go_on(
    name: str, when: Callable[[subprocess.Popen[str], Path], None], workdir: Path
) -> None:
    running = begun(workdir)
    when(running, workdir)
    rays(running, name).kill()
    said = ended(running)
    [line] = [line for line in said.splitlines() if line.startswith("error: ")]
    assert "Ray" in line and "tune-cl resume toy --storage" in line and "Traceback" not in said, said
    if name == "raylet":
        resumed = start(workdir, "resume", "toy", "--storage", "runs")
        assert resumed.wait(300) == 0, resumed.communicate()[1]
        state = replay(read_events(workdir / "runs" / "toy" / "journal.jsonl"))
        assert state.end and not state.counts()["failed"]
