"""What `tune-cl confirm` is asked for: its options, configurations and trainings."""

from __future__ import annotations

import re
from collections.abc import Collection, Hashable, Iterable
from dataclasses import asdict, dataclass
from hashlib import sha256
from itertools import count, islice
from pathlib import Path
from shlex import quote

from trainables.config.objective import AnyRun
from trainables.core.errors import ConfigError, Problem
from trainables.evaluation.significance import CORRECTIONS, MOST_SEEDS
from tune_cl.experiment.experiment import CURRICULUM, PLAIN, Experiment
from tune_cl.history.search_folder import SearchFolder
from tune_cl.history.state import SearchState, seedless, training_key
from tune_cl.space.space import Flat
from tune_cl.space.wording import DEFAULT, trial_words

MANY = 12  # trials of a search: three candidates of each arm cost half of it
FIRST_LOOK = 3  # seeds: two tell too little of how much the seed matters


@dataclass(frozen=True)
class Request:
    """The options of `tune-cl confirm`. Raises ConfigError for values that make no sense."""

    top: int | None = None
    seeds: int = 5
    split: str = "test"
    correction: str = "holm"
    until_settled: bool = False
    max_seeds: int = 20
    against: tuple[str, ...] = ()
    each: bool = False
    new_noise: bool = False
    unfinished: bool = False
    trials: tuple[str, ...] = ()
    against_trial: str | None = None
    best_of: str | None = None
    selection_seeds: int | None = None

    def __post_init__(self) -> None:
        flags = {"--top": self.top, "--seeds": self.seeds, "--selection-seeds": self.selection_seeds}
        flags = {flag: value for flag, value in flags.items() if value is not None}
        problems = [Problem(flag, f"{value} is below 1", "1 or more") for flag, value in flags.items() if value < 1]
        if self.until_settled and not FIRST_LOOK <= self.max_seeds <= MOST_SEEDS:
            wrong = f"{self.max_seeds} is not between {FIRST_LOOK} and {MOST_SEEDS}"
            right = f"{FIRST_LOOK} or more: the first interim analysis is after {FIRST_LOOK} seeds"
            problems.append(Problem("--max-seeds", wrong, right))
        try:
            _ = CORRECTIONS[self.correction]
        except ConfigError as error:
            problems += [Problem("--correction", problem.wrong, problem.right) for problem in error.problems]
        choices = {"--each": self.each, "--trials": self.trials, "--best-of": self.best_of}
        if len(given := [flag for flag, value in choices.items() if value]) > 1:
            problems.append(Problem(given[1], f"not together with {given[0]}", "one of the two"))
        if self.against_trial in self.trials:
            wrong = f"'{self.against_trial}' is one of --trials, too"
            problems.append(Problem("--against-trial", wrong, "a trial that is not tested itself"))
        if problems:
            raise ConfigError(problems)

    @property
    def tests_all(self) -> bool:
        """Whether every curriculum that is chosen is tested, and not only the one that dev selects."""
        return self.each or bool(self.trials) or self.best_of is not None

    def candidates(self, trials: int) -> int:
        """How many configurations of each arm a selection compares after a search of so many trials, or of curricula
        are tested with `each` (of plain ones alone with `trials` and `best_of`)."""
        if self.top is not None:
            return self.top
        return 3 if self.tests_all or trials >= MANY else 2

    @property
    def most(self) -> int:
        """The largest number of seeds that it trains."""
        return self.max_seeds if self.until_settled else self.seeds

    def command(self, search_folder: SearchFolder, address: str | None) -> str:
        """What a user types to ask for it."""
        top = "" if self.top is None else f"--top {self.top} "
        seeds = f"--until-settled --max-seeds {self.max_seeds}" if self.until_settled else f"--seeds {self.seeds}"
        options = f"{top}{seeds} --split {self.split} --correction {self.correction}"
        on = [name for name in ("each", "new_noise", "unfinished") if getattr(self, name)]
        flags = "".join(f" --{name.replace('_', '-')}" for name in on)
        flags += "".join(f" --against {quote(name)}" for name in self.against)
        named = {"trials": ",".join(self.trials), "against-trial": self.against_trial, "best-of": self.best_of}
        named["selection-seeds"] = self.selection_seeds
        flags += "".join(f" --{flag} {quote(str(value))}" for flag, value in named.items() if value)
        return f"{search_folder.command('confirm', address)} {options}{flags}"

    def call(self, search_folder: SearchFolder, address: str | None) -> str:
        """The same in Python."""
        default = Request()
        given = {name: value for name, value in asdict(self).items() if value != getattr(default, name)}
        return search_folder.call("confirm", **given, address=address)


NOISE_SEED = "data.label_noise.seed"
ONE_TRAINING = "An existing ranker is one training: its p-values cover new queries, not new trainings."
LONGEST = 128  # characters of a folder's name; most file systems allow 255 bytes


