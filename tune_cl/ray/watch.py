"""Notices at once when one of Ray's own processes on this machine ends.

Without its raylet or its GCS a driver can only wait, up to a minute, until Ray ends it with text of its own. All that
is done is in the journal by then, as when the driver itself is killed.
"""

from __future__ import annotations

import os
import select
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from subprocess import Popen
from threading import Lock, Thread

from tune_cl.process import end_command

# When one of its agents is killed, the raylet ends, too.
VITAL = {"gcs_server": "its control store (GCS)", "raylet": "its raylet"}
STARTS = 5.0  # seconds in which Ray may tell itself that it cannot start, and then ends what it has started


class Watch:
    """`goes_on`: the command with which the user goes on, if there is one."""

    def __init__(self, goes_on: str = ""):
        self.goes_on = goes_on
        self.grace = STARTS  # seconds until a loss is told of
        self._watched: set[int] = set()
        self._lock = Lock()

    def add(self, process: Popen[bytes], command: Sequence[str]) -> None:
        """Watches a process that Ray has just started, if Ray cannot do without it."""
        name = Path(command[0]).name if command else ""
        if name not in VITAL or not hasattr(os, "pidfd_open"):
            return
        with suppress(OSError):  # it has ended already, which `ray.init` finds out itself
            handle = os.pidfd_open(process.pid)
            self._watched.add(process.pid)
            Thread(target=self._wait, args=(handle, process.pid, name), name=f"watch of {name}", daemon=True).start()

    def forget(self) -> None:
        """Called before Ray ends its processes itself, or right after."""
        with self._lock:
            self._watched.clear()

    def _wait(self, handle: int, process: int, name: str) -> None:
        select.select([handle], [], [])
        os.close(handle)
        time.sleep(self.grace)
        with self._lock:
            if process not in self._watched:
                return
            self._watched.clear()
            what = f"Ray has lost {VITAL[name]}: the process {name} of this machine has ended"
            why = "It was killed, perhaps for lack of memory."
            go_on = f" What is done is saved. Go on with: {self.goes_on}" if self.goes_on else ""
            end_command(f"error: {what}. {why}{go_on}")


@contextmanager
def watching(goes_on: str) -> Iterator[Watch]:
    """A watch that ends with the block."""
    watch = Watch(goes_on)
    with ExitStack() as ending:
        ending.callback(watch.forget)
        yield watch
