"""Samplers that learn from results through Optuna, on spaces with conditions.

Each `ask` rebuilds Optuna's study from the trials and their results, so there is nothing to save.
"""

from __future__ import annotations

import math
import warnings
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean, pstdev
from typing import Any, ClassVar

import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution
from optuna.samplers import BaseSampler, CmaEsSampler, GPSampler, TPESampler
from optuna.trial import FixedTrial, FrozenTrial, TrialState, create_trial

from trainables.core.randomness import generator
from tune_cl.samplers.sampler import Observation, Outcome, RandomSampler
from tune_cl.space.space import Flat, Space

FEWEST_TO_WARM_CMAES = 10  # cmaes.get_warm_start_mgd takes the best tenth


@dataclass(frozen=True)
class TrialResult:
    """How a trial ended: Optuna's state, the value (the best over all iterations) and the best so far by iteration."""

    state: TrialState
    value: float | None = None
    curve: dict[int, float] = field(default_factory=dict)

    @classmethod
    def of(cls, values: Mapping[int, float], outcome: Outcome) -> TrialResult:
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


DISCOUNT = 0.5  # shrinks the distance from the mean of values of searches on other data


class ModelSampler(RandomSampler, ABC):
    """Chooses at random until `startup_trials` have finished, observations of earlier searches included.

    If leaves have a prior, a share startup / (startup + finished) of the later trials is random too, and so follows it.
    Where the values shared with a twin are given, results count as differences from their twins: what is left to choose
    is what adds to these values, and a good or bad learning rate says nothing of it.
    """

    purpose: ClassVar[str]
    needs_values = False  # whether Optuna's sampler passes over trials without a final value

    def __init__(
        self,
        space: Space,
        seed: int,
        startup_trials: int = 8,
        points: Sequence[Flat] = (),
    ):
        super().__init__(space, seed, startup_trials, points)
        self.results: dict[int, TrialResult] = {}
        self.references: dict[int, float] = {}  # of trials whose twins have ended
        self.observations: list[Observation] = []
        self._frozen: dict[int, tuple[TrialResult, FrozenTrial]] = {}
        self._distributions: dict[str, BaseDistribution] = {}
        optuna.logging.set_verbosity(optuna.logging.WARNING)

    @abstractmethod
    def optuna_sampler(self, seed: int) -> BaseSampler:
        """A fresh sampler of Optuna's."""

    def tell(self, number: int, values: Mapping[int, float], outcome: Outcome) -> None:
        self.results[number] = TrialResult.of(values, outcome)

    def compare(self, number: int, reference: float) -> None:
        self.references[number] = reference

    def warm_up(self, observations: Sequence[Observation]) -> None:
        self.observations = list(observations)

    def propose(self, number: int, fixed: Flat) -> Flat | None:
        if not self.models(number):
            return super().propose(number, fixed)
        study = self.study(compared=bool(fixed))
        return self.ask_new(number, lambda attempt: self._suggest(study, number, attempt, fixed), fixed)

    def models(self, number: int) -> bool:
        """Whether the model, rather than chance, chooses for the trial."""
        finished = len(self.observations) + sum(result.state != TrialState.FAIL for result in self.results.values())
        if self.given(number) or finished < self.startup_trials or not finished:
            return False
        share = self.startup_trials / (self.startup_trials + finished) if self.space.priors else 0.0
        return generator(self.seed, "prior or model", number).random() >= share

    def _suggest(self, study: optuna.Study, number: int, attempt: int, fixed: Flat) -> Flat:
        """What the model suggests, with the values of `fixed` in place of its own."""
        trial = self.ask_optuna(study, number, attempt)
        point = self.space.decide(lambda key, leaf: fixed[key] if key in fixed else leaf.suggest(trial, key))
        study.tell(trial, state=TrialState.FAIL)  # later attempts must not see this suggestion's trial
        return point

    def ask_optuna(self, study: optuna.Study, number: int, attempt: int) -> optuna.Trial:
        seed = int(generator(self.seed, self.purpose, number, attempt).integers(2**31))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            study.sampler = self.optuna_sampler(seed)
            return study.ask()

    def study(self, compared: bool = False) -> optuna.Study:
        """Observations of earlier searches, then this search's trials in order of number. `compared`: each less its
        twin's value, plus the mean of all twins, which keeps it on one scale with those whose twins have yet to end."""
        known = self.references if compared else {}
        mean = fmean(known.values()) if known else 0.0
        study = optuna.create_study(direction="maximize")
        trials = (self._trial(number, mean - known.get(number, mean)) for number in sorted(self.points))
        study.add_trials([*self._observed(), *trials])
        return study

    def _observed(self) -> list[FrozenTrial]:
        """Values that are not comparable are put on this search's scale: mean + DISCOUNT · SD · their standard score,
        with mean and SD of those that are (0 and 1 while there are fewer than two)."""
        measured = [result.value for result in self.results.values() if result.value is not None]
        values = measured + [seen.value for seen in self.observations if seen.comparable]
        mean, spread = (fmean(values), pstdev(values)) if len(values) > 1 else (0.0, 1.0)
        return [
            self._make(seen.point, TrialResult(TrialState.COMPLETE, value, {1: value}))
            for seen in self.observations
            for value in [seen.value if seen.comparable else mean + DISCOUNT * spread * seen.value]
        ]

    def _trial(self, number: int, by: float) -> FrozenTrial:
        """A trial as Optuna has it, its values higher by so much."""
        result = self.results.get(number, TrialResult(TrialState.RUNNING)).moved(by)
        if self.needs_values and result.state == TrialState.PRUNED:
            result = self._estimated(result)
        if number not in self._frozen or self._frozen[number][0] != result:
            self._frozen[number] = result, self._make(self.points[number], result, self.attributes(number))
        return self._frozen[number][1]

    def _estimated(self, stopped: TrialResult) -> TrialResult:
        """A stopped trial as it would have ended: its best value, and what finished trials gained on average after as
        many iterations. Counts as running while none has finished that came by there."""
        at = max(stopped.curve)
        gains = [
            result.value - result.curve[at]
            for result in self.results.values()
            if result.value is not None and at in result.curve
        ]
        if not gains:
            return TrialResult(TrialState.RUNNING)
        return TrialResult(TrialState.COMPLETE, stopped.curve[at] + fmean(gains), stopped.curve)

    def attributes(self, number: int) -> dict[str, Any]:
        """What Optuna's sampler noted about the trial."""
        return {}

    def _make(self, point: Flat, result: TrialResult, attributes: Mapping[str, Any] | None = None) -> FrozenTrial:
        recorded = FixedTrial(point)
        self.space.suggest(recorded)  # enters each value's distribution in `recorded`
        return create_trial(
            state=result.state,
            value=result.value,
            params=recorded.params,
            distributions=recorded.distributions,
            intermediate_values=result.curve,
            system_attrs=dict(attributes or {}),
        )

    def unconditional(self) -> dict[str, BaseDistribution]:
        """The parameters with several values that every trial has."""
        if not self._distributions:
            free = Space({key: leaf for key, leaf in self.space.leaves.items() if not leaf.when})
            recorded = FixedTrial(free.decide(lambda _, leaf: leaf.middle()))
            free.suggest(recorded)
            self._distributions = {key: of for key, of in recorded.distributions.items() if not of.single()}
        return self._distributions

    def by_itself(self, seed: int) -> TPESampler:
        """A sampler for the parameters that a joint model leaves out, each by itself."""
        return TPESampler(n_startup_trials=0, constant_liar=True, seed=seed)


