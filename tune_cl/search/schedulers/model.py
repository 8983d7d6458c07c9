"""A scheduler that extrapolates learning curves, with the end of the curriculum as a known change point."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tune_cl.search.schedulers.base import Decision, Scheduler
from tune_cl.search.schedulers.curve_model import CurveModel

LEVEL = 0.02  # a trial goes no further if it is less likely than this to end above the best
OPTIMISM = 1.0  # standard deviations added to a forecast
FEWEST_POINTS, FEWEST_TRIALS = 2, 4
# Of the iterations after its first judgement, the share that a trial makes, by promotion (docs/search-measured.md).
SHARE = {True: 0.45, False: 0.6}


@dataclass
class Model(Scheduler):
    """Extrapolates every curve to the last iteration (`CurveModel`).

    Promotion (freeze-thaw, Swersky et al. 2014): after each iteration the next one goes to the trial with the highest
    forecast + OPTIMISM · standard deviation: the same trial, a paused one, or a new one, of which the model knows only
    how trials in general go. Once no new trial comes, a trial goes on only if its chance to end above the best value
    seen is at least LEVEL; one is run to its end in any case. The forecast knows where curricula end, so a trial may
    pause within its own; only a number as `search.grace`, or `search.first_rung`, prevents that.
    Stopping: a trial ends when its chance to end above the highest forecast of another one is below LEVEL.
    """

    paused: dict[str, int] = field(default_factory=dict)  # trial -> its iteration
    completed: bool = False  # whether a trial has come to its end, be it by patience

    def __post_init__(self) -> None:
        self.curves = CurveModel(self.setup.max_iterations)

    def start(self, trial: str, grace: int, end: int = 0, chosen: dict[str, Any] | None = None) -> None:
        super().start(trial, grace, end, chosen)
        self.curves.start(trial, end)

    def judge(self, trial: str, iteration: int, value: float, queries: Sequence[float] | None = None) -> Decision:
        if trial in self.graces:
            self.curves.add(trial, iteration, value)
        return super().judge(trial, iteration, value, queries)

    def decide(self, trial: str, iteration: int, queries: Sequence[float] | None) -> Decision:
        if iteration >= self.setup.max_iterations:
            return Decision.GO_ON
        if not self.setup.promotion:
            return Decision.STOP if self._is_hopeless(trial, iteration) else Decision.GO_ON
        if iteration < self.setup.first:
            return Decision.GO_ON
        self.paused[trial] = iteration
        if self.next_paused(last=False) != trial:
            return Decision.PAUSE
        del self.paused[trial]
        return Decision.GO_ON

    def _is_hopeless(self, trial: str, iteration: int) -> bool:
        curves = self.curves.curves
        others = [other for other, curve in curves.items() if other != trial and curve.points > FEWEST_POINTS]
        if len(others) < FEWEST_TRIALS or min(iteration, curves[trial].points) < max(self.graces[trial], FEWEST_POINTS):
            return False
        means, deviations = self.curves.forecast([trial, *others])
        return chance_above(means[0], deviations[0], means[1:].max()) < LEVEL

    @property
    def pauses(self) -> bool:
        return self.setup.promotion

    def next_paused(self, last: bool) -> str | None:
        waiting = [trial for trial in self.paused if self.curves.known(trial)]
        all_begun = last or self.all_begun
        if not waiting or (len(self.graces) < FEWEST_TRIALS and not all_begun):
            return None
        means, deviations = self.curves.forecast(waiting)
        promise = means + OPTIMISM * deviations
        first = int(promise.argmax())
        if not all_begun:
            mean, deviation = self.curves.forecast_new()
            return waiting[first] if promise[first] >= mean + OPTIMISM * deviation else None
        if last and not self.completed:
            return waiting[first]
        highest, noise = max(self.best.values()), self.curves.noise
        for place in np.argsort(-promise, kind="stable").tolist():
            if chance_above(float(means[place]), math.sqrt(deviations[place] ** 2 + noise), highest) >= LEVEL:
                return waiting[place]
        return None

    def resumed(self, trial: str, chosen: dict[str, Any] | None = None) -> None:
        del self.paused[trial]

    def ended(self, trial: str, completed: bool) -> None:
        self.paused.pop(trial, None)
        self.completed |= completed

    def forget(self, trial: str) -> None:
        super().forget(trial)
        self.curves.forget(trial)

    def expected_iterations(self, grace: int) -> float:
        before = self.setup.first if self.setup.promotion else max(grace, FEWEST_POINTS)
        before = min(before, self.setup.max_iterations)
        return before + SHARE[self.setup.promotion] * (self.setup.max_iterations - before)


def chance_above(mean: float, deviation: float, value: float) -> float:
    """P(X > value) for a normal variable X."""
    return 0.5 * math.erfc((value - mean) / (deviation * math.sqrt(2)))
