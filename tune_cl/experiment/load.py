"""Reads a search space, and what overrides it, into a checked experiment."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from trainables.config.function import OPTION, Objective, objective_of_record, same
from trainables.config.keys import NEEDS, TrainingConfig, unflatten, without_effect
from trainables.config.objective import OBJECTIVE
from trainables.config.task_fit import require_fit
from trainables.core.errors import ConfigError, Problem, gathering
from trainables.core.files import LONGEST_NAME, names_folder
from trainables.core.randomness import generator
from trainables.core.validation import active_values, problems_of, with_needs
from trainables.data import require_source, task_of
from trainables.rankers import RANKERS
from trainables.rankers.hub import require_model
from tune_cl.experiment.experiment import Experiment, base_ranker, plain_point, twin_point
from tune_cl.experiment.known_points import published_points
from tune_cl.experiment.search_keys import SEARCH_KEYS, SEARCH_NEEDS, SearchConfig
from tune_cl.experiment.tree import OFF, Tree, checked_baseline, checked_tree, flat_keys, named_rankers, section_keys
from tune_cl.space.space import Flat, Space
from tune_cl.space.space_files import TEXTS, as_yaml_reads, dump_yaml, find_space, parse_yaml, read_space

CHECKED_DRAWS = 16
DRAWS = 64  # that represent a space
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
    name, tree = read_source(space)
    experiment = build(name, tree, command_line(overrides, data, ranker), objective)
    if not experiment.space.parameters:
        right = "a search range, e.g. training.lr: {loguniform: [1e-5, 1e-3]}, or use tune-cl train"
        raise ConfigError(Problem(name if isinstance(space, Mapping) else str(space), "nothing to search", right))
    if experiment.baseline != OFF and not experiment.arms.compares:
        right = "a key that the space searches, or sets otherwise"
        raise ConfigError(Problem("baseline", "leaves nothing to compare: all trials would be plain", right))
    if experiment.base.run.training.max_iterations < 1:
        raise ConfigError(Problem("training.max_iterations", "0 trains nothing", "1 or more; or tune-cl train"))
    return experiment


def requested_experiment(
    space: SpaceSource,
    overrides: Overrides = (),
    objective: Objective | None = None,
    data: str | Path | None = None,
    ranker: str | None = None,
    **keys: int | None,
) -> Experiment:
    """The experiment that a user asks for. `keys`: `trials`, `max_iterations` and `seed`, None as the space says.
    Raises ConfigError if it is invalid, DataError if its data does not exist."""
    names = {"trials": "search.trials", "max_iterations": "training.max_iterations", "seed": "seed"}
    given = {names[key]: value for key, value in keys.items() if value is not None} | parse_overrides(overrides)
    experiment = load_experiment(space, given, data, ranker, objective)
    if experiment.objective is None:
        base = base_ranker(experiment)
        require_source(base.data.source)
        require_model(base.ranker)
    return experiment


def read_source(space: SpaceSource | None) -> tuple[str, Mapping[str, Any]]:
    """The name and the mapping of a space (None: the defaults)."""
    if space is None:
        return DEFAULTS, {}
    if isinstance(space, Mapping):
        return OWN_SPACE, as_yaml_reads(space)
    path = find_space(str(space))
    return path.stem, read_space(path)


def load_training_run(
    space: SpaceSource | None, overrides: Overrides = (), data: str | Path | None = None, ranker: str | None = None
) -> TrainingConfig:
    """One training: what a space fixes (None: the defaults), with what overrides it. A parameter has the baseline's
    value. Raises ConfigError with every problem found."""
    name, tree = read_source(space)
    given = command_line(overrides, data, ranker)
    experiment = build(name, tree, given)
    parameters = experiment.space.parameters
    if several := [key for key in given.keys() & parameters.keys() if isinstance(given[key], list)]:
        right = "one value, or tune-cl run"
        raise ConfigError(Problem(key, "has several values, and this is one training", right) for key in several)
    point = plain_point(experiment, {})
    run = experiment.config({key: value for key, value in point.items() if key in parameters}).run
    assert isinstance(run, TrainingConfig)
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
    record = objective_of_record(tree[OBJECTIVE]) if OBJECTIVE in tree else None
    if objective and not record:
        wrong = f"the search trains rankers of ours, and not by {objective.name}"
        raise ConfigError(Problem(OBJECTIVE, wrong, "left out"))
    return build(tree["name"], tree, {}, same(record, objective) if record and objective else record)


@lru_cache(maxsize=1)
def recorded_experiment(text: str) -> Experiment:
    """`from_yaml` of a search that is read, not continued: a report asks for it several times."""
    return from_yaml(text)


def build(name: str, file: Mapping[str, Any], given: Flat, objective: Objective | None = None) -> Experiment:
    """The experiment of a search-space file's mapping, overridden by the command line's dotted keys (`given`). `name`:
    if the file has none; `objective`: the user's function that trains, if one does."""
    problems: list[Problem] = []
    if OBJECTIVE in file and objective is None:
        right = f"objective= in Python, or {OPTION} FILE.py:FUNCTION"
        problems.append(Problem(OBJECTIVE, "a file cannot name a training function", right))
    in_file = flat_keys({key: value for key, value in file.items() if key not in (*TEXTS, OBJECTIVE)}, problems)
    keys = in_file | given
    file_keys, line_keys = training_keys(in_file), training_keys(given)
    tree = checked_tree(file_keys, line_keys, objective.name if objective else None, problems)
    search = search_config(section_keys(keys, "search"), problems)
    baseline = checked_baseline(tree, section_keys(keys, "baseline"), problems)
    name = file.get("name") or name
    if not (isinstance(name, str) and names_folder(name)):
        right = f"a word without '/', of {LONGEST_NAME} bytes at most"
        problems.append(Problem("name", f"{name!r} is not a folder name", right))
    if search.searcher == "grid":
        with gathering(problems):
            Space(tree.parameters).require_finite()
    if problems:  # parts are left out, so that whether they fit together cannot be checked
        raise ConfigError(dict.fromkeys(problems))
    description, source = (" ".join(str(file.get(key) or "").split()) for key in ("description", "source"))
    space = tree.space()
    experiment = Experiment(name, tree.fixed, space, baseline, search, description, source, objective=objective)
    require_fitting(experiment)
    points = tuple(published_points(experiment)) if search.points else ()
    experiment = with_whole_grid(replace(experiment, points=points))
    return replace(experiment, notes=tuple(notes_on(experiment, tree, named_rankers(file_keys), given)))


