"""Turns a search-space file and the command line into checked fixed keys, parameters and a baseline."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

from pydantic.fields import FieldInfo

from trainables.config.keys import DEFAULT_RANKER, configuration_fields, ranker_fields
from trainables.config.objective import OBJECTIVE, PARAMETERS, objective_fields
from trainables.config.task_fit import class_values
from trainables.core.errors import ConfigError, Problem, gathering
from trainables.core.validation import accepts_list, nearest_key, shown, validate_value
from trainables.data import DOCSTRINGS, may_have_turns, task_of
from trainables.rankers import RANKERS
from tune_cl.experiment.experiment import OFF
from tune_cl.experiment.search_keys import SEARCH_KEYS
from tune_cl.space.parameters import KINDS, Condition, Parameter, choice, in_our_words, parameter_of
from tune_cl.space.space import Flat, Space, in_order
from tune_cl.space.space_files import TEXTS

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


@cache
def keys_of(rankers: tuple[str, ...]) -> tuple[frozenset[str], frozenset[str]]:
    """All keys that rankers have, and the sections of all keys."""
    of_rankers = [key for name in rankers for key in ranker_fields(name)]
    keys = [*configuration_fields(()), *of_rankers, *SEARCH_KEYS, f"{PARAMETERS}.", "baseline."]
    sections = {key[:end] for key in keys for end in range(len(key)) if key[end] == "."}
    return frozenset(of_rankers), frozenset(sections)


def of_rankers() -> frozenset[str]:
    return keys_of(tuple(RANKERS))[0]


def sections() -> frozenset[str]:
    return keys_of(tuple(RANKERS))[1]


def flat_keys(tree: Mapping[str, Any], problems: list[Problem], prefix: str = "") -> Flat:
    """Dotted key -> value or range, from keys written nested, dotted or in the short forms `data: PATH` and
    `ranker: NAME`. An empty section counts as absent. A key given twice has its last value, and a problem."""
    flat: Flat = {}
    for name, value in tree.items():
        key = f"{prefix}{name}"
        plain = key.removeprefix("baseline.")
        if value is None and plain in sections():
            continue
        if isinstance(value, Mapping) and not is_range(plain, value):
            inner = flat_keys(value, problems, f"{key}.")
        else:
            inner = {key.removesuffix(plain) + SHORT.get(plain, plain): value}
        twice = sorted(flat.keys() & inner.keys())
        problems += [Problem(key, "given twice", "one value, nested or dotted") for key in twice]
        flat |= inner
    return flat


def is_range(key: str, value: Mapping[str, Any]) -> bool:
    """Whether a mapping is the value or the range of a key, perhaps misspelt, rather than a section of keys."""
    whole = key in configuration_fields(()) or key in SEARCH_KEYS or key in of_rankers()
    return whole or bool(value.keys() & {*KINDS, "when"}) or (key not in sections() and in_our_words(value) != "")


@dataclass
class Resolution:
    """What a space file and the command line come to, as far as it is read.

    written     the keys of the configuration, in which the command line overrides the file
    line        those of the command line
    fields      what trainings with these keys have
    rankers     that the keys name
    left_out    keys that the command line has made pointless, and why
    objective   the name of the user's function that trains, if one does
    """

    written: Flat
    line: Flat
    fields: Mapping[str, FieldInfo]
    rankers: list[str]
    objective: str | None
    fixed: Flat = field(default_factory=dict)
    parameters: dict[str, Parameter] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def leave_out(self, key: str, why: str) -> None:
        self.fixed.pop(key, None)
        self.parameters.pop(key, None)
        self.left_out[key] = why

    def unopened(self, key: str) -> list[Any]:
        """The value of a key that is not opened: as written, or its default. Empty if it has none."""
        if key in self.fixed:
            return [self.fixed[key]]
        one = self.fields[key]
        return [] if one.is_required() else [one.get_default(call_default_factory=True)]

    def possible(self, key: str) -> list[Any]:
        """What a key can be: its value, its options, or the ends of its range."""
        return list(self.parameters[key].ends) if key in self.parameters else self.unopened(key)

    def space(self) -> Space:
        """The parameters, beside the values of unopened keys in their conditions."""
        others = {other for parameter in self.parameters.values() for other in parameter.when} - self.parameters.keys()
        fixed = {key: value for key in others & self.fields.keys() for value in self.unopened(key)}
        return Space(self.parameters, fixed)


def resolve(file: Flat, line: Flat, objective: str | None, problems: list[Problem]) -> Resolution:
    """The configuration of a space: its dotted keys in the file, overridden by those of the command line. Wrong parts
    are left out and added to `problems`. `objective`: the name of the user's function that trains, if one does."""
    done = named_parts(file, line, objective)
    for key, value in done.written.items():
        with gathering(problems):
            checked = value_or_range(done, key, value)
            if isinstance(checked, Parameter):
                done.parameters[key] = checked
            elif key not in done.left_out:
                done.fixed[key] = checked
    if objective is None:
        suit_task(done)
        suit_turns(done)
    with gathering(problems):
        check_conditions(done, problems)
    done.notes += [f"{key} is left out: {why}" for key, why in done.left_out.items()]
    done.notes += rate_notes(done, named_rankers(file))
    return done


