"""Asynchronous successive halving (Li et al. 2020), and the brackets of it that make Hyperband (Li et al. 2018)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import ClassVar

from tune_cl.schedulers.scheduler import Decision, Scheduler


@dataclass
class Asha(Scheduler):
    """At each rung the best 1/η go on, without waiting for others to arrive.

    Promotion (`search.promotion`): every trial pauses at a rung. When a slot is free, the best paused trial among the
    best ⌊n/η⌋ of a rung goes on, highest rung first; a new trial starts only if there is none. Once no new trial
    comes and none runs, the best max(1, ⌊n/η⌋) of a rung may go on.
    Stopping (without promotion): a trial is compared with those that reached the rung before it. It goes on if its best
    value so far is among the best max(1, ⌊n/η⌋) of these n, itself included, or ties with them; else it ends.

    A trial within its grace is not recorded at a rung: its value does not yet show what it will become.
    """

    has_rungs: ClassVar[bool] = True
    can_pause: ClassVar[bool] = True

    first: int | None = None  # the lowest of the setup's rungs to use; None: all
    recorded: dict[int, dict[str, float]] = field(default_factory=dict)
    paused: dict[str, int] = field(default_factory=dict)  # trial -> its rung

    def __post_init__(self) -> None:
        self.rungs = [rung for rung in self.setup.rungs if rung >= (self.first or 0)]
        self.eta = self.setup.reduction_factor

    def decide(self, trial: str, iteration: int) -> Decision:
        if iteration not in self.rungs or iteration < self.graces[trial]:
            return Decision.GO_ON
        values = self.recorded.setdefault(iteration, {})
        value = values.setdefault(trial, self.best[trial])
        if self.setup.promotion:
            self.paused[trial] = iteration
            return Decision.PAUSE
        return Decision.GO_ON if value >= threshold(list(values.values()), self.eta) else Decision.STOP

    def next_paused(self, last: bool) -> str | None:
        for rung in reversed(self.rungs):
            values = self.recorded.get(rung, {})
            count = math.floor(len(values) / self.eta)
            best = sorted(values, key=lambda trial: values[trial], reverse=True)[: max(1, count) if last else count]
            for trial in best:
                if self.paused.get(trial) == rung:
                    return trial
        return None

    def resumed(self, trial: str) -> None:
        del self.paused[trial]

    def ended(self, trial: str, completed: bool) -> None:
        self.paused.pop(trial, None)

    def forget(self, trial: str) -> None:
        super().forget(trial)
        for values in self.recorded.values():
            values.pop(trial, None)

    def expected_iterations(self, grace: int) -> float:
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

    has_rungs: ClassVar[bool] = True
    can_pause: ClassVar[bool] = True

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

    def on_result(self, trial: str, iteration: int, value: float) -> Decision:
        if trial not in self.bracket_of:
            return Decision.GO_ON
        return self.bracket_of[trial].on_result(trial, iteration, value)

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

    def expected_iterations(self, grace: int) -> float:
        expected = [bracket.expected_iterations(grace) for bracket in self.brackets]
        return sum(w * e for w, e in zip(self.weights, expected, strict=True)) / sum(self.weights)
