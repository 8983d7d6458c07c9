"""Searchers: exact after a rebuild, conditional, without repeats; TPE learns."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from statistics import mean, median

import pytest
from optuna.distributions import FloatDistribution, IntDistribution

from trainables.core.errors import ConfigError
from tune_cl.experiment.load import load_experiment
from tune_cl.samplers import (
    GpSampler,
    GridSampler,
    RandomSampler,
    Sampler,
    TpeSampler,
    TrialResult,
)
from tune_cl.search.phases import new_sampler
from tune_cl.space.parameters import Parameter, choice
from tune_cl.space.space import Flat, Space, identity

SPACE = Space(
    {
        "pacing": choice("linear", "root", "step"),
        "n": choice(2, 5, 10, when={"pacing": ("root",)}),
        "T": Parameter(FloatDistribution(0.1, 1), {"pacing": ("root", "linear")}),
        "lr": Parameter(FloatDistribution(1e-5, 1e-1, log=True)),
        "size": Parameter(IntDistribution(1, 64)),
    }
)
FINITE = Space(
    {
        "delta": choice(0.2, 0.3, 0.4),
        "pacing": choice("linear", "root"),
        "n": choice(2, 5, when={"pacing": ("root",)}),
    }
)
MAKERS: dict[str, Callable[[int], Sampler]] = {
    "random": lambda seed: RandomSampler(SPACE, seed),
    "tpe": lambda seed: TpeSampler(SPACE, seed, startup_trials=3),
    "gp": lambda seed: GpSampler(SPACE, seed, startup_trials=3),
    "grid": lambda seed: GridSampler(SPACE.only({"pacing", "n", "size"}), seed),
}
Event = tuple[str, int, object, str | None]


def value(point: Flat) -> float:
    """Value of a trial; higher is better. The optimum is root, n = 5, lr = 1e-3."""
    score = -abs(math.log10(point["lr"]) + 3) + {"linear": 0.0, "step": -1.0, "root": 0.5}[point["pacing"]]
    return score + (point.get("n") == 5) * 1.0


def outcome_of(number: int) -> str:
    return "failed" if number % 7 == 3 else "stopped_early" if number % 3 == 0 else "completed"


def search(sampler: Sampler, trials: int, journal: list[Event], first: int = 1) -> list[Flat]:
    """Runs two trials at a time; the events are those of a journal."""
    answers = []
    for number in range(first, trials + 1):
        point = sampler.ask(number)
        assert point is not None
        answers.append(point)
        take_in(sampler, ("replay", number, point, None), journal)
        if number > 1:
            done = next(event[2] for event in journal if event[:2] == ("replay", number - 1))
            assert isinstance(done, dict)
            values = {1: value(done) - 1, 2: math.nan, 3: value(done)}
            take_in(sampler, ("tell", number - 1, values, outcome_of(number - 1)), journal)
    return answers


def take_in(sampler: Sampler, event: Event, journal: list[Event]) -> None:
    journal.append(event)
    rebuild(sampler, [event])


def rebuild(sampler: Sampler, events: list[Event]) -> Sampler:
    for kind, number, what, outcome in events:
        assert isinstance(what, dict)
        if kind == "replay":
            sampler.replay(number, what)
        elif outcome is not None:
            sampler.tell(number, what, outcome)
    return sampler


@pytest.mark.parametrize("name", MAKERS)
def test_a_rebuilt_sampler_goes_on_as_the_lost_one(name: str) -> None:
    journal: list[Event] = []
    unbroken = search(MAKERS[name](4), 7 if name == "gp" else 14, journal)
    for cut in range(len(journal)):
        if journal[cut][0] == "replay":
            number = journal[cut][1]
            rebuilt = rebuild(MAKERS[name](4), journal[:cut])
            assert rebuilt.ask(number) == unbroken[number - 1]
            assert rebuilt.ask(number) == unbroken[number - 1], "asking changes nothing"


@pytest.mark.parametrize("name", ["random", "tpe", "gp"])
def test_seeds_decide(name: str) -> None:
    runs = [search(MAKERS[name](seed), 8, []) for seed in (1, 1, 2)]
    assert runs[0] == runs[1] != runs[2]


@pytest.mark.parametrize("name", MAKERS)
def test_conditional_parameters_are_absent_where_their_condition_is_false(name: str) -> None:
    answers = search(MAKERS[name](0), 12 if name == "gp" else 30, [])
    for point in answers:
        assert set(point) == {key for key in SPACE.parameters if SPACE.exists(key, point)}
        assert all(SPACE.parameters[key].allows(point[key]) for key in point)
    assert any("n" in point for point in answers) or name == "grid"


FINISHERS = [
    RandomSampler,
    GridSampler,
    lambda space, seed: TpeSampler(space, seed, 1),
    lambda space, seed: GpSampler(space, seed, 1),
]


def finished(make: Callable[[Space, int], Sampler]) -> Iterator[Flat]:
    sampler = make(FINITE, 0)
    number = 0
    while (point := sampler.ask(number)) is not None:
        yield point
        sampler.replay(number, point)
        sampler.tell(number, {1: float(number)}, "completed")
        number += 1


@pytest.mark.parametrize("make", FINISHERS)
def test_a_finite_space_is_tried_once_and_then_exhausted(make: Callable[[Space, int], Sampler]) -> None:
    answers = [identity(point) for point in finished(make)]
    assert len(answers) == 9
    assert set(answers) == {identity(point) for point in FINITE.grid()}


def test_grid_keeps_the_order_of_the_space() -> None:
    assert list(finished(GridSampler)) == list(FINITE.grid())


def test_tpe_starts_like_random_search_until_enough_trials_finished() -> None:
    tpe, random = TpeSampler(SPACE, 5, startup_trials=4), RandomSampler(SPACE, 5)
    for number in range(10):
        point = tpe.ask(number)
        assert point is not None
        assert point == random.ask(number)
        tpe.replay(number, point)
        random.replay(number, point)
        tpe.tell(number, {1: value(point)}, "completed" if number % 3 == 0 and number < 9 else "failed")
    tpe.tell(9, {1: 1.0}, "stopped_early")
    assert tpe.ask(10) != random.ask(10)


def test_what_a_trial_is_told_as() -> None:
    values = {2: 0.4, 1: 0.5, 3: math.nan, 4: 0.6}
    completed = TrialResult.of(values, "completed")
    assert (completed.value, completed.curve) == (0.6, {1: 0.5, 2: 0.5, 4: 0.6})
    stopped = TrialResult.of(values, "stopped_early")
    assert (stopped.state.name, stopped.value, stopped.curve) == ("PRUNED", None, completed.curve)
    assert TrialResult.of(values, "failed").state.name == "FAIL"
    assert TrialResult.of({1: math.nan}, "completed").state.name == "FAIL"


def late_values(make: Callable[[int], Sampler], seed: int, trials: int = 24) -> float:
    """Mean value over the last half of the trials."""
    sampler = make(seed)
    values = []
    for number in range(trials):
        point = sampler.ask(number)
        assert point is not None
        sampler.replay(number, point)
        values.append(value(point))
        sampler.tell(number, {1: values[-1]}, "completed")
    return mean(values[trials // 2 :])


def test_tpe_finds_better_configurations_than_random_search() -> None:
    tpe = median(late_values(lambda seed: TpeSampler(SPACE, seed, 8), seed) for seed in range(20))
    random = median(late_values(lambda seed: RandomSampler(SPACE, seed), seed) for seed in range(20))
    assert tpe > random + 0.5


NUMBERS = Space(
    {
        "x": Parameter(FloatDistribution(0, 1)),
        "lr": Parameter(FloatDistribution(1e-5, 1e-1, log=True)),
        "size": Parameter(IntDistribution(1, 64)),
    }
)


def numeric(point: Flat) -> float:
    """The optimum is x = 0.8, lr = 1e-3."""
    return -((point["x"] - 0.8) ** 2) - (math.log10(point["lr"] / 1e-3) / 4) ** 2


def distance(sampler: Sampler, trials: int) -> float:
    """Median loss of the last fifth of the trials."""
    losses = []
    for number in range(1, trials + 1):
        point = sampler.ask(number)
        assert point is not None
        sampler.replay(number, point)
        losses.append(-numeric(point))
        sampler.tell(number, {1: -losses[-1]}, "completed")
    return median(losses[-trials // 5 :])


@pytest.mark.parametrize(("kind", "trials"), [(GpSampler, 12)])
def test_models_of_numbers_find_better_ones_than_random_search(kind: type[GpSampler], trials: int) -> None:
    models = max(distance(kind(NUMBERS, seed, 5), trials) for seed in range(2))
    chance = min(distance(RandomSampler(NUMBERS, seed), trials) for seed in range(2))
    assert models < chance


def test_tpe_is_shown_stopped_trials_without_a_final_value() -> None:
    sampler = TpeSampler(SPACE, 0, 2)
    search(sampler, 7, [])
    states = {trial.number + 1: trial for trial in sampler.study().trials}
    assert [states[number].state.name for number in (3, 6)] == ["FAIL", "PRUNED"]
    assert states[6].value is None and set(states[6].intermediate_values) == {1, 3}


def test_a_grid_of_a_continuous_space() -> None:
    with pytest.raises(ConfigError, match="lr"):
        GridSampler(SPACE, 0).ask(0)


@pytest.mark.parametrize("searcher", ["random", "tpe", "gp"])
def test_no_trial_repeats_the_baseline_or_another_under_a_key_that_nothing_reads(searcher: str) -> None:
    """Without order and weights, `curriculum.anti` has no effect: such points train as the baseline does."""
    space = {
        "data": "docstrings",
        "ranker": "knrm",
        "curriculum": {
            "pacing": {"choice": ["none", "linear"]},
            "weighting": {"choice": ["none", "normalized_score"]},
            "anti": {"choice": [False, True]},
        },
        "baseline": {"curriculum.pacing": "none", "curriculum.weighting": "none"},
        "search": {"searcher": searcher, "startup_trials": 2},
    }
    experiment = load_experiment(space)
    sampler = new_sampler(experiment)
    runs = [experiment.base.run]
    for number in range(1, 7):
        point = sampler.ask(number)
        assert point is not None
        runs.append(experiment.config(point).run)
        sampler.replay(number, point)
        sampler.tell(number, {1: 0.1 * number}, "completed")
    assert len({repr(run.in_force()) for run in runs}) == 7