def training_keys(flat: Flat) -> Flat:
    """The keys of the trainings: neither of the search nor of the baseline."""
    return {key: value for key, value in flat.items() if not key.startswith(("search.", "baseline."))}


def search_config(keys: Flat, problems: list[Problem]) -> SearchConfig:
    """The checked `search.*` keys. What is wrong is added to `problems`; then all keys have their defaults."""
    try:
        return SearchConfig.model_validate(unflatten(keys))
    except ValidationError as error:
        problems += problems_of(error, SEARCH_KEYS, "search.")
        return SearchConfig()


def require_fitting(experiment: Experiment) -> None:
    """Raises ConfigError where values do not go together, or with the data's task: of the baseline, of draws and, where
    the baseline says more than that there is no curriculum, of their twins."""
    draws = [experiment.space.sample(generator(0, "check", draw)) for draw in range(CHECKED_DRAWS)]
    points = [plain_point(experiment, {}), *draws]
    task = cache(task_of)  # which asks every reader about a folder
    problems: list[Problem] = []
    for point in points:
        with gathering(problems):
            run = experiment.config(point).run
            if isinstance(run, TrainingConfig):
                require_fit(run, task(run.data.source))
    if not problems and experiment.baseline != OFF:
        for point in draws:
            with gathering(problems):
                experiment.config(twin_point(experiment, point))
    if problems:
        raise ConfigError(dict.fromkeys(problems))


def with_whole_grid(experiment: Experiment) -> Experiment:
    """The experiment; a grid whose `search.trials` is not given gets enough for all combinations."""
    search = experiment.search
    if search.searcher != "grid" or "trials" in search.model_fields_set:
        return experiment
    plain = experiment.arms.shared_space.combinations() if experiment.arms.tunes_plain else 1
    trials = (experiment.space.combinations() or 0) + (plain or 1)
    return replace(experiment, search=search.model_copy(update={"trials": trials}))


# -- what a user should know of a sound experiment ---------------------------------------------------------------------


def notes_on(experiment: Experiment, tree: Tree, file_rankers: list[str], given: Flat) -> Iterator[str]:
    """Notes on keys and settings that are allowed, and yet not what they seem."""
    yield from (f"{key} is left out: {why}" for key, why in tree.left_out.items())
    yield from rate_note(tree, file_rankers)
    if unread := keys_without_effect(experiment, tree, given):
        yield f"without effect on this search: {with_needs(unread, NEEDS | SEARCH_NEEDS)}"
    if experiment.search.points and not experiment.points:
        yield "search.points: the space holds none of the published curricula"


def rate_note(tree: Tree, file_rankers: list[str]) -> list[str]:
    """A note where the space's range of learning rates, meant for its own rankers, lacks the default of those that the
    command line has put in their place."""
    key = "training.lr"
    if key not in tree.parameters or key in tree.line:
        return []
    low, high = min(tree.values(key)), max(tree.values(key))
    usual = tree.fields[key].default
    rates = {name: RANKERS[name].settings.default_lr or usual for name in tree.rankers if name not in file_rankers}
    outside = [f"{name} has {rate:g}" for name, rate in rates.items() if not low <= rate <= high]
    meant = f"keeps the space's range, {low:g} to {high:g}, which is for {', '.join(file_rankers)}"
    return [f"{key} {meant}; by default {', '.join(outside)}"] if outside else []


def keys_without_effect(experiment: Experiment, tree: Tree, given: Flat) -> list[str]:
    """Those of the command line's keys that have no effect on the search, or on the baseline and random trainings."""
    active = active_values(experiment.search, experiment.search)
    unread = [f"search.{key}" for key in section_keys(given, "search") if key not in active]
    written = [key for key in training_keys(given) if key not in tree.left_out]
    if not written:
        return unread
    draws = (generator(experiment.base.run.seed, "forecast", draw) for draw in range(DRAWS))
    configs = [experiment.base, *(experiment.config(experiment.space.sample(draw)) for draw in draws)]
    return unread + without_effect(written, dict.fromkeys(key for config in configs for key in config.params))
