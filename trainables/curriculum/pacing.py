"""Pacing functions: the share of the easy-first order that is open at a step (Penha & Hauff 2020, Table 3)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
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
    stages     S of pacing step
    reference  paper: the share is δ at step 0 and 1 from T on (for quadratic and cubic, which the paper lacks, only
               after T); code: the bare formula, capped at 1
    """

    pacing: str
    horizon: float
    delta: float = CODE_DELTA
    n: float = 2
    stages: int = 3
    reference: str = "paper"

    def share(self, step: float) -> float:
        """Share open at an optimiser step (from 0), in (0, 1]; it never falls. Raises WorkFailed if a pacing gives none
        of it."""
        pacing = PACINGS[self.pacing]
        if self.reference == "paper" and (step > self.horizon or (step == self.horizon and pacing.ends_at_one)):
            return 1.0
        share = min(1.0, pacing.function(step / self.horizon, self))
        if not share > 0:
            raise WorkFailed(f"curriculum.pacing: '{self.pacing}' gives the share {share} at step {step:g}")
        return share


@dataclass(frozen=True)
class Pacing:
    """A pacing function f of the elapsed share x = step / T, the keys it reads besides T, and whether f(1) = 1."""

    function: Callable[[float, Schedule], float]
    needs: frozenset[str] = frozenset({"delta"})
    ends_at_one: bool = True


KEYS = frozenset({"delta", "n", "stages", "reference"})
PACINGS: Registry[Pacing] = Registry("curriculum.pacing", open_to_plugins=True)


def pacing(
    name: str, summary: str = "", source: str = "", *, needs: Iterable[str] = ("delta",), ends_at_one: bool = True
) -> Callable[[Part], Part]:
    """Registers a function of (x, schedule) as a pacing: the share that is open at x = step / T, in (0, 1].

    needs        the keys of `curriculum` that it reads besides T: delta, n, stages, reference
    ends_at_one  whether everything is open at T; if not, it is open behind T
    """

    def value(function: Any) -> Pacing:
        require_arguments(function, "x", "schedule")
        return Pacing(function, require_known(needs, KEYS), ends_at_one)

    return PACINGS.decorator(name, summary, source, value)


@pacing("none", "everything is open from the start (plain training)", "baseline", needs=())
def none(x: float, schedule: Schedule) -> float:
    """Plain training: everything is open at all times."""
    return 1.0


@pacing("step", "opens in stages: delta, .66, all", PENHA, needs=("delta", "stages", "reference"))
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


@pacing("linear", "share grows by the same amount each step", PENHA)
def linear(x: float, schedule: Schedule) -> float:
    return x * (1 - schedule.delta) + schedule.delta


@pacing("root", "share grows fast at first, faster with a larger n", PENHA, needs=("delta", "n"))
def root(x: float, schedule: Schedule) -> float:
    """(x (1 - δⁿ) + δⁿ)^(1/n), through logarithms so that δⁿ may underflow (n = 50 and more)."""
    delta, n = schedule.delta, schedule.n
    power = math.exp(n * math.log(delta))
    return (x * (1 - power) + power) ** (1 / n) if x > 0 else delta


@pacing("geometric", "share grows slowly at first", PENHA)
def geometric(x: float, schedule: Schedule) -> float:
    """δ^(1 - x), with x capped at 1: beyond it the code's value exceeds 1 and is capped anyway."""
    return schedule.delta ** (1 - min(x, 1.0))


@pacing("quadratic", "share grows with the square of the step", CODE, needs=("delta", "reference"), ends_at_one=False)
def quadratic(x: float, schedule: Schedule) -> float:
    """In the paper's code only. Its exponent 1.54 fits δ = .33, for which the share reaches 1 at T."""
    return (x * (1 - schedule.delta**1.54)) ** 2 + schedule.delta


@pacing("cubic", "share grows with the cube of the step", CODE, needs=("delta", "reference"), ends_at_one=False)
def cubic(x: float, schedule: Schedule) -> float:
    """In the paper's code only. With δ = .33 the bare formula gives .998 at T."""
    return (x * (1 - schedule.delta**1.87)) ** 3 + schedule.delta
