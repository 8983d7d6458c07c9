"""Turns a search-space file and the command line into checked fixed keys, opened leaves and a baseline."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pydantic.fields import FieldInfo

from trainables.config.keys import RankerName, configuration_fields, ranker_fields
from trainables.config.objective import OBJECTIVE, PARAMETERS, objective_fields
from trainables.config.task_fit import class_values
from trainables.core.errors import ConfigError, Problem, gathering
from trainables.core.validation import accepts_list, key_problem, near_key, shown, unknown_key, validate_value
from trainables.data import DOCSTRINGS, may_have_turns, task_of
from trainables.rankers import RANKERS
from tune_cl.experiment.search_keys import SEARCH_KEYS
from tune_cl.space.parameters import BESIDE, KINDS, Choice, Leaf, parse_leaf
from tune_cl.space.space import Flat, Space, ordered

SHORT = {"data": "data.source", "ranker": "ranker.name"}
OFF: Flat = {"curriculum.pacing": "none", "curriculum.weighting": "none"}
TURN_OFF = object()
RATE = "training.lr"
DEFAULT_NAME = RankerName.model_fields["name"].default
TEXTS = ("name", "description", "source")
MAPPINGS = ("curriculum.teacher.ranker", "data.top_k")  # keys whose value may be a mapping without opening a leaf
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


# A space goes through four forms: Written -> Entries -> Checked -> Resolved.


@dataclass(frozen=True)
class Written:
    """The keys of a space file, or those of the command line, as written: nested, dotted or in short forms.

    baseline  the key `baseline`, and those that begin with `baseline.`
    """

    configuration: Flat
    search: Flat
    baseline: Flat


@dataclass(frozen=True)
class Entries:
    """The keys of the configuration by dotted key.

    all           as written; the command line overrides the file
    line          those of the command line
    fields        what trainings with these keys have
    rankers       that the keys name
    file_rankers  that the file names, right or wrong
    objective     the user's function that trains
    """

    all: Flat
    line: Flat
    fields: Mapping[str, FieldInfo]
    rankers: Sequence[str]
    file_rankers: Sequence[str]
    objective: str | None


@dataclass(frozen=True)
class Checked:
    """Checked values and ranges, by dotted key. `left_out`: keys that the command line has made pointless, and why."""

    fixed: Flat
    leaves: dict[str, Leaf]
    left_out: dict[str, str]

    def without(self, key: str, why: str) -> Checked:
        fixed, leaves = ({k: value for k, value in part.items() if k != key} for part in (self.fixed, self.leaves))
        return Checked(fixed, leaves, {**self.left_out, key: why})


@dataclass(frozen=True)
class Resolved:
    """What a space file and the command line come to. `refused`: keys that are wrong, whose problems are reported."""

    fixed: Flat
    space: Space
    baseline: Flat
    notes: list[str]
    line: Flat
    left_out: set[str]
    refused: set[str]


def written(tree: Mapping[str, Any]) -> Written:
    """The keys of a space file, or of the command line, by section; without those in words."""
    sections: dict[str, Flat] = {"configuration": {}, "search": {}, "baseline": {}}
    for key, value in tree.items():
        if key not in (*TEXTS, OBJECTIVE):
            head = str(key).partition(".")[0]
            sections[head if head in sections else "configuration"][str(key)] = value
    return Written(**sections)


def resolve(file: Written, line: Written, objective: str | None, problems: list[Problem]) -> Resolved:
    """`line`: the command line, which overrides the file; `objective`: the name of the function that trains, if it is a
    user's. Wrong parts are left out and added to `problems`."""
    entries = read_entries(file.configuration, line.configuration, objective, problems)
    checked = check_entries(entries, problems)
    if objective is None:
        checked = suited_to_task(entries, checked)
        checked = suited_to_turns(entries, checked)
    checked = with_conditions(entries, checked, problems)
    off = baseline_values(entries, file.baseline, line.baseline, problems)
    notes = [f"{key} is left out: {why}" for key, why in checked.left_out.items()] + rate_notes(entries, checked)
    refused = entries.all.keys() - checked.leaves.keys() - checked.fixed.keys()
    space = Space(checked.leaves, context_of(entries, checked))
    return Resolved(checked.fixed, space, off, notes, entries.line, set(checked.left_out), refused)


