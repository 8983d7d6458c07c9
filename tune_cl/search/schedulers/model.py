"""A scheduler that extrapolates learning curves, the end of the curriculum being a known change point."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tune_cl.search.schedulers.base import Scheduler, Setup, Verdict

LEVEL = 0.05  # a trial ends when it is less likely than this to end above the best
FEWEST_POINTS, FEWEST_TRIALS = 2, 4
SHARE = 0.5  # of the iterations after its grace that a trial takes, on the recorded curves (docs/search.md)
SMALLEST_VARIANCE = 1e-8
RIDGE = np.diag([1e-6, 1e-2, 1e-2])  # on level, rise, gain: keeps coefficients finite that a short curve leaves open


@dataclass
class Fit:
    """Least squares of one curve: the sums it needs, and the ridge solution. `points`: evaluations taken in."""

    end: int
    points: int = 0
    xx: np.ndarray = field(default_factory=lambda: np.zeros((3, 3)))
    xy: np.ndarray = field(default_factory=lambda: np.zeros(3))
    yy: float = 0.0
    coefficients: np.ndarray = field(default_factory=lambda: np.zeros(3))

    def add(self, value: float) -> None:
        """Takes in the value after the next iteration."""
        self.points += 1
        x = basis(self.points, self.end)
        self.xx, self.xy, self.yy = self.xx + np.outer(x, x), self.xy + value * x, self.yy + value**2
        self.coefficients = np.linalg.solve(self.xx + RIDGE, self.xy)

    @property
    def residual(self) -> float:
        """Sum of squared residuals."""
        c = self.coefficients
        return max(0.0, float(self.yy - 2 * c @ self.xy + c @ self.xx @ c))

    @property
    def shows_gain(self) -> bool:
        """Whether the curve has passed the end of a curriculum."""
        return 0 < self.end < self.points


@dataclass(frozen=True)
class Prior:
    """Mean [3] and precision [3, 3] of the coefficients over a search's curves, and the variance of the noise."""

    mean: np.ndarray
    precision: np.ndarray
    noise: float

    @classmethod
    def of(cls, fits: Sequence[Fit]) -> Prior:
        """Level and rise from all curves; the gain from those that show it, with a wide prior until two do."""
        coefficients = np.stack([fit.coefficients for fit in fits])
        freedom = sum(max(1, fit.points - 3) for fit in fits)
        covariance = np.diag([SMALLEST_VARIANCE] * 3)
        covariance[:2, :2] += np.cov(coefficients[:, :2].T)
        gains = np.array([fit.coefficients[2] for fit in fits if fit.shows_gain])
        covariance[2, 2] += gains.var(ddof=1) if len(gains) > 1 else coefficients[:, 0].var(ddof=1)
        mean = np.array([*coefficients[:, :2].mean(axis=0), gains.mean() if len(gains) > 1 else 0.0])
        noise = max(sum(fit.residual for fit in fits) / freedom, SMALLEST_VARIANCE)
        return cls(mean, np.linalg.inv(covariance), noise)

    def posterior(self, fits: Sequence[Fit]) -> tuple[np.ndarray, np.ndarray]:
        """Mean [n, 3] and precision [n, 3, 3] of each curve's coefficients."""
        precision = self.precision + np.stack([fit.xx for fit in fits]) / self.noise
        weighted = self.precision @ self.mean + np.stack([fit.xy for fit in fits]) / self.noise
        return np.linalg.solve(precision, weighted[..., None])[..., 0], precision


@dataclass
class Model(Scheduler):
    """A trial ends when its curve, extrapolated to the last iteration, is unlikely to end above the best other one.

    Of a trial whose curriculum ends at e, the value after iteration t is

        y(t) = level + rise · t^(-1/2) + gain · [t > e] · (1 - (t - e + 1)^(-1/2)) + noise,

    a power law, and a second one from the end of the curriculum on; plain training has no gain. The prior of the
    coefficients is normal, its mean and covariance those of ridge fits to the search's other curves, so what the end of
    a curriculum brings is learned from trials that have passed theirs. The noise is the residual of these fits. The
    posterior of the noiseless y(last) is normal; a trial ends if P(y(last) > the highest posterior mean of another
    trial) < LEVEL. An iteration without a number is passed over, with all after it.
    """

    fits: dict[str, Fit] = field(default_factory=dict)

    def start(self, trial: str, grace: int, end: int = 0, chosen: dict[str, Any] | None = None) -> None:
        super().start(trial, grace, end, chosen)
        self.fits[trial] = Fit(end)

    def judge(self, trial: str, iteration: int, value: float, queries: Sequence[float] | None = None) -> Verdict:
        fit = self.fits.get(trial)
        if fit and fit.points == iteration - 1 and math.isfinite(value):
            fit.add(value)
        return super().judge(trial, iteration, value, queries)

    def verdict(self, trial: str, iteration: int, queries: Sequence[float] | None) -> Verdict:
        others = [fit for name, fit in self.fits.items() if name != trial and fit.points > FEWEST_POINTS]
        own = self.fits[trial]
        first = max(self.graces[trial], FEWEST_POINTS)
        if len(others) < FEWEST_TRIALS or own.points < first or iteration >= self.setup.max_iterations:
            return Verdict.GO_ON
        mean, precision = Prior.of(others).posterior([own, *others])
        last = np.stack([basis(self.setup.max_iterations, fit.end) for fit in (own, *others)])
        ends = np.sum(last * mean, axis=1)
        deviation = math.sqrt(float(last[0] @ np.linalg.solve(precision[0], last[0])))
        return Verdict.STOP if chance_above(ends[0], deviation, ends[1:].max()) < LEVEL else Verdict.GO_ON

    def expected_iterations(self, grace: int) -> float:
        before = min(max(grace, FEWEST_POINTS), self.setup.max_iterations)
        return before + SHARE * (self.setup.max_iterations - before)


def basis(t: int, end: int) -> np.ndarray:
    """The curve's terms after iteration t with a curriculum that ends at `end` (0: there is none), float64 [3]."""
    after = max(t - end, 0) if end else 0
    return np.array([1.0, t**-0.5, 1 - (after + 1) ** -0.5])


def chance_above(mean: float, deviation: float, value: float) -> float:
    """P(X > value) of a normal variable X."""
    return 0.5 * math.erfc((value - mean) / (deviation * math.sqrt(2)))


def make_model(setup: Setup) -> Model:
    return Model(setup)
