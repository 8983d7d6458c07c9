"""Population-based training: who copies whom, and who goes on first."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from tune_cl.schedulers.pbt import Pbt, perturbed
from tune_cl.schedulers.scheduler import Decision, Setup
from tune_cl.space.parameters import Choice, Uniform


def population(*values: float) -> Pbt:
    """Trials a, b, ... that wait after iteration 2, each with its value there."""
    pbt = Pbt(Setup(12, interval=2), all_started=True)
    for trial, _ in zip("abcdefgh", values, strict=False):
        pbt.start(trial, 1)
        assert pbt.on_result(trial, 1, 0.5) is Decision.GO_ON
    for trial, value in zip("abcdefgh", values, strict=False):
        assert pbt.on_result(trial, 2, value) is Decision.PAUSE
    return pbt


def first_copy(pbt: Pbt) -> tuple[str | None, str | None]:
    """Which trial goes on next, and which one it copies."""
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
    pbt.ended("d", completed=False)
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
    pbt.points = {trial: {"of": trial} for trial in "abcd"}
    assert first_copy(pbt) == ("a", "d")
    pbt.resumed("a", {"of": "d's"})
    for trial in "bcd":
        pbt.resumed(trial)
    for trial, value in zip("abcd", (0.9, 0.2, 0.3, 0.1), strict=True):
        assert pbt.on_result(trial, 4, value) is Decision.PAUSE
    assert first_copy(pbt) == ("d", "a")
    change = pbt.change("d")
    assert change is not None and change.point == {"of": "d's"}


@pytest.mark.parametrize(("trials", "copying"), [(1, 0), (2, 1), (6, 1), (7, 1), (8, 2)])
def test_a_quarter_rounded_down_copies_but_of_two_one(trials: int, copying: int) -> None:
    pbt = population(*(0.1 * number for number in range(trials)))
    pbt.next_paused(False)
    assert sorted(pbt.changes[2]) == list("abcdefgh"[:copying])


def test_the_end_of_a_trial_and_the_baseline_wait_for_nobody() -> None:
    pbt = population(0.1, 0.2)
    assert pbt.on_result("a", 12, 0.5) is Decision.GO_ON, "its last iteration"
    assert pbt.on_result("baseline", 2, 0.5) is Decision.GO_ON, "never started here"


def test_a_population_that_will_not_be_whole_goes_on_once_no_new_trial_comes() -> None:
    """For example, if search.hours ends the search before all its trials have begun."""
    pbt = population(0.1, 0.2, 0.3)
    pbt.all_started = False
    assert pbt.next_paused(False) is None
    assert pbt.next_paused(True) == "a"


def test_who_is_a_round_ahead_keeps_nobody_behind() -> None:
    pbt = population(0.4, 0.3, 0.2, 0.1)
    assert pbt.next_paused(False) == "d"
    pbt.resumed("d", {})
    assert pbt.on_result("d", 4, 0.5) is Decision.PAUSE
    assert pbt.next_paused(False) == "a", "of those that wait after iteration 2"


def test_a_choice_moves_to_its_neighbour_by_size_and_an_absent_key_stays_absent() -> None:
    leaves = {"curriculum.m": Choice(options=(20, 5, 10)), "curriculum.delta": Uniform(low=0.1, high=0.9)}
    moved = [perturbed({"curriculum.m": 10}, dict(leaves), np.random.default_rng(seed)) for seed in range(20)]
    assert {tuple(point.items()) for point in moved} == {(("curriculum.m", 5),), (("curriculum.m", 20),)}


def test_learning_rate_open_share_and_the_weights_end_move_and_nothing_else() -> None:
    point = {"training.lr": 1e-3, "curriculum.delta": 0.4, "curriculum.T": 0.4, "curriculum.m": 8.0}
    others = {"curriculum.n": 4.0, "training.batch_size": 16}
    leaves = {key: Uniform(low=0, high=100) for key in point | others}
    moved = [perturbed(point | others, dict(leaves), np.random.default_rng(seed)) for seed in range(20)]
    for key, value in point.items():
        assert {one[key] for one in moved} == {0.8 * value, 1.25 * value}
    assert all({key: one[key] for key in others} == others for one in moved)
