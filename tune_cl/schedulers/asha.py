"""Compares trials at a rung by their values on the same dev queries, averaged over the last evaluations."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from tune_cl.schedulers.scheduler import Decision, Scheduler

WINDOW = 3  # evaluations that are averaged
LEVEL = 0.5  # how far a trial may be behind, in standard errors of the paired difference


@dataclass
class PairedValues:
    """Each trial's dev values, query by query, and their means over the last WINDOW evaluations at a rung."""

    evaluations: dict[str, list[np.ndarray]] = field(default_factory=dict)
    recorded: dict[tuple[str, int], np.ndarray] = field(default_factory=dict)

    def add(self, trial: str, queries: Sequence[float] | None) -> None:
        """Adds one evaluation; raises ValueError if the values of the queries were not reported."""
        if queries is None:
            raise ValueError("search.compare: paired needs the dev queries' values with each result")
        self.evaluations[trial] = [*self.evaluations.get(trial, [])[1 - WINDOW :], np.asarray(queries, np.float32)]

    def record(self, trial: str, rung: int) -> float:
        """Records the trial's values at a rung, averaged over the last evaluations; returns their mean over queries."""
        values = self.recorded.setdefault((trial, rung), np.mean(self.evaluations[trial], axis=0))
        return float(values.mean())

    def may_be_better(self, trial: str, other: str, rung: int) -> bool:
        """Whether the trial is at most LEVEL standard errors of the paired difference behind the other."""
        difference = self.recorded[trial, rung] - self.recorded[other, rung]
        error = float(difference.std(ddof=1)) / math.sqrt(len(difference)) if len(difference) > 1 else 0.0
        return float(difference.mean()) + LEVEL * error >= 0

    def forget(self, trial: str) -> None:
        """Drops the evaluations of a training that has ended or starts again."""
        self.evaluations.pop(trial, None)


@dataclass
class Asha(Scheduler):
    """At each rung the best 1/η go on, without waiting for others to arrive.

    Promotion (`search.promotion`): every trial pauses at a rung. When a slot is free, the best paused trial among the
    best ⌊n/η⌋ of a rung goes on, highest rung first; a new trial starts only if there is none. Once no new trial
    comes and none runs, the best max(1, ⌊n/η⌋) of a rung may go on.
    Stopping (without promotion): a trial is compared with those that reached the rung before it. It goes on if its best
    value so far is among the best max(1, ⌊n/η⌋) of these n, itself included, or ties with them; else it ends.

    A trial within its grace is not recorded at a rung: its value does not yet show what it will become.
    Under grace `scaled` a training is planned to end at its rung; a trial that goes on starts again for the next one.
    """

    first: int | None = None  # the lowest of the setup's rungs to use; None: all
    recorded: dict[int, dict[str, float]] = field(default_factory=dict)
    paused: dict[str, int] = field(default_factory=dict)  # trial -> its rung
    budgets: dict[str, int] = field(default_factory=dict)
    paired: PairedValues = field(default_factory=PairedValues)

    def __post_init__(self) -> None:
        self.rungs = [rung for rung in self.setup.rungs if rung >= (self.first or 0)]
        self.eta = self.setup.reduction_factor

    def budget(self, trial: str) -> int:
        if not self.setup.scaled:
            return self.setup.max_iterations
        return self.budgets.get(trial, self._after(0)) if trial in self.graces else self.setup.max_iterations

    def decide(self, trial: str, iteration: int, queries: Sequence[float] | None) -> Decision:
        if self.setup.compare == "paired":
            self.paired.add(trial, queries)
        if self.setup.scaled:
            if iteration != self.budget(trial) or iteration == self.setup.max_iterations:
                return Decision.GO_ON
        elif iteration not in self.rungs or iteration < self.graces[trial]:
            return Decision.GO_ON
        rung = self.recorded.setdefault(iteration, {})
        rung.setdefault(trial, self._value(trial, iteration))
        if not self.setup.promotion and not self._is_among_best(trial, iteration):
            return Decision.STOP
        if self.setup.promotion or self.setup.scaled:
            self.paused[trial] = iteration
            return Decision.PAUSE
        return Decision.GO_ON

    def _value(self, trial: str, iteration: int) -> float:
        """The value that ranks a trial at a rung."""
        return self.paired.record(trial, iteration) if self.setup.compare == "paired" else self.best[trial]

    def _is_among_best(self, trial: str, rung: int) -> bool:
        values = self.recorded[rung]
        limit = threshold(list(values.values()), self.eta)
        if values[trial] >= limit or self.setup.compare != "paired":
            return values[trial] >= limit
        return self.paired.may_be_better(trial, next(t for t in values if values[t] == limit), rung)

    @property
    def pauses(self) -> bool:
        return self.setup.promotion or self.setup.scaled

    def next_paused(self, last: bool) -> str | None:
        if not self.setup.promotion:
            return next(iter(self.paused), None)  # first come, first served
        for rung in reversed(self.rungs):
            values = self.recorded.get(rung, {})
            count = math.floor(len(values) / self.eta)
            best = sorted(values, key=lambda trial: values[trial], reverse=True)[: max(1, count) if last else count]
            for trial in best:
                if self.paused.get(trial) == rung:
                    return trial
        return None

    def resumed(self, trial: str) -> None:
        rung = self.paused.pop(trial)
        if self.setup.scaled:
            self.budgets[trial] = self._after(rung)
            self.best.pop(trial)
            self.paired.forget(trial)

    def ended(self, trial: str, completed: bool) -> None:
        self.paused.pop(trial, None)
        self.paired.forget(trial)

    def forget(self, trial: str) -> None:
        super().forget(trial)
        for values in self.recorded.values():
            values.pop(trial, None)

    def _after(self, rung: int) -> int:
        """The next rung, or after the last one all iterations."""
        return next((above for above in self.rungs if above > rung), self.setup.max_iterations)

    def expected_iterations(self, grace: int) -> float:
        if self.setup.scaled:
            ends = [*self.rungs, self.setup.max_iterations]
            return sum(budget / self.eta**k for k, budget in enumerate(ends))
        return expected_iterations(grace, self.rungs, self.eta, self.setup.max_iterations)


