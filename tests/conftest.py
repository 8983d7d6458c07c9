"""Fixtures shared by all tests: a cache of their own, and the real data if it is there.

`make test` leaves out the tests marked `slow`; the others start no process and open no port, but for those marked
`smoke`, which run the commands as a user does.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import hypothesis
import pytest

from tests.support.console import Console
from trainables.core import prose
from trainables.training import device

hypothesis.settings.register_profile("tests", deadline=None)  # a busy machine is not a failure
hypothesis.settings.load_profile("tests")

prose.PHASE_SECONDS = 3600.0  # what is printed does not depend on how busy this machine is

os.fsync = lambda descriptor: None  # no test takes a machine its power; each event would wait for the disk

# A shell that starts the tests in the background makes them, and all that they start, ignore Ctrl-C.
signal.signal(signal.SIGINT, signal.default_int_handler)

SLOW = {"subprocess.Popen", "os.posix_spawn", "os.fork", "socket.bind"}  # Python's names of these events
HARMLESS = {"git", "uname", "/sbin/ldconfig", "lscpu", "fc-list"}  # which libraries start to look at the machine
VISIBLE = os.environ.get("CUDA_VISIBLE_DEVICES")  # before a trial in this process, such as a fixture's, hides them
LONGEST = ("test_run", "test_ray_cluster", "test_notebooks", "test_cluster_up", "test_packaging")
QUICK = False  # whether the test that runs is neither slow nor a smoke test


def refuse_what_is_slow(event: str, details: tuple[Any, ...]) -> None:
    if QUICK and event in SLOW and not (event == "subprocess.Popen" and details[0] in HARMLESS):
        raise AssertionError(f"a quick test calls {event} with {details}: mark it slow")


sys.addaudithook(refuse_what_is_slow)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    global QUICK
    QUICK = not (item.get_closest_marker("slow") or item.get_closest_marker("smoke"))
    try:
        return (yield)
    finally:
        QUICK = False


def pytest_configure(config: pytest.Config) -> None:
    """pytest-xdist would begin with the files that have the most tests, and end with those that take longest."""
    config.option.loadscopereorder = False


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files with slow tests, the longest first, alternate with others: where one waits for a process, the other
    computes."""
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    files = list(dict.fromkeys(item.path for item in items))
    files.sort(key=lambda path: LONGEST.index(path.stem) if path.stem in LONGEST else len(LONGEST))
    place: dict[Path, float] = {}
    for kind in (True, False):
        of_kind = [path for path in files if (path in slow) == kind]
        place |= {path: number / len(of_kind) for number, path in enumerate(of_kind)}
    items.sort(key=lambda item: place[item.path])


def pytest_collection_finish() -> None:
    """All modules are imported: garbage collection, which some tests ask for, need not look at their objects again."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session", autouse=True)
def cache_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """No test reads or writes the user's cache; one cache serves the whole test run, all its worker processes."""
    own = tmp_path_factory.getbasetemp()
    home = (own.parent if "PYTEST_XDIST_WORKER" in os.environ else own) / "cache"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(home))
        yield home


@pytest.fixture(scope="module")
def local_ray(request: pytest.FixtureRequest) -> Iterator[str]:
    """The address of a Ray on this machine, which all searches of a file's tests use that run in this process. It has
    as many CPUs as the file's `CPUS` says, else one: each further process of trials would import all libraries too."""
    import ray

    from tune_cl.ray import session

    cpus = getattr(request.module, "CPUS", 1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(session, "usable_cpus", lambda: cpus)
        with session.ray_session(None):
            yield ray.get_runtime_context().gcs_address


@pytest.fixture(autouse=True)
def unlimited_width(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables are as wide as their cells, whatever width the shell or an earlier test exports."""
    monkeypatch.delenv("COLUMNS", raising=False)


@pytest.fixture(autouse=True)
def no_hub(monkeypatch: pytest.MonkeyPatch) -> None:
    """Quick tests do not ask the hub, which takes a process."""
    if QUICK:
        from trainables.core import hub

        monkeypatch.setattr(hub, "_asked", lambda _: False)


@pytest.fixture(autouse=True)
def no_gpu_reserved(monkeypatch: pytest.MonkeyPatch) -> None:
    """All tests but those of GPUs compute on the CPU, wherever they run, and a trial leaves no reservation behind."""
    monkeypatch.setattr(device, "_reserved", 0)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", VISIBLE or "")  # so that monkeypatch restores it
    if VISIBLE is None:
        monkeypatch.delenv("CUDA_VISIBLE_DEVICES")


@pytest.fixture
def console(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Console:
    """`tune-cl` in this process, called in an empty folder."""
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    return Console(capfd, tmp_path / "here")


@pytest.fixture
def shared() -> Path:
    """The folder of real data beside the checkout."""
    folder = Path(os.environ.get("TUNE_CL_SHARED", Path(__file__).resolve().parents[2] / "shared"))
    if not (folder / "data").is_dir():
        pytest.skip(f"real data not found at {folder}")
    return folder / "data"
