"""Notices at once when one of Ray's own processes on this machine ends.

Without its raylet or its GCS a driver can only wait, up to a minute, until Ray ends it with text of its own. All that
is done is in the journal by then, as when the driver itself is killed.
"""

from __future__ import annotations

import os
import re
import select
import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from subprocess import Popen
from threading import Lock, Thread

from tune_cl.process import end_command

VITAL = {"gcs_server": "its control store (GCS)", "raylet": "its raylet"}
AGENT = re.compile(rb"ray::\w+Agent|agent\.py|agent/main\.py")  # processes below the raylet, which it ends with
STARTS = 5.0  # seconds in which Ray may tell itself that it cannot start, and then ends what it has started


class Watch:
    """`goes_on`: the command with which the user goes on, if there is one."""

    def __init__(self, goes_on: str = ""):
        self.goes_on = goes_on
        self.grace = STARTS  # seconds until a loss is told of
        self._watched: set[int] = set()
        self._raylet: int | None = None
        self._lock = Lock()

    def add(self, process: Popen[bytes], command: Sequence[str]) -> None:
        """Watches a process that Ray has just started, if Ray cannot do without it."""
        name = Path(command[0]).name if command else ""
        if name in VITAL:
            self._raylet = process.pid if name == "raylet" else self._raylet
            self._watch(process.pid, f"{VITAL[name]}: the process {name}", process)

    def started(self) -> None:
        """Called once Ray has started: its raylet has agents now, and a loss is told of at once."""
        self.grace = 0.0
        if self._raylet is not None:
            for agent in agents_of(self._raylet):
                self._watch(agent, "an agent of its raylet: a process")

    def _watch(self, process: int, what: str, child: Popen[bytes] | None = None) -> None:
        if not hasattr(os, "pidfd_open"):  # not on Linux
            return
        with suppress(OSError):  # it has ended already, which `ray.init` finds out itself
            handle = os.pidfd_open(process)
            self._watched.add(process)
            Thread(target=self._wait, args=(handle, process, what, child), name="watch of Ray", daemon=True).start()

    def forget(self) -> None:
        """Called before Ray ends its processes itself, or right after."""
        with self._lock:
            self._watched.clear()

    def _wait(self, handle: int, process: int, what: str, child: Popen[bytes] | None) -> None:
        ended = select.poll()  # select knows no descriptors beyond 1023
        ended.register(handle, select.POLLIN)
        ended.poll()
        os.close(handle)
        killed = child is None or child.wait() == -signal.SIGKILL
        if self.grace and not killed:  # as on a busy machine: `ray.init` tells of it, and is called once more
            return
        time.sleep(self.grace)
        with self._lock:
            if process not in self._watched:
                return
            self._watched.clear()
            how = "was killed, perhaps for lack of memory" if killed else "has ended"
            why = f"Ray has lost {what} of this machine {how}."
            go_on = f" What is done is saved. Go on with: {self.goes_on}" if self.goes_on else ""
            end_command(f"error: {why}{go_on}")


def agents_of(raylet: int) -> list[int]:
    """The processes of a raylet's agents, without which it ends itself, and the driver with it."""
    found: list[int] = []
    for children in Path(f"/proc/{raylet}/task").glob("*/children"):
        with suppress(OSError):
            found += [int(name) for name in children.read_text().split()]
    return [process for process in found if AGENT.search(_command_of(process))]


def _command_of(process: int) -> bytes:
    try:
        return Path(f"/proc/{process}/cmdline").read_bytes()
    except OSError:  # it has ended
        return b""


@contextmanager
def watching(goes_on: str) -> Iterator[Watch]:
    """A watch that ends with the block."""
    watch = Watch(goes_on)
    with ExitStack() as ending:
        ending.callback(watch.forget)
        yield watch
