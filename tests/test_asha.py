"""ASHA's decisions, and their independence of anything but the events."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tune_cl.schedulers.asha import Asha, threshold
from tune_cl.schedulers.scheduler import Decision, Setup, rungs

Event = tuple[str, int, float]
EVENTS = st.lists(st.tuples(st.sampled_from("abcdef"), st.integers(1, 10), st.floats(width=16)), max_size=60)


def asha(eta: float = 3, first: int = 1, max_iterations: int = 10, **graces: int) -> Asha:
    """A bracket with the trials a to f, each with the grace given, else 1."""
    bracket = Asha(Setup(max_iterations, eta, first_rung=first))
    for trial in "abcdef":
        bracket.start(trial, graces.get(trial, 1))
    return bracket


def decide(bracket: Asha, events: list[Event]) -> list[bool]:
    """Whether the trial of each event goes on."""
    return [goes_on(bracket, event) for event in events]


def goes_on(bracket: Asha, event: Event) -> bool:
    return bracket.on_result(*event) is Decision.GO_ON


@pytest.mark.parametrize(
    ("first", "eta", "last", "expected"),
    [
        (1, 3, 30, [1, 3, 9, 27]),
        (1, 3, 27, [1, 3, 9]),
        (2, 2, 17, [2, 4, 8, 16]),
        (5, 3, 5, []),
        (1, 1.5, 8, [1, 2, 3, 5, 7]),
    ],
)
def test_rungs(first: int, eta: float, last: int, expected: list[int]) -> None:
    assert rungs(first, eta, last) == expected


def test_threshold() -> None:
    assert threshold([0.1], 3) == 0.1
    assert threshold([0.1, 0.2, 0.3, 0.4, 0.5], 3) == 0.5
    assert threshold([0.1, 0.2, 0.3, 0.4, 0.5, 0.6], 3) == 0.5


def test_decisions_known_answer() -> None:
    events = [("a", 1, 0.5), ("b", 1, 0.4), ("c", 1, 0.6), ("d", 1, 0.5), ("e", 1, 0.1), ("f", 1, 0.6), ("a", 2, 0.0)]
    #          first: on     worse: off     best: on       3 of 4: off    off            tie at top of 6: on
    assert decide(asha(), events) == [True, False, True, False, False, True, True]


def test_the_best_value_so_far_counts() -> None:
    bracket = asha()
    assert decide(bracket, [("a", 1, 0.9), ("a", 2, 0.3), ("a", 3, 0.1), ("b", 1, 0.95), ("b", 3, 0.2)])[-1]
    assert bracket.recorded[3] == {"a": 0.9, "b": 0.95}


def test_a_trial_within_its_grace_is_neither_judged_nor_recorded() -> None:
    bracket = asha(b=4)
    events = [("a", 1, 0.9), ("a", 3, 0.9), ("b", 1, 0.1), ("b", 3, 0.1), ("a", 9, 0.9), ("b", 9, 0.1)]
    assert decide(bracket, events) == [True] * 5 + [False]
    assert [set(bracket.recorded[rung]) for rung in (1, 3, 9)] == [{"a"}, {"a"}, {"a", "b"}]


@given(EVENTS)
def test_a_trial_that_was_not_started_is_never_stopped_and_changes_nothing(events: list[Event]) -> None:
    with_baseline, without = asha(), asha()
    for event in events:
        assert goes_on(with_baseline, ("baseline", event[1], event[2]))
        assert goes_on(with_baseline, event) == goes_on(without, event)


@given(EVENTS)
def test_the_best_of_a_rung_goes_on(events: list[Event]) -> None:
    bracket = asha()
    for trial, iteration, value in events:
        kept = goes_on(bracket, (trial, iteration, value))
        rung = bracket.recorded.get(iteration, {})
        if trial in rung and rung[trial] == max(rung.values()):
            assert kept


@given(EVENTS)
def test_decisions_follow_from_the_events(events: list[Event]) -> None:
    unbroken = asha()
    decisions = decide(unbroken, events)
    cut = len(events) // 2
    rebuilt = asha()
    decide(rebuilt, events[:cut])
    assert decide(rebuilt, events[cut:]) == decisions[cut:]
    assert rebuilt.recorded == unbroken.recorded


def test_values_that_are_not_numbers_are_the_worst() -> None:
    events = [("a", 1, math.nan), ("b", 1, 0.1), ("c", 1, math.nan), ("d", 1, 0.0)]
    assert decide(asha(), events) == [True, True, False, False]


@pytest.mark.parametrize("eta", [2, 3, 4])
def test_share_that_goes_on(eta: int) -> None:
    bracket = Asha(Setup(2, eta))
    values = np.random.default_rng(0).random(3000)
    for trial in range(len(values)):
        bracket.start(str(trial), 1)
    kept = [goes_on(bracket, (str(trial), 1, value)) for trial, value in enumerate(values)]
    assert np.mean(kept[500:]) == pytest.approx(1 / eta, abs=0.04)
