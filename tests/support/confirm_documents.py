"""Documents of a confirmation, without trainings."""

from __future__ import annotations

from typing import Any


def row_of(difference: float, p: float, p_new: float = 0.04, runs: int = 3, **other: Any) -> dict[str, Any]:
    """A configuration with one opponent, the plain champion, unless `opponents` are given."""
    tested = {"difference": difference, "size": difference, "p_adjusted": p, "p_new_adjusted": p_new}
    tested |= {"ci95": [-0.01, 0.03], "ci95_new": [-0.02, 0.04], "marks": ""}
    told = {"label": "root", "trial_id": "t0001", "runs": [{}] * runs, "mean": 0.51234, "sd": 0.0125}
    row = told | tested | {"also_differs": [], "has_curriculum": True, "seed_matters": True, "against": "baseline"}
    row |= other
    own = {key: row[key] for key in (*tested, "seed_matters")}
    return row if "opponents" in row else row | {"opponents": [opponent_of("champion", runs, **own)]}


def opponent_of(role: str, runs: int = 3, **other: Any) -> dict[str, Any]:
    label = "baseline" if role == "champion" else role
    row = {"roles": [role], "label": label, "trial_id": "t0000" if role == "champion" else None, "params": {}}
    return row | {"runs": [{}] * runs, "mean": 0.5, "sd": 0.02} | other


def document_of(*rows: dict[str, Any], verdict: str = "better", correction: str = "holm") -> dict[str, Any]:
    head = {"search": "toy", "storage": "/runs", "tracking_uri": "", "metric": "map", "split": "test", "queries": 12}
    seeds = list(range(1, len(rows[0]["runs"]) + 1))
    tested = {"baseline": rows[0]["opponents"][0], "configurations": list(rows), "opponents": rows[0]["opponents"]}
    tested |= {"verdict": verdict, "these_seeds": verdict, "correction": correction, "plain": "without the curriculum"}
    fair = {"tuned": True, "keys": ["training.lr"], "trials": {"plain": 6, "curriculum": 6}}
    return head | tested | {"seeds": seeds, "failed": [], "dropped": [], "fair": fair}
