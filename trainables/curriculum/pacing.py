"""Pacing functions: the share of the easy-first order that is open at a step (Penha & Hauff 2020, Table 3).

Each takes the elapsed share of the curriculum x = s / T in [0, 1), the start share δ and the root n; the
caller holds the share at 1 from T on.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from trainables.registry import Entry, Registry


def step(x: float, delta: float, n: float) -> float:
    """Three stages: δ, .66 and 1, entered after .33 T and .66 T."""
    if x <= 0.33:
        return delta
    return max(delta, 0.66) if x <= 0.66 else 1.0


def linear(x: float, delta: float, n: float) -> float:
    return x * (1 - delta) + delta


def root(x: float, delta: float, n: float) -> float:
    """(x (1 - δⁿ) + δⁿ)^(1/n), through logarithms so that δⁿ may underflow (n = 50 and more)."""
    power = math.exp(n * math.log(delta))
    return (x * (1 - power) + power) ** (1 / n) if x > 0 else delta


def geometric(x: float, delta: float, n: float) -> float:
    return 2 ** ((1 - x) * math.log2(delta))


def quadratic(x: float, delta: float, n: float) -> float:
    """In the paper's code only. Its exponent 1.54 fits δ = .33, where the share meets 1 at T."""
    return (x * (1 - delta**1.54)) ** 2 + delta


def cubic(x: float, delta: float, n: float) -> float:
    """In the paper's code only. With δ = .33 the share is .998 just before T."""
    return (x * (1 - delta**1.87)) ** 3 + delta


def none(x: float, delta: float, n: float) -> float:
    """Plain training: everything is open at all times."""
    return 1.0


@dataclass(frozen=True)
class Pacing:
    """A pacing function and the keys it reads besides δ and T."""

    function: Callable[[float, float, float], float]
    needs: frozenset[str] = frozenset()

    def share(self, step: float, horizon: float, delta: float = 0.33, n: float = 2) -> float:
        """Share open at optimiser step `step` (from 0) when the curriculum ends at step `horizon` (T)."""
        if step >= horizon:
            return 1.0
        return min(1.0, self.function(step / horizon, delta, n))


PENHA = "Penha & Hauff 2020, Table 3"
PACINGS: Registry[Pacing] = Registry(
    "curriculum.pacing",
    Entry("none", Pacing(none), "everything is open from the start (plain training)", "baseline"),
    Entry("step", Pacing(step), "three stages: delta, .66, all", PENHA),
    Entry("linear", Pacing(linear), "share grows by the same amount each step", PENHA),
    Entry("root", Pacing(root, frozenset({"n"})), "share grows fast at first, faster with a larger n", PENHA),
    Entry("geometric", Pacing(geometric), "share grows slowly at first", PENHA),
    Entry("quadratic", Pacing(quadratic), "share grows with the square of the step", "code of Penha & Hauff 2020"),
    Entry("cubic", Pacing(cubic), "share grows with the cube of the step", "code of Penha & Hauff 2020"),
)
