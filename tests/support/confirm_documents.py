"""Verdicts without trainings."""

from __future__ import annotations

from typing import Any

from tune_cl.confirmation.request import Request
from tune_cl.confirmation.verdict import (
    WITHOUT_CURRICULUM,
    ConfigurationResult,
    Fair,
    OpponentResult,
    Role,
    TrainingResult,
    VerdictFacts,
)

FIGURES = "p_per_seed", "difference", "size", "p_value", "p_adjusted", "p_new", "p_new_adjusted", "ci95", "ci95_new"
FIGURES += "marks", "seed_matters"


def run_of(seed: int, value: float = 0.5, **other: Any) -> TrainingResult:
    told = {"run_file": f"/runs/seed-{seed}/test/test.run.txt", "dev": value, "dev_by_iteration": (value,)}
    told |= {"best_iteration": 1, "iterations": 1, "seconds": 1.0, "metrics": {"map": value}}
    return TrainingResult(**{"seed": seed, "value": value, **told, **other})


def runs_of(runs: int, value: float = 0.5) -> tuple[TrainingResult, ...]:
    return tuple(run_of(seed, value) for seed in range(1, runs + 1))


def figures_of(difference: float, p: float, p_new: float = 0.04, **other: Any) -> dict[str, Any]:
    """The fields of a test."""
    told = {"p_per_seed": (), "difference": difference, "size": difference, "p_value": p, "p_adjusted": p}
    told |= {"p_new": p_new, "p_new_adjusted": p_new, "ci95": (-0.01, 0.03), "ci95_new": (-0.02, 0.04), "marks": ""}
    return told | {"seed_matters": True} | {key: other[key] for key in FIGURES if key in other}


def row_of(difference: float, p: float, p_new: float = 0.04, runs: int = 3, **other: Any) -> ConfigurationResult:
    """A configuration with one opponent, the plain champion, unless `opponents` are given."""
    figures = figures_of(difference, p, p_new, **other)
    told = {"label": "root", "trial_id": "t0001", "params": {}, "runs": runs_of(runs), "mean": 0.51234, "sd": 0.0125}
    told |= {"also_differs": (), "has_curriculum": True, "against": "baseline", **figures, **other}
    if "opponents" not in told:
        told["opponents"] = (opponent_of("champion", runs, **figures),)
    return ConfigurationResult(**told)


def opponent_of(role: Role, runs: int = 3, **other: Any) -> OpponentResult:
    label = "baseline" if role == "champion" else role
    told = {"roles": (role,), "label": label, "trial_id": "t0000" if role == "champion" else None, "params": {}}
    return OpponentResult(**{**told, "runs": runs_of(runs), "mean": 0.5, "sd": 0.02, **figures_of(0, 1), **other})


def made_verdict(
    *rows: ConfigurationResult, verdict: Any = "better", correction: str = "holm", **other: Any
) -> VerdictFacts:
    told = {"search": "toy", "storage": "/runs", "tracking_uri": "", "metric": "map", "split": "test", "queries": 12}
    told |= {"clusters": 12, "seeds": tuple(range(1, len(rows[0].runs) + 1)), "asked": Request()}
    told |= {"verdict": verdict, "these_seeds": verdict, "correction": correction, "plain": WITHOUT_CURRICULUM}
    told |= dict.fromkeys(("default", "detectable", "seeds_needed", "components"))
    told |= dict.fromkeys(("readings_of_seeds", "collapsed", "two_groups"), ())
    fair = Fair(True, ("training.lr",), {"plain": 6, "curriculum": 6})
    return VerdictFacts(**{"configurations": rows, "fair": fair, **told, **other})