def read_entries(file: Flat, line: Flat, objective: str | None, problems: list[Problem]) -> Entries:
    """The keys of the configuration, with the fields that their trainings have."""
    of_line, of_file = entries_of(line, problems), entries_of(file, problems)
    both, file_rankers = of_file | of_line, named_rankers(of_file.get("ranker.name", DEFAULT_NAME))
    if objective is not None:
        return Entries(both, of_line, objective_fields(both), [], file_rankers, objective)
    names = named_rankers(both.get("ranker.name", DEFAULT_NAME))
    rankers = [RANKERS.canonical(name) for name in names if name in RANKERS]
    fields = configuration_fields(rankers)
    if len(rankers) < len(names):  # reported where values are checked; its own keys are not further problems
        of_one, fields = fields, configuration_fields(RANKERS)
        both = {key: value for key, value in both.items() if key in of_one or key not in fields}
    return Entries(both, of_line, fields, rankers, file_rankers, None)


def entries_of(tree: Mapping[str, Any], problems: list[Problem], prefix: str = "") -> Flat:
    """Dotted key -> value or range, from keys written nested, dotted or in the short forms `data: PATH` and
    `ranker: NAME`.

    A key given twice gets its last value and an entry in `problems`.
    """
    flat: Flat = {}
    for name, value in tree.items():
        key = f"{prefix}{name}"
        if isinstance(value, Mapping) and not is_range(key, value):
            entries = entries_of(value, problems, f"{key}.")
        else:
            entries = {SHORT.get(key, key): value}
        join(flat, entries, problems)
    return flat


def join(flat: Flat, entries: Flat, problems: list[Problem]) -> None:
    """Adds `entries` to `flat`; keys already there get an entry in `problems`."""
    twice = sorted(flat.keys() & entries.keys())
    problems += [Problem(key, "given twice", "one value, nested or dotted") for key in twice]
    flat |= entries


def is_range(key: str, value: Mapping[str, Any]) -> bool:
    """Whether a mapping opens a leaf (perhaps misspelt) rather than being a section."""
    of_ranker = key.startswith("ranker.") and not is_ranker_section(key)
    whole = of_ranker or key in configuration_fields(()) or key in SEARCH_KEYS
    return whole or bool(value.keys() & {*KINDS, *BESIDE})


def is_ranker_section(key: str) -> bool:
    """Whether a ranker has keys below this one, as `ranker.lora` has."""
    return any(name.startswith(f"{key}.") for ranker in RANKERS for name in ranker_fields(ranker))


def named_rankers(value: Any) -> list[str]:
    """The names, right or wrong, that a value or range of `ranker.name` allows."""
    if isinstance(value, Mapping):
        value = next((options for kind, options in value.items() if kind in KINDS), [])
    return [name for name in (value if isinstance(value, list) else [value]) if isinstance(name, str)]


def check_entries(entries: Entries, problems: list[Problem]) -> Checked:
    """Each written key as a fixed value or a leaf; wrong ones are left out."""
    checked = Checked({"ranker.name": entries.objective} if entries.objective is not None else {}, {}, {})
    for key, value in entries.all.items():
        with gathering(problems):
            if why := of_replaced_ranker(entries, key):
                checked = checked.without(key, why)
            elif isinstance(one := value_or_leaf(entries, key, value), Leaf):
                checked.leaves[key] = one
            else:
                checked.fixed[key] = one
    return checked


def of_replaced_ranker(entries: Entries, key: str) -> str:
    """Why a key of the file has no place with the ranker that the command line names; "" if it has one."""
    replaced = key.startswith("ranker.") and "ranker.name" in entries.line and key not in entries.line
    if key in entries.fields or not replaced:
        return ""
    return f"it belongs to another ranker than {', '.join(entries.rankers)}"


