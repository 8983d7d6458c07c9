"""What this process may use: affinity and control groups, not the machine's count."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from trainables.core import machine


@pytest.mark.parametrize(("quota", "cpus"), [("300000 100000", 3), ("max 100000", 16), ("50000 100000", 1)])
def test_the_control_group_limits_cpus_and_memory(
    quota: str, cpus: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine, "PROC", tmp_path / "proc")
    monkeypatch.setattr(machine, "GROUPS", tmp_path)
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: range(16))
    assert machine.usable_cpus() == 16 and machine.usable_memory() > 0
    files = {"proc/self/cgroup": "0::/slurm/job_1\n", "slurm/job_1/cpu.max": quota}
    files |= {"slurm/job_1/memory.max": "8000\n", "slurm/job_1/memory.current": "2000\n"}
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    assert (machine.usable_cpus(), machine.usable_memory()) == (cpus, 6000)
