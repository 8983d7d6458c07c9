"""The race of `search.repeats` on its own: what trains again under which seed, and when that is decided."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import ttest_1samp

from tune_cl.search.repeats import LEVEL, LOWEST_SEED, Repeats, chance_of_no_less, seed_of

QUERIES = np.linspace(-1, 1, 20)


def race(seeds: int, *trainings: tuple[str, float]) -> tuple[Repeats, list[bool]]:
    """A race of trainings that end one after the other, each with this mean over its queries."""
    raced, again = Repeats(seeds, "a"), []
    for number, (configuration, mean) in enumerate(trainings):
        raced.started(f"t{number}", configuration)
        report(raced, f"t{number}", mean, number)
        again.append(not raced.ended(f"t{number}", configuration, 2) and configuration in raced.due)
    return raced, again


def report(raced: Repeats, trial: str, mean: float, roll: int) -> None:
    """Two iterations, the second with this mean over the queries."""
    raced.result(trial, 1, [0.0] * 20)
    raced.result(trial, 2, list(mean + 0.1 * np.roll(QUERIES, roll)))


@given(st.lists(st.integers(-1000, 1000), min_size=2, max_size=40, unique=True))
def test_the_chance_is_that_of_the_one_sided_paired_test(differences: list[int]) -> None:
    values = np.asarray(differences) / 1000
    expected = ttest_1samp(values, 0.0, alternative="less").pvalue  # type: ignore[attr-defined]
    assert chance_of_no_less(values) == pytest.approx(expected, abs=1e-9)


def test_differences_without_spread() -> None:
    assert [chance_of_no_less(np.full(3, value)) for value in (0.125, 0.0, -0.125)] == [1.0, 1.0, 0.0]
    assert [chance_of_no_less(np.array([value])) for value in (0.1, -0.1)] == [1.0, 0.0]


def test_the_first_configuration_gets_all_seeds() -> None:
    raced, again = race(3, ("a", 0.5), ("a", 0.4), ("a", 0.6))
    assert again == [True, True, False] and not raced.due and raced.incumbent() == "a"


def test_a_configuration_far_below_the_incumbent_trains_once() -> None:
    raced, again = race(2, ("a", 0.5), ("a", 0.5), ("b", 0.3))
    assert not again[-1] and not raced.due


def test_a_better_one_is_the_incumbent_only_with_as_many_seeds() -> None:
    raced, again = race(3, ("a", 0.5), ("a", 0.5), ("a", 0.5), ("b", 0.8))
    assert again[-1] and raced.due == ["b"] and raced.incumbent() == "a"
    raced, again = race(3, ("a", 0.5), ("a", 0.5), ("a", 0.5), ("b", 0.8), ("b", 0.7), ("b", 0.6))
    assert again[-3:] == [True, True, False] and raced.incumbent() == "b"


def test_a_second_seed_may_end_a_race() -> None:
    """Equal under the first seed, far below over both."""
    raced, again = race(3, ("a", 0.5), ("a", 0.5), ("a", 0.5), ("b", 0.5), ("b", 0.1))
    assert again[-2:] == [True, False] and len(raced.values["b"]) == 2


def test_only_seeds_that_both_have_are_compared() -> None:
    """The incumbent's later seeds were luckier: under the first, b is better."""
    _, again = race(3, ("a", 0.2), ("a", 0.9), ("a", 0.9), ("b", 0.3))
    assert again[-1]


def test_what_failed_or_was_stopped_is_not_repeated() -> None:
    raced, _ = race(2, ("a", 0.5), ("a", 0.4))
    raced.started("t1", "t1")
    raced.result("t1", 1, [0.5, 0.6])
    assert raced.ended("t1", "t1", None) == ["t1"] and not raced.due and raced.values.keys() == {"a"}


