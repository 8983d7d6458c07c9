"""What a search consists of: a space of trainings, the baseline they are compared with, and how to search.

Trials have two arms. Curricula search all parameters of the space. Plain trials have the baseline's values; each is the
twin of curricula, with their values of every other parameter.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from trainables.config.function import Objective
from trainables.config.keys import DEFAULT_RANKER, TrainingConfig, ranker_fields, unflatten, validated
from trainables.config.objective import OBJECTIVE, AnyRun, validated_objective
from tune_cl.experiment.arms import Arms, arms_of
from tune_cl.experiment.search_keys import SearchConfig
from tune_cl.schedulers.scheduler import curriculum_grace
from tune_cl.space.space import Flat, Space, identity
from tune_cl.space.wording import OF_CURRICULUM


@dataclass(frozen=True, eq=False)
class TrialConfig:
    """The configuration of a trial, from its proposal to its end: the values of the parameters (`point`), and the
    training that they give. `Experiment.config` makes it."""

    experiment: Experiment
    point: Flat
    run: AnyRun

    @cached_property
    def params(self) -> Flat:
        """The flat keys in force, as the journal has them."""
        return self.run.in_force()

    @cached_property
    def effect(self) -> str:
        """Equal for configurations that train in the same way."""
        return repr(sorted(self.params.items()))

    @property
    def grace(self) -> int:
        """The iteration before which the trial is not compared with others (`search.grace`)."""
        grace = self.experiment.search.grace
        if isinstance(grace, int):
            return grace
        return self.curriculum_end if grace == "curriculum" else 1

    @property
    def curriculum_end(self) -> int:
        """The iteration with which the curriculum ends; 0 without one."""
        return curriculum_grace(self.run)

    @cached_property
    def twin(self) -> TrialConfig:
        """Plain training with the same values of every key outside the baseline."""
        return self.experiment.config(twin_point(self.experiment, self.point))

    @property
    def is_plain(self) -> bool:
        """Whether it trains as its twin does."""
        return self.params == self.twin.params

    def with_seed(self, seed: int) -> AnyRun:
        """The same training under a seed."""
        return self.run if self.run.seed == seed else self.run.model_copy(update={"seed": seed})


@dataclass(frozen=True)
class Experiment:
    """A checked search.

    fixed      dotted keys that no trial changes
    space      the parameters
    baseline   dotted keys that make a training plain, among them pacing and weighting `none` unless the file says
               otherwise
    search     how the space is searched
    objective  the user's function that trains, if it is not a ranker of ours
    points     tried first
    """

    name: str
    fixed: Flat
    space: Space
    baseline: Flat
    search: SearchConfig
    description: str = ""
    source: str = ""
    notes: tuple[str, ...] = ()
    objective: Objective | None = None
    points: tuple[Flat, ...] = ()
    _configs: dict[Any, TrialConfig] = field(default_factory=dict, init=False, repr=False, compare=False)

    def config(self, point: Mapping[str, Any]) -> TrialConfig:
        """The configuration with these values of the parameters, made once. Raises ConfigError if they do not go
        together."""
        key = identity(point)
        if key not in self._configs:
            self._configs[key] = TrialConfig(self, dict(point), training_of(self, point))
        return self._configs[key]

    @cached_property
    def base(self) -> TrialConfig:
        """The baseline: the default training of the plain arm, whose values all trials have of keys that no space
        opens (`metric`, `seed`, `data.*`, ...)."""
        return self.config(plain_point(self, {}))

    @cached_property
    def arms(self) -> Arms:
        """What each arm searches."""
        return arms_of(self.space, self.fixed, self.baseline, self.search, self.base.run)

    def values(self, key: str) -> list[Any]:
        """Every value that a key can take in trials, or the one that all have; of a range, its ends."""
        parameter = self.space.parameters.get(key)
        if parameter is not None:
            return list(parameter.ends)
        value: Any = self.base.run
        for name in key.split("."):
            value = getattr(value, name)
        return [value]


def training_of(experiment: Experiment, point: Mapping[str, Any]) -> AnyRun:
    """The training with these values of the parameters. Raises ConfigError if they do not go together."""
    flat = {"ranker.name": DEFAULT_RANKER, **experiment.fixed, **point}
    if experiment.objective is not None:
        return validated_objective({OBJECTIVE: experiment.objective.name, **flat})
    of_ranker = ranker_fields(flat["ranker.name"])  # keys of the space's other rankers stay out
    return validated(
        unflatten({key: value for key, value in flat.items() if not key.startswith("ranker.") or key in of_ranker})
    )


def base_ranker(experiment: Experiment) -> TrainingConfig:
    """The baseline's training in a search over rankers of ours."""
    run = experiment.base.run
    assert isinstance(run, TrainingConfig)
    return run


def plain_point(experiment: Experiment, values: Mapping[str, Any]) -> Flat:
    """The values of a plain trial: the baseline's, `values`, and the middle of every other parameter outside the
    curriculum. Keys of the curriculum are left out, and so have the configuration's defaults."""
    others = {key: p for key, p in experiment.space.parameters.items() if not key.startswith(OF_CURRICULUM)}
    space = Space(others, experiment.space.fixed)
    return space.fill(lambda _, parameter: parameter.middle(), given={**experiment.baseline, **values})


def twin_point(experiment: Experiment, point: Mapping[str, Any]) -> Flat:
    """The values of a curriculum's twin: plain training with the same values of every key outside the baseline."""
    shared = experiment.arms.shared_space.fill(lambda key, parameter: point.get(key, parameter.middle()))
    return plain_point(experiment, shared)
