"""What a search consists of: a space of trainings, the baseline they are compared with, and how to search."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from trainables.config.keys import TrainingRun, configuration_fields, ranker_fields, unflatten, validated
from trainables.config.task_fit import require_fit
from trainables.core.errors import ConfigError, Problem, gathering
from trainables.core.files import LONGEST_NAME, names_folder
from trainables.core.randomness import generator
from trainables.data import task_of
from trainables.rankers import RANKERS
from tune_cl.experiment.forecast import ends_no_trial, forecast_of, same_trainings, unused
from tune_cl.experiment.resolution import TEXTS, all_checked, resolve, written
from tune_cl.experiment.search_keys import SearchConfig, misfits, remarks, search_config, unfit_space
from tune_cl.schedulers import setup_of, unfit_population
from tune_cl.schedulers.scheduler import curriculum_grace
from tune_cl.space.parameters import Range
from tune_cl.space.space import Flat, Points, Space, points_of
from tune_cl.space.space_files import dump_yaml, find_space, on_a_line, parse_yaml, read_space

CHECKED_DRAWS = 16
DEFAULTS = {key: field.get_default(call_default_factory=True) for key, field in configuration_fields(()).items()}


@dataclass(frozen=True)
class Experiment:
    """A checked search. `fixed`: flat keys; `baseline`: flat keys that make a training the baseline."""

    name: str
    fixed: Flat
    space: Space
    baseline: Flat
    search: SearchConfig
    description: str = ""
    source: str = ""
    notes: tuple[str, ...] = ()

    # -- trainings -----------------------------------------------------------------------------------------------

    def training_run(self, choice: Mapping[str, Any], seed: int | None = None) -> TrainingRun:
        """The training for a choice of the opened keys; raises ConfigError if its values do not go together."""
        flat = {"ranker.name": self.value("ranker.name"), **self.fixed, **choice}
        flat["seed"] = self.seed if seed is None else seed
        own = ranker_fields(flat["ranker.name"])  # fixed keys of the space's other rankers stay out
        return validated(unflatten({key: flat[key] for key in flat if not key.startswith("ranker.") or key in own}))

    def baseline_choice(self) -> Flat:
        """The baseline as a choice: `baseline`, and values of the opened keys that it does not name.

        Outside the curriculum these are the prior's most likely value, else the first choice or the range's middle.
        Keys of the curriculum are left out, and so have the configuration's defaults.
        """
        return self._without_curriculum(self.baseline, {})

    def ablated(self, choice: Mapping[str, Any]) -> Flat:
        """The choice with the baseline's curriculum. Other opened keys keep their values, whatever `baseline` says."""
        off = {key: value for key, value in self.baseline.items() if key.startswith("curriculum.")}
        return self._without_curriculum(off, choice)

    def _without_curriculum(self, given: Mapping[str, Any], kept: Mapping[str, Any]) -> Flat:
        """`given`, and for every other opened key outside the curriculum its value in `kept`, else the leaf's
        `middle`."""
        leaves = {key: leaf for key, leaf in self.space.leaves.items() if not key.startswith("curriculum.")}
        space = Space(leaves, self.space.context)
        return space.decide(lambda key, leaf: kept[key] if key in kept else leaf.middle(), given=given)

    def plain_run(self, values: Mapping[str, Any]) -> TrainingRun:
        """The baseline's training with these values of opened keys outside the curriculum."""
        return self.training_run(self._without_curriculum({**self.baseline, **values}, {}))

    def base_run(self) -> TrainingRun:
        """The baseline's training."""
        return self.training_run(self.baseline_choice())

    def distinct_rankers(self) -> list[TrainingRun]:
        """The baseline and a training for each combination of the opened keys that decide what trainings read: the
        ranker's keys that its texts depend on (all, if it is pre-trained), `training.loss`, `training.negatives`,
        `training.pretrain_data`, and the keys of the subset that comes first."""
        subsets = ("curriculum.subset", "curriculum.feature")
        read = ("training.loss", "training.negatives", "training.pretrain_data", *subsets)
        return self._varied(key for key in self.space.leaves if key.startswith(read) or key in self._text_keys())

    def file_readers(self) -> list[TrainingRun]:
        """Trainings that together read every file of word vectors and every encoder that a trial can read."""
        read = {"ranker.name", "ranker.vectors", "ranker.model", "curriculum.vectors"}
        return self._varied(read & self.space.leaves.keys())

    def _varied(self, keys: Iterable[str]) -> list[TrainingRun]:
        """The baseline and a training for each combination of opened keys, and of those that they depend on. Where that
        is more than there are trials, ranges with steps are held at their middle, as those without are anyway."""
        deciding = set(keys)
        for key in list(self.space.leaves)[::-1]:
            if key in deciding:
                deciding |= self.space.leaves[key].when.keys()
        space = self.space.only(deciding)
        if (space.combinations() or 0) > self.search.trials:  # what trials do not share is made when one needs it
            ranges = {key for key, leaf in self.space.leaves.items() if isinstance(leaf, Range)}
            space = self.space.only(deciding - ranges)
        return [self.base_run(), *map(self.training_run, space.grid())]

    def _text_keys(self) -> set[str]:
        """The `ranker.*` keys that decide which text preparation trials can share."""
        if "training.pretrain_data" in self.space.leaves or self.value("training.pretrain_data") is not None:
            return {key for key in self.space.leaves if key.startswith("ranker.")}
        kinds = [RANKERS[name].settings for name in self.rankers]
        return {"ranker.name", *(f"ranker.{key}" for kind in kinds for key in kind.text_keys)}

    # -- configuration values that all trials share --------------------------------------------------------------

    def value(self, key: str) -> Any:
        """The value of a key that no trial changes."""
        return self.fixed.get(key, DEFAULTS[key])

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
        return self._values("curriculum.scoring")

    @property
    def rankers(self) -> list[str]:
        """Every ranker that a trial can train."""
        return self._values("ranker.name")

    def _values(self, key: str) -> list[Any]:
        """Every value that a key with options can take in trials, or the one that all have."""
        leaf = self.space.leaves.get(key)
        return list(leaf.samples()) if leaf else [self.value(key)]

    @property
    def trials(self) -> int:
        """Trials of the search, the baseline included: no more than can be different."""
        combinations = self.space.combinations()
        return self.search.trials if combinations is None else min(self.search.trials, self.most_trials(combinations))

    def most_trials(self, combinations: int) -> int:
        """Trials after which a finite space is certainly used up."""
        return (combinations + 1) * self.search.repeats

    @property
    def rungs(self) -> list[int]:
        """Iterations at which trials are judged."""
        return setup_of(self).rungs

    def grace(self, choice: Mapping[str, Any]) -> int:
        """The iteration before which a trial with this choice is not judged (`search.grace`)."""
        grace = self.search.grace
        if isinstance(grace, int):
            return grace
        return self.curriculum_end(choice) if grace == "curriculum" else 1

    def curriculum_end(self, choice: Mapping[str, Any]) -> int:
        """The iteration with which a choice's curriculum ends; 0 without one."""
        return curriculum_grace(self.training_run(choice))

    def describe(self, slots: int | None = None) -> dict[str, Any]:
        """Size of the space and cost of the search, as `tune-cl check` reports them."""
        return {
            "parameters": len(self.space.leaves),
            "conditional": sum(bool(leaf.when) for leaf in self.space.leaves.values()),
            "combinations": self.space.combinations(),
            "steps": [f"{key}: {steps}" for key, steps in self.space.steps.items()],
            "priors": [f"{key}: {on_a_line(prior)}" for key, prior in self.space.priors.items()],
            "points": len(self.search.points),
            **self.forecast(slots),
        }

    def forecast(self, slots: int | None = None) -> dict[str, int]:
        """Trials and iterations, the baseline included, with `slots` trials at a time (tune_cl.experiment.forecast)."""
        return forecast_of(self, slots)

    # -- as YAML -------------------------------------------------------------------------------------------------

    def to_yaml(self) -> str:
        """The experiment, including what the command line changed, as a search-space file."""
        return dump_yaml(
            {
                "name": self.name,
                "description": self.description,
                "source": self.source,
                **self.fixed,
                **{key: leaf.document() for key, leaf in self.space.leaves.items()},
                "baseline": self.baseline,
                "search": self.search.model_dump(),
            }
        )

    @classmethod
    def from_yaml(cls, text: str) -> Experiment:
        """The experiment that `to_yaml` wrote."""
        tree = parse_yaml(text, "search space")
        return build(tree["name"], tree, {})


