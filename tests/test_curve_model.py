"""Extrapolated learning curves, and the scheduler that resumes the trial with the most promising one."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tune_cl.schedulers.model import FEWEST_TRIALS, CurveModel, Model, basis
from tune_cl.schedulers.scheduler import Decision, Setup

LAST = 12


def value(trial: int, at: int, end: int) -> float:
    """A curve as the model assumes it: level .3 + trial/50, slope .05, gain .2 past the curriculum's end."""
    after = max(at - end, 0) if end else 0
    return 0.3 + trial / 50 + 0.05 * math.log(at) + 0.2 * (1 - (after + 1) ** -0.5)


def of_whole_curves(end: int) -> CurveModel:
    """A model that has seen six whole trainings whose curricula end at `end`."""
    model, rng = CurveModel(LAST), np.random.default_rng(0)
    for trial in range(6):
        model.start(f"whole {trial}", end)
        for at in range(1, LAST + 1):
            model.add(f"whole {trial}", at, value(trial, at, end) + rng.normal(0, 0.002))
    return model


def test_what_trials_show_is_expected_of_one_that_has_not_come_as_far() -> None:
    model = of_whole_curves(end=6)
    for name, end in (("paced", 6), ("plain", 0)):
        model.start(name, end)
        for at in range(1, 4):
            model.add(name, at, value(2, at, 6))  # both have the same values so far
    (paced, plain), deviations = model.forecast(["paced", "plain"])
    assert paced == pytest.approx(value(2, LAST, 6), abs=0.02) and plain == pytest.approx(value(2, LAST, 0), abs=0.02)
    assert 0 < deviations[1] < deviations[0]  # the gain of `paced` is still to come
    mean, deviation = model.forecast_new()
    assert deviation > deviations[0] and mean == pytest.approx(value(2, LAST, 6), abs=0.05)


def test_a_forecast_grows_more_certain_with_the_iterations() -> None:
    model = of_whole_curves(end=0)
    model.start("new", 0)
    deviations = []
    for at in range(1, LAST + 1):
        model.add("new", at, value(3, at, 0))
        deviations.append(model.forecast(["new"])[1][0])
    assert deviations == sorted(deviations, reverse=True) and deviations[-1] < deviations[0] / 3


def test_iterations_behind_one_without_a_number_are_passed_over() -> None:
    model = CurveModel(LAST)
    for trial, second in (("a", math.nan), ("b", math.inf)):
        model.start(trial, 0)
        assert not model.has_values(trial)
        for at, seen in enumerate((0.3, second, 0.5), 1):
            model.add(trial, at, seen)
        assert model.has_values(trial) and model.curves[trial].points == 1
    assert np.isfinite(model.forecast(["a", "b"])).all()


def thaw(**setup: int) -> Model:
    return Model(Setup(LAST, grace="none", promotion=True, **setup))


def pauses_at(model: Model, trial: str, level: float, until: int = LAST) -> int:
    """The iteration after which the trial pauses on its way to `until`; 0 if it goes on."""
    model.start(trial, 1)
    for at in range(1, until + 1):
        if model.on_result(trial, at, level + 0.05 * math.log(at)) is Decision.PAUSE:
            return at
    return 0


def test_the_most_promising_trial_goes_on() -> None:
    model = thaw()
    levels = {"a": 0.30, "b": 0.31, "c": 0.60, "d": 0.29}
    assert [pauses_at(model, trial, level) for trial, level in levels.items()] == [1, 1, 1, 1]
    assert len(levels) == FEWEST_TRIALS and model.next_paused(last=False) == "c"
    model.resumed("c")
    assert {model.on_result("c", at, 0.6 + 0.05 * math.log(at)) for at in range(2, LAST + 1)} == {Decision.GO_ON}
    model.ended("c", completed=True)
    assert model.next_paused(last=False) is None  # a new one is more promising than those that were far behind
    assert model.next_paused(last=True) is None  # and they have no chance to end above the best


def test_one_trial_comes_to_its_end_in_any_case() -> None:
    model = thaw()
    assert pauses_at(model, "good", 0.6, until=1) == pauses_at(model, "bad", 0.1, until=1) == 1
    model.best["good"] = 5.0  # nothing is expected to end above that
    assert model.next_paused(last=False) is None and model.next_paused(last=True) == "good"
    model.resumed("good")
    for at in range(2, LAST + 1):
        if model.on_result("good", at, 0.6) is Decision.PAUSE:
            assert model.next_paused(last=True) == "good"
            model.resumed("good")
    model.ended("good", completed=True)
    assert model.next_paused(last=True) is None


def test_the_trial_that_comes_to_its_end_may_do_so_by_patience() -> None:
    model = thaw()
    for trial, level in (("stopped", 0.6), ("failed", 0.6), ("patient", 0.6), ("bad", 0.1)):
        pauses_at(model, trial, level, until=1)
    model.best["patient"] = 5.0  # nothing can be expected to end above that
    for trial in ("stopped", "failed"):
        model.ended(trial, completed=False)
    assert model.next_paused(last=True) == "patient"
    model.ended("patient", completed=True)
    assert model.next_paused(last=True) is None


def test_once_all_have_begun_none_waits_for_a_new_one() -> None:
    model = thaw()
    assert pauses_at(model, "a", 0.3) == 1
    assert model.next_paused(last=False) is None
    model.all_started = True
    assert pauses_at(model, "b", 0.5) == 0


def test_no_trial_pauses_before_a_number_given_as_grace_or_the_first_rung() -> None:
    assert pauses_at(Model(Setup(LAST, grace=5, promotion=True)), "a", 0.3) == 5
    assert pauses_at(thaw(first_rung=LAST), "a", 0.3) == 0


def test_asking_who_goes_on_changes_nothing() -> None:
    """A resumed search replays results, but not the questions asked in between."""
    asked, silent = thaw(), thaw()
    for number in range(8):
        for model in (asked, silent):
            pauses_at(model, str(number), 0.3 + 0.02 * number, until=1)
        asked.next_paused(last=False)
        asked.next_paused(last=True)
    assert np.array_equal(asked.curves.covariance, silent.curves.covariance) and asked.paused == silent.paused
    assert asked.next_paused(last=True) == silent.next_paused(last=True)


def test_a_forecast_among_many_trials_is_that_of_the_trial_s_own_values() -> None:
    """Its sums are kept in growing arrays, and trials at the same iteration of equal curricula share some of them."""
    model, ends, seen = CurveModel(LAST), {}, {}
    rng = np.random.default_rng(0)
    for trial in range(150):
        name, ends[trial] = f"t{trial}", int(rng.integers(0, 4))
        model.start(name, ends[trial])
        seen[trial] = [value(trial, at, ends[trial]) for at in range(1, 1 + int(rng.integers(1, 6)))]
        for at, one in enumerate(seen[trial], 1):
            model.add(name, at, one)
    means, deviations = model.forecast([f"t{trial}" for trial in seen])
    for trial, values in seen.items():
        x = np.stack([basis(at, ends[trial]) for at in range(1, 1 + len(values))])
        last, precision = basis(LAST, ends[trial]), np.linalg.inv(model.covariance)
        covariance = np.linalg.inv(precision + x.T @ x / model.noise)
        mean = covariance @ (precision @ model.mean + x.T @ values / model.noise)
        assert means[trial] == pytest.approx(last @ mean)
        assert deviations[trial] == pytest.approx(math.sqrt(last @ covariance @ last))
