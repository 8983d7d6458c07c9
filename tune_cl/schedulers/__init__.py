"""Schedulers by name, which decide whether a trial goes on after an iteration, waits, or ends."""

from __future__ import annotations

from collections.abc import Callable

from trainables.core.errors import Problem
from trainables.core.registry import Entry, Registry
from tune_cl.schedulers.asha import Asha, Hyperband
from tune_cl.schedulers.median import Median
from tune_cl.schedulers.model import Model
from tune_cl.schedulers.scheduler import Decision, Scheduler, Setup

__all__ = [
    "SCHEDULERS",
    "Decision",
    "Scheduler",
    "Setup",
    "promotes",
    "unfit",
]

WITH_RUNGS = ("asha", "hyperband")
PROMOTING = (*WITH_RUNGS, "model")  # can pause trials, to go on with the best of them later (`search.promotion`)
SCHEDULERS: Registry[Callable[[Setup], Scheduler]] = Registry(
    "search.scheduler",
    Entry("none", Scheduler, "no trial is stopped early", "baseline"),
    Entry("asha", Asha, "the best 1/reduction_factor of those at a rung go on", "Li et al. 2020"),
    Entry("hyperband", Hyperband, "brackets of asha that begin at different rungs", "Li et al. 2018"),
    Entry("median", Median, "ends trials below the median of the others' mean values", "Golovin et al. 2017"),
    Entry("model", Model, "goes on with the most promising extrapolated curve", "Swersky et al. 2014"),
)


def unfit(scheduler: str, grace: str | int, promotion: bool | None, compare: str) -> list[Problem]:
    """Search keys that do not go with the scheduler."""
    problems = []
    right = "search.scheduler: asha or hyperband"
    if scheduler not in WITH_RUNGS:
        if grace == "scaled":
            problems.append(Problem("search.grace", f"scaled needs rungs, which {scheduler} has not", right))
        if compare == "paired":
            problems.append(Problem("search.compare", f"{scheduler} compares no values at rungs", right))
    if promotion and scheduler not in PROMOTING:
        problems.append(
            Problem("search.promotion", f"{scheduler} pauses no trial", "search.scheduler: asha, hyperband or model")
        )
    return problems


def promotes(scheduler: str, promotion: bool | None, audit: int) -> bool:
    """`search.promotion`, or its default: true if the scheduler can pause trials, without an audit."""
    return scheduler in PROMOTING and not audit if promotion is None else promotion