def value_or_leaf(entries: Entries, key: str, value: Any) -> Any:
    """The checked value, or the leaf that a range opens; raises ConfigError for what is wrong with it."""
    if key not in entries.fields:
        elsewhere = of_other_trainings(entries, key) or of_other_rankers(entries, key)
        raise ConfigError(elsewhere or key_problem(key, value, all_keys(entries, key)))
    field = entries.fields[key]
    if isinstance(value, list) and not accepts_list(field.annotation):
        value = {Choice.kind: value}
    if not isinstance(value, Mapping) or (key in MAPPINGS and not value.keys() & KINDS.keys()):
        return validate_value(key, field, value)
    if key.startswith(NEVER_OPENED):
        raise ConfigError(Problem(key, "cannot be searched: its trials would not compare", "one value"))
    leaf = validate_leaf(key, field, parse_leaf(key, value))
    need_ranker_condition(key, leaf, entries.rankers)
    return leaf


def of_other_trainings(entries: Entries, key: str) -> Problem | None:
    """The problem with a key of a ranker's training where a function trains, and the other way round."""
    if entries.objective is None:
        right = "--objective FILE.py:FUNCTION, or objective= in Python"
        is_parameter = key.partition(".")[0] == PARAMETERS
        return Problem(key, "is a key of a training function, and none is given", right) if is_parameter else None
    if key not in configuration_fields(RANKERS):
        return None
    right = f"{PARAMETERS}.{key.rpartition('.')[2]}, if {entries.objective} reads it as config['{PARAMETERS}']"
    return Problem(key, f"is a key of our own rankers, which {entries.objective} does not train", right)


def of_other_rankers(entries: Entries, key: str) -> Problem | None:
    """The problem with a key that only other rankers have or, being like no key here, with one like a key of theirs."""
    theirs = {name for ranker in RANKERS for name in ranker_fields(ranker)}
    meant = key if key in theirs else None if near_key(key, all_keys(entries, key)) else near_key(key, theirs)
    if not key.startswith("ranker.") or meant is None or entries.objective:
        return None
    owners, own = [name for name in RANKERS if meant in ranker_fields(name)], ", ".join(entries.rankers)
    has = "it" if meant == key else meant
    right = f"ranker.name={' or '.join(owners)}, which has {has}, or a key of {own}"
    return Problem(key, f"unknown key of {own}", right)


def all_keys(entries: Entries, key: str) -> list[str]:
    """What an unknown key may have been meant to be; in a file, also one of TEXTS."""
    texts = () if key in entries.line else TEXTS
    return [*entries.fields, *SEARCH_KEYS, *texts, *(f"baseline.{name}" for name in entries.fields)]


def validate_leaf(key: str, field: FieldInfo, leaf: Leaf) -> Leaf:
    """The leaf with its options as the configuration holds them; raises ConfigError for values that the key cannot
    take."""
    values = map_all(lambda value: validate_value(key, field, value), leaf.samples())
    if isinstance(leaf, Choice):
        twice = [value for index, value in enumerate(values) if value in values[:index]]
        if twice:
            raise ConfigError(Problem(f"{key}.{leaf.kind}", f"{shown(twice[0])} stands there twice", "each value once"))
        return replace(leaf, options=tuple(values))
    if leaf.draws_fractions and isinstance(values[0], int):
        raise ConfigError(Problem(key, f"{leaf.kind} draws fractions", "{int: [a, b]}: the key takes whole numbers"))
    return leaf


def map_all(check: Callable[[Any], Any], values: Iterable[Any]) -> list[Any]:
    """The checked values; raises one ConfigError with the problems of all of them."""
    good, problems = [], []
    for value in values:
        try:
            good.append(check(value))
        except ConfigError as error:
            problems += error.problems
    if problems:
        raise ConfigError(dict.fromkeys(problems))
    return good


