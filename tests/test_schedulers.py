"""What each scheduler decides: rungs, grace, ASHA with and without promotion, extrapolated curves, failures."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.report_cases import Case
from trainables.config.keys import TrainingConfig
from tune_cl.experiment.load import load_experiment
from tune_cl.schedulers import SCHEDULERS, Decision, Scheduler, Setup
from tune_cl.schedulers.asha import Asha
from tune_cl.schedulers.model import Curve, Model
from tune_cl.schedulers.scheduler import curriculum_grace, rungs
from tune_cl.search.driver import SearchProgress
from tune_cl.search.phases import new_scheduler, setup_of

Event = tuple[str, int, float]
EVENTS = st.lists(st.tuples(st.sampled_from("abcdef"), st.integers(1, 10), st.floats(width=16)), max_size=60)
WAYS = {
    **{name: (name, Setup(12, 2, grace="none", first_rung=3)) for name in SCHEDULERS},
    "promotion": ("asha", Setup(12, 2, grace="none", first_rung=3, promotion=True)),
    "freeze-thaw": ("model", Setup(12, 2, grace="none", promotion=True)),
}


# -- grace and rungs -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("curriculum", "iterations", "grace"),
    [
        ({"T": 0.9, "m": 15}, 20, 0),
        ({"pacing": "linear", "T": 0.9}, 20, 18),
        ({"pacing": "linear", "T": 0.11}, 20, 3),
        ({"pacing": "linear", "T": 0.28}, 50, 14),  # .28 of 50 is 14.000000000000002 in floating point
        ({"pacing": "linear", "T": 0.2, "weighting": "reciprocal_rank", "m": 7}, 20, 7),
        ({"weighting": "reciprocal_rank", "m": 7.5}, 20, 8),
        ({"weighting": "reciprocal_rank", "m": "inf"}, 20, 20),
    ],
)
def test_when_a_curriculum_ends(curriculum: dict[str, object], iterations: int, grace: int) -> None:
    tree = {"curriculum": curriculum, "training": {"max_iterations": iterations}}
    assert curriculum_grace(TrainingConfig.model_validate(tree)) == grace


@pytest.mark.parametrize(
    ("first", "eta", "last", "expected"),
    [(1, 3, 30, [1, 3, 9, 27]), (1, 3, 27, [1, 3, 9]), (5, 3, 5, []), (1, 1.5, 8, [1, 2, 3, 5, 7])],
)
def test_rungs(first: int, eta: float, last: int, expected: list[int]) -> None:
    assert rungs(first, eta, last) == expected


@pytest.mark.parametrize(
    ("options", "grace", "expected"),
    [([], 4, [1, 2, 4, 8]), (["grace=none"], 1, [1, 2, 4, 8]), (["grace=3"], 3, [3, 6]), (["first_rung=3"], 4, [3, 6])],
)
def test_grace_and_rungs_of_an_experiment(options: list[str], grace: int, expected: list[int]) -> None:
    experiment = load_experiment("quickstart", [f"search.{option}" for option in options])
    point = {"curriculum.pacing": "linear", "curriculum.T": 0.4, "curriculum.weighting": "none"}
    assert experiment.config(point).grace == grace and setup_of(experiment).rungs == expected
    scheduler = new_scheduler(experiment)
    assert isinstance(scheduler, Asha) and scheduler.eta == 2 and scheduler.setup.promotion


# -- asha ------------------------------------------------------------------------------------------------------------


def asha(**graces: int) -> Asha:
    """Without promotion, with the trials a to f, each with the grace given, else 1."""
    scheduler = Asha(Setup(10))
    for trial in "abcdef":
        scheduler.start(trial, graces.get(trial, 1))
    return scheduler


def goes_on(scheduler: Asha, event: Event) -> bool:
    return scheduler.on_result(*event) is Decision.GO_ON


def decide(scheduler: Asha, events: list[Event]) -> list[bool]:
    """Whether the trial of each event goes on."""
    return [goes_on(scheduler, event) for event in events]


def test_decisions_known_answer() -> None:
    events = [("a", 1, 0.5), ("b", 1, 0.4), ("c", 1, 0.6), ("d", 1, 0.5), ("e", 1, 0.1), ("f", 1, 0.6), ("a", 2, 0.0)]
    #          first: on     worse: off     best: on       3 of 4: off    off            tie at top of 6: on
    assert decide(asha(), events) == [True, False, True, False, False, True, True]
    events = [("a", 1, math.nan), ("b", 1, 0.1), ("c", 1, math.nan), ("d", 1, 0.0)]
    assert decide(asha(), events) == [True, True, False, False], "what is no number is the worst"


def test_the_best_value_so_far_counts() -> None:
    scheduler = asha()
    assert decide(scheduler, [("a", 1, 0.9), ("a", 2, 0.3), ("a", 3, 0.1), ("b", 1, 0.95), ("b", 3, 0.2)])[-1]
    assert scheduler.recorded[3] == {"a": 0.9, "b": 0.95}


def test_a_trial_within_its_grace_is_neither_judged_nor_recorded() -> None:
    scheduler = asha(b=4)
    events = [("a", 1, 0.9), ("a", 3, 0.9), ("b", 1, 0.1), ("b", 3, 0.1), ("a", 9, 0.9), ("b", 9, 0.1)]
    assert decide(scheduler, events) == [True] * 5 + [False]
    assert [set(scheduler.recorded[rung]) for rung in (1, 3, 9)] == [{"a"}, {"a"}, {"a", "b"}]


@given(EVENTS)
def test_a_trial_that_was_not_started_is_never_stopped_and_changes_nothing(events: list[Event]) -> None:
    with_baseline, without = asha(), asha()
    for event in events:
        assert goes_on(with_baseline, ("baseline", event[1], event[2]))
        assert goes_on(with_baseline, event) == goes_on(without, event)


@given(EVENTS)
def test_the_best_of_a_rung_goes_on_and_decisions_follow_from_the_events(events: list[Event]) -> None:
    scheduler, rebuilt, cut = asha(), asha(), len(events) // 2
    decisions = []
    for trial, iteration, value in events:
        decisions.append(goes_on(scheduler, (trial, iteration, value)))
        rung = scheduler.recorded.get(iteration, {})
        assert decisions[-1] or rung.get(trial) != max(rung.values(), default=None)
    decide(rebuilt, events[:cut])
    assert decide(rebuilt, events[cut:]) == decisions[cut:] and rebuilt.recorded == scheduler.recorded


@pytest.mark.parametrize("eta", [2, 4])
def test_share_that_goes_on(eta: int) -> None:
    scheduler, values = Asha(Setup(2, eta)), np.random.default_rng(0).random(3000)
    for trial in range(len(values)):
        scheduler.start(str(trial), 1)
    kept = [goes_on(scheduler, (str(trial), 1, value)) for trial, value in enumerate(values)]
    assert np.mean(kept[500:]) == pytest.approx(1 / eta, abs=0.04)


def test_promotion_takes_the_best_of_the_highest_rung_first() -> None:
    scheduler = Asha(WAYS["promotion"][1])
    for trial, value in (("a", 0.1), ("b", 0.4), ("c", 0.3), ("d", 0.2)):
        scheduler.start(trial, 1)
        assert scheduler.on_result(trial, 2, 0.9 * value) is Decision.GO_ON
        assert scheduler.on_result(trial, 3, value) is Decision.PAUSE
    for expected in ("b", "c"):
        assert scheduler.next_paused(last=False) == expected
        scheduler.resumed(expected)
    assert scheduler.next_paused(last=False) is None
    assert scheduler.on_result("b", 6, 0.5) is scheduler.on_result("c", 6, 0.6) is Decision.PAUSE
    for trial in "ef":
        scheduler.start(trial, 1)
        scheduler.on_result(trial, 3, 0.9)
    assert scheduler.next_paused(last=False) == "c", "of the highest rung"
    scheduler.resumed("c")
    assert scheduler.next_paused(last=False) == "e"
    assert scheduler.on_result("c", 12, 0.7) is Decision.GO_ON


def test_without_new_trials_the_best_of_a_rung_goes_on_even_if_it_is_alone() -> None:
    scheduler = Asha(WAYS["promotion"][1])
    scheduler.start("a", 1)
    assert scheduler.on_result("a", 3, 0.1) is Decision.PAUSE
    assert scheduler.next_paused(last=False) is None and scheduler.next_paused(last=True) == "a"


# -- model -----------------------------------------------------------------------------------------------------------


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
    assert 0 < stopped_at(lambda at: rises(at) + 0.06, end=0) < 8, "the same values so far, but no rise to come"
    assert 0 < stopped_at(lambda at: rises_late(at) - 0.1, end=8) < 8, "it will not be best"


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


# -- whole searches, and failures ------------------------------------------------------------------------------------


def curve(level: float, seed: int) -> np.ndarray:
    """Values after iterations 1 to 12, of which the fifth may be no number."""
    values = level - 0.3 / np.sqrt(np.arange(1, 13)) + np.random.default_rng(seed).normal(0, 0.004, 12)
    values[4] = math.nan if seed == 107 else values[4]
    return values


def go_on(scheduler: Scheduler, trial: str, first: int, values: np.ndarray) -> tuple[int, Decision]:
    """Trains until the scheduler or the last iteration ends it; returns the iteration and the decision there."""
    for at in range(first, len(values) + 1):
        if (decision := scheduler.on_result(trial, at, float(values[at - 1]))) is not Decision.GO_ON:
            return at, decision
    return len(values), Decision.GO_ON


def decisions(way: str, fail_late: bool) -> list[tuple[str, int, Decision]]:
    """Of a search of twelve trials after four that failed: `fail_late`, with the best values and not at once."""
    name, setup = WAYS[way]
    scheduler = SCHEDULERS[name](setup)
    for number in range(4):
        scheduler.start(failed := f"f{number}", 1, 0)
        if fail_late:
            go_on(scheduler, failed, 1, curve(0.9, number))
        scheduler.ended(failed, completed=False)
        scheduler.forget(failed)
    made: list[tuple[str, int, Decision]] = []
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
def test_every_scheduler_finishes_the_best_trial_and_a_failed_one_is_no_bar(way: str) -> None:
    made = decisions(way, fail_late=False)
    assert made == decisions(way, fail_late=True)
    whole = {trial for trial, at, decision in made if (at, decision) == (12, Decision.GO_ON)}
    best = max(range(12), key=lambda number: number * 7 % 12)
    assert f"t{best}" in whole and (len(whole) == 12) == (way == "none")


def test_a_search_tells_its_scheduler_which_trials_failed(tmp_path: Path) -> None:
    case = Case(tmp_path)
    case.add([0.4] * 8, "baseline")
    case.add([0.9] * 3, "failed", "it broke")
    case.add([0.3] * 8, "completed")
    scheduler = SearchProgress(case.experiment, iter(case.events)).schedulers["curriculum"]
    assert scheduler.graces.keys() == {"t0001", "t0002"} and scheduler.best == {"t0002": 0.3}