def named_parts(file: Flat, line: Flat, objective: str | None) -> Resolution:
    """The keys, with the fields that their trainings have."""
    written = file | line
    if objective is not None:
        fixed = {"ranker.name": objective}
        return Resolution(fixed | written, line, objective_fields(written), [], objective)
    names = named_rankers(written)
    rankers = [RANKERS.canonical(name) for name in names if name in RANKERS]
    if len(rankers) == len(names):
        return Resolution(written, line, configuration_fields(rankers), rankers, None)
    known = {key: value for key, value in written.items() if key == "ranker.name" or key not in of_rankers()}
    return Resolution(known, line, configuration_fields(rankers), rankers, None)  # the wrong name is problem enough


def named_rankers(flat: Mapping[str, Any]) -> list[str]:
    """The names, right or wrong, that a value or range of `ranker.name` allows."""
    value = flat.get("ranker.name", DEFAULT_RANKER)
    if isinstance(value, Mapping):
        value = value.get("choice", [])
    return [name for name in (value if isinstance(value, list) else [value]) if isinstance(name, str)]


def value_or_range(done: Resolution, key: str, value: Any) -> Any:
    """The checked value of a key, or its range; None for a key that belongs to a ranker which the command line has
    replaced. Raises ConfigError for what is wrong with it."""
    if key not in done.fields:
        if key in of_rankers() and "ranker.name" in done.line and key not in done.line:
            done.leave_out(key, f"it belongs to another ranker than {', '.join(done.rankers)}")
            return None
        raise ConfigError(unknown(done, key, value))
    one = done.fields[key]
    if isinstance(value, list) and not accepts_list(one.annotation):
        value = {"choice": value}
    if not isinstance(value, Mapping) or (key in MAPPINGS and not value.keys() & {*KINDS}):
        return validate_value(key, one, value)
    if key.startswith(NEVER_OPENED):
        raise ConfigError(Problem(key, "cannot be searched: its trials would not compare", "one value"))
    parameter = checked_range(key, one, parameter_of(key, value))
    require_ranker(done, key, parameter)
    return parameter


def unknown(done: Resolution, key: str, value: Any) -> Problem:
    """What is wrong with a key that trainings of these rankers do not have."""
    if inside := [name for name in (*done.fields, *SEARCH_KEYS) if name.startswith(f"{key}.")]:
        return Problem(key, f"{shown(value)} given for a section of keys", f"its keys: {', '.join(inside)}")
    if done.objective is None and key.startswith(f"{PARAMETERS}."):
        right = "--objective FILE.py:FUNCTION, or objective= in Python"
        return Problem(key, "is a key of a training function, and none is given", right)
    if key in of_rankers() and done.objective is None:
        having = [name for name in RANKERS if key in ranker_fields(name)]
        right = f"ranker.name={' or '.join(having)}, which has it, or a key of {', '.join(done.rankers)}"
        return Problem(key, f"unknown key of {', '.join(done.rankers)}", right)
    texts = () if key in done.line else TEXTS
    return Problem(key, "unknown key", nearest_key(key, [*done.fields, *SEARCH_KEYS, *texts, "baseline"]))


def checked_range(key: str, one: FieldInfo, parameter: Parameter) -> Parameter:
    """The range with its options as the configuration holds them. Raises ConfigError for values that the key cannot
    take."""
    values = all_checked(key, one, parameter.ends)
    if parameter.is_number:
        if parameter.kind != "int" and isinstance(values[0], int):
            raise ConfigError(Problem(key, f"{parameter.kind} draws fractions", "{int: [a, b]}: whole numbers"))
        return parameter
    twice = [value for index, value in enumerate(values) if value in values[:index]]
    if twice:
        raise ConfigError(Problem(f"{key}.choice", f"{shown(twice[0])} stands there twice", "each value once"))
    return choice(*values, when=parameter.when)


def all_checked(location: str, one: FieldInfo, values: Iterable[Any]) -> list[Any]:
    """The values as a field holds them. Raises one ConfigError with the problems of all of them."""
    checked, problems = [], list[Problem]()
    for value in values:
        with gathering(problems):
            checked.append(validate_value(location, one, value))
    if problems:
        raise ConfigError(dict.fromkeys(problems))
    return checked


def require_ranker(done: Resolution, key: str, parameter: Parameter) -> None:
    """Raises ConfigError if a parameter exists in trials whose ranker lacks the key."""
    if not key.startswith("ranker.") or key == "ranker.name":
        return
    having = [name for name in done.rankers if key in ranker_fields(name)]
    named = parameter.when.get("ranker.name", done.rankers)
    lacking = [name for name in named if name in done.rankers and name not in having]
    if lacking:
        right = f"when: {{ranker.name: [{', '.join(having)}]}}"
        raise ConfigError(Problem(key, f"ranker {', '.join(lacking)} has no such key", right))


