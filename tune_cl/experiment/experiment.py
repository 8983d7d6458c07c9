"""What a search consists of: a space of trainings, the baseline they are compared with, and how to search."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

from pydantic.fields import FieldInfo

from trainables.config.function import Objective
from trainables.config.keys import TrainingRun, configuration_fields, ranker_fields, unflatten
from trainables.config.objective import OBJECTIVE, AnyRun, objective_fields, validated_objective
from trainables.config.rules import validated
from trainables.curriculum.scoring import TEACHERS, any_needs
from trainables.rankers import RANKERS
from trainables.training.losses import LOSSES
from tune_cl.experiment.search_keys import AUTO, PAIRS, SearchConfig
from tune_cl.samplers import SEARCHERS, Sampler
from tune_cl.schedulers import SCHEDULERS, Scheduler, Setup, promotes
from tune_cl.schedulers.scheduler import curriculum_grace
from tune_cl.space.parameters import Leaf, Range
from tune_cl.space.space import Flat, Space
from tune_cl.space.space_files import dump_yaml
from tune_cl.space.wording import OF_CURRICULUM, baseline_words


def _defaults(fields: Mapping[str, FieldInfo]) -> Flat:
    return {key: field.get_default(call_default_factory=True) for key, field in fields.items()}


Arm = Literal["plain", "curriculum"]
PLAIN: Arm = "plain"
CURRICULUM: Arm = "curriculum"
ARMS: tuple[Arm, Arm] = (PLAIN, CURRICULUM)
MOST_STARTUP = 8

ORDER = tuple(f"curriculum.{key}" for key in ("scoring", "anti", "file", "teacher", "vectors"))  # which pairs are easy

DEFAULTS, OBJECTIVE_DEFAULTS = _defaults(configuration_fields(())), _defaults(objective_fields({}))


KEPT = 256  # configurations that an experiment remembers: more than the trials that run, wait or are being proposed


@dataclass(frozen=True, eq=False)
class TrialConfig:
    """The configuration of a trial, from its proposal to its end: the values of the opened keys (`point`), and the
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
        return self.experiment.config(self.experiment.twin_values(self.point))

    @property
    def is_plain(self) -> bool:
        """Whether it trains as its twin does."""
        return self.params == self.twin.params

    def with_seed(self, seed: int) -> AnyRun:
        """The same training under another seed."""
        return self.run.model_copy(update={"seed": seed})


