"""What `tune-cl confirm`, `effects` and `plan` are asked for: their options; configurations and trainings."""

from __future__ import annotations

import re
from argparse import Namespace
from collections.abc import Collection, Hashable, Iterable
from dataclasses import dataclass
from hashlib import sha256
from itertools import count, islice
from pathlib import Path

from trainables.config.objective import AnyRun
from trainables.core.errors import ConfigError, Problem
from trainables.evaluation.significance import CORRECTIONS, MOST_SEEDS
from tune_cl.command_options import REQUIRED, Options, option
from tune_cl.experiment.experiment import CURRICULUM, PLAIN, Experiment
from tune_cl.history.search_folder import SearchFolder
from tune_cl.history.state import SearchState, seedless, training_key
from tune_cl.space.space import Flat
from tune_cl.space.wording import DEFAULT, trial_words

SPLITS = ("test", "dev")
MANY = 12  # trials of a search: three candidates of each arm cost half of it
FIRST_LOOK = 3  # seeds: two tell too little of how much the seed matters


@dataclass(frozen=True, kw_only=True)
class Request(Options):
    """The options of `tune-cl confirm`. Raises ConfigError for values that make no sense."""

    top: int | None = option(None, "candidates of each arm (default 3; 2 after fewer than 12 trials)", "K")
    selection_seeds: int | None = option(
        None, "new seeds of each candidate (default: as many as cost half of the search, at least 1)", "S"
    )
    seeds: int = option(5, "trainings of each", "N")
    until_settled: bool = option(
        False, "one more seed at a time, until the result is significant or unlikely to become so"
    )
    max_seeds: int = option(20, "the most trainings of each with --until-settled", "N")
    split: str = option("test", "what is compared on", choices=SPLITS)
    correction: str = option("holm", f"{', '.join(CORRECTIONS)} (default holm); bh is short for benjamini-hochberg")
    each: bool = option(False, "test all K curricula, not only the one that dev selects")
    trials: tuple[str, ...] = option((), "test the curricula of these trials instead", "ID,ID,...", joined=True)
    best_of: str | None = option(None, "test the best curriculum of each value of KEY instead", "KEY")
    against_trial: str | None = option(None, "test against this trial instead of plain training", "ID")
    new_noise: bool = option(False, "draw the label noise of data.label_noise again for each seed")
    unfinished: bool = option(False, "also of a search that has not ended: its best so far")
    against: tuple[str, ...] = option(
        (),
        "a TREC run or a ranker (a folder, or a cross-encoder's hub name) to compare with (repeatable)",
        "RUN|MODEL",
    )

    @classmethod
    def of_command_line(cls, options: Namespace) -> Request:
        """Raises ConfigError for options that do not go together."""
        given = cls.given(options)
        if "seeds" in given and "until_settled" in given:
            right = "--max-seeds, the most that it may train; or --seeds alone"
            raise ConfigError(Problem("--seeds", "not together with --until-settled", right))
        if "max_seeds" in given and "until_settled" not in given:
            raise ConfigError(Problem("--max-seeds", "without --until-settled", "both; or --seeds for a fixed number"))
        return cls(**given)

    def __post_init__(self) -> None:
        flags = {"--top": self.top, "--seeds": self.seeds, "--selection-seeds": self.selection_seeds}
        flags = {flag: value for flag, value in flags.items() if value is not None}
        problems = [Problem(flag, f"{value} is below 1", "1 or more") for flag, value in flags.items() if value < 1]
        if self.until_settled and not FIRST_LOOK <= self.max_seeds <= MOST_SEEDS:
            wrong = f"{self.max_seeds} is not between {FIRST_LOOK} and {MOST_SEEDS}"
            right = f"{FIRST_LOOK} or more: the first interim analysis is after {FIRST_LOOK} seeds"
            problems.append(Problem("--max-seeds", wrong, right))
        problems += _of_split(self.split)
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
        seeds = "max_seeds" if self.until_settled else "seeds"
        return f"{search_folder.command('confirm', address)} {self.words(always=(seeds, 'split', 'correction'))}"

    def call(self, search_folder: SearchFolder, address: str | None) -> str:
        """The same in Python."""
        return search_folder.call("confirm", **self.changed, address=address)


@dataclass(frozen=True, kw_only=True)
class EffectsRequest(Options):
    """The options of `tune-cl effects` with new trainings. Raises ConfigError for values that make no sense."""

    seeds: int = option(REQUIRED, "new trainings of each curriculum and twin", "N")
    split: str = option("test", "what --seeds compares on", choices=SPLITS)

    def __post_init__(self) -> None:
        problems = []
        if not 1 <= self.seeds <= MOST_SEEDS:
            problems.append(Problem("--seeds", f"{self.seeds} is not between 1 and {MOST_SEEDS}", "2 or 3"))
        problems += _of_split(self.split)
        if problems:
            raise ConfigError(problems)

    def command(self, search_folder: SearchFolder, address: str | None) -> str:
        """What a user types to ask for it."""
        return f"{search_folder.command('effects', address)} {self.words(always=('split',))}"

    def call(self, search_folder: SearchFolder, address: str | None) -> str:
        """The same in Python."""
        return search_folder.call("effects", seeds=self.seeds, split=self.split, address=address)


@dataclass(frozen=True, kw_only=True)
class PlanRequest(Options):
    """The options of `tune-cl plan`. Raises ConfigError for numbers that make no sense."""

    difference: float | None = option(None, "a difference to detect, for the seeds it needs", "D")
    power: float = option(0.8, "probability of detecting it (default .8)")
    top: int = option(1, "candidates of each arm (default 1: no selection)", "K")
    pilot: int | None = option(None, "train the baseline N times first, on dev", "N")

    def __post_init__(self) -> None:
        problems = []
        if self.difference is not None and not 0 < self.difference <= 1:
            wrong = f"{self.difference} is not above 0 and at most 1"
            problems.append(Problem("--difference", wrong, "a difference to show"))
        if not 0 < self.power < 1:
            problems.append(Problem("--power", f"{self.power} is not between 0 and 1", "a probability such as .8"))
        if self.pilot is not None and self.pilot < 2:
            wrong = f"{self.pilot} says nothing of how much the seed matters"
            problems.append(Problem("--pilot", wrong, "2 or more"))
        if self.top < 1:
            problems.append(Problem("--top", f"{self.top} is below 1", "1 or more"))
        if problems:
            raise ConfigError(problems)


def _of_split(split: str) -> list[Problem]:
    return [] if split in SPLITS else [Problem("--split", f"'{split}' is not a split for a test", " or ".join(SPLITS))]


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
