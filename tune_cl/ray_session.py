"""Connects to a Ray cluster, or starts a Ray of this machine; signals reach the driver, and its end is in order."""

from __future__ import annotations

import gc
import logging
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from shlex import quote
from types import FrameType
from typing import Any

import ray
import torch
from ray._private import services
from ray._private import utils as ray_utils

QUIET = {
    "TUNE_DISABLE_AUTO_CALLBACK_LOGGERS": "1",  # no CSV, JSON and TensorBoard files: the journal has it all
    "TUNE_DISABLE_SIGINT_HANDLER": "1",  # Ctrl-C reaches us
    "TUNE_PRINT_ALL_TRIAL_ERRORS": "0",
    "TUNE_GLOBAL_CHECKPOINT_S": "inf",  # Ray's snapshots grow with the search and are never read: first and last only
    "TUNE_ONLY_STORE_CHECKPOINT_SCORE_ATTRIBUTE": "1",  # Ray keeps no copy of a result beside each checkpoint
    "RAY_AIR_NEW_OUTPUT": "0",
    "RAY_DEDUP_LOGS": "0",
}


def this_machine() -> dict[str, int]:
    """The resources of this machine, by Ray's names: GPUs are those that PyTorch sees, for trials train with it."""
    return {"CPU": os.cpu_count() or 1, "GPU": torch.cuda.device_count()}


def only_here() -> dict[str, Any]:
    """What a Ray of this machine is told, for a cluster has its own."""
    resources = this_machine()
    told = {"include_dashboard": False, "num_cpus": resources["CPU"], "num_gpus": resources["GPU"]}
    if (python := quote(sys.executable)) == sys.executable:
        return told
    return told | {"runtime_env": {"py_executable": python}}  # unquoted in the line of shell that starts a worker


@contextmanager
def ray_session(address: str | None) -> Iterator[None]:
    """Connects to a cluster, or starts a local Ray and ends it afterwards. Ends nothing else."""
    os.environ.update({key: value for key, value in QUIET.items() if key not in os.environ})
    for name in ("ray", "ray.tune"):
        logging.getLogger(name).setLevel(logging.ERROR)
    with _signals_held() as held, _processes_apart():
        ray.init(
            address=address or "local",  # left open, Ray would join whatever cluster runs on this machine
            log_to_driver=False,
            logging_level=logging.ERROR,
            configure_logging=True,
            **({} if address else only_here()),
        )
    try:
        for number in held:
            signal.raise_signal(number)
        yield
    finally:
        with _sigterm_kept(), _no_collection():
            ray.shutdown()


@contextmanager
def _signals_held() -> Iterator[list[int]]:
    """Around `ray.init`: SIGINT and SIGTERM that come meanwhile, to be raised after it. An exception in a fork of it is
    swallowed and leaves the lock of `logging` taken for ever. A second signal is heard at once. Ray's own SIGTERM, an
    exit without a word, is kept out. That of its C++ core stands for some milliseconds at the end: it calls ours, and
    sets an alarm that aborts the process 3 seconds later, which is taken back.

    The signals are not blocked: Ray's processes would inherit that.
    """
    held: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield held
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def hold(number: int, frame: FrameType | None) -> None:
        if held and callable(heard := before[signal.Signals(number)]):
            heard(number, frame)
        held.append(number)

    set_by_ray = ray_utils.set_sigterm_handler
    ray_utils.set_sigterm_handler = lambda handler: None
    try:
        for number in before:
            signal.signal(number, hold)
        yield held
        signal.alarm(0)
    finally:
        ray_utils.set_sigterm_handler = set_by_ray
        for number, heard in before.items():
            signal.signal(number, heard or signal.SIG_DFL)  # None: not of Python's making


@contextmanager
def _processes_apart() -> Iterator[None]:
    """Around `ray.init`: Ray's processes get process groups of their own, so that a signal to all of a job ends the
    driver alone, which ends Ray in order. A driver whose raylet goes first may be ended by Ray at once, with status 1.
    They still end with a driver that is killed: Ray asks the kernel for it."""
    plain = services.ConsolePopen
    services.ConsolePopen = partial(plain, process_group=0)
    try:
        yield
    finally:
        services.ConsolePopen = plain


@contextmanager
def _sigterm_kept() -> Iterator[None]:
    """Restores what SIGTERM does: `ray.shutdown` makes it end the process at once."""
    before = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        if before is not None and threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, before)


@contextmanager
def _no_collection() -> Iterator[None]:
    """Nothing is collected as garbage meanwhile. Tune leaves cycles with references to Ray's objects, and one that
    another thread, such as the tracking's, frees while Ray shuts down ends the process (Ray's QuickExit, status 1)."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
