"""Turns a search-space file and the command line into checked fixed keys, opened leaves and a baseline."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import Any

from pydantic.fields import FieldInfo

from trainables.config.keys import RankerName, configuration_fields, ranker_fields
from trainables.config.objective import PARAMETERS, objective_fields
from trainables.config.task_fit import class_values
from trainables.core.errors import ConfigError, Problem, gathering
from trainables.core.validation import accepts_list, key_problem, near_key, shown, unknown_key, validate_value
from trainables.data import DOCSTRINGS, task_of
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


@dataclass
class Resolution:
    """Checked values by dotted key. `given`: keys from the command line; `entries`: all keys as written;
    `problems`: all that was wrong."""

    given: Flat = field(default_factory=dict)
    entries: Flat = field(default_factory=dict)
    fixed: Flat = field(default_factory=dict)
    leaves: dict[str, Leaf] = field(default_factory=dict)
    context: Flat = field(default_factory=dict)
    baseline: Flat = field(default_factory=dict)
    fields: dict[str, FieldInfo] = field(default_factory=dict)
    dropped: set[str] = field(default_factory=set)
    notes: list[str] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    objective: str | None = None  # name of the user's function that trains, if one does

    def collecting(self) -> AbstractContextManager[None]:
        """Collects the problems of a ConfigError and goes on after the block."""
        return gathering(self.problems)

    def drop(self, key: str, why: str) -> None:
        """Leaves out a key that the command line has made pointless, with a note."""
        self.dropped.add(key)
        self.fixed.pop(key, None)
        self.leaves.pop(key, None)
        self.notes.append(f"{key} is left out: {why}")

    @property
    def space(self) -> Space:
        return Space(self.leaves, self.context)


def resolve(
    tree: Mapping[str, Any],
    given: Mapping[str, Any],
    baseline: Mapping[str, Any],
    given_baseline: Mapping[str, Any],
    objective: str | None = None,
) -> Resolution:
    """`tree`: the configuration part of a space file; `baseline`: its key `baseline` and those that begin with
    `baseline.`; `given` and `given_baseline`: the command line's, which override the file's; `objective`: the name of
    the function that trains, if it is a user's. Wrong parts are left out and reported in `problems`."""
    done = Resolution(objective=objective)
    done.given = entries_of(given, done.problems)
    of_file = entries_of(tree, done.problems)
    done.entries = of_file | done.given
    rankers = add_fields(done)
    for key, value in done.entries.items():
        with done.collecting():
            add_entry(done, key, value, rankers)
    if objective is None:
        suit_task(done)
    with done.collecting():
        done.leaves = ordered(done.leaves)
        for key in list(done.leaves):
            with done.collecting():
                check_condition(done, key)
    resolve_baseline(done, baseline, given_baseline)
    note_rates(done, named_rankers(of_file.get("ranker.name", DEFAULT_NAME)), rankers)
    return done


def add_fields(done: Resolution) -> list[str]:
    """Adds the fields that the training has; returns the rankers that the entries name."""
    if done.objective is not None:
        done.fields, done.fixed = objective_fields(done.entries), {"ranker.name": done.objective}
        return []
    names = named_rankers(done.entries.get("ranker.name", DEFAULT_NAME))
    rankers = [RANKERS.canonical(name) for name in names if name in RANKERS]
    done.fields = configuration_fields(rankers)
    if len(rankers) < len(names):  # reported where values are checked; its own keys are no further problems
        of_one, done.fields = done.fields, configuration_fields(RANKERS)
        done.entries = {key: each for key, each in done.entries.items() if key in of_one or key not in done.fields}
    return rankers


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


def add_entry(done: Resolution, key: str, value: Any, rankers: list[str]) -> None:
    """Adds a written key to the fixed keys or to the leaves; raises ConfigError for what is wrong with it."""
    if key not in done.fields:
        if key.startswith("ranker.") and "ranker.name" in done.given and key not in done.given:
            return done.drop(key, f"it belongs to another ranker than {', '.join(rankers)}")
        elsewhere = of_other_trainings(done, key) or of_other_rankers(done, key, rankers)
        raise ConfigError(elsewhere or key_problem(key, value, all_keys(done, key)))
    if isinstance(value, list) and not accepts_list(done.fields[key].annotation):
        value = {Choice.kind: value}
    if not isinstance(value, Mapping) or (key in MAPPINGS and not value.keys() & KINDS.keys()):
        done.fixed[key] = validate_value(key, done.fields[key], value)
        return None
    if key.startswith(NEVER_OPENED):
        raise ConfigError(Problem(key, "cannot be searched: its trials would not compare", "one value"))
    leaf = validate_leaf(key, done.fields[key], parse_leaf(key, value))
    need_ranker_condition(key, leaf, rankers)
    done.leaves[key] = leaf
    return None


def of_other_trainings(done: Resolution, key: str) -> Problem | None:
    """The problem with a key of a ranker's training where a function trains, and the other way round."""
    if done.objective is None:
        right = "--objective FILE.py:FUNCTION, or objective= in Python"
        own = key.partition(".")[0] == PARAMETERS
        return Problem(key, "is a key of a training function, and none is given", right) if own else None
    if key not in configuration_fields(RANKERS):
        return None
    right = f"{PARAMETERS}.{key.rpartition('.')[2]}, if {done.objective} reads it as config['{PARAMETERS}']"
    return Problem(key, f"is a key of our own rankers, which {done.objective} does not train", right)


