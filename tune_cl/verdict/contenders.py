"""The configurations of a search that a verdict may train again, each once, in words."""

from __future__ import annotations

import re
from collections.abc import Collection, Hashable, Mapping
from dataclasses import dataclass
from hashlib import sha256

from tune_cl.experiment.arms import PLAIN, Arm
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


Contenders = Mapping[Hashable, Contender]  # by what they train (`training_key`)


def contenders_by_training(state: SearchState, experiment: Experiment) -> dict[Hashable, Contender]:
    """The configurations of all sound trials: the default, then in the order of the trials."""
    base = experiment.base
    default = Contender(DEFAULT, state.baseline, base.point, seedless(base.params))
    found: dict[Hashable, Contender] = {training_key(base.params): default}
    for trial in state.by_number():
        key = training_key(trial.params)
        if trial.outcome == "failed" or key in found:
            continue
        params = seedless(trial.params)
        words = trial_words(trial.point, params, plain=True) if trial.arm == PLAIN else trial.words
        found[key] = Contender(distinct_label(words, trial.trial, found), trial.trial, trial.point, params)
    return found


def distinct_label(words: str, trial: str, others: Contenders) -> str:
    """With its trial if another one is called the same."""
    return f"{words} ({trial})" if any(one.label == words for one in others.values()) else words


def best_contenders(
    state: SearchState, contenders: Contenders, arm: Arm, among: Collection[str] | None = None
) -> list[Contender]:
    """Those of an arm, best on dev first. `among`: the trials that count; None: all."""
    ranked = [trial for trial, _ in state.ranked_of(arm) if among is None or trial.trial in among]
    keys = dict.fromkeys(training_key(trial.params) for trial in ranked)
    default = next(iter(contenders))
    return [contenders[key] for key in keys if arm == PLAIN or key != default]
