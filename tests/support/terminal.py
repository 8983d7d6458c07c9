"""A terminal, and a search's result to show on it."""

from __future__ import annotations

from io import StringIO
from typing import Any

from tune_cl.results import PLAIN_TRAINING, SearchResult, Trial


class Terminal(StringIO):
    """A terminal as wide as COLUMNS says."""

    def isatty(self) -> bool:
        return True


def result(best: float, baseline: float, tuned: float | None = None, **other: Any) -> SearchResult:
    """Of two curricula and the default, with these values on dev; `tuned`: of another plain trial."""
    params = {"curriculum.pacing": "step", "curriculum.anti": False, "training.lr": 3e-5, "curriculum.m": 10.0}
    off = {"curriculum.pacing": "none", "curriculum.anti": False}
    trials = [
        Trial(trial_id="t0000", label="plain, default", arm="plain", outcome="completed", dev=baseline, mean=baseline,
              iteration=3, iterations=3, params=off | {"training.lr": 1e-3}),
        Trial(trial_id="t0001", label="pacing=step lr=3e-5", arm="curriculum", outcome="completed", dev=best, mean=best,
              iteration=2, iterations=3, params=params),
        Trial(trial_id="t0002", label="pacing=step", arm="curriculum", outcome="stopped_early", dev=min(best, 0.1),
              mean=min(best, 0.1), iteration=1, iterations=2, params=params),
    ]  # fmt: skip
    if tuned is not None:
        better = {"dev": tuned, "mean": tuned, "iteration": 1, "iterations": 2, "params": off | {"training.lr": 0.1}}
        trials.append(Trial(trial_id="t0003", label="plain lr=0.1", arm="plain", outcome="completed", **better))
    plain = "t0003" if tuned is not None and tuned > baseline else "t0000"
    values: dict[str, Any] = dict.fromkeys(("name", "space", "ranker", "data", "metric"), "x")
    values |= dict.fromkeys(("effects", "first_stage", "label_free", "ended_by", "mlflow_run_id"))
    values |= {"plain": PLAIN_TRAINING, "configuration": {}, "trials": tuple(trials), "remarks": ()}
    values |= {"best": "t0001" if best > baseline else plain, "best_curriculum": "t0001", "best_plain": plain}
    values |= {"default": "t0000", "iterations": 8, "seconds": 1.0}
    values |= {"storage": "/tmp/runs", "tracking_uri": "http://here", "checkpoint": "/tmp/runs/x/trials/best-ranker"}
    return SearchResult(**values | other)


def outcomes_of(document: dict[str, Any]) -> list[str | None]:
    """How the trials of a search ended, by the JSON of its result."""
    return [trial["outcome"] for trial in document["trials"]]