def suit_task(done: Resolution) -> None:
    """For pairs to classify, the metric and loss of classification: by default, and in place of the space's own if the
    command line names the data."""
    if task_of(done.fixed.get("data.source", DOCSTRINGS)) != "classification":
        return
    for key, fitting in class_values().items():
        suits = set(done.possible(key)) <= set(fitting)
        if key in done.written and not suits:
            if key in done.line or "data.source" not in done.line:
                continue  # reported when the whole configuration is checked
            done.leave_out(key, f"the data is pairs to classify, so it is {fitting[0]}")
        if key not in done.parameters:
            done.fixed.setdefault(key, fitting[0])


def suit_turns(done: Resolution) -> None:
    """For data that the command line names, whose queries are single texts: without the scoring `turns`, for which all
    of them are equally hard, where the space has others to choose from."""
    key = "curriculum.scoring"
    parameter = done.parameters.get(key)
    if parameter is None or "turns" not in parameter.ends or len(parameter.ends) == 1:
        return
    if "data.source" not in done.line or may_have_turns(done.fixed.get("data.source", DOCSTRINGS)):
        return
    others = (option for option in parameter.ends if option != "turns")
    done.parameters[key] = choice(*others, when=parameter.when)
    done.left_out[f"{key}: turns"] = "each query of the data is a single text"


def check_conditions(done: Resolution, problems: list[Problem]) -> None:
    """Puts parameters after those of their conditions, whose values it checks, and leaves out those that the command
    line rules out. Raises ConfigError for conditions that run in a circle."""
    done.parameters = in_order(done.parameters)
    for key in list(done.parameters):
        with gathering(problems):
            when = checked_condition(done, key)
            if isinstance(when, str):
                done.leave_out(key, when)
            else:
                done.parameters[key] = replace(done.parameters[key], when=when)


def checked_condition(done: Resolution, key: str) -> Condition | str:
    """A parameter's condition with checked values, or why the command line has made it impossible. Raises ConfigError
    if the condition is wrong or was never possible."""
    when: dict[str, tuple[Any, ...]] = {}
    for other, options in done.parameters[key].when.items():
        location = f"{key}.when.{other}"
        if other in done.left_out:
            return f"it exists only with {other}"
        if other not in done.fields:
            raise ConfigError(Problem(location, "unknown key", nearest_key(other, done.fields)))
        if other in done.written and other not in done.fixed and other not in done.parameters:
            continue  # its own problem has been reported
        when[other] = tuple(all_checked(location, done.fields[other], options))
        parameter = done.parameters.get(other)
        can_be = parameter.allows if parameter else done.unopened(other).__contains__
        impossible = [value for value in when[other] if not can_be(value)]
        never = len(impossible) == len(when[other])
        could_be = ", ".join(map(shown, done.possible(other)))
        if other in done.line and never:
            return f"{other} is {could_be}"
        if impossible and other not in done.line and (other in done.parameters or never):
            raise ConfigError(Problem(location, f"never {', '.join(map(shown, impossible))}", f"one of {could_be}"))
    return when


def rate_notes(done: Resolution, file_rankers: list[str]) -> list[str]:
    """A note where the space's range of learning rates, meant for its own rankers, lacks the default of those that the
    command line has put in their place."""
    key = "training.lr"
    if key not in done.parameters or key in done.line:
        return []
    ends = done.parameters[key].ends
    usual = done.fields[key].default
    rates = {name: RANKERS[name].settings.default_lr or usual for name in done.rankers if name not in file_rankers}
    outside = [f"{name} has {rate:g}" for name, rate in rates.items() if not min(ends) <= rate <= max(ends)]
    meant = f"keeps the space's range, {min(ends):g} to {max(ends):g}, which is for {', '.join(file_rankers)}"
    return [f"{key} {meant}; by default {', '.join(outside)}"] if outside else []


def baseline_of(done: Resolution, flat: Flat, problems: list[Problem]) -> Flat:
    """The checked values of the baseline, on top of OFF."""
    values = dict(OFF)
    for key, value in flat.items():
        with gathering(problems):
            if not key:
                raise ConfigError(Problem("baseline", f"{shown(value)} is not a mapping", "{key: value, ...}"))
            if key not in done.fields:
                raise ConfigError(replace(unknown(done, key, value), location=f"baseline.{key}"))
            values[key] = validate_value(f"baseline.{key}", done.fields[key], value)
    return values


def written_parts(tree: Mapping[str, Any], problems: list[Problem]) -> tuple[Flat, Flat, Flat]:
    """The keys of a space file, or of the command line: those of the configuration, of `search` and of `baseline`, the
    latter two without their section; under the empty key, what stands in place of a section."""
    parts: dict[str, Flat] = {"": {}, "search": {}, "baseline": {}}
    for key, value in flat_keys({key: tree[key] for key in tree if key not in (*TEXTS, OBJECTIVE)}, problems).items():
        head, _, rest = key.partition(".")
        section = head if head in parts else ""
        parts[section][rest if section else key] = value
    return parts[""], parts["search"], parts["baseline"]
