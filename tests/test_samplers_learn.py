"""What every sampler with a model owes: that what it is told matters."""

from __future__ import annotations

from statistics import mean

import pytest
from optuna.distributions import FloatDistribution

from trainables.core.randomness import generator
from tune_cl.samplers import SEARCHERS, GpSampler, TpeSampler
from tune_cl.samplers.modelled import ModelSampler
from tune_cl.schedulers import Decision, Setup
from tune_cl.schedulers.asha import Asha
from tune_cl.space.parameters import Parameter
from tune_cl.space.space import Flat, Space

pytestmark = pytest.mark.slow

PLANE = Space({"x": Parameter(FloatDistribution(0, 1)), "y": Parameter(FloatDistribution(0, 1))})
STARTUP = 8
LEARNERS: dict[str, tuple[type[ModelSampler], int]] = {
    "tpe": (TpeSampler, 48),
    "gp": (GpSampler, 20),
}


def quality(point: Flat) -> float:
    """The optimum is x = 0.2, y = 0.3."""
    return -((point["x"] - 0.2) ** 2) - (point["y"] - 0.3) ** 2


def proposals(sampler: ModelSampler, trials: int, noise: bool = False) -> list[Flat]:
    """A search one trial at a time, each to its end. `noise`: the sampler is told values that say nothing."""
    asked = []
    for number in range(1, trials + 1):
        point = sampler.ask(number)
        assert point is not None
        asked.append(point)
        sampler.replay(number, point)
        value = float(generator(0, "noise", number).normal()) if noise else quality(point)
        sampler.tell(number, {1: value - 0.1, 2: value}, "completed")
    return asked


def test_every_sampler_with_a_model_is_tested() -> None:
    assert set(LEARNERS) == set(SEARCHERS) - {"random", "grid"}


@pytest.mark.parametrize("name", LEARNERS)
def test_what_a_sampler_is_told_matters(name: str) -> None:
    kind, trials = LEARNERS[name]
    told = [proposals(kind(PLANE, seed, STARTUP), trials) for seed in range(2)]
    misled = [proposals(kind(PLANE, seed, STARTUP), trials, noise=True) for seed in range(2)]
    early = mean(quality(point) for asked in told for point in asked[:STARTUP])
    late, late_misled = (
        mean(quality(point) for asked in searches for point in asked[-trials // 4 :]) for searches in (told, misled)
    )
    assert late > early / 2 and late > late_misled / 2, (early, late, late_misled)
    assert proposals(kind(PLANE, 0, STARTUP), trials) == told[0] != told[1], "the seed decides"


@pytest.mark.parametrize("name", ["tpe"])  # gp reads finished trials alone
def test_a_scheduler_that_stops_leaves_a_sampler_something_to_learn(name: str) -> None:
    kind, trials = LEARNERS[name]
    near, early, late = [], [], []
    for seed in range(3):
        sampler, scheduler = kind(PLANE, seed, STARTUP), Asha(Setup(9))
        asked: list[Flat] = []
        for number in range(1, trials + 1):
            point = sampler.ask(number)
            assert point is not None
            asked.append(point)
            sampler.replay(number, point)
            scheduler.start(str(number), 1)
            values: dict[int, float] = {}
            while len(values) < 9:
                values[len(values) + 1] = quality(point) - 0.2 / (len(values) + 1)
                if scheduler.on_result(str(number), len(values), values[len(values)]) is Decision.STOP:
                    break
            sampler.tell(number, values, "completed" if len(values) == 9 else "pruned")
        apart = [min(max(abs(a[k] - b[k]) for k in "xy") for b in asked[:n]) for n, a in enumerate(asked) if n]
        near.append(mean(distance < 0.004 for distance in apart))
        early.append(mean(map(quality, asked[:STARTUP])))
        late.append(mean(map(quality, asked[-trials // 4 :])))
    assert mean(near) < 0.25 and mean(late) > mean(early) / 2, (near, early, late)


def beside_twins(sampler: ModelSampler, trials: int, compared: bool) -> float:
    """Mean distance of y from 0.3 in the second half of the trials, whose x is given and matters much more."""
    distances = []
    for number in range(1, trials + 1):
        x = float(generator(1, "shared", number).random())
        point = sampler.ask(number, {"x": x})
        assert point is not None and point["x"] == x
        sampler.replay(number, point)
        sampler.tell(number, {1: 20 * x - (point["y"] - 0.3) ** 2}, "completed")
        if compared:
            sampler.compare(number, 20 * x)
        distances.append(abs(point["y"] - 0.3))
    return mean(distances[trials // 2 :])


@pytest.mark.parametrize("name", ["tpe", "gp"])
def test_differences_from_twins_tell_what_adds_to_the_values_that_both_share(name: str) -> None:
    kind, trials = LEARNERS[name]
    compared, alone = (
        mean(beside_twins(kind(PLANE, seed, STARTUP), trials, told) for seed in range(3)) for told in (True, False)
    )
    assert compared < 0.75 * alone, (compared, alone)


def test_values_stay_on_the_scale_of_trials_whose_twins_have_yet_to_end() -> None:
    sampler = TpeSampler(PLANE, 0)
    for number, dev in ((1, 0.5), (2, 0.8), (3, 0.6)):
        sampler.replay(number, PLANE.sample(generator(0, "drawn", number)))
        sampler.tell(number, {1: dev}, "completed")
    sampler.compare(1, 0.3)
    sampler.compare(2, 0.7)
    assert [trial.value for trial in sampler.study().trials] == pytest.approx([0.7, 0.6, 0.6])
