"""The keys of a search space, each a fixed value or a range, as a file and the command line write them."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

from pydantic.fields import FieldInfo

from trainables.config.keys import DEFAULT_RANKER, configuration_fields, ranker_fields
from trainables.config.objective import PARAMETERS, objective_fields
from trainables.config.task_fit import class_values
from trainables.core.errors import ConfigError, Problem, gathering
from trainables.core.validation import accepts, shown, unknown_key, validate_value
from trainables.data import DOCSTRINGS, may_have_turns, task_of
from trainables.rankers import RANKERS
from tune_cl.experiment.paths import absolute
from tune_cl.experiment.search_keys import SEARCH_KEYS
from tune_cl.space.parameters import KINDS, Parameter, choice, parameter_of
from tune_cl.space.space import Flat, Space, in_order
from tune_cl.space.space_files import TEXTS

INVISIBLE = re.compile("[\u00a0\u00ad\u200b-\u200f\u2028-\u202e\u2060-\u2064\ufeff]")
OFF: Flat = {"curriculum.pacing": "none", "curriculum.weighting": "none"}  # of every baseline that says nothing else
SHORT = {"data": "data.source", "ranker": "ranker.name"}
MAPPINGS = ("curriculum.teacher.ranker", "data.top_k")  # keys whose value may be a mapping
# Trials that differ in these keys have dev values, or rungs, that cannot be compared.
NEVER_OPENED = (
    "data.",
    "evaluation.",
    "metric",
    "seed",
    "training.max_iterations",
    "training.pretrain_iterations",
    "training.pretrain_lr",
    "training.pretrain_relevance_level",
    "training.pretrain_seed",
    "curriculum.teacher.",
)


def flat_keys(tree: Mapping[str, Any], problems: list[Problem], prefix: str = "") -> Flat:
    """Dotted key -> value or range, from keys written nested, dotted or in the short forms `data: PATH` and
    `ranker: NAME`. An empty section counts as absent. A key given twice has its last value, and a problem."""
    flat: Flat = {}
    leaves, sections = known_keys(tuple(RANKERS))
    for name, value in tree.items():
        key = f"{prefix}{name}"
        plain = key.removeprefix("baseline.")
        if value is None and plain in sections:
            continue
        if isinstance(value, Mapping) and plain not in leaves and not value.keys() & {*KINDS, "when"}:
            inner = flat_keys(value, problems, f"{key}.")
        else:
            inner = {key.removesuffix(plain) + SHORT.get(plain, plain): value}
            if hidden := INVISIBLE.search(f"{key}{value}"):
                wrong = f"holds an invisible character, U+{ord(hidden[0]):04X} ({unicodedata.name(hidden[0]).lower()})"
                problems.append(Problem(key, wrong, "the line typed anew"))
        twice = sorted(flat.keys() & inner.keys())
        problems += [Problem(key, "given twice", "one value, nested or dotted") for key in twice]
        flat |= inner
    return flat


@cache
def known_keys(rankers: tuple[str, ...]) -> tuple[frozenset[str], frozenset[str]]:
    """All keys of a space, and all their sections."""
    leaves = {*configuration_fields(rankers), *SEARCH_KEYS}
    ends = [*leaves, f"{PARAMETERS}.", "baseline."]
    sections = {key[:end] for key in ends for end in range(len(key)) if key[end] == "."}
    return frozenset(leaves), frozenset(sections)


def section_keys(flat: Mapping[str, Any], section: str) -> Flat:
    """The keys of a section, without its name."""
    return {key.removeprefix(f"{section}."): value for key, value in flat.items() if key.startswith(f"{section}.")}


@dataclass
class Tree:
    """The keys of a space's trainings, each a fixed value or a range.

    line        the command line's keys, which override the file's
    fields      what the trainings have
    rankers     that they train; none for a user's function
    left_out    keys that the command line has made pointless, and why
    """

    line: Flat
    fields: Mapping[str, FieldInfo]
    rankers: list[str]
    fixed: Flat = field(default_factory=dict)
    parameters: dict[str, Parameter] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)

    def leave_out(self, key: str, why: str) -> None:
        self.fixed.pop(key, None)
        self.parameters.pop(key, None)
        self.left_out[key] = why

    def values(self, key: str) -> list[Any]:
        """What a key can be: its options, the ends of its range, its value or its default; empty if it has none."""
        if key in self.parameters:
            return list(self.parameters[key].ends)
        if key in self.fixed:
            return [self.fixed[key]]
        one = self.fields[key]
        return [] if one.is_required() else [one.get_default(call_default_factory=True)]

    def space(self) -> Space:
        """The parameters, beside the values of fixed keys in their conditions."""
        others = {other for parameter in self.parameters.values() for other in parameter.when} - self.parameters.keys()
        return Space(self.parameters, {key: value for key in others & self.fields.keys() for value in self.values(key)})


def checked_tree(file: Flat, line: Flat, objective: str | None, problems: list[Problem]) -> Tree:
    """The keys of a space file, overridden by those of the command line. What is wrong is left out and added to
    `problems`. `objective`: the name of the user's function that trains, if one does."""
    keys = file | line
    if objective is not None:
        tree = Tree(line, objective_fields(keys), [], fixed={"ranker.name": objective})
    else:
        names = named_rankers(keys)
        rankers = [RANKERS.canonical(name) for name in names if name in RANKERS]
        tree = Tree(line, configuration_fields(rankers), rankers)
        if len(rankers) < len(names):  # the wrong name is problem enough
            keys = {key: value for key, value in keys.items() if key == "ranker.name" or not of_some_ranker(key)}
    for key, value in keys.items():
        with gathering(problems):
            read_key(tree, key, value)
    if objective is None:
        suit_task(tree)
        suit_turns(tree)
    with gathering(problems):
        tree.parameters = in_order(tree.parameters)
    for key in list(tree.parameters):
        with gathering(problems):
            check_condition(tree, key)
    return tree


