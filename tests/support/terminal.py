"""A terminal, and a search's result to show on it."""

from __future__ import annotations

from io import StringIO
from typing import Any


class Terminal(StringIO):
    """A terminal as wide as COLUMNS says."""

    def isatty(self) -> bool:
        return True


OPENED = ("curriculum.pacing", "training.lr", "curriculum.m")


def result(best: float, baseline: float) -> dict[str, Any]:
    params = {"curriculum.pacing": "step", "curriculum.anti": False, "training.lr": 3e-5, "curriculum.m": 10.0}
    curriculum = {"trial_id": "t0001", "params": params, "dev": best, "iteration": 2}
    plain = {"trial_id": "t0000", "params": {"curriculum.pacing": "none", "training.lr": 1e-3}, "dev": baseline,
             "iteration": 3}  # fmt: skip
    document = dict.fromkeys(("search", "ranker", "data", "metric", "mlflow_view"), "x")
    counts = {"trials": 4, "stopped_early": 0, "errored": 0, "iterations": 8, "seconds": 1.0}
    places = {"storage": "/tmp/runs", "tracking_uri": "http://here"}
    own = {"best": curriculum if best > baseline else plain, "best_curriculum": curriculum}
    own |= dict.fromkeys(("baseline", "default"), plain) | dict.fromkeys(("over_curricula", "compares"), True)
    own |= {"arms": {"plain": {"trials": 1, "opened": []}, "curriculum": {"trials": 3, "opened": list(OPENED)}}}
    others = {"rankers": ["x"], "opened": list(OPENED), "best_ranker": "/tmp/runs/x/trials/best-ranker"}
    return document | counts | places | own | others
