"""Population-based training: who copies whom, and who goes on first."""

from __future__ import annotations

import math
from dataclasses import replace

from tune_cl.search.schedulers.base import Setup, Verdict
from tune_cl.search.schedulers.pbt import Pbt


def population(*values: float) -> Pbt:
    """Trials a, b, ... that wait after iteration 2, each with its value there."""
    pbt = Pbt(Setup(12, interval=2, population=len(values)))
    for trial, _ in zip("abcdefgh", values, strict=False):
        pbt.start(trial, 1)
        assert pbt.judge(trial, 1, 0.5) is Verdict.GO_ON
    for trial, value in zip("abcdefgh", values, strict=False):
        assert pbt.judge(trial, 2, value) is Verdict.PAUSE
    return pbt


def first_copy(pbt: Pbt) -> tuple[str | None, str | None]:
    """Who goes on next, and whom it copies."""
    trial = pbt.next_paused(False)
    change = pbt.change(trial) if trial else None
    return trial, change.source if change else None


def test_who_has_no_number_copies() -> None:
    assert first_copy(population(math.nan, 0.2, 0.3, 0.4)) == ("a", "d")


def test_those_that_copy_go_on_before_those_they_copy() -> None:
    pbt = population(0.4, 0.3, 0.2, 0.1)
    assert first_copy(pbt) == ("d", "a")
    pbt.resumed("d", {})
    assert first_copy(pbt) == ("a", None)


def test_none_copies_a_trial_that_has_failed_since() -> None:
    pbt = population(0.1, 0.2, 0.3, 0.4)
    assert first_copy(pbt) == ("a", "d")
    pbt.ended("d")
    assert first_copy(pbt) == ("a", "c")


def test_each_of_the_best_quarter_is_copied() -> None:
    sources = set()
    for seed in range(20):
        pbt = population(*(0.1 * number for number in range(8, 0, -1)))
        pbt.setup = replace(pbt.setup, seed=seed)
        pbt.next_paused(False)
        sources |= {change.source for change in pbt.changes[2].values()}
    assert sources == {"a", "b"}


def test_who_copied_is_copied_as_it_then_was() -> None:
    pbt = population(0.1, 0.2, 0.3, 0.4)
    pbt.chosen = {trial: {"of": trial} for trial in "abcd"}
    assert first_copy(pbt) == ("a", "d")
    pbt.resumed("a", {"of": "d's"})
    for trial in "bcd":
        pbt.resumed(trial)
    for trial, value in zip("abcd", (0.9, 0.2, 0.3, 0.1), strict=True):
        assert pbt.judge(trial, 4, value) is Verdict.PAUSE
    assert first_copy(pbt) == ("d", "a")
    change = pbt.change("d")
    assert change is not None and change.chosen == {"of": "d's"}
