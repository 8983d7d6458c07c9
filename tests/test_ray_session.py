"""A local Ray and what is left of it: signals, process groups and garbage collection are as they were before."""

from __future__ import annotations

import gc
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType

import psutil
import pytest
import ray
from ray._private import services
from ray._private import utils as ray_utils
from ray.cluster_utils import Cluster

from trainables.core.errors import WorkFailed
from tune_cl.ray import session as module
from tune_cl.ray import workarounds
from tune_cl.ray.session import ray_session

pytestmark = pytest.mark.slow


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


class Actor:
    def answer(self) -> int:
        return 1


def elsewhere(work: Callable[[], object]) -> None:
    """Does the work in another thread; raises what it raises."""
    raised: list[BaseException] = []

    def run() -> None:
        try:
            work()
        except BaseException as error:  # noqa: BLE001 - of the thread's own
            raised.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    if raised:
        raise raised[0]


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


def test_a_second_signal_that_is_ignored_stays_so(heard: list[int]) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    with workarounds.deferred_signals() as pending:
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGTERM)
    assert pending == [signal.SIGINT, signal.SIGTERM] and heard == []
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_IGN


def test_rays_own_handler_and_alarm_are_kept_out_until_it_has_started(heard: list[int]) -> None:
    of_ray = ray_utils.set_sigterm_handler
    with workarounds.deferred_signals():
        ray_utils.set_sigterm_handler(lambda *_: sys.exit(1))
        signal.raise_signal(signal.SIGTERM)
        signal.alarm(1000)  # as Ray's C++ core does
    assert signal.alarm(0) == 0 and ray_utils.set_sigterm_handler is of_ray


def test_all_is_as_before_where_ray_cannot_start(heard: list[int]) -> None:
    plain, of_ray, before = services.ConsolePopen, ray_utils.set_sigterm_handler, signal.getsignal(signal.SIGTERM)
    with pytest.raises(ConnectionError), workarounds.deferred_signals(), workarounds.own_process_groups():
        assert services.ConsolePopen is not plain
        raise ConnectionError
    assert services.ConsolePopen is plain and ray_utils.set_sigterm_handler is of_ray
    assert signal.getsignal(signal.SIGTERM) is before


def test_what_sigterm_does_outlives_the_end_of_ray(heard: list[int]) -> None:
    with pytest.raises(KeyboardInterrupt), workarounds.restored_sigterm():
        signal.signal(signal.SIGTERM, signal.SIG_DFL)  # as `ray.shutdown` does
        raise KeyboardInterrupt
    signal.raise_signal(signal.SIGTERM)
    assert heard == [signal.SIGTERM]


def test_garbage_is_collected_before_and_after_but_not_meanwhile() -> None:
    class Cycle:
        def __init__(self) -> None:
            self.itself = self

        def __del__(self) -> None:
            freed.append(gc.isenabled())

    freed: list[bool] = []
    gc.disable()
    Cycle()
    gc.enable()
    with pytest.raises(KeyboardInterrupt), workarounds.no_garbage_collection():
        assert len(freed) == 1 and not gc.isenabled()
        raise KeyboardInterrupt
    assert gc.isenabled()


@pytest.mark.parametrize("where", [elsewhere, lambda work: work()], ids=["in a thread", "in the main thread"])
def test_a_ray_of_this_machine_is_its_own_and_ends_with_the_session(
    where: Callable[[Callable[[], object]], None], heard: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even if the environment has the address of another Ray."""
    monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:1")
    monkeypatch.setenv("RAY_DEDUP_LOGS", "1")
    monkeypatch.delenv("TUNE_GLOBAL_CHECKPOINT_S", raising=False)
    monkeypatch.setattr(module.os, "cpu_count", lambda: 3)
    monkeypatch.setattr(module.torch.cuda, "device_count", lambda: 2)
    found = []

    def work() -> None:
        with ray_session(None):
            found.append(ray.cluster_resources())
            children = [child for child in psutil.Process().children() if child.status() != psutil.STATUS_ZOMBIE]
            found.append({os.getpgid(child.pid) == child.pid for child in children if "ray" in child.name()})
            found.append({name: os.environ[name] for name in ("RAY_DEDUP_LOGS", "TUNE_GLOBAL_CHECKPOINT_S")})

    where(work)
    resources, apart, told = found
    assert (resources["CPU"], resources["GPU"]) == (3, 2)
    assert apart == {True}
    assert told == {"RAY_DEDUP_LOGS": "1", "TUNE_GLOBAL_CHECKPOINT_S": "inf"}
    assert not ray.is_initialized() and gc.isenabled()
    if where is not elsewhere:  # only the main thread can set a handler
        assert is_caught(signal.SIGTERM)
        signal.raise_signal(signal.SIGTERM)
        assert heard == [signal.SIGTERM]


def test_a_cluster_can_be_joined_after_a_local_ray() -> None:
    """Ray keeps its token mode for the life of the process, in RAY_AUTH_MODE too: without it no actor would start."""
    with ray_session(None):
        ray.get(ray.remote(lambda: None).remote())
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    try:
        with ray_session(cluster.address):
            actor = ray.remote(Actor).remote()
            assert ray.get(actor.answer.remote(), timeout=60) == 1
            del actor
    finally:
        cluster.shutdown()


UNASKED = """
import gc, time, ray
from tune_cl.ray.session import ray_session

def fails():
    raise ValueError("nobody asks")

def succeeds():
    time.sleep(0.5)

with ray_session(None):
    failed = ray.remote(fails).remote()
    for _ in range(3):
        ray.get(ray.remote(succeeds).remote())
    del failed
    gc.collect()
"""


def test_an_error_that_nobody_asks_for_is_not_printed() -> None:
    """As of trials that were saving when the search ended. Ray prints it as the object goes."""
    done = subprocess.run([sys.executable, "-c", UNASKED], capture_output=True, text=True, check=True)
    assert "nobody asks" not in done.stderr


@pytest.mark.parametrize("slow", [1, 2])
def test_a_start_that_takes_too_long_is_tried_once_more(
    slow: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    begun: list[int] = []

    def init(**options: object) -> None:
        begun.append(1)
        if len(begun) <= slow:
            raise Exception("The current node timed out during startup. This could happen because")

    monkeypatch.setattr(ray, "init", init)
    said = r"Ray did not start in its time \(a load of [\d.]+ on \d+ CPU cores\)"
    if slow == 1:
        with ray_session(None):
            pass
    else:
        with pytest.raises(WorkFailed, match=rf"^{said}, twice: start again when"), ray_session(None):
            pass
    assert len(begun) == 2 and re.search(rf"note: {said}; it is tried once more", capsys.readouterr().err)
