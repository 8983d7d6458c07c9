"""Saves of a running training: when one is due."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.faults import Clock, ThreeIterations
from trainables.training import saves


@pytest.mark.parametrize(
    ("iteration", "save", "count"),
    [(0.05, 0.0625, 100), (60.0, 1.0, 100), (1.0, 0.2, 50), (1.0, 2.0, 6), (20.0, 2.0, 100)],
    ids=["quick", "little", "each second", "dear", "each"],
)
def test_saves_take_a_tenth_of_the_time(
    iteration: float, save: float, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, made = Clock(), 0
    monkeypatch.setattr(saves, "time", clock)
    times = saves.Saves()
    for _ in range(100):
        clock.now += iteration
        if times.due():
            made += 1
            with times.timed():
                clock.now += save
    assert made == count
    assert save <= saves.QUICK or (made - 1) * save <= saves.SHARE * clock.now


@pytest.mark.parametrize("due", [True, False])
def test_the_last_state_is_saved_however_dear(due: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(saves.Saves, "due", lambda self: due)
    folders: list[str] = []
    training: Any = ThreeIterations()
    for _ in saves.iterations(training, tmp_path):
        folders += [folder.name for folder in tmp_path.iterdir() if (folder / "a").read_text() == folder.name[-1]]
    assert folders == (["iteration-00001", "iteration-00002"] if due else []) + ["iteration-00003"]
