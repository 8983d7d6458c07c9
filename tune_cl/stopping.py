"""Ctrl-C and SIGTERM stop a command, also where a library swallows the exception that they raise."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

_asked = False  # whether a signal has asked the command to stop


@contextmanager
def stoppable() -> Iterator[None]:
    """Lets SIGTERM, with which Slurm, Kubernetes and systemd end a job, stop a command as Ctrl-C does. Where Ctrl-C is
    ignored, as in a job that a shell started in the background, it stays so."""
    global _asked
    if threading.current_thread() is not threading.main_thread():  # only the main thread may set signal handlers
        yield
        return
    heeds = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    numbers = (signal.SIGINT, signal.SIGTERM) if heeds else (signal.SIGTERM,)
    before = {number: signal.signal(number, _stop) for number in numbers}
    tell = sys.unraisablehook

    def tell_others(lost: Any) -> None:
        if not issubclass(lost.exc_type, KeyboardInterrupt):  # which `stop_if_asked` raises again
            tell(lost)

    sys.unraisablehook = tell_others
    try:
        yield
    finally:
        _asked, sys.unraisablehook = False, tell
        for number, heard in before.items():
            signal.signal(number, heard)


def _stop(number: int, frame: FrameType | None) -> None:
    global _asked
    _asked = True
    signal.default_int_handler(number, frame)


def stop_if_asked() -> None:
    """Raises KeyboardInterrupt if a signal came whose exception never arrived: libraries that try an import and catch
    everything swallow it, and Python does while it collects an object. To be called before long work begins, and
    between its steps."""
    if _asked:
        raise KeyboardInterrupt
