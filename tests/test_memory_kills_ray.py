"""Trials that need more memory than the machine has, ended by Ray's own memory monitor."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.support.toy_trainable import SPACE, steps_of, toy_search
from trainables.core.errors import WorkFailed
from tune_cl.experiment.load import load_experiment
from tune_cl.history.journal import FILE, read_events
from tune_cl.history.search_folder import stops
from tune_cl.history.state import SearchState, replay
from tune_cl.process import environment
from tune_cl.ray.session import ray_session

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif("ALONE" not in os.environ, reason="needs a machine of its own: ALONE=1 pytest"),
]
ROOM = 6  # GB that trials may take before Ray ends one; what else runs on the machine takes more or less meanwhile
EACH = 4  # GB of a hungry one


@pytest.fixture
def little_memory() -> Iterator[None]:
    """A Ray that ends processes once trials have taken ROOM."""
    memory = psutil.virtual_memory()
    if memory.available < (ROOM + 6) * 2**30:
        pytest.skip("this machine has too little memory to run short of it on purpose")
    threshold = (memory.total - memory.available + ROOM * 2**30) / memory.total
    with environment({"RAY_memory_usage_threshold": f"{threshold:.3f}"}), ray_session(None):
        yield


def searched(folder: Path, **prepared: object) -> SearchState:
    (folder / "toy.yaml").write_text(SPACE)
    experiment = load_experiment(str(folder / "toy.yaml"), ["search.trials=4"])
    return toy_search(experiment, folder / "search", lambda: 2, {"seconds": 0.5, **prepared})


def notes_in(folder: Path) -> list[str]:
    return [event["text"] for event in read_events(folder / "search" / FILE) if event["event"] == "note"]


def test_trials_that_need_too_much_memory_together_run_one_at_a_time(little_memory: None, tmp_path: Path) -> None:
    if (os.cpu_count() or 1) < 2:
        pytest.skip("one trial at a time has no other beside it")
    hungry = {f"t{number:04d}": f"takes {EACH} GB" for number in range(4)}
    state = searched(tmp_path, faults=hungry)
    assert [trial.outcome for trial in state.by_number()] == ["baseline", *["completed"] * 3]
    assert all(sorted(trial.results) == [1, 2, 3, 4, 5, 6] for trial in state.by_number())
    notes = notes_in(tmp_path)
    assert notes and all("memory" in note and "search.max_concurrent=1" in note for note in notes), notes
    assert len(steps_of(tmp_path / "search", "t0003")) == 6, "it began when one ran at a time"


def test_a_trial_that_is_too_large_for_the_machine_ends_with_the_fact(little_memory: None, tmp_path: Path) -> None:
    """It fails where it takes most of the memory itself; where other programs do, as on a shared machine, the search
    ends and can go on."""
    try:
        state = searched(tmp_path, faults={"t0001": f"takes {ROOM + 4} GB"})
    except WorkFailed as ended:
        told, by_others = str(ended), True
        assert stops(ended)
        state = replay(read_events(tmp_path / "search" / FILE))
        assert state.trials["t0001"].outcome is None
    else:
        told, by_others = str(state.trials["t0001"].reason), False
        assert [trial.outcome for trial in state.by_number()] == ["baseline", "failed", "completed", "completed"]
    sizes = re.search(r"([\d.]+) of the machine's [\d.]+ GB were in use, ([\d.]+) GB by its process", told)
    assert sizes and (float(sizes[2]) < float(sizes[1]) / 2) == by_others, told
    assert "\n" not in told and "documentation" not in told
    assert any("tried once more, alone" in note or "at a time" in note for note in notes_in(tmp_path))
