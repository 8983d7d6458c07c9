"""What each scheduler decides, ASHA's promotions, and simulated searches."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from tests.support.scheduler_cases import WAYS
from tests.support.simulated_search import Recorded, Simulation
from tune_cl.schedulers import SCHEDULERS, promotes
from tune_cl.schedulers.asha import Asha
from tune_cl.schedulers.model import Curve, Model
from tune_cl.schedulers.scheduler import Decision, Setup


def candidates(count: int, noise: float = 0.01) -> list[Recorded]:
    """Curves c + i/count - .3/√t with noise, over two queries: later candidates are better."""
    made = []
    for number in range(count):
        rng = np.random.default_rng([number, 12])
        values = 0.3 + 0.4 * number / count - 0.3 / np.sqrt(np.arange(1, 13)) + rng.normal(0, noise, 12)
        queries = np.stack([values - 0.1, values + 0.1], axis=1)
        made.append(Recorded(f"c{number:02d}", values.tolist(), queries, grace=1, end=4))
    return [made[place] for place in np.random.default_rng(0).permutation(count)]


@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize("way", WAYS)
def test_every_scheduler_searches(way: str, workers: int) -> None:
    name, setup = WAYS[way]
    search = Simulation(SCHEDULERS[name](setup), candidates(24), workers).run()
    assert len(search.trials) == 24
    assert search.spent == sum(trial.done for trial in search.trials.values())
    ended = [trial for trial in search.trials.values() if trial.outcome == "completed"]
    assert ended and all(trial.done == 12 for trial in ended)
    assert search.best().recorded.name in ("c21", "c22", "c23")
    assert (search.spent == 24 * 12) == (name == "none")
    assert search.clock >= search.spent / workers


@pytest.mark.parametrize("way", WAYS)
def test_a_simulated_search_is_repeatable(way: str) -> None:
    name, setup = WAYS[way]

    def run(delay: Callable[[int], float]) -> list[tuple[str, int, str | None]]:
        trials = Simulation(SCHEDULERS[name](setup), candidates(16), 4, delay=delay).run().trials
        return [(trial.recorded.name, trial.done, trial.outcome) for trial in trials.values()]

    assert run(lambda worker: 1.0) == run(lambda worker: 1.0)
    assert len(run(lambda worker: 1.0 + worker / 3)) == 16


def test_promotion_takes_the_best_of_the_highest_rung_first() -> None:
    asha = Asha(Setup(12, 2, grace="none", first_rung=3, promotion=True))
    for trial, value in (("a", 0.1), ("b", 0.4), ("c", 0.3), ("d", 0.2)):
        asha.start(trial, 1)
        assert asha.on_result(trial, 2, 0.9 * value) is Decision.GO_ON
        assert asha.on_result(trial, 3, value) is Decision.PAUSE
    for expected in ("b", "c"):
        assert asha.next_paused(last=False) == expected
        asha.resumed(expected)
    assert asha.next_paused(last=False) is None
    assert asha.on_result("b", 6, 0.5) is asha.on_result("c", 6, 0.6) is Decision.PAUSE
    assert asha.next_paused(last=False) == "c"
    asha.resumed("c")
    assert asha.on_result("c", 12, 0.7) is Decision.GO_ON
    asha.ended("c", completed=True)
    assert asha.next_paused(last=False) is None


def test_where_two_rungs_have_one_to_promote_the_highest_comes_first() -> None:
    asha = Asha(Setup(12, 2, grace="none", first_rung=3, promotion=True))
    for trial, value in zip("abcd", (0.1, 0.2, 0.3, 0.4), strict=True):
        asha.start(trial, 1)
        asha.on_result(trial, 3, value)
    for trial in "cd":
        asha.resumed(trial)
        asha.on_result(trial, 6, 0.5)
    for trial in "ef":
        asha.start(trial, 1)
        asha.on_result(trial, 3, 0.9)
    assert asha.next_paused(last=False) == "c"
    asha.resumed("c")
    assert asha.next_paused(last=False) == "e"


def test_without_new_trials_the_best_of_a_rung_goes_on_even_if_it_is_alone() -> None:
    asha = Asha(Setup(12, 3, grace="none", first_rung=4, promotion=True))
    asha.start("a", 1)
    assert asha.on_result("a", 4, 0.1) is Decision.PAUSE
    assert asha.next_paused(last=False) is None and asha.next_paused(last=True) == "a"


def stopped_at(curve: Callable[[int], float], end: int) -> int:
    """The iteration at which the model ends a trial, beside six whose curricula end at 8; 0 if it never does."""
    model = Model(Setup(12, grace="none"))
    rng = np.random.default_rng(0)
    for number in range(6):
        model.start(f"other{number}", 1, end=8)
        for at in range(1, 13):
            model.on_result(f"other{number}", at, rises_late(at) + 0.01 * number + rng.normal(0, 0.003))
    model.start("new", 1, end=end)
    for at in range(1, 13):
        if model.on_result("new", at, curve(at)) is Decision.STOP:
            return at
    return 0


def rises(at: int) -> float:
    return 0.3 - 0.1 / math.sqrt(at)


def rises_late(at: int) -> float:
    """The same curve up to iteration 8, where its curriculum ends and it begins to rise again."""
    return rises(at) + (0.3 * (1 - (at - 8 + 1) ** -0.5) if at > 8 else 0)


def test_the_model_waits_for_the_end_of_a_curriculum_that_brings_a_rise() -> None:
    assert stopped_at(lambda at: rises_late(at) + 0.06, end=8) == 0
    assert 0 < stopped_at(lambda at: rises(at) + 0.06, end=0) < 8  # the same values so far, but no rise to come


def test_the_model_ends_what_will_not_be_best() -> None:
    assert 0 < stopped_at(lambda at: rises_late(at) - 0.1, end=8) < 8


def test_the_model_compares_with_the_highest_forecast(monkeypatch: pytest.MonkeyPatch) -> None:
    model = Model(Setup(12, grace="none"))
    for place, name in enumerate("abcde"):
        model.start(name, 1)
        model.curves.curves[name] = Curve(place, end=0, points=5)
    means = np.array([0.5, 0.1, 0.9, 0.1, 0.1])
    monkeypatch.setattr(model.curves, "forecast", lambda trials: (means, np.full(5, 0.1)))
    assert model.decide("a", 5) is Decision.STOP
    means[2] = 0.5
    assert model.decide("a", 5) is Decision.GO_ON


@pytest.mark.parametrize("name", SCHEDULERS)
def test_values_that_are_not_numbers_do_not_stop_a_scheduler(name: str) -> None:
    scheduler = SCHEDULERS[name](Setup(12, 2, grace="none"))
    for number in range(8):
        scheduler.start(f"t{number}", 1, end=3)
        for at in range(1, 13):
            value = math.nan if number % 3 == 0 else 0.1 * number
            assert scheduler.on_result(f"t{number}", at, value) in Decision


@pytest.mark.parametrize(
    ("scheduler", "promotion", "pauses"),
    [("asha", None, True), ("asha", False, False), ("model", True, True)],
)
def test_a_scheduler_that_can_promotes_unless_the_user_says_no(
    scheduler: str, promotion: bool | None, pauses: bool
) -> None:
    assert promotes(scheduler, promotion) is pauses