def of_other_rankers(done: Resolution, key: str, rankers: list[str]) -> Problem | None:
    """The problem with a key that only other rankers have or, being like no key here, with one like a key of theirs."""
    theirs = {name for ranker in RANKERS for name in ranker_fields(ranker)}
    meant = key if key in theirs else None if near_key(key, all_keys(done, key)) else near_key(key, theirs)
    if not key.startswith("ranker.") or meant is None or done.objective:
        return None
    owners, own = [name for name in RANKERS if meant in ranker_fields(name)], ", ".join(rankers)
    has = "it" if meant == key else meant
    right = f"ranker.name={' or '.join(owners)}, which has {has}, or a key of {own}"
    return Problem(key, f"unknown key of {own}", right)


def all_keys(done: Resolution, key: str) -> list[str]:
    """What an unknown key may have been meant to be; in a file, also one of TEXTS."""
    texts = () if key in done.given else TEXTS
    return [*done.fields, *SEARCH_KEYS, *texts, *(f"baseline.{name}" for name in done.fields)]


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


def need_ranker_condition(key: str, leaf: Leaf, rankers: list[str]) -> None:
    """Raises ConfigError if a leaf exists in trials whose ranker lacks the key."""
    if not key.startswith("ranker.") or key == "ranker.name":
        return
    having = [name for name in rankers if key in ranker_fields(name)]
    lacking = [name for name in leaf.when.get("ranker.name", rankers) if name in rankers and name not in having]
    if lacking:
        right = f"when: {{ranker.name: [{', '.join(having)}]}}"
        raise ConfigError(Problem(key, f"ranker {', '.join(lacking)} has no such key", right))


def suit_task(done: Resolution) -> None:
    """For data with pairs to classify, sets the metric and loss of classification: by default, and in place of the
    space's own if the command line names the data."""
    if task_of(done.fixed.get("data.source", DOCSTRINGS)) != "classification":
        return
    for key, values in class_values().items():
        if key in done.entries and not set(possible(done, key)) <= set(values):
            if key in done.given or "data.source" not in done.given:
                continue  # reported when the whole configuration is checked
            done.drop(key, f"the data is pairs to classify, so it is {values[0]}")
        if key not in done.leaves:
            done.fixed.setdefault(key, values[0])


def check_condition(done: Resolution, key: str) -> None:
    """Completes a leaf's condition with checked values and context. Drops the leaf if the command line has made the
    condition impossible; raises ConfigError if the condition is wrong or was never possible."""
    when = {}
    for other, values in done.leaves[key].when.items():
        location = f"{key}.when.{other}"
        if other in done.dropped:
            return done.drop(key, f"it exists only with {other}")
        if other not in done.fields:
            raise ConfigError(replace(unknown_key(other, done.fields), location=location))
        if other in done.entries and other not in done.fixed and other not in done.leaves:
            continue  # its own problem has been reported
        field = done.fields[other]
        when[other] = tuple(map_all(lambda value, p=location, f=field: validate_value(p, f, value), values))
        impossible = [value for value in when[other] if not can_be(done, other, value)]
        if other in done.given and len(impossible) == len(when[other]):
            return done.drop(key, f"{other} is {', '.join(map(shown, possible(done, other)))}")
        if impossible and other not in done.given and (other in done.leaves or len(impossible) == len(when[other])):
            right = f"one of {', '.join(map(shown, possible(done, other)))}"
            raise ConfigError(Problem(location, f"never {', '.join(map(shown, impossible))}", right))
    done.leaves[key] = replace(done.leaves[key], when=when)
    return None


def can_be(done: Resolution, key: str, value: Any) -> bool:
    """Whether a key, opened or fixed, can have the value. The value of a key that is not opened is entered in the
    context."""
    if key in done.leaves:
        return done.leaves[key].allows(value)
    if key in done.fixed:
        done.context[key] = done.fixed[key]
    elif not done.fields[key].is_required():
        done.context[key] = done.fields[key].get_default(call_default_factory=True)
    return key in done.context and done.context[key] == value


def possible(done: Resolution, key: str) -> list[Any]:
    """What a key can be: its value, its options, or the ends of its range."""
    return list(done.leaves[key].samples()) if key in done.leaves else [done.fixed.get(key, done.context.get(key))]


def note_rates(done: Resolution, own: list[str], rankers: list[str]) -> None:
    """Notes where the space's range of learning rates, meant for its `own` rankers, lacks the default of those that
    the command line has put in their place."""
    if RATE not in done.leaves or RATE in done.given:
        return
    usual, ends = done.fields[RATE].default, done.leaves[RATE].samples()
    defaults = {name: RANKERS[name].settings.default_lr or usual for name in rankers if name not in own}
    outside = [f"{name} has {rate:g}" for name, rate in defaults.items() if not min(ends) <= rate <= max(ends)]
    if outside:
        keeps = f"keeps the space's range, {min(ends):g} to {max(ends):g}, which is for {', '.join(own)}"
        done.notes.append(f"{RATE} {keeps}; by default {', '.join(outside)}")


def resolve_baseline(done: Resolution, baseline: Mapping[str, Any], given: Mapping[str, Any]) -> None:
    """Checks the values of the baseline and sets them on top of OFF."""
    done.baseline = dict(OFF)
    entries = baseline_entries(baseline, done.problems) | baseline_entries(given, done.problems)
    for key, value in entries.items():
        with done.collecting():
            if key not in done.fields:
                off = value is TURN_OFF
                problem = unknown_key(key, done.fields) if off else key_problem(key, value, done.fields)
                raise ConfigError(replace(problem, location=f"baseline.{key}"))
            value = off_value(key, done.fields[key]) if value is TURN_OFF else value
            done.baseline[key] = validate_value(f"baseline.{key}", done.fields[key], value)


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
