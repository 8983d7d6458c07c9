"""Connects to a Ray cluster or starts a local Ray, so that signals reach the driver and it ends in order."""

from __future__ import annotations

import logging
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from shlex import quote
from typing import Any

import ray
import torch

from trainables.core.errors import ConfigError, Problem
from trainables.core.machine import usable_cpus
from trainables.core.plugins import LOADED, Plugin
from trainables.core.prose import phase, say
from tune_cl.process import only_errors_logged, stop_if_asked
from tune_cl.ray.environment import WAITING, own_environment
from tune_cl.ray.workarounds import (
    deferred_signals,
    fewer_processes,
    own_process_groups,
    reread_token,
    shut_down,
)

NOT_IN_TIME = "timed out during startup"  # in what Ray says where its start takes too long
SYSTEM = {
    "enable_worker_prestart": False,  # Ray starts a Python process for each CPU beforehand, which no actor of ours gets
    "prestart_worker_first_driver": False,
    "worker_niceness": 0,  # beside other work on the machine, trials get their share
}


def this_machine() -> dict[str, int]:
    """What this process may use of this machine, by Ray's names. GPUs are those that PyTorch sees, for trials use
    it."""
    return {"CPU": usable_cpus(), "GPU": torch.cuda.device_count()}


@contextmanager
def private_folder() -> Iterator[str]:
    """A folder for a local Ray's files that only this user can enter: Ray makes its own folders writable for everybody.
    It is not in TMPDIR, which may be too long: the path of a Unix socket has 107 bytes at most."""
    folder = tempfile.mkdtemp(prefix="tune_ray_", dir=os.environ.get("RAY_TMPDIR", "/tmp"))
    try:
        yield folder
    finally:
        with suppress(OSError):  # as where Ctrl-C comes while rmtree closes a folder
            shutil.rmtree(folder, ignore_errors=True)


def local_options(folder: str) -> dict[str, Any]:
    """Options of `ray.init` for a local Ray that writes to the folder; a cluster has its own settings."""
    resources = this_machine()
    options: dict[str, Any] = {"address": "local", "include_dashboard": False}  # no address: any Ray of this machine
    options |= {"num_cpus": resources["CPU"], "num_gpus": resources["GPU"]}
    return options | {"_temp_dir": folder, "_system_config": SYSTEM}


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
def ray_session(address: str | None) -> Iterator[None]:
    """Connects to a cluster, which keeps running afterwards, or starts and ends a local Ray. One that the user has
    started in this process is used and left running. Within another session: that one. Its processes load the plug-ins
    of this one. Threads of ours start within it (tune_cl.ray.environment)."""
    global _open
    stop_if_asked()
    if _open:
        yield
        return
    with ExitStack() as around:
        around.enter_context(own_environment(local_ray=address is None))
        around.enter_context(only_errors_logged("ray", "ray.tune"))
        if ray.is_initialized():
            use_present_ray(address)
        else:
            _start(address, around)
        _open = True
        try:
            yield
        finally:
            _open = False


def _start(address: str | None, around: ExitStack) -> None:
    """Connects to the cluster or starts a Ray here, which ends with `around`; then raises the signals that came
    meanwhile."""
    options: dict[str, Any] = {"address": address}
    with ExitStack() as starting:
        if not address:
            options = local_options(around.enter_context(private_folder()))
            reread_token()
            starting.enter_context(fewer_processes())
        starting.enter_context(phase("connecting to Ray" if address else "starting Ray"))
        pending = starting.enter_context(deferred_signals())
        starting.enter_context(own_process_groups())
        env = runtime_env(local=not address) or None
        for attempt in (1, 2):  # on a busy machine Ray may not start in its 30 seconds
            try:
                ray.init(log_to_driver=False, logging_level=logging.ERROR, runtime_env=env, **options)
                break
            except Exception as error:
                if NOT_IN_TIME not in str(error) or attempt == 2:
                    raise
                say("note: Ray did not start in its time; it is tried once more")
        around.callback(shut_down)
    for number in pending:
        signal.raise_signal(number)
