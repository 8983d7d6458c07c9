"""Schedulers by name, which decide whether a trial goes on after an iteration, waits, or ends."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from trainables.core.errors import Problem
from trainables.core.registry import Entry, Registry
from tune_cl.schedulers.asha import Asha, Hyperband
from tune_cl.schedulers.median import Median
from tune_cl.schedulers.model import Model
from tune_cl.schedulers.pbt import PERTURBED, Pbt
from tune_cl.schedulers.scheduler import Change, Decision, Scheduler, Setup

if TYPE_CHECKING:
    from tune_cl.experiment.experiment import Experiment


__all__ = [
    "SCHEDULERS",
    "Change",
    "Decision",
    "Scheduler",
    "Setup",
    "make_scheduler",
    "setup_of",
    "unfit",
    "unfit_population",
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
    Entry("pbt", Pbt, "the worst go on from copies of the best, slightly changed", "Jaderberg et al. 2017"),
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


def unfit_population(experiment: Experiment) -> list[Problem]:
    """Problems that keep the trials of a space from going on from each other's weights (scheduler pbt)."""
    if experiment.search.scheduler != "pbt":
        return []
    searched = [key for key in experiment.space.leaves if key.startswith("ranker.")]
    if searched or experiment.value("ranker.name") == "lambdamart":
        wrong = "pbt copies weights between trials, which must be those of one neural ranker"
        return [Problem(searched[0] if searched else "ranker.name", wrong, "a fixed ranker, or another scheduler")]
    if not experiment.space.leaves.keys() & set(PERTURBED):
        wrong = "pbt has nothing to perturb: copies would train what they copy"
        return [Problem("search.scheduler", wrong, f"a space that opens one of {', '.join(PERTURBED)}, or another one")]
    return []


def promotes(scheduler: str, promotion: bool | None, audit: int) -> bool:
    """`search.promotion`, or its default: true if the scheduler can pause trials, without an audit."""
    return scheduler in PROMOTING and not audit if promotion is None else promotion


def setup_of(experiment: Experiment) -> Setup:
    """What schedulers need to know of an experiment."""
    search = experiment.search
    return Setup(
        max_iterations=experiment.max_iterations,
        reduction_factor=search.reduction_factor,
        grace=search.grace,
        first_rung=search.first_rung,
        promotion=promotes(search.scheduler, search.promotion, search.audit),
        compare=search.compare,
        interval=search.interval,
        leaves=dict(experiment.space.leaves),
        seed=experiment.seed,
    )


def make_scheduler(experiment: Experiment) -> Scheduler:
    return SCHEDULERS[experiment.search.scheduler](setup_of(experiment))