def threshold(values: Sequence[float], eta: float) -> float:
    """The lowest of the best max(1, ⌊n/η⌋) values."""
    return sorted(values, reverse=True)[max(1, math.floor(len(values) / eta)) - 1]


def expected_iterations(grace: int, rungs: Sequence[int], eta: float, max_iterations: int) -> float:
    """Mean iterations of a trial if 1/η survive each rung r₁ < ... < rₖ that compares it:
    r₁ + (r₂ - r₁)/η + ... + (max - rₖ)/ηᵏ. A rung is in fact more lenient while few have reached it."""
    ends = [0, *(rung for rung in rungs if rung >= grace), max_iterations]
    return sum((end - start) / eta**k for k, (start, end) in enumerate(pairwise(ends)))


@dataclass
class Hyperband(Scheduler):
    """Asynchronous Hyperband (Li et al. 2018; 2020, section 3.4): brackets of ASHA. The first has all rungs, each next
    one lacks the lowest of the one before, and the last has none.

    A bracket with k rungs gets trials in proportion to ηᵏ/(k + 1), as in the original; brackets take turns in the order
    in which trials begin. A trial is compared only with those of its own bracket.
    """

    brackets: list[Asha] = field(default_factory=list)
    bracket_of: dict[str, Asha] = field(default_factory=dict)

    def __post_init__(self) -> None:
        levels = [*self.setup.rungs, self.setup.max_iterations]
        self.brackets = [Asha(self.setup, first=level) for level in levels]
        self.counts = [0] * len(self.brackets)
        self.weights = [self.setup.reduction_factor ** len(b.rungs) / (len(b.rungs) + 1) for b in self.brackets]

    def start(self, trial: str, grace: int, end: int = 0) -> None:
        super().start(trial, grace, end)
        turn = min(range(len(self.brackets)), key=lambda b: (self.counts[b] + 1) / self.weights[b])
        self.counts[turn] += 1
        self.bracket_of[trial] = self.brackets[turn]
        self.bracket_of[trial].start(trial, grace)

    def on_result(self, trial: str, iteration: int, value: float, queries: Sequence[float] | None = None) -> Decision:
        if trial not in self.bracket_of:
            return Decision.GO_ON
        return self.bracket_of[trial].on_result(trial, iteration, value, queries)

    @property
    def pauses(self) -> bool:
        return self.setup.promotion or self.setup.scaled

    def next_paused(self, last: bool) -> str | None:
        return next((trial for bracket in self.brackets if (trial := bracket.next_paused(last))), None)

    def resumed(self, trial: str) -> None:
        self.bracket_of[trial].resumed(trial)

    def ended(self, trial: str, completed: bool) -> None:
        if trial in self.bracket_of:
            self.bracket_of[trial].ended(trial, completed)

    def forget(self, trial: str) -> None:
        if trial in self.bracket_of:
            self.bracket_of[trial].forget(trial)

    def budget(self, trial: str) -> int:
        return self.bracket_of[trial].budget(trial) if trial in self.bracket_of else self.setup.max_iterations

    def expected_iterations(self, grace: int) -> float:
        expected = [bracket.expected_iterations(grace) for bracket in self.brackets]
        return sum(w * e for w, e in zip(self.weights, expected, strict=True)) / sum(self.weights)
