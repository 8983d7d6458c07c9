"""Connects to a Ray cluster or starts a local Ray, such that signals reach the driver and it ends in order."""

from __future__ import annotations

import gc
import logging
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from shlex import quote
from types import FrameType
from typing import Any

import ray
import torch
from ray._private import services
from ray._private import utils as ray_utils

from tune_cl.process import SIGNALS, stop_if_asked
from tune_cl.ray.access import protect_token, ray_folder

QUIET = {
    "TUNE_DISABLE_AUTO_CALLBACK_LOGGERS": "1",  # no CSV, JSON and TensorBoard files: the journal has everything
    "TUNE_DISABLE_SIGINT_HANDLER": "1",  # so that Ctrl-C reaches us
    "TUNE_PRINT_ALL_TRIAL_ERRORS": "0",
    "TUNE_GLOBAL_CHECKPOINT_S": "inf",  # first and last snapshot only: Ray's grow with the search and are never read
    "TUNE_ONLY_STORE_CHECKPOINT_SCORE_ATTRIBUTE": "1",  # no copy of a result beside each checkpoint
    "RAY_AIR_NEW_OUTPUT": "0",
    "RAY_DEDUP_LOGS": "0",
    "RAY_IGNORE_UNHANDLED_ERRORS": "1",  # no traceback of a trial that nobody waits for any more
}


def this_machine() -> dict[str, int]:
    """This machine's resources by Ray's names. GPUs are those that PyTorch sees, for trials train with it."""
    return {"CPU": os.cpu_count() or 1, "GPU": torch.cuda.device_count()}


def only_here(folder: Path) -> dict[str, Any]:
    """Options of `ray.init` for a local Ray that writes to the folder; a cluster has its own settings."""
    resources = this_machine()
    told = {"include_dashboard": False, "num_cpus": resources["CPU"], "num_gpus": resources["GPU"]}
    told |= {"_temp_dir": str(folder)}
    if (python := quote(sys.executable)) == sys.executable:
        return told
    return told | {"runtime_env": {"py_executable": python}}  # Ray puts it unquoted into a line of shell


@contextmanager
def ray_session(address: str | None) -> Iterator[None]:
    """Connects to a cluster, or starts a local Ray and ends it afterwards; a cluster goes on."""
    stop_if_asked()
    os.environ.update({key: value for key, value in QUIET.items() if key not in os.environ})
    for name in ("ray", "ray.tune"):
        logging.getLogger(name).setLevel(logging.ERROR)
    with ExitStack() as local:
        options = {} if address else only_here(local.enter_context(ray_folder()))
        if not address:
            protect_token()
        with _signals_held() as held, _processes_apart():
            ray.init(
                address=address or "local",  # without an address Ray would join any cluster that runs on this machine
                log_to_driver=False,
                logging_level=logging.ERROR,
                configure_logging=True,
                **options,
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
    """Around `ray.init`: holds SIGNALS back, to be raised afterwards. An exception in one of its forks would
    be swallowed and leave the lock of `logging` taken for ever. A second signal takes effect at once. Ray's own SIGTERM
    handler, a silent exit, is kept out. That of its C++ core is in place for some milliseconds at the end: it calls
    ours, and sets an alarm that would abort the process 3 seconds later, which is cancelled.

    The signals are not blocked, for Ray's processes would inherit that.
    """
    held: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield held
        return
    before = {number: signal.getsignal(number) for number in SIGNALS}

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
            signal.signal(number, heard or signal.SIG_DFL)  # None: the handler was not set from Python


@contextmanager
def _processes_apart() -> Iterator[None]:
    """Around `ray.init`: Ray's processes get process groups of their own, so that a signal to a whole job ends only the
    driver, which then ends Ray in order; if the raylet went first, Ray might end the driver at once, with status 1. If
    the driver is killed, they still end with it: Ray asks the kernel for that."""
    plain = services.ConsolePopen
    services.ConsolePopen = partial(plain, process_group=0)
    try:
        yield
    finally:
        services.ConsolePopen = plain


@contextmanager
def _sigterm_kept() -> Iterator[None]:
    """Restores SIGTERM's handler: after `ray.shutdown` the signal would end the process at once."""
    before = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        if before is not None and threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, before)


@contextmanager
def _no_collection() -> Iterator[None]:
    """Collects no garbage within the block. Tune leaves cycles that refer to Ray's objects; if another thread, such as
    the tracking's, frees one while Ray shuts down, the process ends (Ray's QuickExit, status 1)."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
