"""Documents of a confirmation, without trainings."""

from __future__ import annotations

from typing import Any


def row_of(difference: float, p: float, p_new: float = 0.04, runs: int = 3, **other: Any) -> dict[str, Any]:
    tested = {"difference": difference, "p_adjusted": p, "p_new_adjusted": p_new}
    tested |= {"ci95": [-0.01, 0.03], "ci95_new": [-0.02, 0.04]}
    told = {"label": "root", "trial_id": "t0001", "runs": [{}] * runs, "mean": 0.51234, "sd": 0.0125, "marks": ""}
    return told | tested | {"also_differs": [], "has_curriculum": True, "seed_matters": True} | other


def document_of(*rows: dict[str, Any], verdict: str = "better", correction: str = "holm") -> dict[str, Any]:
    base = {"label": "baseline", "trial_id": "t0000", "runs": rows[0]["runs"], "mean": 0.5, "sd": 0.02}
    head = {"search": "toy", "storage": "/runs", "tracking_uri": "", "metric": "map", "split": "test", "queries": 12}
    seeds = list(range(1, len(rows[0]["runs"]) + 1))
    tested = {"baseline": base, "configurations": list(rows), "verdict": verdict, "correction": correction}
    return head | tested | {"seeds": seeds, "failed": [], "dropped": []}
