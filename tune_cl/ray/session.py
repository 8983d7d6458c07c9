"""Connects to a Ray cluster or starts a local Ray, so that signals reach the driver and it ends in order."""

from __future__ import annotations

import logging
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from shlex import quote
from typing import Any

import psutil
import ray
import torch

from trainables.core.errors import ConfigError, Problem, WorkFailed
from trainables.core.machine import usable_cpus
from trainables.core.plugins import LOADED, Plugin
from trainables.core.prose import phase, say
from tune_cl.process import NOT_IN_TIME, load, only_errors_logged, stop_if_asked
from tune_cl.ray.environment import WAITING, own_environment
from tune_cl.ray.workarounds import (
    deferred_signals,
    fewer_processes,
    no_garbage_collection,
    own_process_groups,
    reread_token,
    restored_sigterm,
)

SLOW = "timed out during startup"  # in what Ray says where its start takes too long
SYSTEM = {
    "enable_worker_prestart": False,  # Ray starts a Python process for each CPU beforehand, which no actor of ours gets
    "prestart_worker_first_driver": False,
    "worker_niceness": 0,  # beside other work on the machine, trials get their share
}
PREFIX = "tune_ray"  # not that of cluster.local.yaml's folder, whose processes are ended by its name
ENDS = 60.0  # seconds in which Ray's processes end once their driver was killed
LONGEST_PARENT = 14  # bytes: the path of a Unix socket has 107 at most, and Ray's below its folder takes the rest


def this_machine() -> dict[str, int]:
    """What this process may use of this machine, by Ray's names. GPUs are those that PyTorch sees, for trials use
    it."""
    return {"CPU": usable_cpus(), "GPU": torch.cuda.device_count()}


@contextmanager
def private_folder() -> Iterator[Path]:
    """A folder for a local Ray's files that only this user can enter: Ray makes its own folders writable for everybody.
    It is removed at the end; so are those of searches that were killed."""
    parent = Path(os.environ.get("RAY_TMPDIR") or tempfile.gettempdir())
    if len(os.fsencode(parent)) > LONGEST_PARENT:
        parent = Path("/tmp")
    for left in parent.glob(f"{PREFIX}_*_*"):
        owner, status = left.name.split("_")[2], left.lstat()
        is_old = time.time() - status.st_mtime > ENDS  # before, processes of Ray's would make it again, open to all
        if is_old and owner.isdecimal() and status.st_uid == os.getuid() and not psutil.pid_exists(int(owner)):
            shutil.rmtree(left, ignore_errors=True)
    folder = Path(tempfile.mkdtemp(prefix=f"{PREFIX}_{os.getpid()}_", dir=parent))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def local_options(folder: Path) -> dict[str, Any]:
    """Options of `ray.init` for a local Ray that writes to the folder; a cluster has its own settings."""
    resources = this_machine()
    options: dict[str, Any] = {"address": "local", "include_dashboard": False}  # no address: any Ray of this machine
    options |= {"num_cpus": resources["CPU"], "num_gpus": resources["GPU"]}
    return options | {"_temp_dir": str(folder), "_system_config": SYSTEM}


def runtime_env(local: bool) -> dict[str, Any]:
    """What each process of a session begins with: this one's plug-ins, and on a cluster its way to wait, which those of
    a local Ray inherit."""
    env: dict[str, Any] = {} if local else {"env_vars": {name: os.environ[name] for name in WAITING}}
    python = quote(sys.executable)
    if local and python != sys.executable:  # Ray puts it unquoted into a line of shell
        env["py_executable"] = python
    if plugins := list(LOADED):
        env["worker_process_setup_hook"] = loading_plugins(plugins)
    return env


def loading_plugins(plugins: Sequence[Plugin]) -> Callable[[], None]:
    """What a process runs first. Ray sends it by value: on a node that lacks tune_cl, which NodeCheck reports, it must
    load too."""

    def load_plugins_here() -> None:
        try:
            from trainables.core.plugins import load_sent
        except ImportError:
            return
        load_sent(plugins)

    return load_plugins_here


def use_present_ray(address: str | None) -> None:
    """Says that the work runs on the Ray that the user has started in this process. Raises ConfigError if another one
    is wanted, or if its processes lack the plug-ins, which only a new Ray loads."""
    if address or LOADED:
        lacks = "is not the cluster at the address" if address else "lacks the plug-ins, which load as it starts"
        raise ConfigError(Problem("ray", f"the Ray of this process {lacks}", "ray.shutdown() first"))
    say("note: the trials run on the Ray of this process, which stays up afterwards")


_open = False  # whether a session is open


@contextmanager
def _opened() -> Iterator[None]:
    global _open
    _open = True
    try:
        yield
    finally:
        _open = False


@contextmanager
def ray_session(address: str | None) -> Iterator[None]:
    """Connects to a cluster, which keeps running afterwards, or starts and ends a local Ray. One that the user has
    started in this process is used and left running. Within another session: that one. Its processes load the plug-ins
    of this one. Threads of ours start within it (tune_cl.ray.environment)."""
    stop_if_asked()
    if _open:
        yield
        return
    with ExitStack() as around:
        around.enter_context(own_environment(local_ray=address is None))
        around.enter_context(only_errors_logged("ray", "ray.tune"))
        if ray.is_initialized():
            use_present_ray(address)
            around.enter_context(_opened())
            yield
            return
        options: dict[str, Any] = {"address": address}
        if not address:
            options = local_options(around.enter_context(private_folder()))
            reread_token()
            around.enter_context(fewer_processes())
        doing = "connecting to Ray" if address else "starting Ray"
        with phase(doing), deferred_signals() as pending, own_process_groups():
            _start(**options, runtime_env=runtime_env(local=not address) or None)
        around.callback(_shutdown)
        for number in pending:
            signal.raise_signal(number)
        around.enter_context(_opened())
        yield


def _shutdown() -> None:
    with restored_sigterm(), no_garbage_collection():
        ray.shutdown()


def _start(**options: Any) -> None:
    """Starts Ray, once more if that takes too long. Raises WorkFailed if it does again."""
    for again in (True, False):
        try:
            ray.init(log_to_driver=False, logging_level=logging.ERROR, configure_logging=True, **options)
            return
        except Exception as error:
            if SLOW not in str(error):
                raise
            busy = f"{NOT_IN_TIME} ({load()})"
            if not again:
                right = "start again when this machine is less busy, or use a cluster (--address)"
                raise WorkFailed(f"{busy}, twice: {right}") from error
            say(f"note: {busy}; it is tried once more")
