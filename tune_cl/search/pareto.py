"""Two objectives: the metric on dev, and the training it took."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from tune_cl.state import SearchState


@dataclass(frozen=True)
class Priced:
    """A trial's best dev value; iterations and seconds of training until it was reached."""

    trial_id: str
    dev: float
    iterations: int
    seconds: float


def priced(state: SearchState) -> list[Priced]:
    """Every trial that gave a dev value and did not fail, the baseline included, by number."""
    found = []
    for trial in state.by_number():
        at = trial.best(state.metric)
        if at and trial.outcome != "failed":
            reached = trial.offset + at.iteration  # of all its trainings
            spent = [values["seconds"] for iteration, values in trial.results.items() if iteration <= reached]
            found.append(Priced(trial.trial, at.dev, reached, sum(spent)))
    return found


def front(trials: list[Priced]) -> list[Priced]:
    """The Pareto set, cheapest first: those that no other beats in one of dev and seconds and equals in the other."""
    kept: list[Priced] = []
    for trial in sorted(trials, key=lambda trial: (trial.seconds, -trial.dev)):
        if not kept or trial.dev > kept[-1].dev:
            kept.append(trial)
    return kept


def pareto(state: SearchState) -> list[dict[str, Any]]:
    """The Pareto set as the result document shows it."""
    return [asdict(trial) for trial in front(priced(state))]
