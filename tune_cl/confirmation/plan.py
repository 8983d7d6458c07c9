"""What a search's confirmation trains: the best configurations on dev and the baseline, each with the same seeds."""

from __future__ import annotations

import re
from collections.abc import Collection, Hashable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from itertools import count, islice
from pathlib import Path
from typing import Any

from trainables.config import TrainingRun
from trainables.errors import ConfigError, Problem
from tune_cl.configurations import seedless, training_key
from tune_cl.experiment import Experiment
from tune_cl.place import Place
from tune_cl.search.space import Flat, short
from tune_cl.state import SearchState, TrialState
from tune_cl.wording import NAMED, off

BASELINE = "baseline"
LONGEST = 128  # characters of a folder's name; most file systems allow 255 bytes


@dataclass(frozen=True)
class Configuration:
    """A row of the verdict. `choice`: values of the opened keys; `params`: flat keys in force, without the seed."""

    label: str
    trial: str
    choice: Flat
    params: Flat

    @property
    def folder(self) -> str:
        """The name of its folder: the trial id and the label, shortened if need be."""
        name = f"{self.trial}-{re.sub(r'[^A-Za-z0-9=.+-]+', '_', self.label)}"
        if len(name) <= LONGEST:
            return name
        return f"{name[: LONGEST - 13]}-{sha256(name.encode()).hexdigest()[:12]}"


@dataclass(frozen=True)
class SeedRun:
    """One training of the confirmation, and the folder of all it leaves. `remote`: that folder's address if the search
    is in S3; `folder` is then this machine's copy."""

    configuration: Configuration
    seed: int
    run: TrainingRun
    folder: Path
    remote: str | None = None

    @property
    def name(self) -> str:
        return f"{self.configuration.label}, seed {self.seed}"


def seed_run(experiment: Experiment, configuration: Configuration, seed: int, place: Place) -> SeedRun:
    run = experiment.training_run(configuration.choice, seed)
    parts = ("confirmation", configuration.folder, f"seed-{seed}")
    remote = place.below(*parts) if place.remote else None
    return SeedRun(configuration, seed, run, place.folder.joinpath(*parts), remote)


def seeds_of(number: int, searched: Collection[int]) -> list[int]:
    """The first `number` seeds from 1 on, without those that were searched with. A higher number only adds seeds at the
    end."""
    return list(islice((seed for seed in count(1) if seed not in searched), number))


def baseline_of(state: SearchState, experiment: Experiment) -> Configuration:
    params = seedless(experiment.base_run().in_force())
    return Configuration(BASELINE, state.baseline, experiment.baseline_choice(), params)


def best_configurations(state: SearchState, baseline: Configuration, top: int) -> list[Configuration]:
    """The `top` best configurations on dev, best first, each once; without failed trials and the baseline.

    Labels do not depend on `top`. Raises ConfigError if no configuration is left.
    """
    labelled = configurations(state, baseline)
    place: dict[Hashable, int] = {}  # of a configuration's best trial: several choices may be the same configuration
    for trial, _ in state.ranked():
        place.setdefault(training_key(trial.params), len(place))
    known = [(place[key], found) for found in labelled.values() if (key := training_key(found.params)) in place]
    if not known:
        right = "a search with at least one trial besides the baseline that did not fail"
        raise ConfigError(Problem("NAME", f"search '{state.name}' has no configuration to confirm", right))
    return [found for _, found in sorted(known, key=lambda pair: pair[0])][:top]


def configurations(state: SearchState, baseline: Configuration) -> dict[str, Configuration]:
    """The distinct configurations of sound trials, without the baseline's, by label, in the order of the trials."""
    found: dict[str, Configuration] = {}
    known = {training_key(baseline.params)}
    for trial in state.by_number():
        if trial.baseline or trial.outcome == "failed" or (key := training_key(trial.params)) in known:
            continue
        known.add(key)
        label = label_of(trial, baseline.params)
        label = f"{label} ({trial.trial})" if label in found or label == BASELINE else label
        found[label] = Configuration(label, trial.trial, trial.chosen, seedless(trial.params))
    return found


def label_of(trial: TrialState, baseline: Mapping[str, Any]) -> str:
    """A configuration in a few words, e.g. `root n=2, response_words`: how its curriculum differs from the baseline's,
    and the other keys that the space opens."""
    differing = {key: value for key, value in trial.params.items() if baseline.get(key) != value}
    words = curriculum_words({key: differing.get(f"curriculum.{key}") for key in NAMED})
    rest = [key for key in trial.chosen if key in trial.params and key not in {f"curriculum.{name}" for name in NAMED}]
    words += [setting(key, trial.params[key]) for key in rest]
    return ", ".join(words) or trial.trial


def setting(key: str, value: Any) -> str:
    """A key not in NAMED as it stands in a label, e.g. `lr=0.02`; a ranker is given by its name alone."""
    return short(value) if key == "ranker.name" else f"{key.rsplit('.', 1)[-1]}={short(value)}"


def curriculum_words(chosen: Mapping[str, Any]) -> list[str]:
    """The values of NAMED in a label, each beside the number that belongs to it."""
    said = {key: "" if off(value) else short(value) for key, value in chosen.items()}
    numbers = {key: f"{key}={said[key]}" if said[key] else "" for key in ("n", "m", "switch")}
    words = (
        f"{said['pacing']} {numbers['n']}",
        said["scoring"],
        f"{said['weighting']} {numbers['m']}",
        f"{said['subset']} {said['objective_switch']} {numbers['switch']}",
        "anti" if chosen["anti"] else "",
    )
    return [" ".join(word.split()) for word in words if word.strip()]
