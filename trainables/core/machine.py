"""What this process may use of its machine: CPUs and memory, as affinity (taskset, Slurm) and control groups
(containers, Slurm) leave them."""

from __future__ import annotations

import os
from pathlib import Path

import psutil

CUBLAS = {"CUBLAS_WORKSPACE_CONFIG": ":4096:8"}  # with which its sums repeat; read as a process begins to use CUDA
PROC, GROUPS = Path("/proc"), Path("/sys/fs/cgroup")


def usable_cpus() -> int:
    """How many CPUs this process may use, at least 1: those of its affinity, or fewer by its control group's quota."""
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quota = _of_group("cpu.max")  # `max 100000`, or microseconds of CPU time in so many
    if quota[0] != "max":
        count = min(count, int(quota[0]) // int(quota[1]))
    return max(1, count)


def usable_memory() -> int:
    """Bytes that this process may still take: what the machine has available, or less by its control group's limit."""
    free = psutil.virtual_memory().available
    limit, used = _of_group("memory.max"), _of_group("memory.current")
    return free if limit[0] == "max" else max(0, min(free, int(limit[0]) - int(used[0])))


def _of_group(name: str) -> list[str]:
    """The words in a file of this process's control group (version 2); `max` where there is none."""
    try:
        group = (PROC / "self" / "cgroup").read_text().rpartition("0::/")[2].strip()
        return (GROUPS / group / name).read_text().split()
    except OSError:
        return ["max"]
