"""A trial that failed is not a bar for others, whichever scheduler compares them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.support.report_cases import Case
from tests.support.scheduler_cases import WAYS
from tune_cl.schedulers import SCHEDULERS, Decision, Scheduler
from tune_cl.search.driver import SearchProgress


def curve(level: float, seed: int) -> np.ndarray:
    """Values after iterations 1 to 12."""
    return level - 0.3 / np.sqrt(np.arange(1, 13)) + np.random.default_rng(seed).normal(0, 0.004, 12)


def go_on(scheduler: Scheduler, trial: str, first: int, values: np.ndarray) -> tuple[int, Decision]:
    """Trains until the scheduler or the last iteration ends it; returns the iteration and the decision there."""
    for at in range(first, len(values) + 1):
        if (decision := scheduler.on_result(trial, at, float(values[at - 1]))) is not Decision.GO_ON:
            return at, decision
    return len(values), Decision.GO_ON


def decisions(way: str, fail_late: bool) -> list[object]:
    """Of a search of twelve trials after four that failed: `fail_late`, with the best values and not at once."""
    name, setup = WAYS[way]
    scheduler = SCHEDULERS[name](setup)
    for number in range(4):
        scheduler.start(failed := f"f{number}", 1, 0)
        if fail_late:
            go_on(scheduler, failed, 1, curve(0.9, number))
        scheduler.ended(failed, completed=False)
        scheduler.forget(failed)
    made: list[object] = []
    reached = {}

    def train(trial: str, first: int) -> None:
        values = curve(0.4 + int(trial[1:]) * 7 % 12 / 60, 100 + int(trial[1:]))
        reached[trial], decision = go_on(scheduler, trial, first, values)
        made.append((trial, reached[trial], decision))
        if decision is not Decision.PAUSE:
            scheduler.ended(trial, completed=decision is Decision.GO_ON)

    for number in range(12):
        scheduler.start(f"t{number}", 1, 0)
        train(f"t{number}", 1)
    scheduler.all_started = True
    while (trial := scheduler.next_paused(last=True)) is not None:
        scheduler.resumed(trial)
        train(trial, reached[trial] + 1)
    return made


@pytest.mark.parametrize("way", WAYS)
def test_a_failed_trial_is_no_bar_for_others(way: str) -> None:
    assert decisions(way, fail_late=True) == decisions(way, fail_late=False)


def test_a_search_tells_its_scheduler_which_trials_failed(tmp_path: Path) -> None:
    case = Case(tmp_path)
    case.add([0.4] * 8, "baseline")
    case.add([0.9] * 3, "failed", "it broke")
    case.add([0.3] * 8, "completed")
    scheduler = SearchProgress(case.experiment, iter(case.events)).schedulers["curriculum"]
    assert scheduler.graces.keys() == {"t0001", "t0002"} and scheduler.best == {"t0002": 0.3}