def need_ranker_condition(key: str, leaf: Leaf, rankers: Sequence[str]) -> None:
    """Raises ConfigError if a leaf exists in trials whose ranker lacks the key."""
    if not key.startswith("ranker.") or key == "ranker.name":
        return
    having = [name for name in rankers if key in ranker_fields(name)]
    lacking = [name for name in leaf.when.get("ranker.name", rankers) if name in rankers and name not in having]
    if lacking:
        right = f"when: {{ranker.name: [{', '.join(having)}]}}"
        raise ConfigError(Problem(key, f"ranker {', '.join(lacking)} has no such key", right))


def suited_to_task(entries: Entries, checked: Checked) -> Checked:
    """For data with pairs to classify, with the metric and loss of classification: by default, and in place of the
    space's own if the command line names the data."""
    if task_of(checked.fixed.get("data.source", DOCSTRINGS)) != "classification":
        return checked
    for key, fitting in class_values().items():
        if key in entries.all and not set(possible(entries, checked, key)) <= set(fitting):
            if key in entries.line or "data.source" not in entries.line:
                continue  # reported when the whole configuration is checked
            checked = checked.without(key, f"the data is pairs to classify, so it is {fitting[0]}")
        if key not in checked.leaves:
            checked = replace(checked, fixed={key: fitting[0]} | checked.fixed)
    return checked


def suited_to_turns(entries: Entries, checked: Checked) -> Checked:
    """For data that the command line names, whose queries are single texts: without the scoring `turns`, for which all
    of them are equally hard, where the space has others to choose from."""
    key, leaf = "curriculum.scoring", checked.leaves.get("curriculum.scoring")
    if not isinstance(leaf, Choice) or leaf.has_prior or "turns" not in leaf.options or len(leaf.options) == 1:
        return checked
    if "data.source" not in entries.line or may_have_turns(checked.fixed.get("data.source", DOCSTRINGS)):
        return checked
    fewer = replace(leaf, options=tuple(option for option in leaf.options if option != "turns"))
    why = {f"{key}: turns": "each query of the data is a single text"}
    return replace(checked, leaves=checked.leaves | {key: fewer}, left_out=checked.left_out | why)


def with_conditions(entries: Entries, checked: Checked, problems: list[Problem]) -> Checked:
    """The leaves after those of their conditions, which are checked; without those that the command line rules out."""
    with gathering(problems):
        checked = replace(checked, leaves=ordered(checked.leaves))
        for key in list(checked.leaves):
            with gathering(problems):
                when = checked_condition(entries, checked, key)
                if isinstance(when, str):
                    checked = checked.without(key, when)
                else:
                    checked.leaves[key] = replace(checked.leaves[key], when=when)
    return checked


def checked_condition(entries: Entries, checked: Checked, key: str) -> dict[str, tuple[Any, ...]] | str:
    """A leaf's condition with checked values, or why the command line has made it impossible; raises ConfigError if the
    condition is wrong or was never possible."""
    when: dict[str, tuple[Any, ...]] = {}
    for other, options in checked.leaves[key].when.items():
        location = f"{key}.when.{other}"
        if other in checked.left_out:
            return f"it exists only with {other}"
        if other not in entries.fields:
            raise ConfigError(replace(unknown_key(other, entries.fields), location=location))
        if other in entries.all and other not in checked.fixed and other not in checked.leaves:
            continue  # its own problem has been reported
        field = entries.fields[other]
        when[other] = tuple(map_all(lambda value, p=location, f=field: validate_value(p, f, value), options))
        impossible = [value for value in when[other] if not can_be(entries, checked, other, value)]
        never = len(impossible) == len(when[other])
        could_be = ", ".join(map(shown, possible(entries, checked, other)))
        if other in entries.line and never:
            return f"{other} is {could_be}"
        if impossible and other not in entries.line and (other in checked.leaves or never):
            raise ConfigError(Problem(location, f"never {', '.join(map(shown, impossible))}", f"one of {could_be}"))
    return when


