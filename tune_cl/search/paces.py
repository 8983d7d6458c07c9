"""How long trials of a search take: not all alike, where it opens what decides the pace of a training."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any

from trainables.config import TrainingRun, flatten
from trainables.randomness import generator
from tune_cl.experiment import Experiment
from tune_cl.search.leaves import Choice
from tune_cl.search.samplers import tried_first
from tune_cl.search.space import Flat, identity

DECIDING = (
    "ranker.name",
    "ranker.model",
    "training.batches_per_iteration",
    "training.batch_size",
    "training.max_length",
)
MOST = 12  # kinds of trainings that are measured: of more, the last of DECIDING that are opened tell none apart
DRAWS = 2048
WALKED = 100_000  # combinations of a grid at most

Kind = tuple[tuple[str, Any], ...]


@dataclass(frozen=True)
class Pace:
    """`of`: values of opened keys; `trials`: how many are expected to have them, the baseline included."""

    of: Mapping[str, Any]
    seconds_per_iteration: float
    trials: float


@dataclass(frozen=True)
class Paces:
    """The baseline's pace in seconds an iteration, that of the other trials on average, and each kind's, the slowest
    first. `seeds`: trainings of the baseline."""

    baseline: float
    others: float
    kinds: tuple[Pace, ...]
    seeds: int = 1

    def hours(self, iterations: int, most: int) -> float:
        """Hours of so many iterations of a search, `most` of each training of its baseline."""
        first = min(iterations, most * self.seeds)
        return (first * self.baseline + (iterations - first) * self.others) / 3600

    def of(self, run: TrainingRun) -> float:
        """Seconds an iteration of a training that is of one of the kinds, else of the baseline."""
        flat = flatten(run.model_dump())
        fitting = [pace for pace in self.kinds if pace.of.items() <= flat.items()]
        return max(fitting, key=lambda pace: len(pace.of)).seconds_per_iteration if fitting else self.baseline


def paces_of(experiment: Experiment, measure: Callable[[TrainingRun], float]) -> Paces:
    """`measure`: seconds an iteration of a training. The baseline is measured, and a training like it for each other
    kind that trials can be of."""
    keys = [key for key in DECIDING if isinstance(experiment.space.leaves.get(key), Choice)]
    while len(shares := _shares(experiment, keys)) > MOST:
        keys.pop()
    baseline = _kind(keys, experiment.baseline_choice())
    seconds = {baseline: measure(experiment.base_run())}
    for kind in shares:
        if kind not in seconds:
            seconds[kind] = measure(experiment.plain_run(dict(kind)))
    seeds, others = _seeds(experiment), _others(experiment)
    kinds = [
        Pace(dict(kind), pace, others * shares.get(kind, 0.0) + seeds * (kind == baseline))
        for kind, pace in seconds.items()
    ]
    kinds.sort(key=lambda pace: -pace.seconds_per_iteration)
    mean = sum(share * seconds[kind] for kind, share in shares.items())
    return Paces(seconds[baseline], mean, tuple(kinds), seeds)


def _seeds(experiment: Experiment) -> int:
    """Trainings of the baseline."""
    return min(experiment.search.repeats, experiment.trials)


def _others(experiment: Experiment) -> int:
    """Trials that are not the baseline's."""
    return experiment.trials - _seeds(experiment)


def _kind(keys: list[str], choice: Mapping[str, Any]) -> Kind:
    return tuple((key, choice[key]) for key in keys if key in choice)


def _shares(experiment: Experiment, keys: list[str]) -> dict[Kind, float]:
    """The share of each kind in the trials beside the baseline: of a grid, and of a space that is used up, in the
    combinations that are tried; else in the configurations that come first and in what is drawn at random."""
    space, number = experiment.space, _others(experiment)
    if not number or not keys:
        return {(): 1.0} if number else {}
    combinations = space.combinations()
    if experiment.search.searcher == "grid" or (combinations is not None and combinations <= number):
        walked = Counter(_kind(keys, choice) for choice in islice(_grid(experiment), min(number, WALKED)))
        return {kind: count / walked.total() for kind, count in walked.items()}
    first = Counter(_kind(keys, choice) for choice in tried_first(experiment)[:number])
    rngs = (generator(experiment.seed, "paces", draw) for draw in range(DRAWS))
    drawn = Counter(_kind(keys, space.sample(rng)) for rng in rngs)
    left = 1 - first.total() / number
    return {kind: first[kind] / number + left * drawn[kind] / DRAWS for kind in first | drawn}


def _grid(experiment: Experiment) -> Iterator[Flat]:
    """The combinations in the order in which a grid tries them."""
    points = experiment.search.points
    known = set(map(identity, points))
    return chain(points, (choice for choice in experiment.space.grid() if identity(choice) not in known))
