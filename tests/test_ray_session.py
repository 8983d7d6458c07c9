"""A local Ray and what is left of it: signals, process groups and garbage collection are as they were before."""

from __future__ import annotations

import gc
import os
import re
import shutil
import signal
import tempfile
import time
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from types import FrameType

import matplotlib as mpl
import psutil
import pytest
import ray

from tests.support.builders import tiny_data
from tests.support.commands import SPACE
from tests.support.tracking_cases import fresh_database
from tests.support.trec_folder import write_trec_folder
from tune_cl.cli import main
from tune_cl.ray import session as module
from tune_cl.ray import workarounds
from tune_cl.ray.environment import own_environment
from tune_cl.ray.session import private_folder, ray_session


@pytest.fixture
def heard() -> Iterator[list[int]]:
    """The signals that reach the process's handlers."""
    numbers: list[int] = []

    def hear(number: int, frame: FrameType | None) -> None:
        numbers.append(number)

    before = {number: signal.signal(number, hear) for number in (signal.SIGINT, signal.SIGTERM)}
    yield numbers
    for number, handler in before.items():
        signal.signal(number, handler)


def fails() -> None:
    raise ValueError("nobody asks")


def is_caught(number: int) -> bool:
    """Whether the kernel has a handler for it: Ray's C++ core takes one away behind Python's back."""
    [mask] = re.findall(r"^SigCgt:\s*(\w+)$", Path("/proc/self/status").read_text(), re.MULTILINE)
    return bool(int(mask, 16) >> number - 1 & 1)


def test_a_first_signal_is_held_and_a_second_one_heard_at_once(heard: list[int]) -> None:
    with workarounds.deferred_signals() as pending:
        signal.raise_signal(signal.SIGTERM)
        assert (pending, heard) == ([signal.SIGTERM], [])
        signal.raise_signal(signal.SIGINT)
        assert (pending, heard) == ([signal.SIGTERM, signal.SIGINT], [signal.SIGINT])
    signal.raise_signal(signal.SIGTERM)
    signal.raise_signal(signal.SIGINT)
    assert heard == [signal.SIGINT, signal.SIGTERM, signal.SIGINT]


