"""`tune_cl.compare`: the verdict's tests for values from anywhere."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from trainables.evaluation.significance import bootstrap_ci
from tune_cl.confirmation.decisions import Corrected, corrected_tests, difference_of
from tune_cl.confirmation.intersection import Opposed, corrected_over
from tune_cl.confirmation.verdict import NOT_SHOWN, Role, as_json

FIGURES = "difference", "p_value", "p_adjusted", "ci95", "p_new", "p_new_adjusted", "ci95_new"


def compare(
    values: np.ndarray, baseline: np.ndarray | Mapping[str, np.ndarray], correction: str = "holm"
) -> list[dict[str, Any]]:
    """Tests configurations against a baseline, or against several opponents, for these seeds and for new ones.

    values [K, N, Q] of K configurations, N seeds and Q queries; baseline [N, Q] of the same seeds and queries, or a
    mapping of roles (champion, twin, default, filter; or other names) to such values. Returns `{difference, p_value,
    p_adjusted, ci95, p_new, p_new_adjusted, ci95_new}` of each configuration; NaN where nothing can be said of new
    seeds. With a mapping, these are of the least favourable opponent, `against`; `opponents` has the same of each,
    and `verdict` is better only where the configuration is above all of them. p is corrected over the configurations.

    Raises ValueError for shapes that do not match, values that are not numbers, no opponent, or one query.
    """
    several = isinstance(baseline, Mapping)
    values = np.asarray(values, np.float64)
    opponents = {
        name: np.asarray(each, np.float64) for name, each in (baseline.items() if several else [("champion", baseline)])
    }
    for name, each in opponents.items():
        if values.ndim != 3 or each.shape != values.shape[1:] or each.shape[-1] < 2:
            what = f"opponent '{name}'" if several else "baseline"
            raise ValueError(
                f"values {values.shape} and {what} {each.shape}; they would be [K, N, Q] and [N, Q], Q at least 2"
            )
    if not opponents:
        raise ValueError("no opponent: a mapping of roles to values [N, Q] has at least one")
    if not all(np.isfinite(each).all() for each in (values, *opponents.values())):
        raise ValueError("values that are not numbers")
    tests = iter(corrected_tests([(each, other) for each in values for other in opponents.values()], "none"))
    groups = corrected_over([[next(tests) for _ in opponents] for _ in values], correction)
    return [
        _row(each, opponents, Opposed(_roles(opponents), dict(zip(opponents, group, strict=True))), several)
        for each, group in zip(values, groups, strict=True)
    ]


def _roles(opponents: Mapping[str, np.ndarray]) -> dict[str, tuple[Role, ...]]:
    """A name that is not a role counts as an opponent that decides harm, too."""
    known: dict[str, Role] = {"default": "default", "filter": "filter"}
    return {name: (known.get(name, "trial"),) for name in opponents}


def _row(values: np.ndarray, opponents: Mapping[str, np.ndarray], opposed: Opposed, several: bool) -> dict[str, Any]:
    rows = {name: _figures(test, values - opponents[name]) for name, test in opposed.tests.items()}
    against = opposed.least_favourable
    if not several:
        return rows[against]
    verdict = {1: "better", -1: "worse"}.get(opposed.direction(), NOT_SHOWN)
    return rows[against] | {"against": against, "verdict": verdict, "opponents": rows}


def _figures(test: Corrected, differences: np.ndarray) -> dict[str, Any]:
    found = as_json(difference_of(test, bootstrap_ci(differences.mean(axis=0))))
    return {name: found[name] for name in FIGURES}
