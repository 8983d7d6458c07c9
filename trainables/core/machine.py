"""What this process may use of its machine: CPUs and memory, as affinity (taskset, Slurm) and control groups
(containers, Slurm) leave them."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

PROC, GROUPS = Path("/proc"), Path("/sys/fs/cgroup")


def usable_cpus() -> int:
    """How many CPUs this process may use, at least 1: those of its affinity, or fewer by a control group's quota."""
    count = os.cpu_count() or 1
    if hasattr(os, "sched_getaffinity"):
        allowed = len(os.sched_getaffinity(0))
        if allowed < os.sysconf("SC_NPROCESSORS_ONLN"):
            count = min(count, allowed)
    for folder in _groups("cpu"):
        quota = _words(folder / "cpu.max")  # `max 100000`, version 2
        if not quota:
            quota = [*_words(folder / "cpu.cfs_quota_us"), *_words(folder / "cpu.cfs_period_us")]
        if len(quota) == 2 and quota[0] not in ("max", "-1"):
            count = min(count, int(quota[0]) // int(quota[1]))
    return max(1, count)


def usable_memory() -> int:
    """Bytes that this process may still take: what the machine has available, or less by a control group's limit; where
    the system does not say, all that the machine has."""
    free = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    if available := re.search(r"^MemAvailable: *(\d+) kB$", _text(PROC / "meminfo"), re.MULTILINE):
        free = int(available[1]) * 1024
    for folder in _groups("memory"):
        limit = _words(folder / "memory.max") or _words(folder / "memory.limit_in_bytes")
        used = _words(folder / "memory.current") or _words(folder / "memory.usage_in_bytes")
        if limit and limit[0] != "max":
            cached = re.search(r"^(?:total_)?inactive_file (\d+)$", _text(folder / "memory.stat"), re.MULTILINE)
            taken = int(used[0] if used else 0) - int(cached[1] if cached else 0)
            free = min(free, max(0, int(limit[0]) - taken))
    return free


def _groups(controller: str) -> Iterator[Path]:
    """The folders of this process's control groups that may limit it, each with those above it: of version 2, and of
    version 1 by its controller."""
    for line in _text(PROC / "self" / "cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        root = GROUPS if not controllers else GROUPS / controller
        if controllers and controller not in controllers.split(","):
            continue
        within = root / path.lstrip("/")
        yield from (folder for folder in (within, *within.parents) if folder.is_relative_to(root))


def _words(file: Path) -> list[str]:
    return _text(file).split()


def _text(file: Path) -> str:
    """The text of a file of the system; nothing if there is none."""
    with suppress(OSError):
        return file.read_text()
    return ""
