"""Which configuration of each arm meets the other one on test: the best few of each are trained with new seeds, and
compared on dev.

The dev values of the search chose among many configurations on one seed; the best of them owes much to that seed. The
trainings of a selection have seeds that the test does not use, so what it chooses by chance does not count twice.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tune_cl.confirmation.request import Configuration, SeedRun, best_configurations, plain_configurations
from tune_cl.confirmation.training import ended_result
from tune_cl.experiment.experiment import CURRICULUM, PLAIN, Arm
from tune_cl.history.state import SearchState

SPLIT = "dev"
FIRST_SEED = 1001  # of a selection, far from those of the test, of which there may be more later
SEEDS = 1  # of each candidate


@dataclass(frozen=True)
class Candidate:
    """A configuration that may be its arm's champion."""

    arm: Arm
    configuration: Configuration
    runs: Sequence[SeedRun] = ()


def candidates_of(state: SearchState, default: Configuration, top: int) -> dict[Arm, list[Configuration]]:
    """The `top` best configurations of each arm on dev, best first. `default`: that of the first trial."""
    plain = plain_configurations(state, default)[:top]
    return {PLAIN: plain or [default], CURRICULUM: best_configurations(state, default, top)}


def rows_of(candidates: Sequence[Candidate], failed: Collection[str]) -> list[dict[str, Any]]:
    """The selection as the document of `tune-cl confirm` has it; in each arm the highest mean on dev is chosen, the
    first where means are equal. `failed`: labels of those with a failed training, which are not chosen."""
    rows = [_row(one, one.configuration.label in failed) for one in candidates]
    for arm in dict.fromkeys(row["arm"] for row in rows):
        of_arm = [row for row in rows if row["arm"] == arm]
        sound = [row for row in of_arm if row["mean"] is not None] or of_arm[:1]
        max(sound, key=lambda row: row["mean"] or 0.0)["chosen"] = True
    return rows


def _row(candidate: Candidate, failed: bool) -> dict[str, Any]:
    devs = [] if failed else [ended_result(run.folder, run.split)["dev"] for run in candidate.runs]
    one = candidate.configuration
    mean = float(np.mean(devs)) if devs else None
    return {
        "arm": candidate.arm,
        "trial_id": one.trial,
        "label": one.label,
        "devs": devs,
        "mean": mean,
        "chosen": False,
    }


def in_words(rows: Sequence[Mapping[str, Any]], metric: str) -> str:
    """What a selection chose, in a line for the terminal."""
    chosen = [row for row in rows if row["chosen"]]
    figures = [
        f"{row['arm']} '{row['label']}'" + (f" (dev {metric} {row['mean']:.4f})" if row["mean"] else "")
        for row in chosen
    ]
    return f"selected: {', '.join(figures)}"


def champion(rows: Sequence[Mapping[str, Any]], arm: Arm) -> str:
    """The label of the arm's chosen configuration."""
    return next(row["label"] for row in rows if row["arm"] == arm and row["chosen"])
