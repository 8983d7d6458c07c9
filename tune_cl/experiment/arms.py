"""The two arms of a search, and what each searches."""

from __future__ import annotations

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
class Arms:
    """What a search compares.

    shared_space      what both arms search, beside the baseline's values
    compares          whether the baseline sets the arms apart; else all trials are plain, such as those over a learning
                      rate alone
    pairs             whether each curriculum has a twin among the plain trials
    tunes_plain       whether there are plain trials beside the first
    varies_curricula  whether a trial may have another curriculum than the baseline
    plain_words       what the question is held against, in words (`baseline_words`)
    """

    shared_space: Space
    compares: bool
    pairs: bool
    tunes_plain: bool
    varies_curricula: bool
    plain_words: str


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
    return Arms(shared, compares, pairs, tunes_plain, varies, baseline_words(apart))


def shared_space(space: Space, baseline: Flat, read: Flat) -> Space:
    """The parameters that the baseline leaves open; those of the curriculum only where plain training reads them
    (`read`: its keys in force)."""
    shared = {
        key: parameter
        for key, parameter in space.parameters.items()
        if key not in baseline and (key in read or not key.startswith(OF_CURRICULUM))
    }
    return Space(shared, {**space.fixed, **baseline})