def test_the_baseline_is_due_under_all_its_seeds_as_soon_as_it_has_begun() -> None:
    raced = Repeats(3, "a")
    raced.started("t0", "a")
    assert raced.due == ["a", "a"]
    raced.started("t1", "a")
    assert raced.due == ["a"] and raced.trainings["a"] == 2


def test_who_ends_before_the_baseline_is_judged_after_its_last_seed() -> None:
    """In the order in which the trainings ended; one that failed is out at once."""
    raced = Repeats(2, "a")
    for trial, configuration in (("t0", "a"), ("t1", "a"), ("t2", "b"), ("t3", "c"), ("t4", "d")):
        raced.started(trial, configuration)
        report(raced, trial, {"c": 0.2}.get(configuration, 0.5), 0)
    assert [raced.ended("t4", "d", 2), raced.ended("t3", "c", 2), raced.ended("t2", "b", None)] == [[], [], ["b"]]
    assert raced.ended("t1", "a", 2) == [] and not raced.due
    assert raced.ended("t0", "a", 2) == ["c"] and raced.due == ["d"] and raced.incumbent() == "a"


def test_a_baseline_that_fails_under_a_seed_gets_no_more_and_the_others_go_on() -> None:
    raced = Repeats(3, "a")
    for trial, configuration in (("t0", "a"), ("t1", "b")):
        raced.started(trial, configuration)
        report(raced, trial, 0.5, 0)
    assert raced.ended("t1", "b", 2) == [] and raced.ended("t0", "a", None) == []
    assert raced.due == ["b"] and raced.incumbent() == "b"


@given(st.data(), st.integers(1, 4), st.integers(1, 6))
def test_whatever_ends_when_the_incumbent_was_held_against_the_baseline_on_the_same_seeds(
    data: st.DataObject, seeds: int, places: int
) -> None:
    """Five configurations train in `places` places at a time; any training that runs may be the next to end."""
    raced, new, running, events = Repeats(seeds, "a"), list("abcde"), [], []
    while True:
        while len(running) < places and (raced.due or new):
            configuration = raced.due[0] if raced.due else new.pop(0)
            assert configuration == "a" or not raced.trainings[configuration] or len(raced.values["a"]) == seeds
            number = len(events)
            events.append(("begun", f"t{number}", configuration))
            raced.started(f"t{number}", configuration)
            running.append((f"t{number}", configuration))
        if not running:
            break
        trial, configuration = running.pop(data.draw(st.integers(0, len(running) - 1)))
        mean = data.draw(st.sampled_from([0.3, 0.5, 0.52, 0.6]))
        best = 2 if configuration == "a" else data.draw(st.sampled_from([2, 2, None]))
        report(raced, trial, mean, len(events))
        events.append(("ended", trial, configuration, best, mean, len(events)))
        raced.ended(trial, configuration, best)
        if len(raced.values.get("a", ())) == seeds:
            assert raced.values[raced.incumbent()].keys() == raced.values["a"].keys()
        assert all(sorted(values) == list(range(len(values))) for name, values in raced.values.items() if name != "a")
    again = again_from(events, seeds)
    assert raced.trainings["a"] == seeds and not raced.due and raced.trainings == again.trainings
    assert raced.incumbent() == again.incumbent()


def again_from(events: list[Any], seeds: int) -> Repeats:
    """The race rebuilt from a journal's events."""
    raced = Repeats(seeds, "a")
    for kind, trial, configuration, *rest in events:
        if kind == "begun":
            raced.started(trial, configuration)
            continue
        best, mean, roll = rest
        report(raced, trial, mean, roll)
        raced.ended(trial, configuration, best)
    return raced


def test_seeds_are_the_same_for_all_and_none_that_a_confirmation_uses() -> None:
    seeds = [seed_of(7, training) for training in range(50)]
    assert seeds[0] == 7 and len(set(seeds)) == 50 and min(seeds[1:]) >= LOWEST_SEED
    assert seeds == [seed_of(7, training) for training in range(50)]
    assert 0 < LEVEL < 0.5
