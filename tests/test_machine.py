"""What this process may use: affinity and control groups of both versions, not the machine's count."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from trainables.core import machine

GIB = 1 << 30
V2, V1 = "0::/slurm/job_1\n", "4:memory:/job\n3:cpu,cpuacct:/job\n0::/\n"


@pytest.fixture
def system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine of 16 CPUs and 64 GiB free, whose files are in the folder."""
    monkeypatch.setattr(machine, "PROC", tmp_path / "proc")
    monkeypatch.setattr(machine, "GROUPS", tmp_path / "groups")
    monkeypatch.setattr(os, "cpu_count", lambda: 16)
    write(tmp_path, {"proc/meminfo": f"MemTotal: 1 kB\nMemAvailable: {64 * GIB // 1024} kB\n"})
    return tmp_path


def write(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


@pytest.mark.parametrize(
    ("group", "files", "cpus"),
    [
        ("", {}, 16),
        (V2, {"slurm/job_1/cpu.max": "300000 100000\n"}, 3),
        (V2, {"slurm/job_1/cpu.max": "max 100000\n", "slurm/cpu.max": "250000 100000\n"}, 2),
        (V2, {"cpu.max": "50000 100000\n"}, 1),
        (V1, {"cpu/job/cpu.cfs_quota_us": "400000\n", "cpu/job/cpu.cfs_period_us": "100000\n"}, 4),
        (V1, {"cpu/job/cpu.cfs_quota_us": "-1\n", "cpu/job/cpu.cfs_period_us": "100000\n"}, 16),
    ],
)
def test_a_quota_limits_the_cpus(group: str, files: dict[str, str], cpus: int, system: Path) -> None:
    write(system, {"proc/self/cgroup": group} | {f"groups/{name}": text for name, text in files.items()})
    assert machine.usable_cpus() == cpus


@pytest.mark.parametrize(
    ("group", "files", "free"),
    [
        ("", {}, 64),
        (V2, {"slurm/job_1/memory.max": f"{8 * GIB}\n", "slurm/job_1/memory.current": f"{2 * GIB}\n"}, 6),
        (V2, {"slurm/job_1/memory.max": f"{8 * GIB}\n", "slurm/job_1/memory.current": f"{4 * GIB}\n",
              "slurm/job_1/memory.stat": f"anon 1\ninactive_file {3 * GIB}\n"}, 7),
        (V2, {"slurm/job_1/memory.max": "max\n", "memory.max": f"{9 * GIB}\n"}, 9),
        (V1, {"memory/job/memory.limit_in_bytes": f"{5 * GIB}\n", "memory/job/memory.usage_in_bytes": f"{GIB}\n"}, 4),
    ],
)  # fmt: skip
def test_a_limit_leaves_less_memory(group: str, files: dict[str, str], free: int, system: Path) -> None:
    write(system, {"proc/self/cgroup": group} | {f"groups/{name}": text for name, text in files.items()})
    assert machine.usable_memory() == free * GIB


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity") or (os.cpu_count() or 1) < 2, reason="needs two CPUs")
def test_affinity_limits_the_cpus() -> None:
    """As taskset and Slurm set it."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, [min(before)])
    try:
        assert machine.usable_cpus() == 1
    finally:
        os.sched_setaffinity(0, before)
