"""Schedulers by name, which decide whether a trial goes on after an iteration, waits, or ends."""

from __future__ import annotations

from trainables.core.registry import Entry, Registry
from tune_cl.schedulers.asha import Asha
from tune_cl.schedulers.model import Model
from tune_cl.schedulers.scheduler import Decision, Scheduler, Setup

__all__ = ["SCHEDULERS", "Decision", "Scheduler", "Setup"]

SCHEDULERS: Registry[type[Scheduler]] = Registry(
    "search.scheduler",
    Entry("none", Scheduler, "no trial is stopped early", "baseline"),
    Entry("asha", Asha, "the best 1/reduction_factor of those at a rung go on", "Li et al. 2020"),
    Entry("model", Model, "goes on with the most promising extrapolated curve", "Swersky et al. 2014"),
)
