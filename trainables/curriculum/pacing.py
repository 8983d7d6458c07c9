"""Pacing functions: the part of the easy-first order that is open at a step (Penha & Hauff 2020, Table 3; others)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from trainables.core.errors import WorkFailed
from trainables.core.registry import Part, Registry, require_arguments, require_known

PENHA = "Penha & Hauff 2020, Table 3"
CODE = "code of Penha & Hauff 2020"
CODE_DELTA = 0.33  # start share in the paper's code; its exponents of quadratic and cubic fit this value


@dataclass(frozen=True)
class Schedule:
    """A pacing function with everything it reads.

    horizon    T, the optimiser step at which the curriculum ends
    delta      δ, the share at step 0
    n          root of pacing root
    stages     S of the pacings with stages
    reference  paper: the share is δ at step 0 and 1 from T on (for quadratic and cubic, which the paper lacks, only
               after T); code: the bare formula, capped at 1
    final_share  F: the order ends there, as if its hardest 1 - F did not exist
    patience   iterations without a better dev value until pacing adaptive opens the next stage
    stalls     how often dev has stopped rising, see `after`
    """

    pacing: str
    horizon: float
    delta: float = CODE_DELTA
    n: float = 2
    stages: int = 3
    reference: str = "paper"
    final_share: float = 1.0
    patience: int = 2
    stalls: int = 0

    def share(self, step: float) -> float:
        """Share open at an optimiser step (from 0), in (0, 1]; it never falls. Raises WorkFailed if a pacing gives none
        of it."""
        start, end = self.bounds(step)
        return end - start

    def bounds(self, step: float) -> tuple[float, float]:
        """Where the open part of the order starts and ends, as shares of the order."""
        if self.final_share < 1:
            whole = replace(self, delta=min(1.0, self.delta / self.final_share), final_share=1.0)
            start, end = whole.bounds(step)
            return self.final_share * start, self.final_share * end
        pacing = PACINGS[self.pacing]
        if self.reference == "paper" and (step > self.horizon or (step == self.horizon and pacing.ends_at_one)):
            return 0.0, 1.0
        end = min(1.0, pacing.function(step / self.horizon, self))
        start = pacing.start(step / self.horizon, self) if pacing.start else 0.0
        if not end > start:
            raise WorkFailed(f"curriculum.pacing: '{self.pacing}' gives the fraction {end - start} at step {step:g}")
        return start, end

    def after(self, dev: Sequence[float]) -> Schedule:
        """The schedule once these dev values, one of each iteration so far, are known; only pacing adaptive reads them,
        so that a resumed training, which has them in its history, opens what an unbroken one does."""
        if "patience" not in PACINGS[self.pacing].needs:
            return self
        return replace(self, stalls=stalls(dev, self.patience))


@dataclass(frozen=True)
class Pacing:
    """A pacing function f of the elapsed share x = step / T, the keys it reads besides T, and whether f(1) = 1.

    start  for a pacing that closes the easy part again: where the open part starts, as a function of the same; f is
           then where it ends
    """

    function: Callable[[float, Schedule], float]
    needs: frozenset[str] = frozenset({"delta"})
    ends_at_one: bool = True
    start: Callable[[float, Schedule], float] | None = None


KEYS = frozenset({"delta", "n", "stages", "reference", "patience"})
PACINGS: Registry[Pacing] = Registry("curriculum.pacing", open_to_plugins=True)


def pacing(
    name: str,
    summary: str = "",
    source: str = "",
    *,
    needs: Iterable[str] = ("delta",),
    ends_at_one: bool = True,
    start: Callable[[float, Schedule], float] | None = None,
) -> Callable[[Part], Part]:
    """Registers a function of (x, schedule) as a pacing: the share that is open at x = step / T, in (0, 1].

    needs        the keys of `curriculum` that it reads besides T: delta, n, stages, reference, patience
    ends_at_one  whether everything is open at T; if not, it is open behind T
    start        as in Pacing
    """

    def value(function: Any) -> Pacing:
        require_arguments(function, "x", "schedule")
        return Pacing(function, require_known(needs, KEYS), ends_at_one, start)

    return PACINGS.decorator(name, summary, source, value)


@pacing("none", "everything from the start (plain training)", "baseline", needs=())
def none(x: float, schedule: Schedule) -> float:
    """Plain training: everything is open at all times."""
    return 1.0


@pacing("step", "in stages: delta, .66, all", PENHA, needs=("delta", "stages", "reference"))
def stepwise(x: float, schedule: Schedule) -> float:
    """S stages: δ is open first, max(δ, cₖ₊₁) once x exceeds cₖ = k/S (cut to two digits), everything in the last.

    With S = 3 these are the paper's δ, .66 and 1, with changes at .33 T and .66 T. The code opens .33 first for any δ.
    """
    stages = schedule.stages
    stage = sum(x > _cut(k, stages) for k in range(1, stages))
    if stage == stages - 1:
        return 1.0
    first = _cut(1, stages) if schedule.reference == "code" else schedule.delta
    return max(first, _cut(stage + 1, stages)) if stage else first


def _cut(k: int, stages: int) -> float:
    return (100 * k // stages) / 100


@pacing("linear", "fraction grows by the same amount each step: x(1 - δ) + δ", PENHA)
def linear(x: float, schedule: Schedule) -> float:
    return x * (1 - schedule.delta) + schedule.delta


@pacing(
    "root", "fraction grows fast at first, faster with a larger n: (x(1 - δⁿ) + δⁿ)^(1/n)", PENHA, needs=("delta", "n")
)
def root(x: float, schedule: Schedule) -> float:
    """(x (1 - δⁿ) + δⁿ)^(1/n), through logarithms so that δⁿ may underflow (n = 50 and more)."""
    delta, n = schedule.delta, schedule.n
    power = math.exp(n * math.log(delta))
    return (x * (1 - power) + power) ** (1 / n) if x > 0 else delta


@pacing("geometric", "fraction grows slowly at first: δ^(1 - x)", PENHA)
def geometric(x: float, schedule: Schedule) -> float:
    """δ^(1 - x), with x capped at 1: beyond it the code's value exceeds 1 and is capped anyway."""
    return schedule.delta ** (1 - min(x, 1.0))


