"""Reads a search space, and what overrides it, into a checked experiment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from trainables.config.function import Objective, missing, recorded, same
from trainables.config.keys import NEEDS, TrainingRun, unflatten, without_effect
from trainables.config.objective import OBJECTIVE
from trainables.config.task_fit import require_fit, require_usable
from trainables.core.errors import ConfigError, Problem, gathering
from trainables.core.files import LONGEST_NAME, names_folder
from trainables.core.prose import counted
from trainables.core.randomness import generator
from trainables.core.validation import LARGEST, problems_of, with_needs
from trainables.data import require_source, task_of
from tune_cl.experiment.arms import CURRICULUM
from tune_cl.experiment.experiment import OFF, Experiment, TrialConfig, base_ranker, plain_point
from tune_cl.experiment.known_points import published_points
from tune_cl.experiment.resolution import Resolution, baseline_of, flat_keys, resolve, written_parts
from tune_cl.experiment.search_keys import BY_CHANCE, SEARCH_KEYS, SEARCH_NEEDS, SearchConfig, idle, notes_on
from tune_cl.experiment.search_parts import startup_trials
from tune_cl.space.space import Flat, Space
from tune_cl.space.space_files import TEXTS, as_yaml_reads, dump_yaml, find_space, parse_yaml, read_space

CHECKED_DRAWS = 16
DRAWS, FEW = 256, 256  # configurations that represent a space: draws of a large one, all of a small one
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
    name, tree, doubts = read_source(space)
    experiment = build(name, tree, command_line(overrides, data, ranker), doubts, objective)
    if not experiment.space.parameters:
        right = "a search range, e.g. training.lr: {loguniform: [1e-5, 1e-3]}, or use tune-cl train"
        raise ConfigError(Problem(name if isinstance(space, Mapping) else str(space), "nothing to search", right))
    if experiment.baseline != OFF and not experiment.arms.compares:
        right = "a key that the space searches, or sets otherwise"
        raise ConfigError(Problem("baseline", "leaves nothing to compare: all trials would be plain", right))
    if experiment.base.run.training.max_iterations < 1:
        raise ConfigError(Problem("training.max_iterations", "0 trains nothing", "1 or more; or tune-cl train"))
    return experiment


@dataclass(frozen=True, kw_only=True)
class SpaceOptions:
    """What is searched, and how much. None: as the space says."""

    data: str | Path | None = None
    ranker: str | None = None
    trials: int | None = None
    max_iterations: int | None = None
    seed: int | None = None

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
        base = base_ranker(experiment)
        require_source(base.data.source)
        require_usable(base)
    return experiment


def read_source(space: SpaceSource | None) -> tuple[str, Mapping[str, Any], list[Problem]]:
    """The name and the mapping of a space (None: the defaults), and the doubts about its YAML."""
    if space is None:
        return DEFAULTS, {}, []
    if isinstance(space, Mapping):
        return OWN_SPACE, as_yaml_reads(space), []
    path = find_space(str(space))
    return path.stem, *read_space(path)


def load_training_run(
    space: SpaceSource | None, overrides: Overrides = (), data: str | Path | None = None, ranker: str | None = None
) -> TrainingRun:
    """One training: what a space fixes (None: the defaults), with what overrides it. A parameter has the baseline's
    value. Raises ConfigError with every problem found."""
    name, tree, doubts = read_source(space)
    given = command_line(overrides, data, ranker)
    experiment = build(name, tree, given, doubts)
    parameters = experiment.space.parameters
    if several := [key for key in given.keys() & parameters.keys() if isinstance(given[key], list)]:
        right = "one value, or tune-cl run"
        raise ConfigError(Problem(key, "has several values, and this is one training", right) for key in several)
    point = plain_point(experiment, {})
    run = experiment.config({key: value for key, value in point.items() if key in parameters}).run
    assert isinstance(run, TrainingRun)
    return run


def command_line(overrides: Overrides, data: str | Path | None, ranker: str | None) -> Flat:
    """Dotted key -> value or range, from the command line's options."""
    flags = {"data.source": None if data is None else str(data), "ranker.name": ranker}
    return {key: value for key, value in flags.items() if value is not None} | parse_overrides(overrides)


