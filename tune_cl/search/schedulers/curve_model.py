"""Learning curves of one search as draws of one random-effects model; where curricula end is known."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

STEPS = 2  # of expectation-maximisation for each new value
WEIGHT = 3.0  # trials that the prior covariance counts for
SMALLEST_VARIANCE = 1e-7


@dataclass
class Curve:
    """What least squares need of a trial's values; `end`: iteration with which its curriculum ends, 0 without one."""

    end: int
    points: int = 0
    xx: np.ndarray = field(default_factory=lambda: np.zeros((3, 3)))
    xy: np.ndarray = field(default_factory=lambda: np.zeros(3))
    y: float = 0.0
    yy: float = 0.0

    def add(self, value: float) -> None:
        """Takes in the value after the next iteration."""
        self.points += 1
        x = basis(self.points, self.end)
        self.xx, self.xy = self.xx + np.outer(x, x), self.xy + value * x
        self.y, self.yy = self.y + value, self.yy + value**2


@dataclass
class CurveModel:
    """A trial whose curriculum ends at e has after iteration t the value

        y(t) = level + slope · log t + gain · [t > e] · (1 - (t - e + 1)^(-1/2)) + noise,

    without the gain where it has no curriculum. The coefficients of the trials are draws of one normal distribution,
    whose mean and covariance are, with the variance of the noise, those of maximal posterior probability given all
    values of the search, by expectation-maximisation (Laird & Ware 1982). So what a few trials show of slopes, and of
    gains past the end of a curriculum, is expected of those that have not come as far. The covariance has an inverse
    Wishart prior that counts for WEIGHT trials, by which each term adds to y(last) the variance of all values seen.

    Each value taken in moves the estimates by STEPS steps; the state is a function of the values in their order.
    """

    last: int  # iterations of a whole training, for which values are forecast
    curves: dict[str, Curve] = field(default_factory=dict)
    mean: np.ndarray = field(default_factory=lambda: np.zeros(3))
    covariance: np.ndarray = field(default_factory=lambda: np.zeros((3, 3)))
    noise: float = 0.0

    def start(self, trial: str, end: int) -> None:
        self.curves[trial] = Curve(end)

    def add(self, trial: str, iteration: int, value: float) -> None:
        """A trial's value after an iteration. One that is no number is passed over, with all that follow."""
        curve = self.curves[trial]
        if curve.points == iteration - 1 and math.isfinite(value):
            curve.add(value)
            self._refine()

    def known(self, trial: str) -> bool:
        """Whether the trial has values to go by."""
        return self.curves[trial].points > 0

    def _refine(self) -> None:
        seen = [curve for curve in self.curves.values() if curve.points]
        count = sum(curve.points for curve in seen)
        mean = sum(curve.y for curve in seen) / count
        scale = max(sum(curve.yy for curve in seen) / count - mean**2, SMALLEST_VARIANCE)
        prior = scale * np.diag([1, math.log(max(self.last, 2)) ** -2, 1])
        if not self.noise:
            self.mean, self.covariance, self.noise = np.array([mean, 0, 0]), prior, scale / 2
        on_mean = np.diag([0, 1, 1]) @ np.linalg.inv(4 * prior)  # of the order of all differences, at most
        for _ in range(STEPS):
            coefficients, spread = self._posterior(seen)
            precision = np.linalg.inv(self.covariance)
            weighted = precision @ coefficients.sum(axis=0)
            self.mean = np.linalg.solve(len(seen) * precision + on_mean, weighted)
            apart = coefficients - self.mean
            scatter = apart.T @ apart + spread.sum(axis=0) + WEIGHT * prior
            self.covariance = scatter / (len(seen) + WEIGHT)
            self.noise = max((residuals(seen, coefficients, spread) + scale / 5) / (count + 1), SMALLEST_VARIANCE)

    def _posterior(self, curves: Sequence[Curve]) -> tuple[np.ndarray, np.ndarray]:
        """Mean [n, 3] and covariance [n, 3, 3] of each curve's coefficients."""
        precision = np.linalg.inv(self.covariance)
        covariance = np.linalg.inv(precision + np.stack([curve.xx for curve in curves]) / self.noise)
        weighted = precision @ self.mean + np.stack([curve.xy for curve in curves]) / self.noise
        return np.einsum("nij,nj->ni", covariance, weighted), covariance

    def forecast(self, trials: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        """Mean and standard deviation of the noiseless y(last) of each trial, [n]."""
        curves = [self.curves[trial] for trial in trials]
        coefficients, covariance = self._posterior(curves)
        last = np.stack([basis(self.last, curve.end) for curve in curves])
        variance = np.einsum("ni,nij,nj->n", last, covariance, last)
        return np.sum(last * coefficients, axis=1), np.sqrt(variance)

    def forecast_new(self) -> tuple[float, float]:
        """`forecast` for a trial that has not begun: its curriculum may be that of any of the others."""
        last = np.stack([basis(self.last, curve.end) for curve in self.curves.values()])
        means = last @ self.mean
        variance = np.einsum("ni,ij,nj->n", last, self.covariance, last).mean() + means.var()
        return float(means.mean()), math.sqrt(variance)


def basis(t: int, end: int) -> np.ndarray:
    """The curve's terms after iteration t, float64 [3]."""
    after = max(t - end, 0) if end else 0
    return np.array([1.0, math.log(t), 1 - (after + 1) ** -0.5])


def residuals(curves: Sequence[Curve], coefficients: np.ndarray, spread: np.ndarray) -> float:
    """Expected sum of squared residuals, of coefficients with these means [n, 3] and covariances [n, 3, 3]."""
    xx, xy = np.stack([curve.xx for curve in curves]), np.stack([curve.xy for curve in curves])
    fitted = np.einsum("ni,nij,nj->", coefficients, xx, coefficients) - 2 * np.sum(coefficients * xy)
    return float(sum(curve.yy for curve in curves) + fitted + np.sum(spread * xx))