@pacing(
    "quadratic",
    "fraction grows with the square of the step: (x(1 - δ^1.54))² + δ",
    CODE,
    needs=("delta", "reference"),
    ends_at_one=False,
)
def quadratic(x: float, schedule: Schedule) -> float:
    """In the paper's code only. Its exponent 1.54 fits δ = .33, for which the share reaches 1 at T."""
    return (x * (1 - schedule.delta**1.54)) ** 2 + schedule.delta


@pacing(
    "cubic",
    "fraction grows with the cube of the step: (x(1 - δ^1.87))³ + δ",
    CODE,
    needs=("delta", "reference"),
    ends_at_one=False,
)
def cubic(x: float, schedule: Schedule) -> float:
    """In the paper's code only. With δ = .33 the bare formula gives .998 at T."""
    return (x * (1 - schedule.delta**1.87)) ** 3 + schedule.delta


@pacing("competence", "the sqrt competence: root with n = 2", "Platanios et al. 2019")
def competence(x: float, schedule: Schedule) -> float:
    """sqrt(x (1 - δ²) + δ²): the square-root competence c_sqrt of Platanios et al. 2019 ("Competence-based Curriculum
    Learning for Neural Machine Translation"), whose c₀ is δ. It is pacing root with n = 2."""
    return root(x, replace(schedule, n=2))


def stage_of(x: float, stages: int) -> int:
    """The stage, from 0, of S equally long ones at x; S at x = 1 and behind it."""
    return min(stages, math.floor(x * stages + 1e-9))


@pacing(
    "baby_steps",
    "equal stages, each with one more of equally large parts: (k + 1)/S in stage k",
    "Bengio et al. 2009; Spitkovsky et al. 2010",
    needs=("stages",),
)
def baby_steps(x: float, schedule: Schedule) -> float:
    """(k + 1) / S in stage k of S: each stage keeps the parts before it (Spitkovsky et al. 2010, "From Baby Steps to
    Leapfrog"; named so by Cirik et al. 2016, where a stage lasts until convergence, as in `adaptive`)."""
    return (stage_of(x, schedule.stages) + 1) / schedule.stages


def closed_before(x: float, schedule: Schedule) -> float:
    """k / S in stage k of S; nothing is closed from T on."""
    stage = stage_of(x, schedule.stages)
    return stage / schedule.stages if stage < schedule.stages else 0.0


@pacing(
    "one_pass",
    "equal stages, each with the next of equally large parts alone, then everything",
    "Bengio et al. 2009; Cirik et al. 2016",
    needs=("stages",),
    start=closed_before,
)
def one_pass(x: float, schedule: Schedule) -> float:
    """In stage k of S, the part of the order from k / S to (k + 1) / S is open and nothing else (Bengio et al. 2009,
    "Curriculum Learning", whose last stage is the target itself; named so by Cirik et al. 2016).
    Everything is open from T on; with T = 1, never."""
    return min(1.0, baby_steps(x, schedule))


def stalls(dev: Sequence[float], patience: int) -> int:
    """How often dev values, one of each iteration, have stopped rising: for `patience` iterations none was above the
    best before them. The count of iterations begins again with each stall."""
    count, waited, best = 0, 0, -math.inf
    for value in dev:
        waited = 0 if value > best else waited + 1
        best = max(best, value)
        if waited == patience:
            count, waited = count + 1, 0
    return count


@pacing(
    "adaptive",
    "the next stage comes when dev has stopped rising, δ + (1 - δ) k/(S - 1) in stage k; everything from T on",
    "Cirik et al. 2016",
    needs=("delta", "stages", "patience"),
)
def adaptive(x: float, schedule: Schedule) -> float:
    """δ + (1 - δ) k / (S - 1) after k stalls of dev (`stalls`): baby steps whose stages end as in Cirik et al. 2016,
    when the ranker no longer gains from them. Everything is open from T on."""
    stage = schedule.stages - 1 if x >= 1 else min(schedule.stalls, schedule.stages - 1)
    return schedule.delta + (1 - schedule.delta) * stage / (schedule.stages - 1)
