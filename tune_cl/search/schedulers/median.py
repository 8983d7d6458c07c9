"""The median stopping rule (Golovin et al. 2017, "Google Vizier", section 3.2.2)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import median

import numpy as np

from tune_cl.search.schedulers.base import Scheduler, Setup, Verdict

MINIMUM = 3  # other trials that a trial is compared with
SHARE = 0.54  # of the iterations after its grace that a trial takes, on the recorded curves (docs/search.md)


@dataclass
class Median(Scheduler):
    """A trial ends if its best value so far is below the median, over the other trials that came as far, of their
    mean value up to this iteration.

    Neither a trial within its grace nor its values there count: means are over the iterations from the grace on.
    """

    values: dict[str, list[float]] = field(default_factory=dict)

    def judge(self, trial: str, iteration: int, value: float, queries: Sequence[float] | None = None) -> Verdict:
        if trial in self.graces:
            known = self.values.setdefault(trial, [])
            if len(known) == iteration - 1:
                known.append(value)
        return super().judge(trial, iteration, value, queries)

    def verdict(self, trial: str, iteration: int, queries: Sequence[float] | None) -> Verdict:
        if iteration < max(self.graces[trial], self.setup.rungs[0] if self.setup.rungs else 1):
            return Verdict.GO_ON
        others = [other for other in self.values if other != trial and self._past_grace(other, iteration)]
        if len(others) < MINIMUM:
            return Verdict.GO_ON
        limit = median(self._mean(other, iteration) for other in others)
        return Verdict.GO_ON if self.best[trial] >= limit else Verdict.STOP

    def _past_grace(self, trial: str, iteration: int) -> bool:
        return len(self.values[trial]) >= iteration >= self.graces[trial]

    def _mean(self, trial: str, iteration: int) -> float:
        """Mean value from the trial's grace to an iteration; iterations without a number do not count."""
        window = np.asarray(self.values[trial][max(self.graces[trial], 1) - 1 : iteration])
        known = window[~np.isnan(window)]
        return float(known.mean()) if len(known) else -np.inf

    def expected_iterations(self, grace: int) -> float:
        before = min(grace, self.setup.max_iterations)
        return before + SHARE * (self.setup.max_iterations - before)


def make_median(setup: Setup) -> Median:
    return Median(setup)