def can_be(entries: Entries, checked: Checked, key: str, value: Any) -> bool:
    """Whether a key, opened or fixed, can have the value."""
    return checked.leaves[key].allows(value) if key in checked.leaves else value in unopened(entries, checked, key)


def unopened(entries: Entries, checked: Checked, key: str) -> list[Any]:
    """The value of a key that is not opened: as written, or its default. Empty if it has none."""
    if key in checked.fixed:
        return [checked.fixed[key]]
    field = entries.fields[key]
    return [] if field.is_required() else [field.get_default(call_default_factory=True)]


def context_of(entries: Entries, checked: Checked) -> Flat:
    """The values of keys that are not opened but stand in the condition of a leaf."""
    others = (other for leaf in checked.leaves.values() for other in leaf.when if other not in checked.leaves)
    keys = [key for key in dict.fromkeys(others) if key in entries.fields]
    return {key: value for key in keys for value in unopened(entries, checked, key)}


def possible(entries: Entries, checked: Checked, key: str) -> list[Any]:
    """What a key can be: its value, its options, or the ends of its range."""
    if key in checked.leaves:
        return list(checked.leaves[key].samples())
    return unopened(entries, checked, key)


def rate_notes(entries: Entries, checked: Checked) -> list[str]:
    """A note where the space's range of learning rates, meant for its own rankers, lacks the default of those that
    the command line has put in their place."""
    if RATE not in checked.leaves or RATE in entries.line:
        return []
    usual, ends = entries.fields[RATE].default, checked.leaves[RATE].samples()
    others = [name for name in entries.rankers if name not in entries.file_rankers]
    defaults = {name: RANKERS[name].settings.default_lr or usual for name in others}
    outside = [f"{name} has {rate:g}" for name, rate in defaults.items() if not min(ends) <= rate <= max(ends)]
    keeps = f"keeps the space's range, {min(ends):g} to {max(ends):g}, which is for {', '.join(entries.file_rankers)}"
    return [f"{RATE} {keeps}; by default {', '.join(outside)}"] if outside else []


def baseline_values(entries: Entries, file: Flat, line: Flat, problems: list[Problem]) -> Flat:
    """The checked values of the baseline, on top of OFF."""
    values, fields = dict(OFF), entries.fields
    for key, value in (baseline_entries(file, problems) | baseline_entries(line, problems)).items():
        with gathering(problems):
            if key not in fields:
                off = value is TURN_OFF
                problem = unknown_key(key, fields) if off else key_problem(key, value, fields)
                raise ConfigError(replace(problem, location=f"baseline.{key}"))
            value = off_value(key, fields[key]) if value is TURN_OFF else value
            values[key] = validate_value(f"baseline.{key}", fields[key], value)
    return values


def baseline_entries(tree: Mapping[str, Any], problems: list[Problem]) -> Flat:
    """Dotted key -> value, from `baseline:` as a mapping, `baseline:` as a list of keys to turn off, and keys
    `baseline.KEY`. Errors of form are added to `problems`."""
    flat: Flat = {}
    for name, value in tree.items():
        key = name.removeprefix("baseline").removeprefix(".")
        part: Any = {key: value} if key else value
        if isinstance(part, list):
            part = {str(off): TURN_OFF for off in part}
        if not isinstance(part, Mapping | None):
            wrong = f"{shown(value)} is not a mapping"
            problems.append(Problem("baseline", wrong, "{key: value, ...} or [key, ...]"))
            continue
        twice: list[Problem] = []
        join(flat, entries_of(part or {}, twice), twice)
        problems += [replace(problem, location=f"baseline.{problem.location}") for problem in twice]
    return flat


def off_value(key: str, field: FieldInfo) -> Any:
    """The value that turns a key off: `none`, or false."""
    if field.annotation is bool:
        return False
    try:
        return validate_value(key, field, "none")
    except ConfigError:
        right = f"baseline: {{{key}: the value}}"
        raise ConfigError(Problem(f"baseline.{key}", "has no value that turns it off", right)) from None
