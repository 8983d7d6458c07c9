"""Verdicts without trainings."""

from __future__ import annotations

from typing import Any

from tune_cl.results import Candidate, Comparison, Configuration, FixedSeeds, Look, Opponent, Role, Verdict
from tune_cl.verdict.sentences import sentences

SEEDS = (1, 2, 3)


def configuration(label: str, mean: float, trial_id: str | None = None, **params: Any) -> dict[str, Any]:
    """The fields of a configuration with three seeds."""
    values = (mean - 0.01, mean, mean + 0.01)
    return {"label": label, "trial_id": trial_id, "params": params, "values": values, "mean": mean, "sd": 0.01}


def opponent(*roles: Role, difference: float = 0.02, p: float | None = 0.04, **other: Any) -> Opponent:
    """Of a curriculum whose mean is .52. ci95 is .03 wide on both sides."""
    fields = configuration(f"plain {roles[0]}", 0.52 - difference, "t0000" if "default" in roles else None)
    ci95 = None if p is None else (difference - 0.03, difference + 0.03)
    return Opponent(**{**fields, "roles": roles, "difference": difference, "ci95": ci95, "p": p, **other})


def made_verdict(*opponents: Opponent, **other: Any) -> Verdict:
    """Better than its opponents, unless told otherwise."""
    opponents = opponents or (opponent("champion", "default"),)
    fixed = FixedSeeds(verdict=other.get("verdict", "better"), ci95=(0.0, 0.04), p=0.01)
    fields: dict[str, Any] = {
        "search": "toy",
        "metric": "map",
        "split": "test",
        "seeds": SEEDS,
        "queries": 12,
        "clusters": 12,
        "curriculum": Configuration(**configuration("root n=2", 0.52, "t0001")),
        "opponents": opponents,
        "selection": (),
        "verdict": "better",
        "fixed_seeds": fixed,
        "filter_against_plain": None,
        "detectable": 0.03,
        "power": 0.4,
        "look": Look(),
        "data": "toy data",
        "ranker": "knrm",
        "storage": "/runs",
        "tracking_uri": "",
        "plain_trials": 6,
        "plain_keys": ("training.lr", "training.loss"),
    }
    made = Verdict(**(fields | other))
    return made.model_copy(update={"sentences": tuple(sentences(made))})


def rich_verdict() -> Verdict:
    """No difference shown, with all that there may be."""
    weak = opponent("champion", difference=0.0109, p=0.02, params={"training.loss": "pairwise"})
    twin = opponent("twin", difference=-0.004, p=0.6, params={"training.loss": "cross_entropy"})
    left = Comparison(difference=0.016, ci95=(0.006, 0.026), p=0.002)
    chosen = Candidate(arm="plain", trial_id="t0000", label="plain", values=(0.4, 0.5), mean=0.45, chosen=True)
    return made_verdict(
        twin,
        weak,
        opponent("filter", difference=0.001, p=0.8),
        verdict="no difference shown",
        fixed_seeds=FixedSeeds(verdict="worse", ci95=(-0.02, -0.001), p=0.01),
        filter_against_plain=left,
        selection=(chosen,),
        look=Look(number=2, level=0.0063),
        notes=("a note",),
    )
