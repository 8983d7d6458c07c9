"""This process: its name as users type it, its signals, its environment and where its output goes."""

from __future__ import annotations

import logging
import os
import shutil
import signal
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from pathlib import Path
from shlex import quote
from types import FrameType
from typing import Any

from trainables.core.prose import phase


def program(name: str) -> str:
    """How to call a console script of this installation from here, whether or not its environment is active."""
    if shutil.which(name):
        return name
    return quote(os.path.relpath(Path(sys.executable).parent / name))


def loading() -> AbstractContextManager[None]:
    """Names the import of Ray and PyTorch, which takes seconds the first time."""
    return nullcontext() if "ray" in sys.modules else phase("loading Ray and PyTorch")


def versions(packages: Iterable[str]) -> dict[str, str | None]:
    """The versions of packages where this runs; None for one that is not installed."""
    from importlib.metadata import PackageNotFoundError, version  # here: every command imports this module

    by_package: dict[str, str | None] = dict.fromkeys(packages)
    for package in by_package:
        with suppress(PackageNotFoundError):
            by_package[package] = version(package)
    return by_package


SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_asked = False  # whether a signal has asked the command to stop


@contextmanager
def stoppable(numbers: Sequence[signal.Signals] = SIGNALS) -> Iterator[None]:
    """Lets SIGTERM, with which Slurm, Kubernetes and systemd end a job, and SIGHUP, which comes when a terminal is
    closed or a connection breaks, stop a command as Ctrl-C does. A signal that is ignored stays so: Ctrl-C in a job
    that a shell started in the background, SIGHUP under `nohup`. `numbers`: the signals that are heeded."""
    global _asked
    if threading.current_thread() is not threading.main_thread():  # only the main thread may set signal handlers
        yield
        return
    before = {number: signal.signal(number, _stop) for number in numbers if _heeded(number)}
    if not before:  # within another `stoppable`
        yield
        return
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


def _heeded(number: signal.Signals) -> bool:
    return number == signal.SIGTERM or signal.getsignal(number) in (signal.SIG_DFL, signal.default_int_handler)


def _stop(number: int, frame: FrameType | None) -> None:
    global _asked
    _asked = True
    signal.default_int_handler(number, frame)


@contextmanager
def replaced(owner: Any, **values: Any) -> Iterator[None]:
    """Attributes of an object, class or module have these values in the block."""
    originals = {name: getattr(owner, name) for name in values}
    try:
        for name, value in values.items():
            setattr(owner, name, value)
        yield
    finally:
        for name, value in originals.items():
            setattr(owner, name, value)


@contextmanager
def environment(values: Mapping[str, str]) -> Iterator[None]:
    """Sets environment variables, and puts back what they were."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


@contextmanager
def only_errors_logged(*names: str) -> Iterator[None]:
    """Meanwhile these loggers log nothing below an error."""
    loggers = [logging.getLogger(name) for name in names]
    levels = [logger.level for logger in loggers]
    try:
        for logger in loggers:
            logger.setLevel(logging.ERROR)
        yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


def silence(descriptor: int) -> None:
    """What is written to a file descriptor, open or closed, goes nowhere from now on."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    if nowhere != descriptor:  # a closed one may be the first that is free
        os.dup2(nowhere, descriptor)
        os.close(nowhere)


def stop_if_asked() -> None:
    """Raises KeyboardInterrupt if a signal came whose exception never arrived: libraries that try an import and catch
    everything swallow it, and Python does while it collects an object. To be called before long work begins, and
    between its steps."""
    if _asked:
        raise KeyboardInterrupt