class TpeSampler(ModelSampler):
    """Tree-structured Parzen estimator (Bergstra et al. 2011), multivariate within each group of co-existing
    parameters. Running trials count as bad ones ("constant liar"), so that concurrent trials spread out. Trials stopped
    early rank below all that finished: by the iteration they reached, then by value.
    """

    purpose = "tpe"

    def optuna_sampler(self, seed: int) -> BaseSampler:
        return TPESampler(n_startup_trials=0, multivariate=True, group=True, constant_liar=True, seed=seed)


class _Fixed:
    """Models the parameters in `joint`, which all trials have; Optuna would model those that all finished trials happen
    to share, and CMA-ES ends for good when these change."""

    def __init__(self, joint: dict[str, BaseDistribution], **options: Any):
        super().__init__(**options)
        self.joint = joint

    def infer_relative_search_space(self, study: optuna.Study, trial: FrozenTrial) -> dict[str, BaseDistribution]:
        return self.joint


class _FixedGp(_Fixed, GPSampler):
    pass


class _FixedCmaes(_Fixed, CmaEsSampler):
    pass


class GpSampler(ModelSampler):
    """Gaussian process with expected improvement as acquisition, over the parameters that every trial has; those under
    a condition come from TPE, each by itself. Those stopped early count with an estimated final value: left out, as
    Optuna leaves them, they would change nothing, and it would propose the same point again."""

    purpose = "gp"
    needs_values = True
    redraws = 3  # a refit takes most of a second with hundreds of trials

    def optuna_sampler(self, seed: int) -> BaseSampler:
        return _FixedGp(
            self.unconditional(),
            n_startup_trials=2,
            independent_sampler=self.by_itself(seed),
            warn_independent_sampling=False,
            seed=seed,
        )


class CmaesSampler(ModelSampler):
    """CMA-ES (Hansen 2016) over the numbers that every trial has; choices and parameters under a condition come from
    TPE, each by itself. A generation is over when enough of its trials have ended; those stopped early count with an
    estimated final value. Ten or more observations of earlier searches set its start (Nomura et al. 2021)."""

    purpose = "cmaes"
    needs_values = True

    def __init__(self, *arguments: Any, **options: Any):
        super().__init__(*arguments, **options)
        self._noted: dict[int, dict[str, Any]] = {}

    def replay(self, number: int, point: Flat) -> None:
        """Also recomputes the trial's generation and the state of the evolution, which follow from what came before."""
        if self.models(number):
            trial = self.ask_optuna(self.study(), number, 0)
            _ = trial.relative_params  # Optuna asks CMA-ES, and notes its state, only when they are first read
            attributes = trial.storage.get_trial(trial._trial_id).system_attrs
            self._noted[number] = {key: value for key, value in attributes.items() if key.startswith("cma:")}
        super().replay(number, point)

    def attributes(self, number: int) -> dict[str, Any]:
        return self._noted.get(number, {})

    def optuna_sampler(self, seed: int) -> BaseSampler:
        joint = {key: of for key, of in self.unconditional().items() if not isinstance(of, CategoricalDistribution)}
        sources = [self._only(trial, joint) for trial in self._observed()]
        return _FixedCmaes(
            joint,
            n_startup_trials=0,
            independent_sampler=self.by_itself(seed),
            warn_independent_sampling=False,
            source_trials=sources if len(sources) >= FEWEST_TO_WARM_CMAES else None,
            seed=seed,
        )

    @staticmethod
    def _only(trial: FrozenTrial, joint: Mapping[str, BaseDistribution]) -> FrozenTrial:
        return create_trial(
            value=trial.value, params={key: trial.params[key] for key in joint}, distributions=dict(joint)
        )
