"""Connects to a Ray cluster or starts a local Ray, so that signals reach the driver and it ends in order."""

from __future__ import annotations

import logging
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from shlex import quote
from typing import Any

import ray
import torch

from trainables.core.errors import ConfigError, Problem, WorkFailed
from trainables.core.machine import usable_cpus
from trainables.core.plugins import Sent, sent
from trainables.core.prose import phase, say
from tune_cl.process import NOT_IN_TIME, load, only_errors_logged, stop_if_asked
from tune_cl.ray.access import ray_folder, require_token
from tune_cl.ray.environment import own_environment
from tune_cl.ray.nodes import require_plugins_on_nodes
from tune_cl.ray.watch import Watch, watching
from tune_cl.ray.workarounds import (
    deferred_signals,
    fewer_processes,
    no_garbage_collection,
    own_process_groups,
    reread_token,
    restored_sigterm,
)

SLOW = "timed out during startup"  # in what Ray says where its start takes too long
NO_IDLE_WORKERS = {  # Ray starts a Python process for each CPU beforehand, which no actor of ours gets
    "enable_worker_prestart": False,
    "prestart_worker_first_driver": False,
}


def this_machine() -> dict[str, int]:
    """What this process may use of this machine, by Ray's names. GPUs are those that PyTorch sees, for trials use
    it."""
    return {"CPU": usable_cpus(), "GPU": torch.cuda.device_count()}


def local_options(folder: Path) -> dict[str, Any]:
    """Options of `ray.init` for a local Ray that writes to the folder; a cluster has its own settings."""
    resources = this_machine()
    options = {"include_dashboard": False, "num_cpus": resources["CPU"], "num_gpus": resources["GPU"]}
    options |= {"_temp_dir": str(folder), "_system_config": NO_IDLE_WORKERS}
    if (python := quote(sys.executable)) == sys.executable:
        return options
    return options | {"runtime_env": {"py_executable": python}}  # Ray puts it unquoted into a line of shell


def loading_plugins(plugins: Sequence[Sent]) -> Callable[[], None]:
    """What each process of a session runs first. Ray sends it by value: on a node that lacks tune_cl, which NodeCheck
    reports, it must load too."""

    def load_plugins_here() -> None:
        try:
            from trainables.core.plugins import load_sent
        except ImportError:
            return
        load_sent(plugins)

    return load_plugins_here


def with_plugins(options: dict[str, Any]) -> dict[str, Any]:
    """Options of `ray.init` for processes that have this one's plug-ins."""
    if not (plugins := sent()):
        return options
    environment = options.get("runtime_env", {}) | {"worker_process_setup_hook": loading_plugins(plugins)}
    return options | {"runtime_env": environment}


def use_present_ray(address: str | None) -> None:
    """Says that the work runs on the Ray that the user has started in this process. Raises ConfigError if another one
    is wanted, or if its processes lack the plug-ins, which only a new Ray loads."""
    if address or sent():
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
def ray_session(address: str | None, goes_on: str = "") -> Iterator[None]:
    """Connects to a cluster, which keeps running afterwards, or starts and ends a local Ray. One that
    the user has started in this process is used and left running. Within another session: that one. Its processes load
    the plug-ins of this one; raises WorkFailed naming a node that cannot. `goes_on`: the command with which the user
    goes on if a local Ray loses one of its processes. Threads of ours start within it (tune_cl.ray.environment)."""
    stop_if_asked()
    if _open:
        yield
        return
    with ExitStack() as local:
        local.enter_context(own_environment(local_ray=address is None))
        local.enter_context(only_errors_logged("ray", "ray.tune"))
        if ray.is_initialized():
            use_present_ray(address)
            with _opened():
                yield
            return
        options: dict[str, Any] = {}
        if not address:
            folder = local.enter_context(ray_folder())
            local.callback(reread_token)
            require_token()
            reread_token()
            options = local_options(folder)
            local.enter_context(fewer_processes())
        doing = "connecting to Ray" if address else "starting Ray"
        watch = local.enter_context(watching(goes_on))
        with phase(doing), deferred_signals() as pending, own_process_groups(watch.add):
            _start(
                watch,
                address=address or "local",  # without an address Ray would join any cluster that runs on this machine
                log_to_driver=False,
                logging_level=logging.ERROR,
                configure_logging=True,
                **with_plugins(options),
            )
        watch.started()
        try:
            for number in pending:
                signal.raise_signal(number)
            if sent():
                require_plugins_on_nodes()
            with _opened():
                yield
        finally:
            watch.forget()
            with restored_sigterm(), no_garbage_collection():
                ray.shutdown()


def _start(watch: Watch, **options: Any) -> None:
    """Starts Ray, once more if that takes too long. Raises WorkFailed if it does again."""
    for again in (True, False):
        try:
            ray.init(**options)
            return
        except Exception as error:
            watch.forget()
            if SLOW not in str(error):
                raise
            busy = f"{NOT_IN_TIME} ({load()})"
            if not again:
                right = "start again when this machine is less busy, or use a cluster (--address)"
                raise WorkFailed(f"{busy}, twice: {right}") from error
            say(f"note: {busy}; it is tried once more")
