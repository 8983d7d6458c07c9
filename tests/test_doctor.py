"""`tune-cl doctor`: what it finds, the fix beside it, and the exit status."""

from __future__ import annotations

import shutil

import pytest

from tests.support.console import Console
from trainables.core import hub
from tune_cl.cli import FAILED, command_of
from tune_cl.cli import check as doctor
from tune_cl.cli.check import Check

NAMES = ["Python", "packages", "storage", "cache", "temporary files", "memory", "GPU", "Java", "Ray", "hub"]


def answering(name: str, ok: bool, needed: bool) -> Check:
    return Check(name, ok, "found", None if ok else "mend it", needed)


@pytest.fixture
def no_ray(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "ray", lambda: answering("Ray", True, True))
    monkeypatch.setattr(doctor, "java", lambda: answering("Java", False, False))
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setattr(hub, "_asked", lambda endpoint: False)
    hub._answers.cache_clear()


@pytest.mark.usefixtures("no_ray")
def test_what_only_some_searches_need_does_not_fail(console: Console) -> None:
    rows = console.document("doctor --storage runs")
    assert [row["name"] for row in rows] == NAMES
    wrong = {row["name"]: row for row in rows if not row["ok"]}
    assert {"Java", "hub"} <= wrong.keys() <= {"Java", "hub", "memory"}
    assert "answer" in wrong["hub"]["found"] and all(row["fix"] for row in wrong.values())
    assert not any(row["fix"] for row in rows if row["ok"])
    assert not (console.folder / "runs").exists()


@pytest.mark.usefixtures("no_ray")
def test_a_storage_that_cannot_be_written_to_fails(console: Console) -> None:
    rows = console.document("doctor --storage /proc/none/runs", status=FAILED)
    [storage] = [row for row in rows if row["name"] == "storage"]
    assert not storage["ok"] and "/proc" in storage["fix"]
    shown = command_of("doctor").render([Check(**row) for row in rows])
    assert "FAILED   storage" in shown and storage["fix"] in shown


def test_packages_and_a_python_out_of_their_ranges_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    assert doctor.packages().ok
    real = doctor.versions
    monkeypatch.setattr(doctor, "versions", lambda names: real(names) | dict.fromkeys({"torch"} & {*names}, "1.0"))
    found = doctor.packages()
    assert not found.ok and found.needed and found.found == "torch 1.0"
    assert (found.fix or "").endswith("pip install 'torch<3,>=2.9'")
    monkeypatch.setattr("platform.python_version", lambda: "3.10.2")
    found = doctor.python()
    assert not found.ok and found.found == "3.10.2" and "3.11" in (found.fix or "")


def test_a_gpu_that_pytorch_does_not_see_and_an_open_ray_are_pointed_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.cuda.device_count", lambda: 0)
    monkeypatch.setattr("shutil.which", lambda name: f"/usr/bin/{name}")
    assert not doctor.gpu().ok and not doctor.gpu().needed
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    found = doctor.ray()
    assert not found.ok and found.needed and (found.fix or "").startswith("unset RAY_AUTH_MODE")


@pytest.mark.usefixtures("no_ray")
def test_a_check_that_breaks_is_a_finding(monkeypatch: pytest.MonkeyPatch, console: Console) -> None:
    def broken() -> Check:
        raise ImportError("libgomp.so.1: cannot open shared object file")

    monkeypatch.setattr(doctor, "gpu", broken)
    [gpu] = [row for row in console.document("doctor", status=FAILED) if row["name"] == "GPU"]
    assert not gpu["ok"] and gpu["found"].startswith("ImportError: libgomp")


@pytest.mark.slow
def test_a_real_ray_starts_and_one_that_cannot_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    found = doctor.ray()
    assert found.ok and "CPUs" in found.found and doctor.java().ok
    monkeypatch.setattr("sys.executable", shutil.which("false"))
    assert not doctor.ray().ok