def load_experiment(
    space: str, overrides: Sequence[str] = (), data: str | None = None, ranker: str | None = None
) -> Experiment:
    """The experiment of a shipped space or a YAML file, overridden by the command line (`overrides`: KEY=VALUE).

    Raises ConfigError with every problem found.
    """
    path = find_space(space)
    tree, repeated = read_space(path)
    experiment = build(path.stem, tree, command_line(overrides, data, ranker), repeated)
    if not experiment.space.leaves:
        right = "open a key, e.g. training.lr: {loguniform: [1e-5, 1e-3]}, or use tune-cl train"
        raise ConfigError(Problem(space, "nothing to search", right))
    return experiment


def load_training_run(
    space: str | None, overrides: Sequence[str] = (), data: str | None = None, ranker: str | None = None
) -> TrainingRun:
    """One training: what a space fixes (None: the defaults), overridden by the command line. A key that the space opens
    has the baseline's value. Raises ConfigError with every problem found."""
    path = find_space(space) if space else None
    tree, repeated = read_space(path) if path else ({}, [])
    experiment = build(path.stem if path else "defaults", tree, command_line(overrides, data, ranker), repeated)
    baseline = experiment.baseline_choice()
    return experiment.training_run({key: baseline[key] for key in experiment.space.leaves if key in baseline})


