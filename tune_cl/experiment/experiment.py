"""What a search consists of: a space of trainings, the baseline they are compared with, and how to search.

Trials have two arms. Curricula search all parameters of the space. Plain trials have the baseline's values; each is the
twin of curricula, with their values of every other parameter.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from pydantic import BaseModel

from trainables.config.function import Objective
from trainables.config.keys import TrainingRun, configuration_fields, ranker_fields, unflatten, validated
from trainables.config.objective import OBJECTIVE, AnyRun, objective_fields, validated_objective
from tune_cl.experiment.search_keys import PAIRS, SearchConfig
from tune_cl.results import Arm
from tune_cl.schedulers.scheduler import curriculum_grace
from tune_cl.space.space import Flat, Space, identity
from tune_cl.space.space_files import dump_yaml
from tune_cl.space.wording import OF_CURRICULUM, baseline_words

PLAIN: Arm = "plain"
CURRICULUM: Arm = "curriculum"
ARMS: tuple[Arm, Arm] = (PLAIN, CURRICULUM)

OFF: Flat = {"curriculum.pacing": "none", "curriculum.weighting": "none"}  # of every baseline that says nothing else
ORDER = tuple(f"curriculum.{key}" for key in ("scoring", "anti", "file", "teacher", "vectors"))  # which pairs are easy


def defaults_of(fields: Mapping[str, Any]) -> Flat:
    return {key: one.get_default(call_default_factory=True) for key, one in fields.items() if not one.is_required()}


DEFAULTS = defaults_of(configuration_fields(()))
OBJECTIVE_DEFAULTS = defaults_of(objective_fields({}))


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
        """The same training under another seed."""
        return self.run.model_copy(update={"seed": seed})


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
            self._configs[key] = TrialConfig(self, dict(point), self.training(point))
        return self._configs[key]

    def training(self, point: Mapping[str, Any]) -> AnyRun:
        """The training with these values of the parameters. Raises ConfigError if they do not go together."""
        flat = {"ranker.name": self.value("ranker.name"), **self.fixed, **point}
        if self.objective is not None:
            return validated_objective({OBJECTIVE: self.objective.name, **flat})
        of_ranker = ranker_fields(flat["ranker.name"])  # fixed keys of the space's other rankers stay out
        return validated(
            unflatten({key: flat[key] for key in flat if not key.startswith("ranker.") or key in of_ranker})
        )

    def value(self, key: str) -> Any:
        """The value of a key that no trial changes."""
        return self.fixed[key] if key in self.fixed else self.defaults[key]

    @property
    def defaults(self) -> Flat:
        """Of every key but the ranker's own."""
        return OBJECTIVE_DEFAULTS if self.objective else DEFAULTS

    @property
    def seed(self) -> int:
        return self.value("seed")

    @property
    def metric(self) -> str:
        return self.value("metric")

    @property
    def max_iterations(self) -> int:
        return self.value("training.max_iterations")

    @cached_property
    def base(self) -> TrialConfig:
        """The baseline: the default training of the plain arm."""
        return self.config(plain_point(self, {}))

    @property
    def base_ranker(self) -> TrainingRun:
        """The baseline's training in a search over rankers of ours."""
        assert isinstance(self.base.run, TrainingRun)
        return self.base.run

    @property
    def rankers(self) -> list[str]:
        """Every ranker that a trial can train."""
        return values_of(self, "ranker.name")

    # -- the two arms --------------------------------------------------------------------------------------------

    @cached_property
    def shared_space(self) -> Space:
        """What both arms search, beside the baseline's values: the parameters that the baseline leaves open, those of
        the curriculum only where plain training reads them."""
        read = self.base.params
        shared = {
            key: parameter
            for key, parameter in self.space.parameters.items()
            if key not in self.baseline and (key in read or not key.startswith(OF_CURRICULUM))
        }
        return Space(shared, {**self.space.fixed, **self.baseline})

    @cached_property
    def compares(self) -> bool:
        """Whether the baseline sets the arms apart; else all trials are plain, such as those over a learning rate
        alone."""
        values = {**self.baseline, **self.defaults, **self.fixed}
        apart = any(values[key] != value for key, value in self.baseline.items())
        return apart or len(self.shared_space.parameters) < len(self.space.parameters)

    @property
    def varies_curricula(self) -> bool:
        """Whether a trial may have another curriculum than the baseline: the space opens a key of them, or fixes one
        that the baseline turns off. What the trials of a search had is `history.state.over_curricula`."""
        opened = any(key.startswith(OF_CURRICULUM) for key in self.space.parameters)
        off = {key: value for key, value in self.baseline.items() if key.startswith(OF_CURRICULUM)}
        return opened or any(self.fixed.get(key, value) != value for key, value in off.items())

    @property
    def plain_words(self) -> str:
        """What the question is held against, in words (`baseline_words`)."""
        all_keys = self.varies_curricula
        apart = {key: v for key, v in self.baseline.items() if all_keys or not key.startswith(OF_CURRICULUM)}
        return baseline_words(apart)

    @property
    def pairs(self) -> bool:
        """Whether each curriculum has a twin among the plain trials."""
        return self.compares and self.search.plain == PAIRS

    @property
    def tunes_plain(self) -> bool:
        """Whether there are plain trials beside the first."""
        return self.pairs and bool(self.shared_space.parameters)

    @property
    def combinations(self) -> dict[Arm, float]:
        """How many different trials each arm can have."""
        plain = self.shared_space.combinations() if self.tunes_plain else 1
        of_arms: dict[Arm, int | None] = {PLAIN: plain, CURRICULUM: self.space.combinations()}
        return {arm: math.inf if most is None else most for arm, most in of_arms.items()}

    @cached_property
    def arm_trials(self) -> dict[Arm, int]:
        """Trials of each arm, the default included in the plain one: no more than can be different. Where curricula
        share a twin, there are more of them, and fewer plain trials."""
        every, most = self.search.trials, self.combinations
        plain = min(math.ceil(every / 2) if self.tunes_plain else 1, most[PLAIN])
        others = min(every - plain, most[CURRICULUM])
        return {PLAIN: int(min(plain, 1 + others)), CURRICULUM: int(others)}

    @property
    def trials(self) -> int:
        """Trials of the search, of both arms."""
        return sum(self.arm_trials.values())

    def to_yaml(self) -> str:
        """The experiment, including what the command line changed, as a search-space file."""
        record = {OBJECTIVE: self.objective.record} if self.objective else {}
        texts = {"description": self.description, "source": self.source}
        fixed = {key: v.model_dump() if isinstance(v, BaseModel) else v for key, v in self.fixed.items()}
        ranges = {key: parameter.document() for key, parameter in self.space.parameters.items()}
        settings = {"baseline": self.baseline, "search": self.search.model_dump()}
        return dump_yaml({"name": self.name, **record, **texts, **fixed, **ranges, **settings})


def plain_point(experiment: Experiment, values: Mapping[str, Any]) -> Flat:
    """The values of a plain trial: the baseline's, `values`, and the middle of every other parameter outside the
    curriculum. Keys of the curriculum are left out, and so have the configuration's defaults."""
    others = {key: p for key, p in experiment.space.parameters.items() if not key.startswith(OF_CURRICULUM)}
    space = Space(others, experiment.space.fixed)
    return space.fill(lambda _, parameter: parameter.middle(), given={**experiment.baseline, **values})


def twin_point(experiment: Experiment, point: Mapping[str, Any]) -> Flat:
    """The values of a curriculum's twin: plain training with the same values of every key outside the baseline."""
    shared = experiment.shared_space.fill(lambda key, parameter: point.get(key, parameter.middle()))
    return plain_point(experiment, shared)


def values_of(experiment: Experiment, key: str) -> list[Any]:
    """Every value that a key can take in trials, or the one that all have; of a range, its ends."""
    parameter = experiment.space.parameters.get(key)
    return list(dict.fromkeys(parameter.ends)) if parameter else [experiment.value(key)]