@dataclass(frozen=True)
class Experiment:
    """A checked search. `fixed`: flat keys; `baseline`: flat keys that make a training plain, among them pacing and
    weighting `none` unless the file says otherwise; `objective`: the user's function that trains, if it is not a ranker
    of ours.

    Trials have two arms. Curricula search all opened keys. Plain trials have the baseline's values; each is the twin of
    curricula, with their values of every other opened key.
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
    _made: dict[str, TrialConfig] = field(default_factory=dict, init=False, repr=False, compare=False)

    # -- trainings -----------------------------------------------------------------------------------------------

    def config(self, point: Mapping[str, Any]) -> TrialConfig:
        """The configuration with these values of the opened keys, made once; raises ConfigError if they do not go
        together."""
        key = repr(sorted(point.items()))
        if key not in self._made:
            self._made[key] = TrialConfig(self, dict(point), self.training_run(point))
            for oldest in list(self._made)[:-KEPT]:
                self._made.pop(oldest, None)
        return self._made[key]

    def training_run(self, point: Mapping[str, Any], seed: int | None = None) -> AnyRun:
        """The training with these values of the opened keys; raises ConfigError if they do not go together."""
        if self.objective is None:
            return self.ranker_run(point, seed)
        return validated_objective({OBJECTIVE: self.objective.name, **self._flat(point, seed)})

    def ranker_run(self, point: Mapping[str, Any], seed: int | None = None) -> TrainingRun:
        """`training_run` of a search over rankers of ours."""
        flat = self._flat(point, seed)
        ranker_keys = ranker_fields(flat["ranker.name"])  # fixed keys of the space's other rankers stay out
        return validated(
            unflatten({key: flat[key] for key in flat if not key.startswith("ranker.") or key in ranker_keys})
        )

    def _flat(self, point: Mapping[str, Any], seed: int | None) -> Flat:
        seed = self.seed if seed is None else seed
        return {"ranker.name": self.value("ranker.name"), **self.fixed, **point, "seed": seed}

    def baseline_values(self) -> Flat:
        """The baseline's values: `baseline`, and a value of each opened key that it does not name.

        Outside the curriculum these are the prior's most likely value, else the first option or the range's middle.
        Keys of the curriculum are left out, and so have the configuration's defaults.
        """
        return self._without_curriculum(self.baseline, {})

    def plain_values(self, values: Mapping[str, Any]) -> Flat:
        """The values of a plain trial. `values`: of keys of `plain_space`."""
        return self._without_curriculum({**self.baseline, **values}, {})

    def twin_values(self, point: Mapping[str, Any]) -> Flat:
        """The values of a curriculum's twin: plain training with the same values of every key outside the baseline."""
        shared = self.plain_space.decide(lambda key, leaf: point[key] if key in point else leaf.middle())
        return self.plain_values(shared)

    def _without_curriculum(self, given: Mapping[str, Any], values: Mapping[str, Any]) -> Flat:
        """`given`, and for every other opened key outside the curriculum its value in `values`, else the leaf's
        `middle`."""
        leaves = {key: leaf for key, leaf in self.space.leaves.items() if not key.startswith("curriculum.")}
        space = Space(leaves, self.space.context)
        return space.decide(lambda key, leaf: values[key] if key in values else leaf.middle(), given=given)

    @cached_property
    def base(self) -> TrialConfig:
        """The baseline's configuration."""
        return self.config(self.baseline_values())

    @property
    def base_run(self) -> AnyRun:
        """The baseline's training."""
        return self.base.run

    @property
    def base_ranker(self) -> TrainingRun:
        """`base_run` of a search over rankers of ours."""
        assert isinstance(self.base_run, TrainingRun)
        return self.base_run

    def distinct_rankers(self) -> list[TrainingRun]:
        """The baseline and a training for each combination of the opened keys that decide what trainings read: the
        ranker's keys that its texts depend on (all, if it is pre-trained), `training.loss`, the keys of negatives,
        `training.pretrain_data`, `ranker.lora.targets`, and the keys of the subset that comes first."""
        subsets = ("curriculum.subset", "curriculum.feature")
        negatives = ("training.negatives", "training.hard_negatives", "training.negative_ranks")
        negatives = (*negatives, "curriculum.negatives.schedule")
        read = ("training.loss", *negatives, "training.pretrain_data", "ranker.lora.targets", *subsets)
        return self._varied(key for key in self.space.leaves if key.startswith(read) or key in self._text_keys())

    def file_readers(self) -> list[TrainingRun]:
        """Trainings that together read every file of word vectors or difficulty and every encoder that trials can."""
        read = {"ranker.name", "ranker.vectors", "ranker.model", "curriculum.vectors", "curriculum.file"}
        return self._varied(read & self.space.leaves.keys())

    def _varied(self, keys: Iterable[str]) -> list[TrainingRun]:
        """The baseline and a training for each combination of opened keys, and of those that they depend on. Where that
        is more than there are trials, ranges with steps stay at their middle, as those without are anyway."""
        deciding = set(keys)
        runs = (self.config(point).run for point in self._combinations_of(self.space, deciding))
        return [self.base_ranker, *(run for run in runs if isinstance(run, TrainingRun))]

    def _combinations_of(self, space: Space, keys: set[str]) -> Iterable[Flat]:
        deciding = set(keys)
        for key in list(space.leaves)[::-1]:
            if key in deciding:
                deciding |= space.leaves[key].when.keys()
        few = space.only(deciding)
        if (few.combinations() or 0) > self.search.trials:  # a trial makes what it does not share
            few = space.only(deciding - {key for key, leaf in space.leaves.items() if isinstance(leaf, Range)})
        return few.grid()

    def _text_keys(self) -> set[str]:
        """The `ranker.*` keys that decide which text preparation trials can share."""
        if "training.pretrain_data" in self.space.leaves or self.value("training.pretrain_data") is not None:
            return {key for key in self.space.leaves if key.startswith("ranker.")}
        kinds = [RANKERS[name].settings for name in self.rankers]
        return {"ranker.name", *(f"ranker.{key}" for kind in kinds for key in kind.text_keys)}

    # -- configuration values that all trials share --------------------------------------------------------------

    def value(self, key: str) -> Any:
        """The value of a key that no trial changes."""
        return self.fixed.get(key, (OBJECTIVE_DEFAULTS if self.objective else DEFAULTS)[key])

    @property
    def seed(self) -> int:
        return self.value("seed")

    @property
    def metric(self) -> str:
        return self.value("metric")

    @property
    def max_iterations(self) -> int:
        return self.value("training.max_iterations")

    # -- early stopping and cost ---------------------------------------------------------------------------------

    @property
    def scorings(self) -> list[str]:
        """Every scoring function that a trial can use."""
        return self.values("curriculum.scoring")

    @property
    def rankers(self) -> list[str]:
        """Every ranker that a trial can train."""
        return self.values("ranker.name")

    @property
    def teachers(self) -> list[str]:
        """What a trial's order, loss or negatives can read of teachers, some of TEACHERS."""
        by_loss = any(LOSSES[name].reads_teacher for name in self.values("training.loss"))
        reads = {"teacher"} if by_loss or "teacher" in self.values("training.hard_negatives") else set()
        return [need for need in TEACHERS if need in reads or any_needs(self.scorings, need)]

    def values(self, key: str) -> list[Any]:
        """Every value that a key can take in trials, or the one that all have; of a range, its ends."""
        leaves = [leaf for space in (self.space, self.plain_space) if (leaf := space.leaves.get(key))]
        return list(dict.fromkeys(value for leaf in leaves for value in leaf.samples())) or [self.value(key)]

    # -- the two arms --------------------------------------------------------------------------------------------

    @cached_property
    def shared_leaves(self) -> dict[str, Leaf]:
        """The opened keys that the baseline leaves open, those of the curriculum only where plain training reads
        them: both arms search them."""
        read = self.base.params
        leaves = self.space.leaves.items()
        open_to_both = {key: leaf for key, leaf in leaves if key not in self.baseline}
        return {key: leaf for key, leaf in open_to_both.items() if not key.startswith("curriculum.") or key in read}

    @cached_property
    def plain_space(self) -> Space:
        """What plain trials search: `shared_leaves` beside the baseline's values."""
        return Space(self.shared_leaves, {**self.space.context, **self.baseline})

    @cached_property
    def compares(self) -> bool:
        """Whether the baseline sets the arms apart; else all trials are plain, such as those over a learning rate
        alone."""
        if len(self.shared_leaves) < len(self.space.leaves):
            return True
        defaults = OBJECTIVE_DEFAULTS if self.objective else DEFAULTS
        return any(self.fixed.get(key, defaults.get(key, value)) != value for key, value in self.baseline.items())

    @cached_property
    def varies_curricula(self) -> bool:
        """Whether a trial may have another curriculum than the baseline: the space opens a key of them, or fixes one
        that the baseline turns off. What the trials of a search had is `history.state.over_curricula`."""
        curricula = [key for key in self.baseline if key.startswith(OF_CURRICULUM)]
        opened = any(key.startswith(OF_CURRICULUM) for key in self.space.leaves)
        return opened or any(self.fixed.get(key, self.baseline[key]) != self.baseline[key] for key in curricula)

    @property
    def plain_words(self) -> str:
        """What the question is held against, in words (`baseline_words`)."""
        apart = {
            key: value
            for key, value in self.baseline.items()
            if self.varies_curricula or not key.startswith(OF_CURRICULUM)
        }
        return baseline_words(apart)

    @property
    def pairs(self) -> bool:
        """Whether each curriculum has a twin among the plain trials."""
        return self.compares and self.search.plain == PAIRS

    @property
    def tunes_plain(self) -> bool:
        """Whether the search itself has plain trials beside the first."""
        return self.pairs and bool(self.shared_leaves)

    @property
    def combinations(self) -> dict[Arm, float]:
        """How many different trials each arm can have."""
        plain = self.plain_space.combinations() if self.tunes_plain else 1
        of_arms: dict[Arm, int | None] = {PLAIN: plain, CURRICULUM: self.space.combinations()}
        return {arm: math.inf if most is None else most for arm, most in of_arms.items()}

    @cached_property
    def arm_trials(self) -> dict[Arm, int]:
        """Trials of each arm, the default included in the plain one: no more than can be different. Where curricula
        share a twin, there are more of them, and fewer plain trials."""
        every, most = self.search.trials, self.combinations
        plain = min(math.ceil(every / 2) if self.tunes_plain else 1, most[PLAIN])
        others = min(every - plain, most[CURRICULUM])
        plain = min(plain, 1 + others)
        return {PLAIN: int(plain), CURRICULUM: int(others)}

    @property
    def trials(self) -> int:
        """Trials of the search, of both arms."""
        return sum(self.arm_trials.values())

    def startup_trials(self, arm: Arm) -> int:
        """How many trials of an arm its sampler draws at random before it models the space."""
        asked = self.search.startup_trials
        return max(1, min(MOST_STARTUP, self.arm_trials[arm] // 3)) if asked == AUTO else asked

    @property
    def rungs(self) -> list[int]:
        """Iterations at which trials are compared."""
        return self.setup.rungs

    @property
    def setup(self) -> Setup:
        """What its scheduler needs to know."""
        search = self.search
        return Setup(
            max_iterations=self.max_iterations,
            reduction_factor=search.reduction_factor,
            grace=search.grace,
            first_rung=search.first_rung,
            promotion=promotes(search.scheduler, search.promotion),
        )

    @property
    def compares_inside_curricula(self) -> bool:
        """Whether its scheduler compares trials inside their curricula regardless of `search.grace`."""
        return self.setup.promotion and SCHEDULERS[self.search.scheduler].knows_graces

    def scheduler(self) -> Scheduler:
        """A new one, which has seen no trial."""
        return SCHEDULERS[self.search.scheduler](self.setup)

    def sampler(self, arm: Arm = CURRICULUM) -> Sampler:
        """A new one of an arm, which has seen no trial."""
        searcher, startup = self.search.searcher, self.startup_trials(arm)
        if arm == PLAIN:
            endless = searcher == "grid" and self.plain_space.continuous
            sampler = SEARCHERS["random" if endless else searcher](self.plain_space, self.seed, startup)
            sampler.set_effect(lambda values: self.config(self.plain_values(values)).effect, self.base.point)
            sampler.repeats = True  # only another curriculum is trained beside the twin
            return sampler
        sampler = SEARCHERS[searcher](self.space, self.seed, startup, self.search.first)
        sampler.set_effect(self._effect, self.base.point)
        sampler.covered = self.shared_leaves
        return sampler

    def _effect(self, point: Flat) -> str:
        """Equal for points of the curriculum arm that train in the same way; all plain trainings have the effect of the
        baseline, which no trial of this arm has."""
        config = self.config(point)
        return PLAIN if self.compares and config.is_plain else config.effect

    # -- as YAML -------------------------------------------------------------------------------------------------

    def to_yaml(self) -> str:
        """The experiment, including what the command line changed, as a search-space file."""
        return dump_yaml(
            {
                "name": self.name,
                **({OBJECTIVE: self.objective.record} if self.objective else {}),
                "description": self.description,
                "source": self.source,
                **self.fixed,
                **{key: leaf.document() for key, leaf in self.space.leaves.items()},
                "baseline": self.baseline,
                "search": self.search.model_dump(),
            }
        )