def parse_overrides(overrides: Overrides) -> Flat:
    """Dotted key -> value or range, from a mapping or from `--set KEY=VALUE` options; a later one replaces an earlier
    one."""
    if isinstance(overrides, str):
        right = f'a mapping of keys, or a list: ["{overrides}"]'
        raise ConfigError(Problem("overrides", f"{overrides!r} is a single text", right))
    flat: Flat = {}
    problems: list[Problem] = []
    if isinstance(overrides, Mapping):
        flat, overrides = flat_keys(as_yaml_reads(overrides), problems), ()
    for text in overrides:
        key, equals, value = text.partition("=")
        if not (key and equals):
            problems.append(Problem("--set", f"'{text}' is not KEY=VALUE", "e.g. --set training.lr=1e-4"))
            continue
        with gathering(problems):
            flat |= flat_keys({key: parse_yaml(value, f"--set {key}")}, problems)
    if problems:
        raise ConfigError(problems)
    return flat


def to_yaml(experiment: Experiment) -> str:
    """The experiment, including what the command line changed, as a search-space file."""
    record = {OBJECTIVE: experiment.objective.record} if experiment.objective else {}
    texts = {"description": experiment.description, "source": experiment.source}
    fixed = {key: v.model_dump() if isinstance(v, BaseModel) else v for key, v in experiment.fixed.items()}
    ranges = {key: parameter.document() for key, parameter in experiment.space.parameters.items()}
    settings = {"baseline": experiment.baseline, "search": experiment.search.model_dump()}
    return dump_yaml({"name": experiment.name, **record, **texts, **fixed, **ranges, **settings})


def from_yaml(text: str, objective: Objective | None = None) -> Experiment:
    """The experiment that `to_yaml` wrote. `objective`: the function of a search that trains by one; without
    it, the experiment has the record of it. Raises ConfigError for another one."""
    tree = parse_yaml(text, "search space")
    if not isinstance(tree, Mapping) or not isinstance(tree.get("name"), str):
        raise ConfigError(Problem("search space", "is not that of a search", "the YAML that tune-cl recorded"))
    record = recorded(tree[OBJECTIVE]) if OBJECTIVE in tree else None
    if objective and not record:
        wrong = f"the search trains rankers of ours, and not by {objective.name}"
        raise ConfigError(Problem(OBJECTIVE, wrong, "left out"))
    return build(tree["name"], tree, {}, objective=same(record, objective) if record and objective else record)


def build(
    name: str,
    tree: Mapping[str, Any],
    given: Flat,
    doubts: Sequence[Problem] = (),
    objective: Objective | None = None,
) -> Experiment:
    """The experiment of a search-space file's mapping (`tree`), overridden by the command line's dotted keys (`given`).
    `name`: if the file has none; `doubts`: problems of the file's YAML, to be reported with all others; `objective`:
    the user's function that trains, if one does."""
    problems = list(doubts)
    file, file_search, file_baseline = written_parts(tree, problems)
    line, line_search, line_baseline = written_parts(given, problems)
    if OBJECTIVE in tree and objective is None:
        problems.append(missing(recorded(tree[OBJECTIVE])))
    done = resolve(file, line, objective.name if objective else None, problems)
    search = search_config(file_search | line_search, problems)
    baseline = baseline_of(done, file_baseline | line_baseline, problems)
    description, source = (" ".join(str(tree.get(key) or "").split()) for key in ("description", "source"))
    name = tree.get("name") or name
    if not (isinstance(name, str) and names_folder(name)):
        right = f"a word without '/', of {LONGEST_NAME} bytes at most"
        problems.append(Problem("name", f"{name!r} is not a folder name", right))
    problems += [Problem(key, "a key of the file alone", "left out of --set") for key in TEXTS if key in given]
    if search.searcher == "grid":
        with gathering(problems):
            Space(done.parameters).require_finite()
    if problems:  # else parts are left out, so that whether they fit together cannot be checked
        raise ConfigError(dict.fromkeys(problems))
    experiment = Experiment(name, done.fixed, done.space(), baseline, search, description, source, objective=objective)
    require_fitting(experiment)
    points = tuple(published_points(experiment)) if search.points else ()
    experiment = with_whole_grid(replace(experiment, points=points))
    notes = [*done.notes, *notes_on(search), *notes_without_effect(experiment, done, line_search)]
    if search.points and not points:
        notes.append("search.points: the space holds none of the published curricula")
    return replace(experiment, notes=(*notes, *never_models(experiment)))


