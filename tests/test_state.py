"""What the events of a search add up to: values, times, order, machines and costs."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.journal_events import SEARCH, end, result, trial
from tune_cl.history.journal import Event
from tune_cl.history.state import replay


def note(at: float, kind: str = "interrupted", **other: Any) -> Event:
    return {"event": kind, "time": at} | other


def test_an_iteration_without_the_metric_has_no_value() -> None:
    bare = result(0, 1, 0.5) | {"metrics": {"seconds": 2.0}}
    state = replay([SEARCH, trial(0), bare, result(0, 2, 0.5)])
    assert state.trials["t0000"].dev("mrr@10") == {2: 0.5}
    assert (state.iterations, state.trials["t0000"].seconds) == (2, 3.0)


def test_time_between_sessions_and_that_of_confirmations_is_not_the_search_s() -> None:
    confirmed = note(100.0, "confirmation", metrics={})
    told = [SEARCH, note(4.0), note(10.0, "session", number=2), note(12.0), confirmed, note(101.0)]
    assert replay(told).seconds == 3 + 2 + 1


@pytest.mark.parametrize("kind", ["confirmation", "verdict", "of a later version"])
def test_what_happens_after_a_search_has_ended_is_not_its_time(kind: str) -> None:
    """The pause would count against `search.hours`."""
    more: dict[str, Any] = {"trials": 2, "leaves": {}, "metrics": {}, "label": "", "params": {}, "seed": 1}
    told = [SEARCH, note(2.0, "session", number=1), note(43.0, "search_end"), note(600.0, kind, **more)]
    told += [note(611.0, "session", number=2), note(631.0)]
    assert replay(told).seconds == 41 + 20


def test_a_clock_that_is_set_back_takes_no_time_away() -> None:
    assert replay([SEARCH, note(4.0), note(2.0), note(3.0)]).seconds == 3 + 0 + 1


def test_a_trial_that_goes_on_neither_waits_nor_has_ended() -> None:
    told = [SEARCH, trial(0), {"event": "pause", "trial": "t0000", "iteration": 1, "time": 3.0}]
    assert replay(told).trials["t0000"].paused
    failed = end(0, "failed") | {"reason": "out of memory"}
    again = replay([*told, failed, trial(0)]).trials["t0000"]
    assert (again.paused, again.outcome, again.reason) == (False, None, None)


def test_trials_come_in_the_order_of_their_numbers() -> None:
    values = [result(number, 1, 0.5) for number in (2, 0, 1)]
    state = replay([SEARCH, *map(trial, (2, 0, 1)), *values])
    assert [(one.number, one.paused) for one in state.by_number()] == [(0, False), (1, False), (2, False)]
    assert [one.number for one, _ in state.ranked()] == [0, 1, 2], "the lowest number wins a tie"


def test_finished_trials_are_those_that_ran_to_the_end() -> None:
    """Trials of version 0.1 that trained a configuration again under another seed are trials like all others."""
    values, outcomes = (0.9, 0.125, 0.95, 0.625, 0.5), ("baseline", "completed", "stopped_early", "completed", "failed")
    told = [SEARCH, *map(trial, (0, 1, 2, 4)), trial(3) | {"repeat_of": "t0001", "seed": 8}]
    told += [result(number, 1, value) for number, value in enumerate(values)]
    state = replay([*told, *(end(number, outcome) for number, outcome in enumerate(outcomes))])
    assert [(one.number, at.dev) for one, at in state.finished()] == [(0, 0.9), (1, 0.125), (3, 0.625)]
    assert [one.number for one, _ in state.ranked()] == [2, 0, 3, 1]


def test_files_count_from_the_end_of_the_search() -> None:
    early, late = ({"event": "artifact", "path": path} for path in ("early.html", "late.html"))
    assert replay([SEARCH, early, note(3.0, "search_end"), late]).artifacts == {"late.html"}
