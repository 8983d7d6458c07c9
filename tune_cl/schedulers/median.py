"""The median stopping rule (Golovin et al. 2017, "Google Vizier", section 3.2.2)."""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from collections.abc import Sequence
from dataclasses import dataclass, field

from tune_cl.schedulers.scheduler import Decision, Scheduler

MINIMUM = 3  # other trials that a trial is compared with, at least
# Of the iterations after its grace, the share that a trial makes on the recorded curves (docs/dev/search-measured.md).
SHARE = 0.54


@dataclass
class Median(Scheduler):
    """A trial ends if its best value so far is below the median of the means of the other trials that came as far.

    A trial's mean is over its values from the end of its grace up to this iteration. A trial within its grace is
    neither judged nor compared with.
    """

    sums: dict[str, tuple[float, int]] = field(default_factory=dict)  # trial -> sum and number of values that count
    means: dict[int, dict[str, float]] = field(default_factory=dict)  # iteration -> trial that came as far -> its mean
    ranked: dict[int, list[float]] = field(default_factory=dict)  # the same means, lowest first

    def judge(self, trial: str, iteration: int, value: float, queries: Sequence[float] | None = None) -> Decision:
        known = self.means.setdefault(iteration, {})
        if trial in self.graces and iteration >= self.graces[trial] and trial not in known:
            total, count = self.sums.get(trial, (0.0, 0))
            if not math.isnan(value):
                total, count = self.sums[trial] = total + value, count + 1
            known[trial] = total / count if count else -math.inf
            insort(self.ranked.setdefault(iteration, []), known[trial])
        return super().judge(trial, iteration, value, queries)

    def decide(self, trial: str, iteration: int, queries: Sequence[float] | None) -> Decision:
        if iteration < max(self.graces[trial], self.setup.first):
            return Decision.GO_ON
        ranked = self.ranked[iteration]
        if len(ranked) - 1 < MINIMUM:
            return Decision.GO_ON
        limit = median_of_others(ranked, self.means[iteration][trial])
        return Decision.GO_ON if self.best[trial] >= limit else Decision.STOP

    def forget(self, trial: str) -> None:
        super().forget(trial)
        for iteration, known in self.means.items():
            if trial in known:
                self.ranked[iteration].remove(known.pop(trial))

    def expected_iterations(self, grace: int) -> float:
        before = min(grace, self.setup.max_iterations)
        return before + SHARE * (self.setup.max_iterations - before)


def median_of_others(ranked: Sequence[float], own: float) -> float:
    """The median of ascending values other than `own`. Does not look at all values: there may be as many as trials, and
    every result asks."""
    place, others = bisect_left(ranked, own), len(ranked) - 1
    lower, upper = (ranked[at + (at >= place)] for at in ((others - 1) // 2, others // 2))
    return (lower + upper) / 2
