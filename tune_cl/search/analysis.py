"""How much selection flatters the best of a search's results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

NEIGHBOURS = 1  # evaluations on either side of the best that are averaged with it
FEWEST = 3  # trials


def selection_bias(curves: Mapping[str, Sequence[float]]) -> float | None:
    """The best dev value minus the value expected of its trial without the luck of selection.

    `curves`: each trial's dev values in order of iteration. Two selections are undone. That of a trial's best
    evaluation: the trial's level is the mean over this one and its neighbours. That of the best trial: levels are
    shrunk towards their mean by τ²/(τ² + σ²/k) (empirical Bayes; Efron 2011, "Tweedie's formula and selection bias"),
    where σ² is the noise of an evaluation (a sixth of the mean squared second difference of the curves), k the number
    of evaluations averaged, and τ² the variance of the true levels. Noise between seeds is not seen, so the bias is at
    least this. None for fewer than three trials with three evaluations each.
    """
    arrays = [np.asarray(values, float) for values in curves.values() if len(values) >= 3]
    arrays = [values for values in arrays if np.isfinite(values).all()]
    if len(arrays) < FEWEST:
        return None
    noise = float(np.mean(np.concatenate([np.diff(values, 2) ** 2 for values in arrays]))) / 6
    levels, errors = np.array([_level(values, noise) for values in arrays]).T
    between = max(0.0, float(levels.var(ddof=1) - errors.mean()))
    best = int(np.argmax([values.max() for values in arrays]))
    shrunk = levels.mean() + (levels[best] - levels.mean()) * (between / (between + errors[best]) if between else 0.0)
    return float(max(values.max() for values in arrays) - shrunk)


def _level(values: np.ndarray, noise: float) -> tuple[float, float]:
    """The mean about the best evaluation, and the variance of its noise."""
    best = int(values.argmax())
    near = values[max(0, best - NEIGHBOURS) : best + NEIGHBOURS + 1]
    return float(near.mean()), noise / len(near)
