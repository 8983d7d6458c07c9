"""A terminal, and a search's result to show on it."""

from __future__ import annotations

from dataclasses import fields
from io import StringIO
from typing import Any

from tune_cl.search_document import ArmResult, SearchResult, Trial


class Terminal(StringIO):
    """A terminal as wide as COLUMNS says."""

    def isatty(self) -> bool:
        return True


OPENED = ("curriculum.pacing", "training.lr", "curriculum.m")


def result(best: float, baseline: float, **other: Any) -> SearchResult:
    params = {"curriculum.pacing": "step", "curriculum.anti": False, "training.lr": 3e-5, "curriculum.m": 10.0}
    curriculum = Trial("t0001", params, best, 2)
    plain = Trial("t0000", {"curriculum.pacing": "none", "training.lr": 1e-3}, baseline, 3)
    told: dict[str, Any] = dict.fromkeys(one.name for one in fields(SearchResult))
    told |= dict.fromkeys(("search", "ranker", "data", "metric", "mlflow_view"), "x")
    told |= {"trials": 4, "stopped_early": 0, "errored": 0, "iterations": 8, "seconds": 1.0}
    told |= {"storage": "/tmp/runs", "tracking_uri": "http://here", "plain": "plain training"}
    told |= {"best": curriculum if best > baseline else plain, "best_curriculum": curriculum}
    told |= dict.fromkeys(("baseline", "default"), plain) | dict.fromkeys(("over_curricula", "compares"), True)
    told |= {"arms": {"plain": ArmResult(1, 4, ()), "curriculum": ArmResult(3, 4, OPENED)}, "rankers": ("x",)}
    told |= {"opened": OPENED, "best_ranker": "/tmp/runs/x/trials/best-ranker", "remarks": (), "failed_twins": ()}
    return SearchResult(**told | other)
