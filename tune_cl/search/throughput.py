"""How long a search's trials take, measured before it starts or on its own first iterations. Trials differ if the space
opens keys that decide a training's pace."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, islice
from typing import Any

from trainables.config.keys import TrainingRun, flatten
from trainables.core.randomness import generator
from tune_cl.experiment.experiment import ARMS, PLAIN, Arm, Experiment
from tune_cl.experiment.forecast import Span, forecast_of, within_budgets
from tune_cl.history.journal import Event
from tune_cl.history.state import SearchState, TrialState
from tune_cl.samplers import tried_first
from tune_cl.space.parameters import Choice
from tune_cl.space.space import Flat, Space, identity

DECIDING = (
    "ranker.name",
    "ranker.model",
    "training.batches_per_iteration",
    "training.batch_size",
    "training.max_length",
)
MEASURED = 2  # the iteration of a training that is measured: the first warms up
MOST = 12  # kinds of trainings to measure; while there are more, the last opened key of DECIDING is ignored
DRAWS = 2048

Kind = tuple[tuple[str, Any], ...]


@dataclass(frozen=True)
class Pace:
    """A kind's pace. `of`: its values of opened keys; `trials`: how many are expected to have them, the baseline
    included."""

    of: Mapping[str, Any]
    seconds_per_iteration: float
    trials: float


@dataclass(frozen=True)
class Paces:
    """Paces in seconds an iteration: the baseline's, the mean of the other trials, and that of each kind measured,
    slowest first."""

    baseline: float
    others: float
    kinds: tuple[Pace, ...]

    def hours(self, iterations: int, most: int) -> float:
        """Hours of so many iterations of a search, `most` of them by the baseline."""
        first = min(iterations, most)
        return (first * self.baseline + (iterations - first) * self.others) / 3600

    def longest(self, iterations: int, most: int, trials: int) -> float:
        """Hours of the longest of so many trainings, which no number of slots makes shorter: the baseline's, or one of
        the slowest kind to be expected, of as many iterations as the others make on average."""
        others = max(0, iterations - most) / max(1, trials - 1)
        slowest = max([self.others, *(pace.seconds_per_iteration for pace in self.kinds if pace.trials >= 0.5)])
        return max(min(iterations, most) * self.baseline, others * slowest) / 3600

    def of(self, run: TrainingRun) -> float:
        """Seconds an iteration of a training; the baseline's if it is of no kind measured."""
        flat = flatten(run.model_dump())
        fitting = [pace for pace in self.kinds if pace.of.items() <= flat.items()]
        return max(fitting, key=lambda pace: len(pace.of)).seconds_per_iteration if fitting else self.baseline


def paces_of(experiment: Experiment, measure: Callable[[TrainingRun], float]) -> Paces:
    """Measures the baseline, and a training like it for each other kind that trials can be of. `measure`: gives a
    training's seconds an iteration."""
    kinds = Kinds.of(experiment)
    seconds = {kinds.baseline: measure(experiment.base_ranker())}
    for kind in kinds.shares:
        if kind not in seconds:
            seconds[kind] = measure(experiment.plain_run(dict(kind)))
    return kinds.paces(seconds)


@dataclass(frozen=True)
class Kinds:
    """The kinds of trainings in a search, by the values of `keys`. `shares`: of each kind among the `others`, the
    trials beside the baseline."""

    keys: list[str]
    baseline: Kind
    shares: Mapping[Kind, float]
    others: int

    @classmethod
    def of(cls, experiment: Experiment) -> Kinds:
        keys = [key for key in DECIDING if isinstance(experiment.space.leaves.get(key), Choice)]
        while len(shares := _shares(experiment, keys)) > MOST:
            keys.pop()
        baseline = _kind(keys, experiment.baseline_values())
        return cls(keys, baseline, shares, experiment.trials - 1)

    def of_trial(self, trial: TrialState) -> Kind:
        return self.baseline if trial.baseline else _kind(self.keys, trial.point)

    def paces(self, seconds: Mapping[Kind, float]) -> Paces:
        """`seconds`: of an iteration by kind, of the baseline's at least, which stands in for missing kinds."""
        usual = seconds[self.baseline]
        paces = [
            Pace(dict(kind), pace, self.others * self.shares.get(kind, 0.0) + (kind == self.baseline))
            for kind, pace in seconds.items()
        ]
        paces.sort(key=lambda pace: -pace.seconds_per_iteration)
        mean = sum(share * seconds.get(kind, usual) for kind, share in self.shares.items())
        return Paces(usual, mean, tuple(paces))