def named_rankers(keys: Mapping[str, Any]) -> list[str]:
    """The names, right or wrong, that a value or range of `ranker.name` allows."""
    value = keys.get("ranker.name", DEFAULT_RANKER)
    if isinstance(value, Mapping):
        value = value.get("choice", [])
    return [name for name in (value if isinstance(value, list) else [value]) if isinstance(name, str)]


def of_some_ranker(key: str) -> bool:
    return key.startswith("ranker.") and any(key in ranker_fields(name) for name in RANKERS)


def read_key(tree: Tree, key: str, value: Any) -> None:
    """Adds the checked value or range of a key to the tree. A key of a ranker that the command line has replaced is
    left out. Raises ConfigError for what is wrong."""
    if key not in tree.fields:
        if "ranker.name" not in tree.line or key in tree.line or not of_some_ranker(key):
            keys = [*tree.fields, *SEARCH_KEYS, *TEXTS, *(f"baseline.{off}" for off in OFF)]
            raise ConfigError(unknown_key(key, shown(value), keys))
        tree.leave_out(key, f"it belongs to another ranker than {', '.join(tree.rankers)}")
        return
    one = tree.fields[key]
    if isinstance(value, list) and not accepts(one.annotation, list, tuple):
        value = {"choice": value}
    if not isinstance(value, Mapping) or (key in MAPPINGS and not value.keys() & {*KINDS}):
        tree.fixed[key] = checked(key, one, value)
    elif key.startswith(NEVER_OPENED):
        raise ConfigError(Problem(key, "cannot be searched: its trials would not compare", "one value"))
    else:
        parameter = parameter_of(key, value)
        ends = all_checked(key, one, parameter.ends)
        if parameter.kind in ("uniform", "loguniform") and isinstance(ends[0], int):
            raise ConfigError(Problem(key, f"{parameter.kind} draws fractions", "{int: [a, b]}: whole numbers"))
        tree.parameters[key] = parameter if parameter.is_number else choice(*ends, when=parameter.when)


def checked(key: str, one: FieldInfo, value: Any, location: str | None = None) -> Any:
    """The value as the configuration holds it. Raises ConfigError at the key, or at another location."""
    return absolute(key, validate_value(location or key, one, value))


def all_checked(key: str, one: FieldInfo, values: Iterable[Any], location: str | None = None) -> list[Any]:
    """The values as a field holds them. Raises one ConfigError with the problems of all of them."""
    sound, problems = [], list[Problem]()
    for value in values:
        with gathering(problems):
            sound.append(checked(key, one, value, location))
    if problems:
        raise ConfigError(dict.fromkeys(problems))
    return sound


def suit_task(tree: Tree) -> None:
    """For pairs to classify, the metric and loss of classification: by default, and in place of the space's own if the
    command line names the data."""
    if task_of(tree.fixed.get("data.source", DOCSTRINGS)) != "classification":
        return
    for key, fitting in class_values().items():
        written = key in tree.fixed or key in tree.parameters
        if written and key not in tree.line and "data.source" in tree.line and not {*tree.values(key)} <= {*fitting}:
            tree.leave_out(key, f"the data is pairs to classify, so it is {fitting[0]}")
        if key not in tree.parameters:
            tree.fixed.setdefault(key, fitting[0])


def suit_turns(tree: Tree) -> None:
    """For data that the command line names, whose queries are single texts: without the scoring `turns`, for which all
    of them are equally hard, where the space has others to choose from."""
    key = "curriculum.scoring"
    options = tree.values(key)
    if "turns" not in options or len(options) == 1 or "data.source" not in tree.line:
        return
    if not may_have_turns(tree.fixed.get("data.source", DOCSTRINGS)):
        others = [option for option in options if option != "turns"]
        tree.parameters[key] = choice(*others, when=tree.parameters[key].when)
        tree.left_out[f"{key}: turns"] = "each query of the data is a single text"


def check_condition(tree: Tree, key: str) -> None:
    """Checks the values in a parameter's condition, and leaves the parameter out if the command line has ruled it out.
    Raises ConfigError if the condition is wrong or was never possible."""
    parameter, when = tree.parameters[key], dict[str, tuple[Any, ...]]()
    for other, options in parameter.when.items():
        location = f"{key}.when.{other}"
        if other in tree.left_out:
            return tree.leave_out(key, f"it exists only with {other}")
        if other not in tree.fields:
            raise ConfigError(replace(unknown_key(other, shown(options), tree.fields), location=location))
        when[other] = tuple(all_checked(other, tree.fields[other], options, location))
        can_be = tree.parameters[other].allows if other in tree.parameters else tree.values(other).__contains__
        if any(map(can_be, when[other])):
            continue
        possible = ", ".join(map(shown, tree.values(other)))
        if other in tree.line:
            return tree.leave_out(key, f"{other} is {possible}")
        raise ConfigError(Problem(location, f"{shown(list(options))} is not possible", f"some of {possible}"))
    tree.parameters[key] = replace(parameter, when=when)
    return None


def checked_baseline(tree: Tree, flat: Flat, problems: list[Problem]) -> Flat:
    """The checked values of the baseline, on top of OFF."""
    values = dict(OFF)
    for key, value in flat.items():
        location = f"baseline.{key}"
        with gathering(problems):
            if key not in tree.fields:
                raise ConfigError(replace(unknown_key(key, shown(value), tree.fields), location=location))
            values[key] = checked(key, tree.fields[key], value, location)
    return values
