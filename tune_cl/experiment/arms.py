"""The two arms of a search: what each searches, and how many trials it gets."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from trainables.config.keys import configuration_fields
from trainables.config.objective import AnyRun, ObjectiveRun, objective_fields
from tune_cl.experiment.search_keys import PAIRS, SearchConfig
from tune_cl.results import Arm
from tune_cl.space.space import Flat, Space
from tune_cl.space.wording import OF_CURRICULUM, baseline_words

PLAIN: Arm = "plain"
CURRICULUM: Arm = "curriculum"
ARMS: tuple[Arm, Arm] = (PLAIN, CURRICULUM)
ORDER = tuple(f"curriculum.{key}" for key in ("scoring", "anti", "file", "teacher", "vectors"))  # which pairs are easy


def defaults_of(fields: Mapping[str, Any]) -> Flat:
    return {key: one.get_default(call_default_factory=True) for key, one in fields.items() if not one.is_required()}


DEFAULTS = defaults_of(configuration_fields(()))
OBJECTIVE_DEFAULTS = defaults_of(objective_fields({}))


@dataclass(frozen=True)
class ArmPlan:
    """How many trials an arm gets, and the keys that they search."""

    trials: int
    opened: tuple[str, ...]


@dataclass(frozen=True)
class Arms:
    """What a search compares.

    shared_space      what both arms search, beside the baseline's values
    plans             what each arm gets; the default is a trial of the plain one
    compares          whether the baseline sets the arms apart; else all trials are plain, such as those over a learning
                      rate alone
    pairs             whether each curriculum has a twin among the plain trials
    tunes_plain       whether there are plain trials beside the first
    varies_curricula  whether a trial may have another curriculum than the baseline; what the trials of a search had is
                      `history.state.over_curricula`
    plain_words       what the question is held against, in words (`baseline_words`)
    """

    shared_space: Space
    plans: dict[Arm, ArmPlan]
    compares: bool
    pairs: bool
    tunes_plain: bool
    varies_curricula: bool
    plain_words: str

    @property
    def trials(self) -> dict[Arm, int]:
        """Trials of each arm."""
        return {arm: plan.trials for arm, plan in self.plans.items()}

    @property
    def total(self) -> int:
        """Trials of the search, of both arms."""
        return sum(self.trials.values())


def arms_of(space: Space, fixed: Flat, baseline: Flat, search: SearchConfig, base: AnyRun) -> Arms:
    """The arms of a space. base: the baseline's training."""
    shared = shared_space(space, baseline, base.in_force())
    fewer = len(shared.parameters) < len(space.parameters)
    defaults = OBJECTIVE_DEFAULTS if isinstance(base, ObjectiveRun) else DEFAULTS
    values = {**baseline, **defaults, **fixed}
    compares = fewer or any(values[key] != value for key, value in baseline.items())
    pairs = compares and search.plain == PAIRS
    tunes_plain = pairs and bool(shared.parameters)
    off = {key: value for key, value in baseline.items() if key.startswith(OF_CURRICULUM)}
    opened = any(key.startswith(OF_CURRICULUM) for key in space.parameters)
    varies = opened or any(fixed.get(key, value) != value for key, value in off.items())
    apart = {key: value for key, value in baseline.items() if varies or key not in off}
    most_plain = combinations(shared) if tunes_plain else 1
    trials = arm_trials(search.trials, most_plain, combinations(space), tunes_plain)
    opened_in_plain = tuple(shared.parameters) if trials[PLAIN] > 1 else ()
    plans: dict[Arm, ArmPlan] = {
        PLAIN: ArmPlan(trials[PLAIN], opened_in_plain),
        CURRICULUM: ArmPlan(trials[CURRICULUM], tuple(space.parameters)),
    }
    return Arms(shared, plans, compares, pairs, tunes_plain, varies, baseline_words(apart))


def shared_space(space: Space, baseline: Flat, read: Flat) -> Space:
    """The parameters that the baseline leaves open; those of the curriculum only where plain training reads them
    (`read`: its keys in force)."""
    shared = {
        key: parameter
        for key, parameter in space.parameters.items()
        if key not in baseline and (key in read or not key.startswith(OF_CURRICULUM))
    }
    return Space(shared, {**space.fixed, **baseline})


def combinations(space: Space) -> float:
    """How many different trials there are."""
    most = space.combinations()
    return math.inf if most is None else most


def arm_trials(asked: int, most_plain: float, most_curricula: float, tunes_plain: bool) -> dict[Arm, int]:
    """Trials of each arm: no more than can be different. Where curricula share a twin, there are more of them, and
    fewer plain trials."""
    plain = min(math.ceil(asked / 2) if tunes_plain else 1, most_plain)
    curricula = min(asked - plain, most_curricula)
    return {PLAIN: int(min(plain, 1 + curricula)), CURRICULUM: int(curricula)}
