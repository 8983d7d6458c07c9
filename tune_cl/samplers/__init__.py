"""Samplers (`search.searcher`) choose which configuration a trial tries. They know neither Ray nor training."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from trainables.core.randomness import generator
from trainables.core.registry import Entry, Registry
from tune_cl.samplers.modelled import CmaesSampler, GpSampler, ModelSampler, Told, TpeSampler
from tune_cl.samplers.sampler import GridSampler, Observation, Outcome, RandomSampler, Sampler
from tune_cl.space.space import Flat

if TYPE_CHECKING:
    from tune_cl.experiment.experiment import Experiment


__all__ = [
    "SEARCHERS",
    "CmaesSampler",
    "GpSampler",
    "GridSampler",
    "Observation",
    "Outcome",
    "RandomSampler",
    "Sampler",
    "Told",
    "TpeSampler",
    "make_sampler",
]


def modelled(kind: type[ModelSampler]) -> Callable[[Experiment], Sampler]:
    def make(experiment: Experiment) -> Sampler:
        search = experiment.search
        first = tried_first(experiment)
        return kind(experiment.space, experiment.seed, search.startup_trials, first, search.warm_discount)

    return make


def tried_first(experiment: Experiment) -> list[Flat]:
    """`search.points`; then, if leaves have priors, one configuration of their most likely values, others drawn at
    random."""
    points = list(experiment.search.points)
    if experiment.space.priors:
        rng = generator(experiment.seed, "most likely by the prior")
        likely = experiment.space.decide(lambda key, leaf: leaf.middle() if leaf.has_prior else leaf.draw(rng))
        points += [likely] if likely not in points else []
    return points


SEARCHERS: Registry[Callable[[Experiment], Sampler]] = Registry(
    "search.searcher",
    Entry(
        "random",
        lambda e: RandomSampler(e.space, e.seed, tried_first(e)),
        "independent draws",
        "Bergstra & Bengio 2012",
    ),
    Entry(
        "grid",
        lambda e: GridSampler(e.space, e.seed, e.search.points),
        "every combination of the values once",
        "exhaustive",
    ),
    Entry(
        "tpe",
        modelled(TpeSampler),
        "Parzen estimators of good and bad configurations",
        "Bergstra et al. 2011; Optuna",
    ),
    Entry("gp", modelled(GpSampler), "Gaussian process, expected improvement", "Jones et al. 1998; Optuna"),
    Entry("cmaes", modelled(CmaesSampler), "evolution of a normal distribution of the numbers", "Hansen 2016; Optuna"),
)


def make_sampler(experiment: Experiment) -> Sampler:
    return SEARCHERS[experiment.search.searcher](experiment)
