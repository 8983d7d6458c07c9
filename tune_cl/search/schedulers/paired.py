"""Compares trials at a rung by their values on the same dev queries, averaged over the last evaluations."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

WINDOW = 3  # evaluations that are averaged
LEVEL = 0.5  # how far a trial may be behind, in standard errors of the paired difference


@dataclass
class PairedValues:
    """Each trial's dev values, query by query, and their means over the last WINDOW evaluations at a rung."""

    evaluations: dict[str, list[np.ndarray]] = field(default_factory=dict)
    recorded: dict[tuple[str, int], np.ndarray] = field(default_factory=dict)

    def add(self, trial: str, queries: Sequence[float] | None) -> None:
        """Takes in one evaluation; raises ValueError if the values of the queries were not reported."""
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
        """Drops the evaluations of a training that has ended or starts anew."""
        self.evaluations.pop(trial, None)
