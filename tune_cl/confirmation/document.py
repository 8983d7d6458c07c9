"""The document of `tune-cl confirm` (interface section 6)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from trainables.evaluation.significance import bootstrap_ci
from tune_cl.confirmation.plan import SeedRun
from tune_cl.confirmation.training import read_values, result_of
from tune_cl.confirmation.verdict import Judged, judge, verdict_of

Runs = Sequence[SeedRun]


def document_of(runs: Mapping[str, Runs], split: str, metric: str, correction: str) -> dict[str, Any]:
    """The verdict's part of the document. `runs` by label, of equal seeds: the baseline, then the configurations,
    best on dev first; all have ended."""
    values = {label: np.stack([read_values(run.folder, split, metric) for run in of]) for label, of in runs.items()}
    baseline, *others = runs
    judged = judge(values[baseline], [values[label] for label in others], correction)
    intervals = [bootstrap_ci((values[label] - values[baseline]).mean(axis=0)) for label in others]
    rows = [_row(runs[label], values[label], split) for label in runs]
    tested = [row | _comparison(one, interval) for row, one, interval in zip(rows[1:], judged, intervals, strict=True)]
    return {
        "baseline": rows[0],
        "configurations": tested,
        "correction": correction,
        "queries": values[baseline].shape[1],
        "verdict": verdict_of(judged),
    }


def _row(runs: Runs, values: np.ndarray, split: str) -> dict[str, Any]:
    """A configuration, its runs, and mean and sample standard deviation over seeds (null for one seed)."""
    of_seeds = values.mean(axis=1)
    configuration = runs[0].configuration
    return {
        "label": configuration.label,
        "trial_id": configuration.trial,
        "params": configuration.params,
        "runs": [_run(run, float(value), split) for run, value in zip(runs, of_seeds, strict=True)],
        "mean": float(of_seeds.mean()),
        "sd": float(of_seeds.std(ddof=1)) if len(of_seeds) > 1 else math.nan,
    }


def _run(run: SeedRun, value: float, split: str) -> dict[str, Any]:
    result = result_of(run.folder, split) or {}
    reached = {key: result[key] for key in ("dev", "best_iteration", "iterations", "seconds", "metrics")}
    return {"seed": run.seed, "value": value, "run_file": str(run.folder / split / result["run_file"]), **reached}


def _comparison(judged: Judged, interval: tuple[float, float]) -> dict[str, Any]:
    test = judged.test
    return {
        "difference": test.difference,
        "p_per_seed": list(test.p_per_seed),
        "p_value": test.p_value,
        "p_adjusted": judged.p_adjusted,
        "p_both": test.p_both,
        "p_both_adjusted": judged.p_both_adjusted,
        "ci95": list(interval),
        "marks": judged.marks,
    }


def failure(run: SeedRun, reason: str) -> dict[str, Any]:
    return {"label": run.configuration.label, "seed": run.seed, "reason": reason, "folder": str(run.folder)}


def verdict_file(search: Path, split: str) -> Path:
    """Where the last verdict on a split is kept."""
    return search / "confirmation" / f"{split}.json"