def forecast_by(paces: Paces, experiment: Experiment, iterations: int, slots: int) -> tuple[Span, dict[str, float]]:
    """The hours of a search whose trials would make so many iterations, `slots` at a time, if its budgets let them; and
    what the user sees: the iterations within the budgets, and their mean pace."""
    search, most = experiment.search, experiment.max_iterations
    hours = paces.hours(iterations, most)
    longest = paces.longest(iterations, most, experiment.trials)
    filled = min(slots, hours / longest) if longest else slots  # on average; no more than there are trials
    span = within_budgets(search, hours, most * paces.baseline / 3600, filled)
    figures = {
        "iterations_expected": round(iterations * span.training / hours) if span.ends else iterations,
        "seconds_per_iteration": hours * 3600 / iterations,
    }
    return span, figures


class Forecaster:
    """Forecasts the hours of a running search after a first training of the baseline's kind, and again after one
    of each other kind."""

    def __init__(self, experiment: Experiment):
        self.experiment = experiment
        self.measured = min(MEASURED, experiment.max_iterations)
        self._seen: set[Kind] = set()  # kinds with a measured result; a kind leads to an event only the first time

    @cached_property
    def kinds(self) -> Kinds:
        return Kinds.of(self.experiment)

    def event(self, state: SearchState, trial: str, slots: int) -> Event | None:
        """The journal's event after a result of `trial`, None if it says nothing new about paces. `slots`: trials at a
        time."""
        if next(reversed(state.trials[trial].results), None) != self.measured:
            return None
        own = self.kinds.of_trial(state.trials[trial])
        if own in self._seen:  # nearly all results end here; what follows looks at all trials
            return None
        self._seen.add(own)
        seen = [one for one in state.by_number() if self.measured in one.results]
        if any(one.trial != trial and self.kinds.of_trial(one) == own for one in seen):
            return None
        seconds = {self.kinds.of_trial(one): one.results[self.measured]["seconds"] for one in reversed(seen)}
        forecast = self._forecast(self.kinds.paces(seconds), slots) if self.kinds.baseline in seconds else {}
        return {"event": "forecast"} | forecast if forecast.items() - state.forecast.items() else None

    def _forecast(self, paces: Paces, slots: int) -> dict[str, float]:
        """The forecast for trials that run `slots` at a time, each kind at its pace, and make as many iterations as
        `forecast_of` expects or the budgets allow."""
        resources = self.experiment.search.resources
        iterations = forecast_of(self.experiment, slots)["iterations_expected"]
        span, forecast = forecast_by(paces, self.experiment, iterations, slots)
        return forecast | {
            "hours_forecast": span.hours,
            "cpu_hours_forecast": span.training * resources.cpus,
            "gpu_hours_forecast": span.training * resources.gpus,
        }


def _kind(keys: list[str], point: Mapping[str, Any]) -> Kind:
    return tuple((key, point[key]) for key in keys if key in point)


def _shares(experiment: Experiment, keys: list[str]) -> dict[Kind, float]:
    """The share of each kind among the trials beside the baseline."""
    number = {arm: experiment.arm_trials[arm] - (arm == PLAIN) for arm in ARMS}
    shares: dict[Kind, float] = {}
    for arm in ARMS:
        for kind, share in _shares_of(experiment, arm, number[arm], keys).items():
            shares[kind] = shares.get(kind, 0.0) + share * number[arm] / sum(number.values())
    return shares


def _shares_of(experiment: Experiment, arm: Arm, number: int, keys: list[str]) -> dict[Kind, float]:
    """The share of each kind among so many trials of an arm. For a grid, or a space that will be used up, it is counted
    over the combinations to be tried if these are at most DRAWS; else over the configurations tried first and random
    draws."""
    if not number or not keys:
        return {(): 1.0} if number else {}
    plain, search = arm == PLAIN, experiment.search
    space, points = (experiment.plain_space, ()) if plain else (experiment.space, search.points)

    def counted(configurations: Iterable[Flat]) -> Counter[Kind]:
        return Counter(_kind(keys, experiment.plain_values(one) if plain else one) for one in configurations)

    walks = search.searcher == "grid" and not space.continuous
    in_order = walks or (space.combinations() or math.inf) <= number + plain
    if in_order and number <= DRAWS:
        default = space.within(experiment.baseline_values()) if plain else None
        walked = counted(islice(_grid(space, points, default), number))
        return {kind: count / walked.total() for kind, count in walked.items()}
    first = counted(tried_first(space, experiment.seed, points)[:number])
    drawn = counted(space.sample(generator(experiment.seed, "paces", draw)) for draw in range(DRAWS))
    random = 1 - first.total() / number
    return {kind: first[kind] / number + random * drawn[kind] / DRAWS for kind in first | drawn}


def _grid(space: Space, points: Sequence[Flat], default: Flat | None) -> Iterator[Flat]:
    """The combinations in the order in which a grid tries them, without the one that the default has had."""
    had = set(map(identity, [*points, *([default] if default else [])]))
    return chain(points, (point for point in space.grid() if identity(point) not in had))
