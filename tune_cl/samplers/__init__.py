"""Samplers (`search.searcher`) choose which configuration a trial tries. They know neither Ray nor training."""

from __future__ import annotations

from trainables.core.registry import Entry, Registry
from tune_cl.samplers.modelled import GpSampler, TpeSampler, TrialResult
from tune_cl.samplers.sampler import GridSampler, RandomSampler, Sampler

__all__ = ["SEARCHERS", "GpSampler", "GridSampler", "RandomSampler", "Sampler", "TpeSampler", "TrialResult"]

SEARCHERS: Registry[type[Sampler]] = Registry(
    "search.searcher",
    Entry("random", RandomSampler, "draws that cover each key", "Bergstra & Bengio 2012"),
    Entry("grid", GridSampler, "every combination of the values once", "exhaustive"),
    Entry("tpe", TpeSampler, "Parzen estimators of good and bad configurations", "Bergstra et al. 2011; Optuna"),
    Entry("gp", GpSampler, "Gaussian process, expected improvement", "Jones et al. 1998; Optuna"),
)
