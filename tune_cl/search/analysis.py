"""What a search's results say: the Pareto set of dev value and time, and how much selection flatters the best."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from tune_cl.history.state import SearchState


@dataclass(frozen=True)
class Priced:
    """A trial's best dev value, and the iterations and seconds of training until it was reached."""

    trial_id: str
    dev: float
    iterations: int
    seconds: float


def priced(state: SearchState) -> list[Priced]:
    """Every trial that gave a dev value and did not fail, the baseline included, in order of number."""
    entries = []
    for trial in state.by_number():
        at = trial.best(state.metric)
        if at and trial.outcome != "failed":
            reached = trial.offset + at.iteration  # counted over all its trainings
            spent = [values["seconds"] for iteration, values in trial.results.items() if iteration <= reached]
            entries.append(Priced(trial.trial, at.dev, reached, sum(spent)))
    return entries


def front(trials: list[Priced]) -> list[Priced]:
    """The Pareto set, cheapest first: trials whose dev value no other reaches in as few seconds; of equals, one."""
    best: list[Priced] = []
    for trial in sorted(trials, key=lambda trial: (trial.seconds, -trial.dev)):
        if not best or trial.dev > best[-1].dev:
            best.append(trial)
    return best


def pareto(state: SearchState) -> list[dict[str, Any]]:
    """The Pareto set as the result document shows it."""
    return [asdict(trial) for trial in front(priced(state))]


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
