"""Samplers (`search.searcher`) choose which configuration a trial tries. They know neither Ray nor training."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from trainables.core.randomness import generator
from trainables.core.registry import Entry, Registry
from tune_cl.samplers.modelled import CmaesSampler, GpSampler, ModelSampler, TpeSampler, TrialResult
from tune_cl.samplers.sampler import GridSampler, Observation, Outcome, RandomSampler, Sampler
from tune_cl.space.space import Flat, Space

__all__ = [
    "SEARCHERS",
    "CmaesSampler",
    "GpSampler",
    "GridSampler",
    "Observation",
    "Outcome",
    "RandomSampler",
    "Sampler",
    "Settings",
    "TpeSampler",
    "TrialResult",
    "tried_first",
]


@dataclass(frozen=True)
class Settings:
    """The `search.*` keys of the same names that samplers read."""

    points: Sequence[Flat] = ()
    startup_trials: int = 8


MakeSampler = Callable[[Space, int, Settings], Sampler]  # (space, seed, settings)


def modelled(kind: type[ModelSampler]) -> MakeSampler:
    def make(space: Space, seed: int, settings: Settings) -> Sampler:
        return kind(space, seed, settings.startup_trials, tried_first(space, seed, settings.points))

    return make


def tried_first(space: Space, seed: int, given: Sequence[Flat]) -> list[Flat]:
    """The points given; then, if leaves have priors, one configuration of their most likely values, others drawn at
    random."""
    points = list(given)
    if space.priors:
        rng = generator(seed, "most likely by the prior")
        likely = space.decide(lambda key, leaf: leaf.middle() if leaf.has_prior else leaf.draw(rng))
        points += [likely] if likely not in points else []
    return points


SEARCHERS: Registry[MakeSampler] = Registry(
    "search.searcher",
    Entry(
        "random",
        lambda space, seed, settings: RandomSampler(space, seed, tried_first(space, seed, settings.points)),
        "independent draws",
        "Bergstra & Bengio 2012",
    ),
    Entry(
        "grid",
        lambda space, seed, settings: GridSampler(space, seed, settings.points),
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
