"""Population-based training (Jaderberg et al. 2017), in rounds, so that nothing depends on which trial is faster."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from trainables.core.randomness import generator
from tune_cl.schedulers.scheduler import Change, Decision, Scheduler
from tune_cl.space.parameters import Leaf, Range

QUANTILE = 0.25  # of the population that copies, and that may be copied
FACTORS = (0.8, 1.25)
PERTURBED = ("training.lr", "curriculum.delta", "curriculum.T", "curriculum.m")


@dataclass
class Pbt(Scheduler):
    """All trials form one population. Every `search.interval` iterations each waits for the others. Then those whose
    last dev value is in the lowest quarter go on from the checkpoint of one of the highest quarter, under the latter's
    configuration with the learning rate, the open share (δ, T) and the weights' m perturbed: times .8 or 1.25 within
    the range, or the neighbouring value of a choice. Keys that the space does not open stay. No trial ends early.
    """

    points: dict[str, dict[str, Any]] = field(default_factory=dict)
    values: dict[int, dict[str, float]] = field(default_factory=dict)  # iteration -> trial -> value
    changes: dict[int, dict[str, Change]] = field(default_factory=dict)  # iteration that all have reached -> trial
    paused: dict[str, int] = field(default_factory=dict)
    gone: set[str] = field(default_factory=set)

    def start(self, trial: str, grace: int, end: int = 0, point: dict[str, Any] | None = None) -> None:
        super().start(trial, grace, end, point)
        self.points[trial] = dict(point or {})

    def on_result(self, trial: str, iteration: int, value: float) -> Decision:
        if trial in self.graces and iteration % self.setup.interval == 0 and iteration < self.setup.max_iterations:
            self.values.setdefault(iteration, {})[trial] = -math.inf if math.isnan(value) else value
            self.paused[trial] = iteration
            return Decision.PAUSE
        return Decision.GO_ON

    @property
    def pauses(self) -> bool:
        return True

    @property
    def renews(self) -> bool:
        return True  # from another's weights

    @property
    def copies(self) -> bool:
        return True

    def next_paused(self, last: bool) -> str | None:
        """Trials that copy others come first, while the others still wait at this iteration."""
        if not self.paused or not (self.all_started or last):
            return None
        iteration = min(self.paused.values())
        reached = self.values[iteration]
        if any(trial not in reached for trial in self.graces if trial not in self.gone):
            return None
        changes = self.changes.setdefault(iteration, self._changes(iteration))
        waiting = [trial for trial, at in self.paused.items() if at == iteration]
        return min(waiting, key=lambda trial: (trial not in changes, trial))

    def _changes(self, iteration: int) -> dict[str, Change]:
        """How the lowest quarter goes on after an iteration that all have reached."""
        values = self.values[iteration]  # includes trials that ended since, so that a resumed search decides the same
        order = sorted(values, key=lambda trial: (-values[trial], trial))
        count = max(1, math.floor(QUANTILE * len(order))) if len(order) > 1 else 0
        changes = {}
        for trial in order[len(order) - count :]:
            rng = generator(self.setup.seed, f"exploit {trial}", iteration)
            source = order[int(rng.integers(count))]
            changes[trial] = Change(source, perturbed(self.points[source], self.setup.leaves, rng))
        return changes

    def change(self, trial: str) -> Change | None:
        return self.changes[self.paused[trial]].get(trial)

    def resumed(self, trial: str, point: dict[str, Any] | None = None) -> None:
        del self.paused[trial]
        if point is not None:
            self.points[trial] = dict(point)

    def ended(self, trial: str, completed: bool) -> None:
        if (iteration := self.paused.pop(trial, None)) is not None:  # failed while saving: nothing to go on from
            self.values[iteration].pop(trial, None)
            self.changes.pop(iteration, None)
        self.gone.add(trial)


def perturbed(point: dict[str, Any], leaves: dict[str, Leaf], rng: np.random.Generator) -> dict[str, Any]:
    """The values, with those of the opened keys in PERTURBED moved up or down within the space."""
    moved = dict(point)
    for key in PERTURBED:
        if key not in leaves or key not in point:
            continue
        leaf, up = leaves[key], bool(rng.integers(2))
        if isinstance(leaf, Range) and leaf.step is None:
            value = min(max(point[key] * FACTORS[up], leaf.low), leaf.high)
            moved[key] = float(value) if leaf.draws_fractions else _next_whole(point[key], value, up, leaf)
        else:
            options = sorted(leaf.values() or ())
            index = options.index(point[key]) + (1 if up else -1)
            moved[key] = options[min(max(index, 0), len(options) - 1)]
    return moved


def _next_whole(current: int, value: float, up: bool, leaf: Range) -> int:
    """The value as a whole number other than `current`, if the range holds one in that direction."""
    whole = max(round(value), current + 1) if up else min(round(value), current - 1)
    return int(min(max(whole, leaf.low), leaf.high))
