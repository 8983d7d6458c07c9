"""Fixtures shared by all tests: a cache of their own, and the real data if it is there."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from trainables.training import device

# A shell that starts the tests in the background makes them, and all that they start, ignore Ctrl-C.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def cache_home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """No test reads or writes the user's cache; one cache serves the whole test run."""
    home = tmp_path_factory.getbasetemp() / "cache"
    monkeypatch.setenv("XDG_CACHE_HOME", str(home))
    return home


@pytest.fixture(autouse=True)
def no_gpu_reserved(monkeypatch: pytest.MonkeyPatch) -> None:
    """All tests but those of GPUs compute on the CPU, wherever they run, and a trial leaves no reservation behind."""
    monkeypatch.setattr(device, "_reserved", 0)
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible or "")  # so that monkeypatch restores it
    if visible is None:
        monkeypatch.delenv("CUDA_VISIBLE_DEVICES")


@pytest.fixture
def shared() -> Path:
    """The folder of real data beside the checkout."""
    folder = Path(os.environ.get("TUNE_CL_SHARED", Path(__file__).resolve().parents[2] / "shared"))
    if not (folder / "data").is_dir():
        pytest.skip(f"real data not found at {folder}")
    return folder / "data"
