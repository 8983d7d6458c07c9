"""The configurations of a search that a verdict may train again, each once, in words."""

from __future__ import annotations

import re
from collections.abc import Collection, Hashable, Iterable
from dataclasses import dataclass
from hashlib import sha256

from trainables.core.errors import ConfigError, Problem
from tune_cl.experiment.arms import CURRICULUM, PLAIN
from tune_cl.experiment.experiment import Experiment
from tune_cl.history.state import SearchState, seedless, training_key
from tune_cl.space.space import Flat
from tune_cl.space.wording import DEFAULT, trial_words

LONGEST = 128  # characters of a folder's name; most file systems allow 255 bytes


@dataclass(frozen=True)
class Contender:
    """A configuration that is trained with new seeds.

    trial   its trial in the search; of an opponent made for the test (`of_search` false) its role
    point   values of the opened keys
    params  flat keys in force, without the seed
    """

    label: str
    trial: str
    point: Flat
    params: Flat
    of_search: bool = True

    @property
    def trial_id(self) -> str | None:
        return self.trial if self.of_search else None

    @property
    def folder(self) -> str:
        """The name of its folder: the trial id and the label, shortened if need be."""
        name = f"{self.trial}-{re.sub(r'[^A-Za-z0-9=.+-]+', '_', self.label)}"
        if len(name) <= LONGEST:
            return name
        return f"{name[: LONGEST - 13]}-{sha256(name.encode()).hexdigest()[:12]}"


def default_contender(state: SearchState, experiment: Experiment) -> Contender:
    """That of the first trial."""
    base = experiment.base
    return Contender(DEFAULT, state.baseline, base.point, seedless(base.params))


def curricula(state: SearchState, default: Contender) -> dict[str, Contender]:
    """The distinct configurations of sound trials with a curriculum, by label, in the order of the trials."""
    labelled: dict[str, Contender] = {}
    keys = {training_key(default.params)}
    for trial in state.by_number():
        key = training_key(trial.params)
        if trial.arm == PLAIN or trial.outcome == "failed" or key in keys:
            continue
        keys.add(key)
        label = trial.words
        label = f"{label} ({trial.trial})" if label in labelled else label
        labelled[label] = Contender(label, trial.trial, trial.point, seedless(trial.params))
    return labelled


def best_curricula(
    state: SearchState, default: Contender, top: int | None = None, among: Collection[str] | None = None
) -> list[Contender]:
    """The `top` best curricula on dev, best first. `among`: the trials that count; None: all. Labels do not depend on
    `top`. Raises ConfigError if no curriculum is left."""
    ranks: dict[Hashable, int] = {}  # of a configuration's best trial: several trials may have the same
    for trial, _ in state.ranked_of(CURRICULUM):
        if among is None or trial.trial in among:
            ranks.setdefault(training_key(trial.params), len(ranks))
    ranked = {
        ranks[key]: one for one in curricula(state, default).values() if (key := training_key(one.params)) in ranks
    }
    if not ranked:
        right = "a search with at least one trial besides the baseline that did not fail"
        raise ConfigError(Problem("NAME", f"search '{state.name}' has no configuration to confirm", right))
    return [ranked[rank] for rank in sorted(ranked)][:top]


def plain_contenders(state: SearchState, default: Contender) -> list[Contender]:
    """The distinct configurations of plain trials, best on dev first; without failed trials."""
    by_key: dict[Hashable, Contender] = {}
    for trial, _ in state.ranked_of(PLAIN):
        key = training_key(trial.params)
        if key in by_key:
            continue
        params = seedless(trial.params)
        label = plain_label(trial.point, params, trial.trial, by_key.values())
        by_key[key] = default if trial.baseline else Contender(label, trial.trial, trial.point, params)
    return list(by_key.values())


def plain_label(point: Flat, params: Flat, trial: str, others: Iterable[Contender]) -> str:
    """A configuration without a curriculum in words; with its trial if another one has the same."""
    label = trial_words(point, params, plain=True)
    return f"{label} ({trial})" if any(one.label == label for one in others) else label


def contenders_by_training(state: SearchState, experiment: Experiment) -> dict[Hashable, Contender]:
    """The configurations of all sound trials, by what they train."""
    default = default_contender(state, experiment)
    contenders = [*curricula(state, default).values(), default, *plain_contenders(state, default)]
    return {training_key(one.params): one for one in reversed(contenders)}  # the first of equal ones
