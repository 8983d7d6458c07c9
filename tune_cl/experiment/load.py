"""Reads a search space, and what overrides it, into a checked experiment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from trainables.config.function import Objective, missing, recorded, same
from trainables.config.keys import TrainingRun
from trainables.config.objective import OBJECTIVE
from trainables.config.rules import check
from trainables.config.task_fit import require_fit, require_usable
from trainables.core.errors import ConfigError, Problem, gathering
from trainables.core.files import LONGEST_NAME, names_folder
from trainables.core.randomness import generator
from trainables.data import require_source, task_of
from tune_cl.command_options import DATA_HELP, Options, option
from tune_cl.experiment.experiment import Experiment
from tune_cl.experiment.forecast import ends_no_trial, never_models, unused
from tune_cl.experiment.known_points import known_points
from tune_cl.experiment.resolution import TEXTS, entries_of, map_all, resolve, written
from tune_cl.experiment.rules import SEARCH, SEARCHABLE
from tune_cl.experiment.search_keys import remarks, search_config
from tune_cl.space.space import Flat, Points, points_of
from tune_cl.space.space_files import as_yaml_reads, find_space, parse_yaml, read_space

CHECKED_DRAWS = 16
SpaceSource = str | Path | Mapping[str, Any]  # of a space: a shipped name, a YAML file, or the mapping itself
Overrides = Sequence[str] | Mapping[str, Any]  # KEY=VALUE texts, or dotted keys with their values
OWN_SPACE, DEFAULTS = "search", "defaults"  # names of a mapping without one, and of no space at all


def load_experiment(
    space: SpaceSource,
    overrides: Overrides = (),
    data: str | Path | None = None,
    ranker: str | None = None,
    objective: Objective | None = None,
) -> Experiment:
    """The experiment of a space, with what overrides it. Raises ConfigError with every problem found."""
    name, tree, repeated = read_source(space)
    experiment = build(name, tree, command_line(overrides, data, ranker), repeated, objective)
    if not experiment.space.leaves:
        right = "a search range, e.g. training.lr: {loguniform: [1e-5, 1e-3]}, or use tune-cl train"
        raise ConfigError(Problem(name if isinstance(space, Mapping) else str(space), "nothing to search", right))
    if problems := list(check(SEARCHABLE, experiment)):
        raise ConfigError(problems)
    return experiment


@dataclass(frozen=True, kw_only=True)
class SpaceOptions(Options):
    """Options for what is searched, and how much. None: as the space says."""

    data: str | Path | None = option(None, DATA_HELP)
    ranker: str | None = option(None, "see tune-cl list rankers")
    trials: int | None = option(None, "trials, of both arms")
    max_iterations: int | None = option(None, "iterations a trial at most")
    seed: int | None = option(None, "of sampling and of every training")

    @property
    def keys(self) -> Mapping[str, int]:
        """Configuration keys with the values that are given."""
        keys = {"search.trials": self.trials, "training.max_iterations": self.max_iterations, "seed": self.seed}
        return {key: value for key, value in keys.items() if value is not None}


def requested_experiment(
    space: SpaceSource, options: SpaceOptions, overrides: Overrides = (), objective: Objective | None = None
) -> Experiment:
    """The experiment that a user asks for. Raises ConfigError if it is invalid, DataError if its data does not
    exist."""
    given = {**options.keys, **parse_overrides(overrides)}
    experiment = load_experiment(space, given, options.data, options.ranker, objective)
    if experiment.objective is None:
        base = experiment.base_ranker
        require_source(base.data.source)
        require_usable(base)
    return experiment


def read_source(space: SpaceSource | None) -> tuple[str, Mapping[str, Any], list[Problem]]:
    """The name and the mapping of a space (None: the defaults), and the problems of keys given twice."""
    if space is None:
        return DEFAULTS, {}, []
    if isinstance(space, Mapping):
        return OWN_SPACE, as_yaml_reads(space), []
    path = find_space(str(space))
    return path.stem, *read_space(path)


def load_training_run(
    space: SpaceSource | None, overrides: Overrides = (), data: str | Path | None = None, ranker: str | None = None
) -> TrainingRun:
    """One training: what a space fixes (None: the defaults), with what overrides it. A key that the space opens has the
    baseline's value. Raises ConfigError with every problem found."""
    name, tree, repeated = read_source(space)
    given = command_line(overrides, data, ranker)
    experiment = build(name, tree, given, repeated)
    if several := [key for key in given.keys() & experiment.space.leaves.keys() if isinstance(given[key], list)]:
        right = "one value, or tune-cl run"
        raise ConfigError(Problem(key, "has several values, and this is one training", right) for key in several)
    baseline = experiment.baseline_values()
    return experiment.ranker_run({key: baseline[key] for key in experiment.space.leaves if key in baseline})


def command_line(overrides: Overrides, data: str | Path | None, ranker: str | None) -> Flat:
    """Dotted key -> value or range, from the command line's options."""
    flags = {"data.source": None if data is None else str(data), "ranker.name": ranker}
    return {key: value for key, value in flags.items() if value is not None} | parse_overrides(overrides)