def command_line(overrides: Sequence[str], data: str | None, ranker: str | None) -> Flat:
    """Dotted key -> value or range, from the command line's options."""
    flags = {"data.source": data, "ranker.name": ranker}
    return {key: value for key, value in flags.items() if value is not None} | parse_overrides(overrides)


def parse_overrides(overrides: Sequence[str]) -> Flat:
    """Dotted key -> value or range, from `--set KEY=VALUE` options; a later one replaces an earlier one."""
    flat: Flat = {}
    problems: list[Problem] = []
    for text in overrides:
        key, equals, value = text.partition("=")
        if not (key and equals):
            problems.append(Problem("--set", f"'{text}' is not KEY=VALUE", "e.g. --set training.lr=1e-4"))
            continue
        with gathering(problems):
            flat |= written({key: parse_yaml(value, f"--set {key}")}, problems)
    if problems:
        raise ConfigError(problems)
    return flat


def build(name: str, tree: Mapping[str, Any], given: Flat, repeated: Sequence[Problem] = ()) -> Experiment:
    """The experiment of a search-space file's mapping (`tree`), overridden by the command line's dotted keys (`given`).
    `name`: if the file has none; `repeated`: problems of the file's YAML, to be reported with all others."""
    file, line = parts(tree), parts(given)
    done = resolve(file["configuration"], line["configuration"], file["baseline"], line["baseline"])
    keys = written(file["search"], done.problems) | written(line["search"], done.problems)
    search = search_config(keys, done.problems)
    name = tree.get("name", name)
    if not (isinstance(name, str) and names_folder(name)):
        right = f"a word without '/', of {LONGEST_NAME} bytes at most"
        done.problems.append(Problem("name", f"{name!r} is no name of a folder", right))
    done.problems += [Problem(key, "a key of the file alone", "left out of --set") for key in TEXTS if key in given]
    whole = not done.problems  # else parts are left out, so that whether they fit together cannot be checked
    done.problems += misfits(search)
    with done.collecting():
        if search.searcher == "grid":
            done.space.require_finite()
    refused = done.entries.keys() - done.leaves.keys() - done.fixed.keys()  # a point that names them is not wrong too
    first = Points()
    with done.collecting():
        first = points_of(done.space, search.points, done.given.keys() | done.dropped | refused)
    if not whole:
        raise ConfigError(dict.fromkeys([*repeated, *done.problems]))
    search = search.model_copy(update={"points": tuple(first.points)})
    texts = {key: " ".join(str(tree.get(key, "")).split()) for key in ("description", "source")}
    notes = (*done.notes, *first.notes, *remarks(search))
    experiment = Experiment(name, done.fixed, done.space, done.baseline, search, **texts, notes=notes)
    if problems := [*repeated, *done.problems, *misfits_of_parts(experiment)]:
        raise ConfigError(problems)
    of_trainings = [key for key in written(line["configuration"], []) if key not in done.dropped]
    idle = unused(experiment, written(line["search"], []), of_trainings)
    notes += (*idle, *same_trainings(experiment), *ends_no_trial(experiment))
    return with_whole_grid(replace(experiment, notes=notes))


def parts(tree: Mapping[str, Any]) -> dict[str, Flat]:
    """The keys of `search`, of `baseline` and of the configuration as written: as mappings or dotted."""
    found: dict[str, Flat] = {"search": {}, "baseline": {}, "configuration": {}}
    for key, value in tree.items():
        if key not in TEXTS:
            head = str(key).partition(".")[0]
            found[head if head in found else "configuration"][str(key)] = value
    return found


def misfits_of_parts(experiment: Experiment) -> list[Problem]:
    """Where the configuration, the space and the way it is searched do not fit together."""
    choices = [experiment.space.sample(generator(0, "check", draw)) for draw in range(CHECKED_DRAWS)]
    task = task_of(experiment.value("data.source"))
    checked = [experiment.baseline_choice(), *experiment.search.points, *choices]
    problems: list[Problem] = []
    with gathering(problems):
        all_checked(lambda choice: require_fit(experiment.training_run(choice), task), checked)
    return [*problems, *unfit_space(experiment.search, experiment.space), *unfit_population(experiment)]


def with_whole_grid(experiment: Experiment) -> Experiment:
    """The experiment; a grid whose `search.trials` is not given gets enough for all combinations."""
    search = experiment.search
    if search.searcher == "grid" and "trials" not in search.model_fields_set:
        trials = experiment.most_trials(experiment.space.combinations() or 0)
        return replace(experiment, search=search.model_copy(update={"trials": trials}))
    return experiment
