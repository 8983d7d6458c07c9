"""What schedulers share: their protocol, and when a curriculum ends."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from enum import Enum
from typing import ClassVar

from trainables.config.keys import TrainingConfig
from trainables.config.objective import AnyRun


def curriculum_grace(run: AnyRun) -> int:
    """Iterations until a training's curriculum is over: the latest of `curriculum_ends`, at most all iterations."""
    return math.ceil(min(max(curriculum_ends(run).values(), default=0), run.training.max_iterations))


def curriculum_ends(run: AnyRun) -> dict[str, float]:
    """Iterations until each part of a training's curriculum is over, by the key that sets it: T, m or a switch, if in
    force."""
    curriculum, iterations, in_force = run.curriculum, run.training.max_iterations, run.in_force()
    ends: dict[str, float] = {}
    if "curriculum.switch" in in_force and isinstance(run, TrainingConfig):
        ends["curriculum.switch"] = math.ceil(curriculum.switch / run.ranker.rounds_per_iteration)
    if curriculum.paces:
        ends["curriculum.T"] = math.ceil(curriculum.T * iterations - 1e-9)
    if curriculum.weighting != "none":
        ends["curriculum.m"] = curriculum.m
    if "curriculum.switch_at" in in_force:
        ends["curriculum.switch_at"] = math.ceil(curriculum.switch_at * iterations - 1e-9)
    return ends


class Decision(Enum):
    GO_ON = "go on"
    STOP = "stop"  # the trial ends early
    PAUSE = "pause"  # the trial gives up its slot; `next_paused` may name it later


@dataclass(frozen=True)
class Setup:
    """What schedulers read of an experiment: `training.max_iterations`, and the `search.*` keys of the same names."""

    max_iterations: int
    reduction_factor: float = 3
    grace: str | int = "curriculum"
    first_rung: int = 1
    promotion: bool = False

    @property
    def first(self) -> int:
        """The first iteration at which a trial may be compared: `first_rung`, or a number given as grace."""
        return self.grace if isinstance(self.grace, int) else self.first_rung

    @property
    def rungs(self) -> list[int]:
        """The iterations `first` · ηᵏ, at which trials are compared."""
        return rungs(self.first, self.reduction_factor, self.max_iterations)


def rungs(first: int, eta: float, max_iterations: int) -> list[int]:
    """The iterations first · ηᵏ below `max_iterations`, rounded down, each once."""
    values, budget = [], float(first)
    while (rung := math.floor(budget + 1e-9)) < max_iterations:
        values.append(rung)
        budget *= eta
    return sorted(set(values))


@dataclass
class Scheduler:
    """Lets every trial go on to its end (`search.scheduler: none`); other schedulers override what they decide.

    has_rungs     whether it compares trials at rungs alone
    can_pause     whether trials may wait, so that the best of them go on later (`search.promotion`)
    """

    has_rungs: ClassVar[bool] = False
    can_pause: ClassVar[bool] = False

    setup: Setup
    graces: dict[str, int] = field(default_factory=dict)
    best: dict[str, float] = field(default_factory=dict)
    all_started: bool = False  # set from outside once no new configuration comes; some may still run

    def start(self, trial: str, grace: int, end: int = 0) -> None:
        """A trial begins, not to be stopped before iteration `grace`; its curriculum ends with iteration `end`. Not
        called for a trial that is never stopped, such as the baseline."""
        self.graces[trial] = grace

    def on_result(self, trial: str, iteration: int, value: float) -> Decision:
        """What becomes of the trial after an iteration (from 1) with `value`, which may be NaN. Trials that were not
        started go on."""
        best = self.best.get(trial, -math.inf)
        self.best[trial] = best if math.isnan(value) else max(best, value)
        return self.decide(trial, iteration) if trial in self.graces else Decision.GO_ON

    def decide(self, trial: str, iteration: int) -> Decision:
        """`on_result` for a trial that was started, after its value was recorded."""
        return Decision.GO_ON

    def next_paused(self, last: bool) -> str | None:
        """The paused trial that is to go on before any new one starts. `last`: no new trial will come, and none
        runs."""
        return None

    def resumed(self, trial: str) -> None:
        """A paused trial goes on."""

    def ended(self, trial: str, completed: bool) -> None:
        """A trial has ended, whatever its outcome. `completed`: by itself, if only by patience."""

    def forget(self, trial: str) -> None:
        """A trial that has ended had failed: others are no longer compared with what it reported."""
        self.best.pop(trial, None)
