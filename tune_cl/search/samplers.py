"""Searchers: which configuration a trial tries. They know neither Ray nor training.

What `ask` answers is a function of the seed, the trial's number, and what `replay` and `tell` were given before: a
sampler rebuilt from a journal through the two goes on as the one that was lost would have.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, Protocol

import optuna
from optuna.trial import FixedTrial, FrozenTrial, TrialState, create_trial

from trainables.randomness import generator
from trainables.registry import Entry, Registry
from tune_cl.search.space import Flat, Space, identity

if TYPE_CHECKING:
    from tune_cl.experiment import Experiment

Outcome = Literal["completed", "pruned", "failed"]
REDRAWS = 20


class Sampler(Protocol):
    def ask(self, number: int) -> Flat | None:
        """Flat values of the opened keys for trial `number`, none that another began with; None when all have been."""
        ...

    def replay(self, number: int, chosen: Flat) -> None:
        """Trial `number` has begun with these values: what `ask` answered, now or in a session before."""
        ...

    def tell(self, number: int, values: Mapping[int, float], outcome: Outcome) -> None:
        """How the trial ended (pruned: stopped early). `values`: the metric by iteration, higher = better."""
        ...


class Untold:
    """What searchers that learn nothing from results share: the values of the trials so far, by number."""

    def __init__(self, space: Space, seed: int):
        self.space, self.seed = space, seed
        self.chosen: dict[int, Flat] = {}

    def replay(self, number: int, chosen: Flat) -> None:
        self.chosen[number] = dict(chosen)

    def tell(self, number: int, values: Mapping[int, float], outcome: Outcome) -> None:
        """Results change nothing."""

    def tried(self) -> set[tuple[tuple[str, object], ...]]:
        return {identity(chosen) for chosen in self.chosen.values()}

    def ask_new(self, number: int, draw: Callable[[int], Flat]) -> Flat | None:
        """The first of `draw(0)`, `draw(1)`, ... not tried before; then any untried one of a finite space.

        A continuous space may repeat a value after all (say the end of a range): that one is tried again.
        """
        tried = self.tried()
        draws = (draw(attempt) for attempt in range(REDRAWS))
        new = next((chosen for chosen in draws if identity(chosen) not in tried), None)
        if new is not None:
            return new
        return draw(0) if self.space.continuous else self._untried(number)

    def _untried(self, number: int) -> Flat | None:
        tried = self.tried()
        left = [chosen for chosen in self.space.grid() if identity(chosen) not in tried]
        return left[generator(self.seed, "untried", number).integers(len(left))] if left else None


class RandomSampler(Untold):
    """Independent draws; trial `number` draws the same whatever was asked before, unless that was tried already."""

    def ask(self, number: int) -> Flat | None:
        return self.ask_new(number, lambda attempt: self.draw(number, attempt))

    def draw(self, number: int, attempt: int) -> Flat:
        return self.space.sample(generator(self.seed, "sampler", number, attempt))


class GridSampler(Untold):
    """Every combination once, in the order of the space file. Raises ConfigError for a continuous leaf."""

    def ask(self, number: int) -> Flat | None:
        tried = self.tried()
        return next((chosen for chosen in self.space.grid() if identity(chosen) not in tried), None)


@dataclass(frozen=True)
class Told:
    """How a trial ended: Optuna's state, its value (the best of all iterations) and the best so far by iteration."""

    state: TrialState
    value: float | None = None
    curve: dict[int, float] = field(default_factory=dict)

    @classmethod
    def of(cls, values: Mapping[int, float], outcome: Outcome) -> Told:
        """A stopped trial keeps its curve and gets no value: its low-budget result is no final one."""
        curve, best = {}, -math.inf
        for iteration, value in sorted(values.items()):
            if not math.isnan(value):
                curve[iteration] = best = max(best, value)
        if outcome == "failed" or not curve:
            return cls(TrialState.FAIL)
        return cls(TrialState.COMPLETE, best, curve) if outcome == "completed" else cls(TrialState.PRUNED, None, curve)


class TpeSampler(RandomSampler):
    """Tree-structured Parzen estimator through Optuna, multivariate within each group of co-existing parameters.

    The first `startup_trials` to finish are those of random search. Trials still running count as bad ones
    ("constant liar"), so that concurrent trials spread out. Each `ask` builds the study anew from what has
    begun and been told: milliseconds, and nothing to save.
    """

    def __init__(self, space: Space, seed: int, startup_trials: int = 8):
        super().__init__(space, seed)
        self.startup_trials = startup_trials
        self.told: dict[int, Told] = {}
        optuna.logging.set_verbosity(optuna.logging.WARNING)

    def tell(self, number: int, values: Mapping[int, float], outcome: Outcome) -> None:
        self.told[number] = Told.of(values, outcome)

    def ask(self, number: int) -> Flat | None:
        if sum(told.state != TrialState.FAIL for told in self.told.values()) < self.startup_trials:
            return super().ask(number)
        study = self._study()
        return self.ask_new(number, lambda attempt: self._suggest(study, number, attempt))

    def _suggest(self, study: optuna.Study, number: int, attempt: int) -> Flat:
        seed = int(generator(self.seed, "tpe", number, attempt).integers(2**31))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            study.sampler = optuna.samplers.TPESampler(
                n_startup_trials=0, multivariate=True, group=True, constant_liar=True, seed=seed
            )
        trial = study.ask()
        chosen = self.space.suggest(trial)
        study.tell(trial, state=TrialState.FAIL)  # only this suggestion's own trial, which no later attempt may see
        return chosen

    def _study(self) -> optuna.Study:
        study = optuna.create_study(direction="maximize")
        study.add_trials([self._frozen(number) for number in sorted(self.chosen)])
        return study

    def _frozen(self, number: int) -> FrozenTrial:
        recorded = FixedTrial(self.chosen[number])
        self.space.suggest(recorded)  # which leaves each value's distribution in `recorded`
        told = self.told.get(number, Told(TrialState.RUNNING))
        return create_trial(
            state=told.state,
            value=told.value,
            params=recorded.params,
            distributions=recorded.distributions,
            intermediate_values=told.curve,
        )


SEARCHERS: Registry[Callable[[Experiment], Sampler]] = Registry(
    "search.searcher",
    Entry("random", lambda e: RandomSampler(e.space, e.seed), "independent draws", "Bergstra & Bengio 2012"),
    Entry("grid", lambda e: GridSampler(e.space, e.seed), "every combination of the values once", "exhaustive"),
    Entry(
        "tpe",
        lambda e: TpeSampler(e.space, e.seed, e.search.startup_trials),
        "Parzen estimators of good and bad configurations",
        "Bergstra et al. 2011; Optuna",
    ),
)


def make_sampler(experiment: Experiment) -> Sampler:
    """The sampler that `search.searcher` names."""
    return SEARCHERS[experiment.search.searcher](experiment)
