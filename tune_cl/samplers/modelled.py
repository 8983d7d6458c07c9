"""Samplers that learn from results through Optuna, on spaces with conditions.

Each `ask` rebuilds Optuna's study from the trials and their results, so there is nothing to save.
"""

from __future__ import annotations

import math
import warnings
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from statistics import fmean
from typing import ClassVar

import optuna
from optuna.samplers import BaseSampler, GPSampler, TPESampler
from optuna.trial import FixedTrial, FrozenTrial, TrialState, create_trial

from trainables.core.randomness import generator
from tune_cl.samplers.sampler import RandomSampler
from tune_cl.space.space import Flat, Space


@dataclass(frozen=True)
class TrialResult:
    """How a trial ended: Optuna's state, the value (the best over all iterations) and the best so far by iteration."""

    state: TrialState
    value: float | None = None
    curve: dict[int, float] = field(default_factory=dict)

    @classmethod
    def of(cls, values: Mapping[int, float], outcome: str) -> TrialResult:
        """A stopped trial has a curve but no value: a result of fewer iterations is not a final one."""
        curve, best = {}, -math.inf
        for iteration, value in sorted(values.items()):
            if not math.isnan(value):
                curve[iteration] = best = max(best, value)
        if outcome == "failed" or not curve:
            return cls(TrialState.FAIL)
        return cls(TrialState.COMPLETE, best, curve) if outcome == "completed" else cls(TrialState.PRUNED, None, curve)

    def moved(self, by: float) -> TrialResult:
        """All values higher by so much."""
        value = None if self.value is None else self.value + by
        return replace(self, value=value, curve={at: best + by for at, best in self.curve.items()})


class ModelSampler(RandomSampler, ABC):
    """Chooses at random until `startup_trials` have finished, then as a sampler of Optuna's does.

    Results count as differences from their twins, where there are twins: what is left to choose is what adds to the
    values that both share, and a good or bad learning rate says nothing of it.
    """

    purpose: ClassVar[str]

    def __init__(self, space: Space, seed: int, startup_trials: int = 8):
        super().__init__(space, seed, startup_trials)
        self.results: dict[int, TrialResult] = {}
        self.references: dict[int, float] = {}  # of trials whose twins have ended
        self._frozen: dict[int, tuple[TrialResult, FrozenTrial]] = {}
        optuna.logging.set_verbosity(optuna.logging.WARNING)

    @abstractmethod
    def optuna_sampler(self, seed: int) -> BaseSampler:
        """A fresh sampler of Optuna's."""

    def tell(self, number: int, values: Mapping[int, float], outcome: str) -> None:
        self.results[number] = TrialResult.of(values, outcome)

    def compare(self, number: int, reference: float) -> None:
        self.references[number] = reference

    def ask(self, number: int, fixed: Flat | None = None) -> Flat | None:
        given = fixed or {}
        finished = sum(result.state != TrialState.FAIL for result in self.results.values())
        if finished < max(1, self.startup_trials):
            return super().ask(number, given)
        study = self.study()
        return self.ask_new(number, lambda attempt: self._suggest(study, number, attempt, given), given)

    def _suggest(self, study: optuna.Study, number: int, attempt: int, fixed: Flat) -> Flat:
        """What the model suggests, with the values of `fixed` in place of its own."""
        seed = int(generator(self.seed, self.purpose, number, attempt).integers(2**31))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            study.sampler = self.optuna_sampler(seed)
            trial = study.ask()
        point = self.space.fill(lambda key, leaf: fixed[key] if key in fixed else leaf.suggest(trial, key))
        study.tell(trial, state=TrialState.FAIL)  # later attempts must not see this suggestion's trial
        return point

    def study(self) -> optuna.Study:
        """The search's trials in order of number, each less its twin's value, plus the mean of all twins, which keeps
        it on one scale with those whose twins have yet to end."""
        references = self.references
        mean = fmean(references.values()) if references else 0.0
        study = optuna.create_study(direction="maximize")
        study.add_trials([self._trial(number, mean - references.get(number, mean)) for number in sorted(self.points)])
        return study

    def _trial(self, number: int, by: float) -> FrozenTrial:
        """A trial as Optuna has it, its values higher by so much."""
        result = self.results.get(number, TrialResult(TrialState.RUNNING)).moved(by)
        if number not in self._frozen or self._frozen[number][0] != result:
            self._frozen[number] = result, self._make(self.points[number], result)
        return self._frozen[number][1]

    def _make(self, point: Flat, result: TrialResult) -> FrozenTrial:
        recorded = FixedTrial(point)
        self.space.suggest(recorded)  # enters each value's distribution in `recorded`
        return create_trial(
            state=result.state,
            value=result.value,
            params=recorded.params,
            distributions=recorded.distributions,
            intermediate_values=result.curve,
        )


class TpeSampler(ModelSampler):
    """Tree-structured Parzen estimator (Bergstra et al. 2011), multivariate within each group of co-existing
    parameters. Running trials count as bad ones ("constant liar"), so that concurrent trials spread out. Trials stopped
    early rank below all that finished: by the iteration they reached, then by value.
    """

    purpose = "tpe"

    def optuna_sampler(self, seed: int) -> BaseSampler:
        return TPESampler(n_startup_trials=0, multivariate=True, group=True, constant_liar=True, seed=seed)


class GpSampler(ModelSampler):
    """Gaussian process with expected improvement, over the parameters that every trial has, from the trials that ran to
    their end; parameters under a condition are drawn at random."""

    purpose = "gp"

    def optuna_sampler(self, seed: int) -> BaseSampler:
        return GPSampler(n_startup_trials=2, warn_independent_sampling=False, seed=seed)