def search_config(flat: Flat, problems: list[Problem]) -> SearchConfig:
    """The checked `search.*` keys. What is wrong is added to `problems`; then all keys have their defaults."""
    try:
        return SearchConfig.model_validate(unflatten(flat) if "" not in flat else flat[""])
    except ValidationError as error:
        problems += problems_of(error, SEARCH_KEYS, "search.")
        return SearchConfig()


def require_fitting(experiment: Experiment) -> None:
    """Raises ConfigError where values do not go together, or with the data's task: of the baseline, and of draws from
    both arms."""
    task = cache(task_of)  # which asks every reader about a folder
    space, plain = experiment.space, experiment.arms.shared_space
    points = [plain_point(experiment, {})]
    points += [space.sample(generator(0, "check", draw)) for draw in range(CHECKED_DRAWS)]
    shared = [plain.sample(generator(0, "check plain", draw)) for draw in range(CHECKED_DRAWS)]
    points += [plain_point(experiment, values) for values in shared]
    problems: list[Problem] = []
    for point in points:
        with gathering(problems):
            run = experiment.config(point).run
            if isinstance(run, TrainingRun):
                require_fit(run, task(run.data.source))
    if problems:
        raise ConfigError(dict.fromkeys(problems))


def with_whole_grid(experiment: Experiment) -> Experiment:
    """The experiment; a grid whose `search.trials` is not given gets enough for all combinations."""
    search = experiment.search
    if search.searcher != "grid" or "trials" in search.model_fields_set:
        return experiment
    endless = replace(experiment, search=search.model_copy(update={"trials": LARGEST}))
    return replace(experiment, search=search.model_copy(update={"trials": endless.arms.total}))


def notes_without_effect(experiment: Experiment, done: Resolution, search: Flat) -> list[str]:
    """A note on those of the command line's keys that have no effect on the search, or on any of its trainings."""
    of_search = idle(experiment.search)
    unread = [key for name in search if (key := f"search.{name}") in of_search]
    if given := [key for key in done.line if key not in done.left_out]:
        configs = (experiment.base, *representative(experiment))
        unread += without_effect(given, dict.fromkeys(key for config in configs for key in config.params))
    return [f"without effect on this search: {with_needs(unread, NEEDS | SEARCH_NEEDS)}"] if unread else []


def representative(experiment: Experiment) -> list[TrialConfig]:
    """Configurations that represent the space: all of a small one, else random draws."""
    space, combinations = experiment.space, experiment.space.combinations()
    if combinations is not None and combinations <= FEW:
        return [experiment.config(point) for point in space.grid()]
    draws = (generator(experiment.base.run.seed, "forecast", draw) for draw in range(DRAWS))
    return [experiment.config(space.sample(draw)) for draw in draws]


def never_models(experiment: Experiment) -> list[str]:
    """A note if the curricula are too few for a searcher that models the space to begin."""
    search, trials = experiment.search, experiment.arms.trials[CURRICULUM]
    startup = startup_trials(experiment, CURRICULUM)
    if search.searcher in BY_CHANCE or not 1 < trials <= startup:
        return []
    after = f"{search.searcher} models the space after {counted(startup, 'trial')} of an arm (search.startup_trials)"
    return [f"search.searcher: {after}, so all {trials} of the curriculum arm are chosen at random"]
