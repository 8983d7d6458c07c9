"""Two objectives: the metric on dev, and the training time it took."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from tune_cl.state import SearchState


@dataclass(frozen=True)
class Priced:
    """A trial's best dev value, and the iterations and seconds of training until it was reached."""

    trial_id: str
    dev: float
    iterations: int
    seconds: float


def priced(state: SearchState) -> list[Priced]:
    """Every trial that gave a dev value and did not fail, the baseline included, in order of number."""
    found = []
    for trial in state.by_number():
        at = trial.best(state.metric)
        if at and trial.outcome != "failed":
            reached = trial.offset + at.iteration  # counted over all its trainings
            spent = [values["seconds"] for iteration, values in trial.results.items() if iteration <= reached]
            found.append(Priced(trial.trial, at.dev, reached, sum(spent)))
    return found


def front(trials: list[Priced]) -> list[Priced]:
    """The Pareto set, cheapest first: trials whose dev value no other reaches in as few seconds; of equals, one."""
    kept: list[Priced] = []
    for trial in sorted(trials, key=lambda trial: (trial.seconds, -trial.dev)):
        if not kept or trial.dev > kept[-1].dev:
            kept.append(trial)
    return kept


def pareto(state: SearchState) -> list[dict[str, Any]]:
    """The Pareto set as the result document shows it."""
    return [asdict(trial) for trial in front(priced(state))]
