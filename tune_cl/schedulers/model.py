"""Models the learning curves of a search as draws from one random-effects model, given where curricula end."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from tune_cl.schedulers.scheduler import Decision, Scheduler

STEPS = 2  # of expectation-maximisation after each new value
WEIGHT = 3.0  # trials that the prior of the covariance counts as
SMALLEST_VARIANCE = 1e-7


@dataclass
class Curve:
    """A trial's row in Sums (`row`) and number of values (`points`); `end`: iteration with which its curriculum ends,
    0 without one."""

    row: int
    end: int
    points: int = 0


class Sums:
    """The sums that least squares need, with a row for each curve. They are arrays over all curves because each new
    value re-estimates the model from all of them."""

    def __init__(self) -> None:
        self.points = np.zeros(64, np.int64)  # values of each curve; this and the next three have room for more rows
        self.xx, self.xy, self.last = np.zeros((64, 3, 3)), np.zeros((64, 3)), np.zeros((64, 3))
        self.y: list[float] = []
        self.yy: list[float] = []

    @property
    def count(self) -> int:
        """Values in all."""
        return int(self.points.sum())

    def begin(self, last: np.ndarray) -> int:
        """Adds a curve; returns its row. `last`: its terms after the last iteration."""
        row = len(self.y)
        if row == len(self.points):
            arrays = (self.points, self.xx, self.xy, self.last)
            self.points, self.xx, self.xy, self.last = (np.concatenate([one, np.zeros_like(one)]) for one in arrays)
        self.last[row] = last
        self.y.append(0.0)
        self.yy.append(0.0)
        return row

    def add(self, curve: Curve, value: float) -> None:
        """Adds the value after the curve's next iteration."""
        row = curve.row
        curve.points += 1
        x = basis(curve.points, curve.end)
        self.points[row] += 1
        self.xx[row] += np.outer(x, x)
        self.xy[row] += value * x
        self.y[row], self.yy[row] = self.y[row] + value, self.yy[row] + value**2

    def forget(self, curve: Curve) -> None:
        """Removes a curve's values; its row stays empty."""
        row = curve.row
        self.points[row], self.xx[row], self.xy[row], self.y[row], self.yy[row] = 0, 0, 0, 0.0, 0.0

    def seen(self) -> np.ndarray:
        """Rows of the curves with values, int64 [n]."""
        return np.flatnonzero(self.points[: len(self.y)])


