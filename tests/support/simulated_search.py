"""Searches over given curves on a simulated clock: the same schedulers as in a real search, without training.

An iteration takes one tick of a worker. A search of 30 trials takes milliseconds.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from tune_cl.schedulers.scheduler import Decision, Scheduler


@dataclass(frozen=True)
class Recorded:
    """A configuration that can be searched over, as it trains with one seed.

    dev         mean dev value after each iteration
    queries     the dev queries' values, float [iterations, queries]
    grace, end  as `Scheduler.start` takes them
    """

    name: str
    dev: Sequence[float]
    queries: np.ndarray
    grace: int
    end: int


@dataclass
class Simulated:
    """One trial of a simulated search. `done`: its iterations."""

    recorded: Recorded
    done: int = 0
    outcome: str | None = None

    @property
    def best(self) -> float:
        return max(self.recorded.dev[: self.done], default=-math.inf)


@dataclass
class Simulation:
    """A search that tries `candidates` in their order.

    `workers` train at a time; the earliest to be free asks first, the lowest number among equals. `delay(worker)`
    gives the ticks that an iteration takes on a worker.
    """

    scheduler: Scheduler
    candidates: Sequence[Recorded]
    workers: int = 1
    delay: Callable[[int], float] = lambda worker: 1.0
    trials: dict[str, Simulated] = field(default_factory=dict)
    spent: int = 0
    clock: float = 0.0

    def run(self) -> Simulation:
        """Runs the search to its end."""
        free = list(range(self.workers))
        busy: list[tuple[float, int, str]] = []
        while True:
            while free and (name := self._next(bool(busy))):
                worker = free.pop(0)
                heapq.heappush(busy, (self.clock + self.delay(worker), worker, name))
            if not busy:
                return self
            self.clock, worker, name = heapq.heappop(busy)
            if self._iterate(name):
                heapq.heappush(busy, (self.clock + self.delay(worker), worker, name))
            else:
                free = sorted([*free, worker])

    def _next(self, others_run: bool) -> str | None:
        """What a free worker takes up: a paused trial, else a new one."""
        untried = self.candidates[len(self.trials) :]
        name = self.scheduler.next_paused(last=not untried and not others_run)
        if name:
            self.scheduler.resumed(name)
            return name
        if not untried:
            return None
        recorded = untried[0]
        self.scheduler.start(recorded.name, recorded.grace, recorded.end)
        self.trials[recorded.name] = Simulated(recorded)
        return recorded.name

    def _iterate(self, name: str) -> bool:
        """Makes one iteration of a trial; returns whether the trial keeps its worker."""
        trial = self.trials[name]
        trial.done, self.spent = trial.done + 1, self.spent + 1
        decision = self.scheduler.on_result(name, trial.done, trial.recorded.dev[trial.done - 1])
        if decision is Decision.PAUSE:
            return False
        if decision is Decision.GO_ON and trial.done < len(trial.recorded.dev):
            return True
        trial.outcome = "completed" if decision is Decision.GO_ON else "stopped_early"
        self.scheduler.ended(name, trial.outcome == "completed")
        return False

    def best(self) -> Simulated:
        """The trial with the highest dev value; the earliest wins a tie."""
        return max(self.trials.values(), key=lambda trial: trial.best)
