"""Asynchronous successive halving (Li et al. 2020)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
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

    recorded: dict[int, dict[str, float]] = field(default_factory=dict)
    paused: dict[str, int] = field(default_factory=dict)  # trial -> its rung

    def __post_init__(self) -> None:
        self.rungs = self.setup.rungs
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


def threshold(values: Sequence[float], eta: float) -> float:
    """The lowest of the best max(1, ⌊n/η⌋) values."""
    return sorted(values, reverse=True)[max(1, math.floor(len(values) / eta)) - 1]