def parse_overrides(overrides: Overrides) -> Flat:
    """Dotted key -> value or range, from a mapping or from `--set KEY=VALUE` options; a later one replaces an earlier
    one."""
    flat: Flat = {}
    problems: list[Problem] = []
    if isinstance(overrides, Mapping):
        flat, overrides = entries_of(as_yaml_reads(overrides), problems), ()
    for text in overrides:
        key, equals, value = text.partition("=")
        if not (key and equals):
            problems.append(Problem("--set", f"'{text}' is not KEY=VALUE", "e.g. --set training.lr=1e-4"))
            continue
        with gathering(problems):
            flat |= entries_of({key: parse_yaml(value, f"--set {key}")}, problems)
    if problems:
        raise ConfigError(problems)
    return flat


def from_yaml(text: str, objective: Objective | None = None) -> Experiment:
    """The experiment that `Experiment.to_yaml` wrote. `objective`: the function of a search that trains by one; without
    it, the experiment has the record of it. Raises ConfigError if it is another function."""
    parsed = parse_yaml(text, "search space")
    if not isinstance(parsed, Mapping) or not isinstance(parsed.get("name"), str):
        raise ConfigError(Problem("search space", "is not that of a search", "the YAML that tune-cl recorded"))
    tree = dict(parsed)
    record = recorded(tree[OBJECTIVE]) if OBJECTIVE in tree else None
    if objective and not record:
        wrong = f"the search trains rankers of ours, and not by {objective.name}"
        raise ConfigError(Problem(OBJECTIVE, wrong, "left out"))
    return build(tree["name"], tree, {}, objective=same(record, objective) if record and objective else record)


def build(
    name: str,
    tree: Mapping[str, Any],
    given: Flat,
    repeated: Sequence[Problem] = (),
    objective: Objective | None = None,
) -> Experiment:
    """The experiment of a search-space file's mapping (`tree`), overridden by the command line's dotted keys (`given`).
    `name`: if the file has none; `repeated`: problems of the file's YAML, to be reported with all others; `objective`:
    the user's function that trains, if one does."""
    file, line = written(tree), written(given)
    function, problems = objective.name if objective else None, list[Problem]()
    done = resolve(file, line, function, problems)
    if OBJECTIVE in tree and objective is None:
        problems.append(missing(recorded(tree[OBJECTIVE])))
    search = search_config(entries_of(file.search, problems) | entries_of(line.search, problems), problems)
    name = tree.get("name", name)
    if not (isinstance(name, str) and names_folder(name)):
        right = f"a word without '/', of {LONGEST_NAME} bytes at most"
        problems.append(Problem("name", f"{name!r} is not a folder name", right))
    problems += [Problem(key, "a key of the file alone", "left out of --set") for key in TEXTS if key in given]
    whole = not problems  # else parts are left out, so that whether they fit together cannot be checked
    problems += check(SEARCH, search, "search.")
    with gathering(problems):
        if search.searcher == "grid":
            done.space.require_finite()
    first = Points()
    with gathering(problems):  # a point that names a wrong key is not wrong too
        first = points_of(done.space, search.first, done.line.keys() | done.left_out | done.refused)
    if not whole:
        raise ConfigError(dict.fromkeys([*repeated, *problems]))
    named, search = search.points, search.model_copy(update={"points": tuple(first.points)})
    description, source = (" ".join(str(tree.get(key, "")).split()) for key in ("description", "source"))
    notes = (*done.notes, *first.notes, *remarks(search))
    experiment = Experiment(name, done.fixed, done.space, done.baseline, search, description, source, notes, objective)
    if problems := [*repeated, *problems, *misfits_of_parts(experiment)]:
        raise ConfigError(problems)
    if isinstance(named, str):
        points, found = known_points(experiment, named)
        experiment, notes = with_points(experiment, points), (*notes, *found)
    of_trainings = [key for key in entries_of(line.configuration, []) if key not in done.left_out]
    idle = unused(experiment, entries_of(line.search, []), of_trainings)
    notes += (*idle, *never_models(experiment), *ends_no_trial(experiment))
    return with_whole_grid(replace(experiment, notes=notes))


def with_points(experiment: Experiment, points: Sequence[Flat]) -> Experiment:
    """The experiment, with these configurations tried first."""
    return replace(experiment, search=experiment.search.model_copy(update={"points": tuple(points)}))


def misfits_of_parts(experiment: Experiment) -> list[Problem]:
    """Where the configuration, the space and the way it is searched do not fit together."""
    configurations = [experiment.space.sample(generator(0, "check", draw)) for draw in range(CHECKED_DRAWS)]
    plain = [experiment.plain_space.sample(generator(0, "check plain", draw)) for draw in range(CHECKED_DRAWS)]
    points = [experiment.baseline_values(), *experiment.search.first, *configurations]
    points += map(experiment.plain_values, plain)
    task = cache(task_of)  # which asks every reader about a folder

    def require_fitting(point: Flat) -> None:
        run = experiment.config(point).run
        if isinstance(run, TrainingRun):
            require_fit(run, task(run.data.source))

    problems: list[Problem] = []
    with gathering(problems):
        map_all(require_fitting, points)
    return problems


def with_whole_grid(experiment: Experiment) -> Experiment:
    """The experiment; a grid whose `search.trials` is not given gets enough for all combinations."""
    search = experiment.search
    if search.searcher == "grid" and "trials" not in search.model_fields_set:
        trials = int(sum(experiment.combinations.values()))
        return replace(experiment, search=search.model_copy(update={"trials": trials}))
    return experiment