@dataclass(frozen=True)
class Configuration:
    """A row of the verdict. `point`: values of the opened keys; `params`: flat keys in force, without the seed;
    `of_search`: whether `trial` is a trial of the search; else it is the role of an opponent made for the test."""

    label: str
    trial: str
    point: Flat
    params: Flat
    of_search: bool = True

    @property
    def folder(self) -> str:
        """The name of its folder: the trial id and the label, shortened if need be."""
        name = f"{self.trial}-{re.sub(r'[^A-Za-z0-9=.+-]+', '_', self.label)}"
        if len(name) <= LONGEST:
            return name
        return f"{name[: LONGEST - 13]}-{sha256(name.encode()).hexdigest()[:12]}"


@dataclass(frozen=True)
class SeedRun:
    """One training of the confirmation, the split that it is judged on, and the folder of all it leaves. `remote`: that
    folder's address if the search is in S3; `folder` is then this machine's copy."""

    configuration: Configuration
    seed: int
    run: AnyRun
    split: str
    folder: Path
    remote: str | None = None

    @property
    def name(self) -> str:
        return f"{self.configuration.label}, seed {self.seed}"

    @property
    def trial(self) -> str:
        """Its id beside those of the search's trials."""
        return f"{self.configuration.folder}-{self.folder.name}"

    @property
    def address(self) -> str:
        """Its folder, here or in S3."""
        return self.remote or str(self.folder)


def seed_run(
    experiment: Experiment,
    configuration: Configuration,
    seed: int,
    split: str,
    search_folder: SearchFolder,
    new_noise: bool = False,
) -> SeedRun:
    """`new_noise`: whether the label noise is drawn by the seed, too."""
    noise = {NOISE_SEED: seed} if new_noise else {}
    run = experiment.config({**configuration.point, **noise}).with_seed(seed)
    parts = ("confirmation", configuration.folder, f"seed-{seed}{'-new-noise' if new_noise else ''}")
    remote = search_folder.below(*parts) if search_folder.remote else None
    return SeedRun(configuration, seed, run, split, search_folder.folder.joinpath(*parts), remote)


def new_seeds(number: int, searched: Collection[int], first: int = 1) -> list[int]:
    """The first `number` seeds from `first` on, without those that were searched with. A higher number only adds seeds
    at the end."""
    return list(islice((seed for seed in count(first) if seed not in searched), number))


def default_configuration(state: SearchState, experiment: Experiment) -> Configuration:
    """That of the first trial."""
    base = experiment.base
    return Configuration(DEFAULT, state.baseline, base.point, seedless(base.params))


def best_configurations(
    state: SearchState, baseline: Configuration, top: int | None, among: Collection[str] | None = None
) -> list[Configuration]:
    """The `top` best configurations on dev, best first, each once; without failed trials and the baseline. `among`: the
    trials that count; None: all.

    Labels do not depend on `top`. Raises ConfigError if no configuration is left.
    """
    labelled = configurations(state, baseline)
    ranks: dict[Hashable, int] = {}  # of a configuration's best trial: several choices may be the same configuration
    for trial, _ in state.ranked_of(CURRICULUM):
        if among is None or trial.trial in among:
            ranks.setdefault(training_key(trial.params), len(ranks))
    ranked = [(ranks[key], one) for one in labelled.values() if (key := training_key(one.params)) in ranks]
    if not ranked:
        right = "a search with at least one trial besides the baseline that did not fail"
        raise ConfigError(Problem("NAME", f"search '{state.name}' has no configuration to confirm", right))
    return [one for _, one in sorted(ranked, key=lambda pair: pair[0])][:top]


def plain_configurations(state: SearchState, default: Configuration) -> list[Configuration]:
    """The distinct configurations of plain trials, best on dev first; without failed trials."""
    found: dict[Hashable, Configuration] = {}
    for trial, _ in state.ranked_of(PLAIN):
        if (key := training_key(trial.params)) in found:
            continue
        params = seedless(trial.params)
        label = plain_label(trial.point, params, trial.trial, found.values())
        found[key] = default if trial.baseline else Configuration(label, trial.trial, trial.point, params)
    return list(found.values())


def plain_label(point: Flat, params: Flat, trial: str, others: Iterable[Configuration]) -> str:
    """A configuration without a curriculum in words; with its trial if another one has the same."""
    label = trial_words(point, params, plain=True)
    return f"{label} ({trial})" if any(one.label == label for one in others) else label


def configurations(state: SearchState, baseline: Configuration) -> dict[str, Configuration]:
    """The distinct configurations of sound trials, without the baseline's, by label, in the order of the trials."""
    labelled: dict[str, Configuration] = {}
    keys = {training_key(baseline.params)}
    for trial in state.by_number():
        if trial.arm == PLAIN or trial.outcome == "failed" or (key := training_key(trial.params)) in keys:
            continue
        keys.add(key)
        label = trial.words
        label = f"{label} ({trial.trial})" if label in labelled else label
        labelled[label] = Configuration(label, trial.trial, trial.point, seedless(trial.params))
    return labelled


def by_training(state: SearchState, experiment: Experiment) -> dict[Hashable, Configuration]:
    """The configurations of all sound trials, by what they train."""
    default = default_configuration(state, experiment)
    found = [*configurations(state, default).values(), default, *plain_configurations(state, default)]
    return {training_key(one.params): one for one in reversed(found)}  # the first of equal ones
