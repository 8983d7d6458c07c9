"""Schedulers: whether a trial may go on after an iteration. They know neither Ray nor training.

A scheduler's state follows from `start` and `keep` alone, so replaying a journal's events in order rebuilds it.
Iterations are the fidelity; values are those of a metric that grows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Protocol

from trainables.config import TrainingRun
from trainables.registry import Entry, Registry

if TYPE_CHECKING:
    from tune_cl.experiment import Experiment


class Scheduler(Protocol):
    def start(self, trial: str, grace: int) -> None:
        """A trial begins, not to be judged before iteration `grace`. One that is never to be judged, such as the
        baseline, is not started here."""
        ...

    def keep(self, trial: str, iteration: int, value: float) -> bool:
        """Whether the trial goes on after iteration `iteration` (from 1) with `value`, which may be NaN."""
        ...


class NoScheduler:
    """Every trial goes on."""

    def start(self, trial: str, grace: int) -> None:
        """All trials are alike."""

    def keep(self, trial: str, iteration: int, value: float) -> bool:
        return True


@dataclass
class Asha:
    """Asynchronous successive halving that stops (Li et al. 2020): at a rung, the best 1/η go on.

    A trial meets at a rung those that reached it before: it goes on if its best value so far is among the best
    max(1, ⌊n/η⌋) of these n, itself included; ties go on. Nobody waits, so the first at a rung always goes on. A
    trial still within its grace is neither judged at a rung nor recorded there: it is not yet what it will be.
    """

    rungs: Sequence[int]
    eta: float
    graces: dict[str, int] = field(default_factory=dict)
    best: dict[str, float] = field(default_factory=dict)
    recorded: dict[int, dict[str, float]] = field(default_factory=dict)

    def start(self, trial: str, grace: int) -> None:
        self.graces[trial] = grace

    def keep(self, trial: str, iteration: int, value: float) -> bool:
        best = self.best.get(trial, -math.inf)
        self.best[trial] = best if math.isnan(value) else max(best, value)
        if trial not in self.graces or iteration < self.graces[trial] or iteration not in self.rungs:
            return True
        rung = self.recorded.setdefault(iteration, {})
        rung.setdefault(trial, self.best[trial])
        return rung[trial] >= threshold(list(rung.values()), self.eta)


def threshold(values: Sequence[float], eta: float) -> float:
    """The lowest of the best max(1, ⌊n/η⌋) values."""
    return sorted(values, reverse=True)[max(1, math.floor(len(values) / eta)) - 1]


def rungs(first: int, eta: float, max_iterations: int) -> list[int]:
    """Iterations first · ηᵏ below `max_iterations`, rounded down, each once."""
    found, budget = [], float(first)
    while (rung := math.floor(budget + 1e-9)) < max_iterations:
        found.append(rung)
        budget *= eta
    return sorted(set(found))


def curriculum_grace(run: TrainingRun) -> int:
    """Iterations until a training is past its curriculum: the latest of T, m and the objective's switch, of those in
    force; at most all iterations."""
    curriculum, iterations = run.curriculum, run.training.max_iterations
    paced = math.ceil(curriculum.T * iterations - 1e-9) if curriculum.pacing != "none" else 0
    weighted = curriculum.m if curriculum.weighting != "none" else 0
    switched = math.ceil(curriculum.switch_at * iterations - 1e-9) if curriculum.objective_switch != "none" else 0
    return math.ceil(min(max(paced, weighted, switched), iterations))


def expected_iterations(grace: int, rungs: Sequence[int], eta: float, max_iterations: int) -> float:
    """Mean iterations of a trial of which 1/η survive each rung r₁ < ... < rₖ that judges it:
    r₁ + (r₂ - r₁)/η + ... + (max - rₖ)/ηᵏ. Early rungs are more lenient while few have reached them."""
    ends = [0, *(rung for rung in rungs if rung >= grace), max_iterations]
    return sum((end - start) / eta**k for k, (start, end) in enumerate(pairwise(ends)))


def make_asha(experiment: Experiment) -> Asha:
    return Asha(experiment.rungs, experiment.search.reduction_factor)


SCHEDULERS: Registry[Callable[[Experiment], Scheduler]] = Registry(
    "search.scheduler",
    Entry("none", lambda experiment: NoScheduler(), "no trial is stopped early", "baseline"),
    Entry("asha", make_asha, "the best 1/reduction_factor of those at a rung go on", "Li et al. 2020"),
)


def make_scheduler(experiment: Experiment) -> Scheduler:
    """The scheduler that `search.scheduler` names."""
    return SCHEDULERS[experiment.search.scheduler](experiment)