@dataclass
class CurveModel:
    """A trial whose curriculum ends at e has after iteration t the value

        y(t) = level + slope · log t + gain · [t > e] · (1 - (t - e + 1)^(-1/2)) + noise,

    without the gain if it has no curriculum. The trials' coefficients are draws from one normal distribution. Its mean
    and covariance, and the variance of the noise, are the values of highest posterior probability given all values of
    the search, by expectation-maximisation (Laird & Ware 1982). So the slopes that a few trials show, and their
    gains past the end of a curriculum, are expected of trials that have not come as far. The covariance has an inverse
    Wishart prior that counts as WEIGHT trials; under it each term adds to y(last) the variance of all values seen.

    Each new value moves the estimates by STEPS steps; the state is a function of the values in their order.
    """

    last: int  # iterations of a whole training, after which values are forecast
    curves: dict[str, Curve] = field(default_factory=dict)
    sums: Sums = field(default_factory=Sums)
    mean: np.ndarray = field(default_factory=lambda: np.zeros(3))
    covariance: np.ndarray = field(default_factory=lambda: np.zeros((3, 3)))
    noise: float = 0.0

    def start(self, trial: str, end: int) -> None:
        self.curves[trial] = Curve(self.sums.begin(basis(self.last, end)), end)

    def add(self, trial: str, iteration: int, value: float) -> None:
        """Adds a trial's value after an iteration. One that is not finite is left out, and all that follow it."""
        curve = self.curves[trial]
        if curve.points == iteration - 1 and math.isfinite(value):
            self.sums.add(curve, value)
            self._refine()

    def forget(self, trial: str) -> None:
        """Leaves a trial's values out of the estimates from the next new value on."""
        self.sums.forget(self.curves.pop(trial))
        if not self.sums.count:
            self.noise = 0.0  # the estimates start again

    def has_values(self, trial: str) -> bool:
        """Whether the trial has any values."""
        return self.curves[trial].points > 0

    def _refine(self) -> None:
        seen, count, squares = self.sums.seen(), self.sums.count, sum(self.sums.yy)
        xx, xy = self.sums.xx[seen], self.sums.xy[seen]
        mean = sum(self.sums.y) / count
        scale = max(squares / count - mean**2, SMALLEST_VARIANCE)
        prior = scale * np.diag([1, math.log(max(self.last, 2)) ** -2, 1])
        if not self.noise:
            self.mean, self.covariance, self.noise = np.array([mean, 0, 0]), prior, scale / 2
        on_mean = np.diag([0, 1, 1]) @ np.linalg.inv(4 * prior)  # bounds mean slope and gain by the spread of values
        for _ in range(STEPS):
            coefficients, spread = self._posterior(seen)
            precision = np.linalg.inv(self.covariance)
            weighted = precision @ coefficients.sum(axis=0)
            self.mean = np.linalg.solve(len(seen) * precision + on_mean, weighted)
            apart = coefficients - self.mean
            scatter = apart.T @ apart + spread.sum(axis=0) + WEIGHT * prior
            self.covariance = scatter / (len(seen) + WEIGHT)
            fitted = np.einsum("ni,nij,nj->", coefficients, xx, coefficients) - 2 * np.sum(coefficients * xy)
            residuals = float(squares + fitted + np.sum(spread * xx))  # the expected sum of squares
            self.noise = max((residuals + scale / 5) / (count + 1), SMALLEST_VARIANCE)

    def _posterior(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Posterior mean [n, 3] and covariance [n, 3, 3] of the coefficients of the curves in these rows."""
        precision = np.linalg.inv(self.covariance)
        covariance = np.linalg.inv(precision + self.sums.xx[rows] / self.noise)
        weighted = precision @ self.mean + self.sums.xy[rows] / self.noise
        return np.einsum("nij,nj->ni", covariance, weighted), covariance

    def forecast(self, trials: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        """Mean and standard deviation of the noiseless y(last) of each trial, [n]."""
        rows = np.array([self.curves[trial].row for trial in trials])
        coefficients, covariance = self._posterior(rows)
        last = self.sums.last[rows]
        variance = np.einsum("ni,nij,nj->n", last, covariance, last)
        return np.sum(last * coefficients, axis=1), np.sqrt(variance)

    def forecast_new(self) -> tuple[float, float]:
        """Like `forecast`, for a trial that has not started: its curriculum may end where any other trial's does."""
        last = self.sums.last[[curve.row for curve in self.curves.values()]]
        means = last @ self.mean
        variance = np.einsum("ni,ij,nj->n", last, self.covariance, last).mean() + means.var()
        return float(means.mean()), math.sqrt(variance)


def basis(t: int, end: int) -> np.ndarray:
    """The curve's terms after iteration t, float64 [3]."""
    after = max(t - end, 0) if end else 0
    return np.array([1.0, math.log(t), 1 - (after + 1) ** -0.5])


LEVEL = 0.02  # a trial goes no further if it is less likely than this to end above the best
OPTIMISM = 1.0  # standard deviations added to a forecast
FEWEST_POINTS, FEWEST_TRIALS = 2, 4


@dataclass
class Model(Scheduler):
    """Extrapolates every curve to the last iteration (`CurveModel`).

    Promotion (freeze-thaw, Swersky et al. 2014): after each iteration the next one goes to the trial with the highest
    forecast + OPTIMISM · standard deviation: the same trial, a paused one, or a new one, of which the model knows only
    how trials in general go. Once no new trial comes, a trial goes on only if its chance to end above the best value
    seen is at least LEVEL; one is run to its end in any case. The forecast knows where curricula end, so a trial may
    pause within its own; only a number as `search.grace`, or `search.first_rung`, prevents that.
    Stopping: a trial ends when its chance to end above the highest forecast of another one is below LEVEL.
    """

    can_pause: ClassVar[bool] = True

    paused: dict[str, int] = field(default_factory=dict)  # trial -> its iteration
    completed: bool = False  # whether a trial has come to its end, be it by patience

    def __post_init__(self) -> None:
        self.curves = CurveModel(self.setup.max_iterations)

    def start(self, trial: str, grace: int, end: int = 0) -> None:
        super().start(trial, grace, end)
        self.curves.start(trial, end)

    def on_result(self, trial: str, iteration: int, value: float) -> Decision:
        if trial in self.graces:
            self.curves.add(trial, iteration, value)
        return super().on_result(trial, iteration, value)

    def decide(self, trial: str, iteration: int) -> Decision:
        if iteration >= self.setup.max_iterations:
            return Decision.GO_ON
        if not self.setup.promotion:
            return Decision.STOP if self._is_hopeless(trial, iteration) else Decision.GO_ON
        if iteration < self.setup.first:
            return Decision.GO_ON
        self.paused[trial] = iteration
        if self.next_paused(last=False) != trial:
            return Decision.PAUSE
        del self.paused[trial]
        return Decision.GO_ON

    def _is_hopeless(self, trial: str, iteration: int) -> bool:
        curves = self.curves.curves
        others = [other for other, curve in curves.items() if other != trial and curve.points > FEWEST_POINTS]
        if len(others) < FEWEST_TRIALS or min(iteration, curves[trial].points) < max(self.graces[trial], FEWEST_POINTS):
            return False
        means, deviations = self.curves.forecast([trial, *others])
        return chance_above(means[0], deviations[0], means[1:].max()) < LEVEL

    def next_paused(self, last: bool) -> str | None:
        waiting = [trial for trial in self.paused if self.curves.has_values(trial)]
        all_started = last or self.all_started
        if not waiting or (len(self.graces) < FEWEST_TRIALS and not all_started):
            return None
        means, deviations = self.curves.forecast(waiting)
        promise = means + OPTIMISM * deviations
        first = int(promise.argmax())
        if not all_started:
            mean, deviation = self.curves.forecast_new()
            return waiting[first] if promise[first] >= mean + OPTIMISM * deviation else None
        if last and not self.completed:
            return waiting[first]
        highest, noise = max(self.best.values()), self.curves.noise
        for index in np.argsort(-promise, kind="stable").tolist():
            if chance_above(float(means[index]), math.sqrt(deviations[index] ** 2 + noise), highest) >= LEVEL:
                return waiting[index]
        return None

    def resumed(self, trial: str) -> None:
        del self.paused[trial]

    def ended(self, trial: str, completed: bool) -> None:
        self.paused.pop(trial, None)
        self.completed |= completed

    def forget(self, trial: str) -> None:
        super().forget(trial)
        self.curves.forget(trial)


def chance_above(mean: float, deviation: float, value: float) -> float:
    """P(X > value) for a normal variable X."""
    return 0.5 * math.erfc((value - mean) / (deviation * math.sqrt(2)))