@pytest.mark.slow
def test_a_ray_of_this_machine_is_its_own_and_ends_with_the_session(
    heard: list[int], monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Even if the environment has the address of another Ray. An error that nobody asks for, as of a trial that was
    saving when the search ended, is not printed: Ray would, as the object goes."""
    monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:1")
    monkeypatch.setenv("RAY_DEDUP_LOGS", "1")
    monkeypatch.delenv("TUNE_GLOBAL_CHECKPOINT_S", raising=False)
    monkeypatch.setattr(module, "usable_cpus", lambda: 3)
    monkeypatch.setattr(module.torch.cuda, "device_count", lambda: 2)
    with ray_session(None):
        resources = ray.cluster_resources()
        children = [child for child in psutil.Process().children() if child.status() != psutil.STATUS_ZOMBIE]
        assert {os.getpgid(child.pid) == child.pid for child in children if "ray" in child.name()} == {True}
        commands = " ".join(part for child in children for part in child.cmdline())
        assert "raylet" in commands and not re.search(r"/(monitor|dashboard|log_monitor)\.py", commands)
        assert (os.environ["RAY_DEDUP_LOGS"], os.environ["TUNE_GLOBAL_CHECKPOINT_S"]) == ("1", "inf")
        failed, sleep = ray.remote(fails).remote(), ray.remote(lambda: time.sleep(0.5))
        for _ in range(2):
            ray.get(sleep.remote())
        del failed
        gc.collect()
    assert "nobody asks" not in capfd.readouterr().err
    assert (resources["CPU"], resources["GPU"]) == (3, 2)
    assert not ray.is_initialized() and gc.isenabled()
    assert is_caught(signal.SIGTERM)
    signal.raise_signal(signal.SIGTERM)
    assert heard == [signal.SIGTERM]


def test_a_start_that_takes_too_long_is_tried_once_more(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    in_time = iter([False, True, False, False])

    def init(**options: object) -> None:
        if not next(in_time):
            raise RuntimeError("The current node timed out during startup. This could happen because")

    monkeypatch.setattr(ray, "init", init)
    with ray_session(None):
        pass
    assert "it is tried once more" in capsys.readouterr().err
    with pytest.raises(RuntimeError, match="timed out"), ray_session(None):
        pass
    assert list(in_time) == []


@pytest.mark.parametrize("address", [None, "127.0.0.1:1"], ids=["here", "on a cluster"])
def test_a_session_within_a_session_is_that_one(
    address: str | None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As for a search's further seeds: its Ray does not stay up afterwards, as a user's own does."""
    begun: list[object] = []
    monkeypatch.setattr(ray, "init", lambda **options: begun.append(options))
    monkeypatch.setattr(ray, "is_initialized", lambda: bool(begun))
    monkeypatch.setattr(ray, "shutdown", begun.clear)
    with ray_session(address), ray_session(address):
        assert len(begun) == 1
    assert not begun and "stays up" not in capsys.readouterr().err
    begun.append("a user's own")
    with ray_session(None):
        assert "stays up" in capsys.readouterr().err
    assert begun


# -- its folder, its token and keys ----------------------------------------------------------------------------------


def test_rays_folder_is_its_users_alone_and_goes_with_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_TMPDIR", str(tmp_path))
    with private_folder() as folder:
        assert Path(folder).stat().st_mode & 0o777 == 0o700 and Path(folder).parent == tmp_path
    assert list(tmp_path.iterdir()) == []


def test_a_local_ray_has_a_token_whatever_the_environment_says(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    with own_environment(local_ray=True):
        token = os.environ["RAY_AUTH_TOKEN"]
        assert len(token) == 64 and os.environ["RAY_AUTH_MODE"] == "token"
        with own_environment(local_ray=True):
            assert os.environ["RAY_AUTH_TOKEN"] == token
    with own_environment():
        assert "RAY_AUTH_TOKEN" not in os.environ and os.environ["RAY_AUTH_MODE"] == "disabled"
    monkeypatch.setenv("RAY_AUTH_TOKEN", "a" * 64)
    with own_environment(local_ray=True):
        assert os.environ["RAY_AUTH_TOKEN"] == "a" * 64


NAMES = (
    *("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SECURITY_TOKEN", "AWS_SESSION_TOKEN", "HF_TOKEN"),
    *("MLFLOW_TRACKING_PASSWORD", "MLFLOW_TRACKING_TOKEN", "MLFLOW_TRACKING_USERNAME", "RAY_AUTH_TOKEN"),
)
MARK = "0123456789abcdef5ec2e7"


@pytest.mark.slow
def test_no_file_that_a_search_leaves_holds_a_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number, name in enumerate(NAMES):
        monkeypatch.setenv(name, f"{MARK}{number:02d}")
    monkeypatch.delenv("RAY_AUTH_TOKEN_PATH", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("MPLCONFIGDIR", mpl.get_configdir())  # the cache of fonts takes long to make
    ray_folder = Path(tempfile.mkdtemp(dir="/tmp"))
    monkeypatch.setattr(module, "private_folder", lambda: nullcontext(str(ray_folder)))
    monkeypatch.chdir(tmp_path)
    data = tiny_data(queries={"train": 12, "dev": 6, "test": 6}, candidates=4, turns=1)
    write_trec_folder(data, tmp_path / "data")
    (tmp_path / "toy.yaml").write_text(SPACE)
    fresh_database(tmp_path / "runs")
    assert (
        main(["run", "toy.yaml", "--data", "data", "--storage", "runs", "--trials", "2", "--max-iterations", "2"]) == 0
    )
    monkeypatch.undo()
    files = [path for top in (tmp_path, ray_folder) for path in top.rglob("*") if path.is_file()]
    assert {"raylet.out", "mlflow.db", "journal.jsonl", "report.html"} <= {path.name for path in files}
    assert [str(path) for path in files if MARK.encode() in path.read_bytes()] == []
    assert not (tmp_path / "home" / ".ray").exists()
    shutil.rmtree(ray_folder)
