"""Ways to stop a command of its own process group once its journal has so many further events, as users, schedulers and
machines do."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
from ray import tune

from tests.support.commands import finish, wait_for_events
from tune_cl.history.journal import read_events

Stop = Callable[[subprocess.Popen[str]], int]  # stops a command; returns the exit status that it must have


def interrupt_the_job(running: subprocess.Popen[str]) -> int:
    """As an impatient user presses Ctrl-C: a terminal's goes to all processes of a job. Ray's would hear it before the
    driver; one whose raylet has gone may end at once, with status 1."""
    of_ray = rays_processes(running)
    running.send_signal(signal.SIGSTOP)
    os.killpg(running.pid, signal.SIGINT)
    time.sleep(2)  # longer than a raylet takes to leave
    assert psutil.STATUS_ZOMBIE not in {process.status() for process in of_ray}
    running.send_signal(signal.SIGCONT)
    with suppress(ProcessLookupError):
        for _ in range(4):  # one comes while Ray leaves the interpreter
            time.sleep(0.3)
            os.killpg(running.pid, signal.SIGINT)
    return 130


def kill_the_job(running: subprocess.Popen[str]) -> int:
    """As a machine's kernel or Slurm does."""
    os.killpg(running.pid, signal.SIGKILL)
    return -signal.SIGKILL


def rays_processes(running: subprocess.Popen[str]) -> list[psutil.Process]:
    found = psutil.Process(running.pid).children()
    assert {"gcs_server", "raylet"} <= {process.name() for process in found}
    return found


def stopped(
    begin: Callable[[], subprocess.Popen[str]], journal: Path, kind: str, count: int, stop: Stop
) -> tuple[str, str]:
    """Begins a command and stops it after `count` events of a kind; returns what it printed. It takes Ray with it."""
    known = len(list(read_events(journal))) if journal.exists() else 0
    running = begin()
    wait_for_events(running, journal, kind, count, known)
    of_ray = rays_processes(running)
    printed = finish(running, stop(running))
    _, left = psutil.wait_procs(of_ray, timeout=20)
    assert not left
    return printed


class CtrlC(tune.Callback):
    """Stops a search of this process as Ctrl-C does, after so many results."""

    def __init__(self, results: int):
        self.left = results

    def on_trial_result(self, *_: Any, **__: Any) -> None:
        self.left -= 1
        if not self.left:
            raise KeyboardInterrupt
