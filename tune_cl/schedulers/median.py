"""The median stopping rule (Golovin et al. 2017, "Google Vizier", section 3.2.2)."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from statistics import median

from tune_cl.schedulers.scheduler import Decision, Scheduler

MINIMUM = 3  # other trials that a trial is compared with, at least
# Of the iterations after its grace, the share that a trial makes on the recorded curves.
SHARE = 0.54


@dataclass
class Median(Scheduler):
    """A trial ends if its best value so far is below the median of the means of the other trials that came as far.

    A trial's mean is over its values from the end of its grace up to this iteration. A trial within its grace takes
    no part in comparisons.
    """

    sums: dict[str, tuple[float, int]] = field(default_factory=dict)  # trial -> sum and number of values that count
    means: dict[int, dict[str, float]] = field(default_factory=dict)  # iteration -> trial that came as far -> its mean

    def on_result(self, trial: str, iteration: int, value: float) -> Decision:
        means = self.means.setdefault(iteration, {})
        if trial in self.graces and iteration >= self.graces[trial] and trial not in means:
            total, count = self.sums.get(trial, (0.0, 0))
            if not math.isnan(value):
                total, count = self.sums[trial] = total + value, count + 1
            means[trial] = total / count if count else -math.inf
        return super().on_result(trial, iteration, value)

    def decide(self, trial: str, iteration: int) -> Decision:
        if iteration < max(self.graces[trial], self.setup.first):
            return Decision.GO_ON
        others = [mean for other, mean in self.means[iteration].items() if other != trial]
        keeps_up = len(others) < MINIMUM or self.best[trial] >= median(others)
        return Decision.GO_ON if keeps_up else Decision.STOP

    def forget(self, trial: str) -> None:
        super().forget(trial)
        for means in self.means.values():
            means.pop(trial, None)

    def expected_iterations(self, grace: int) -> float:
        before = min(grace, self.setup.max_iterations)
        return before + SHARE * (self.setup.max_iterations - before)
