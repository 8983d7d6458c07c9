"""Turns wrong configuration values into Problems that say, in the user's terms, what would be right."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import cache
from types import UnionType
from typing import Annotated, Any, Literal, Self, Union, get_args, get_origin

from annotated_types import Ge, Gt, Le, Lt
from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    TypeAdapter,
    ValidationError,
    ValidationInfo,
    field_validator,
)
from pydantic.fields import FieldInfo

from trainables.core.errors import ConfigError, Problem
from trainables.core.foreign import by_our_name, meant, meant_key

WORDS = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "a text",
    tuple: "a list",
    dict: "a mapping",
    type(None): "null",
}
LARGEST = 2**31 - 1  # largest whole number that every library in use can read
NEAR = 0.65  # likeness from which a word counts as misspelt
WRONG = {
    "greater_than": "{value} is not greater than {gt:g}",
    "greater_than_equal": "{value} is below {ge:g}",
    "less_than": "{value} is not below {lt:g}",
    "less_than_equal": "{value} is above {le:g}",
    "int_from_float": "{value} is not a whole number",
    "finite_number": "{value} is not a finite number",
    "literal_error": "unknown value {value}",
    "missing": "missing",
}


class Section(BaseModel):
    """Keys of the configuration that stand together: typed, finite, none unknown."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=False, allow_inf_nan=False)

    @field_validator("*", mode="before")
    @classmethod
    def no_number(cls, value: Any, field: ValidationInfo) -> Any:
        """Keeps true and false from being read as 1 and 0."""
        if isinstance(value, bool) and not accepts_bool(cls.model_fields[str(field.field_name)].annotation):
            raise ValueError(f"{shown(value)} is not possible")
        return value

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickles values alone, nested tuples of them: with pydantic's own way the configuration of a trial takes a
        third more bytes, and ten times as long."""
        return _restored, (type(self), _values(self))

    def __deepcopy__(self, memo: object = None) -> Self:
        """Itself, which never changes: Ray copies the configuration of a trial several times."""
        return self


def _values(section: Section) -> tuple[Any, ...]:
    values = vars(section)
    return tuple(_values(values[name]) if inner else values[name] for name, inner in _layout(type(section)))


def _restored(kind: type[Section], values: tuple[Any, ...]) -> Section:
    section, layout = kind.__new__(kind), _layout(kind)
    fields = {
        name: _restored(inner, value) if inner else value for (name, inner), value in zip(layout, values, strict=True)
    }
    state = {"__dict__": fields, "__pydantic_fields_set__": set(fields)}
    section.__setstate__({"__pydantic_extra__": None, "__pydantic_private__": None, **state})
    return section


@cache
def _layout(kind: type[Section]) -> tuple[tuple[str, type[Section] | None], ...]:
    """The names of a section's fields, each with the class of the section that it holds, if it holds one."""
    kinds = {name: field.annotation for name, field in kind.model_fields.items()}
    return tuple(
        (name, inner if isinstance(inner, type) and issubclass(inner, Section) else None)
        for name, inner in kinds.items()
    )


@dataclass(frozen=True)
class OneOf(AfterValidator):
    """For a field's annotation: the value must be one of these names. `others`: what else may be named, in words."""

    names: Iterable[str] = ()
    others: str = ""


@dataclass(frozen=True)
class ActiveIf:
    """For the annotation of a field, or of a section: when it has an effect. If a field has several, all must hold.

    words  what it needs, as docs/reference/keys.md and notes to the user have it
    holds  whether it holds under the whole configuration
    """

    words: str
    holds: Callable[[Any], bool]


def needs(model: type[BaseModel], prefix: str = "", outer: tuple[str, ...] = ()) -> dict[str, str]:
    """Dotted key -> what it needs to have an effect, in words, for all keys that need anything."""
    conditions: dict[str, str] = {}
    for name, field in model.model_fields.items():
        all_conditions = (*(item.words for item in field.metadata if isinstance(item, ActiveIf)), *outer)
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            conditions |= needs(field.annotation, f"{prefix}{name}.", all_conditions)
        elif all_conditions:
            conditions[f"{prefix}{name}"] = ", and ".join(all_conditions)
    return conditions


def with_needs(keys: Iterable[str], conditions: Mapping[str, str]) -> str:
    """A list of keys without effect, each with what it needs."""
    return ", ".join(f"{key} (needs {conditions[key]})" if key in conditions else key for key in keys)


def is_active(field: FieldInfo, whole: BaseModel) -> bool:
    """Whether a key has an effect under the configuration `whole`."""
    return all(item.holds(whole) for item in field.metadata if isinstance(item, ActiveIf))


def active_values(section: BaseModel, whole: BaseModel) -> dict[str, Any]:
    """A section as a nested mapping, without the keys that have no effect under the configuration `whole`."""
    values: dict[str, Any] = {}
    for name, field in type(section).model_fields.items():
        if is_active(field, whole):
            value = getattr(section, name)
            values[name] = active_values(value, whole) if isinstance(value, BaseModel) else value
    return values


def validate_value(key: str, field: FieldInfo, value: Any) -> Any:
    """The value as the configuration holds it (`inf` as a float, ...); raises ConfigError at the key."""
    annotation: Any = field.annotation
    if isinstance(value, bool) and not accepts_bool(annotation):
        raise ConfigError(field_problem(key, [{"type": "bool"}], value, field))
    if field.metadata:
        annotation = Annotated[annotation, *field.metadata]
    try:
        validated = TypeAdapter(annotation, config=ConfigDict(allow_inf_nan=False)).validate_python(value)
    except ValidationError as error:
        raise ConfigError(field_problem(key, error.errors(), value, field)) from None
    if problems := too_large(key, validated):
        raise ConfigError(problems)
    return validated


def too_large(key: str, value: Any) -> list[Problem]:
    """The problem with a whole number beyond LARGEST; none for any other value."""
    large = isinstance(value, int) and abs(value) > LARGEST
    return [Problem(key, f"{shown(value)} is too large", f"a whole number up to {LARGEST}")] if large else []


def accepts_bool(annotation: Any) -> bool:
    """Whether true and false are values of the type. Where a number is due, pydantic reads them as 1 and 0."""
    return annotation in (bool, Any) or any(accepts_bool(part) for part in get_args(annotation))


def accepts_list(annotation: Any) -> bool:
    """Whether a list may be a value of the type."""
    return annotation is Any or get_origin(annotation) in (list, tuple) or any(map(accepts_list, get_args(annotation)))


def problems_of(error: ValidationError, fields: Mapping[str, FieldInfo], prefix: str = "") -> list[Problem]:
    """One Problem per key in a pydantic error; `prefix` is the dotted key of the validated model."""
    by_key: dict[str, list[Any]] = defaultdict(list)
    for detail in error.errors():
        path = [str(part) for part in detail["loc"]]
        dotted = [prefix + ".".join(path[:end]) for end in range(1, len(path) + 1)]
        whole = dotted[-1] if dotted else prefix.rstrip(".")
        by_key[next((key for key in dotted if key in fields), whole)].append(detail)
    return [
        field_problem(key, details, details[0]["input"], fields[key])
        if key in fields
        else key_problem(key, details[0]["input"], fields)
        for key, details in by_key.items()
    ]


def key_problem(key: str, value: Any, fields: Iterable[str]) -> Problem:
    """What is wrong with a key that cannot hold a value: it is a section, or unknown."""
    fields = list(fields)
    if inside := [name for name in fields if name.startswith(f"{key}.")]:
        return Problem(key, f"{shown(value)} given for a section of keys", f"its keys: {', '.join(inside)}")
    return unknown_key(key, fields)


def unknown_key(key: str, keys: Iterable[str]) -> Problem:
    """The problem of a key that does not exist, with the most similar one as advice."""
    return Problem(key, "unknown key", nearest_key(key, keys))


def field_problem(key: str, details: list[Any], value: Any, field: FieldInfo) -> Problem:
    """What is wrong with a known key's value, from pydantic's details (several for a union)."""
    right = expected(field.annotation, field.metadata)
    if field.description:
        right += f" ({field.description})"
    kind, context = details[0]["type"], details[0].get("ctx", {})
    if kind == "value_error":
        wrong, _, advice = str(context["error"]).partition("; ")
        return Problem(key, wrong, advice or right)
    if kind == "literal_error" and isinstance(value, str):
        right = meant(value) or right
    if len(details) > 1 or kind not in WRONG:
        return Problem(key, f"{shown(value)} is not possible", right)
    return Problem(key, WRONG[kind].format(value=shown(value), **context), right)


def expected(annotation: Any, metadata: Iterable[Any] = ()) -> str:
    """The values a type takes, in words: 'a number in (0, 1]', 'one of a, b', ..."""
    origin = get_origin(annotation)
    if origin is Annotated:
        inner, *more = get_args(annotation)
        return expected(inner, [*more, *metadata])
    if origin in (Union, UnionType):
        parts = [expected(part, metadata if part in (int, float) else ()) for part in get_args(annotation)]
        return (", or " if any("," in part for part in parts[:-1]) else " or ").join(parts)
    if origin is Literal:
        names = [str(name) for name in get_args(annotation)]
        return names[0] if len(names) == 1 else f"one of {', '.join(names)}"
    if named := next((item for item in metadata if isinstance(item, OneOf)), None):
        return f"one of {', '.join(named.names)}{named.others and f', or {named.others}'}"
    words = WORDS.get(origin or annotation, "a value of another kind") + interval(metadata)
    return f"{words}, or inf" if any(getattr(item, "allow_inf_nan", False) for item in metadata) else words


def interval(metadata: Iterable[Any]) -> str:
    """' in (0, 1]', ' above 0', ', 1 or more' or nothing."""
    bounds: dict[type, Any] = {}
    for item in metadata:
        for part in item.metadata if isinstance(item, FieldInfo) else [item]:
            bounds[type(part)] = part
    low, high = bounds.get(Ge) or bounds.get(Gt), bounds.get(Le) or bounds.get(Lt)
    low_value = getattr(low, "ge", getattr(low, "gt", None))
    high_value = getattr(high, "le", getattr(high, "lt", None))
    if low and high:
        return f" in {'[' if Ge in bounds else '('}{low_value}, {high_value}{']' if Le in bounds else ')'}"
    if low:
        return f", {low_value} or more" if Ge in bounds else f" above {low_value}"
    if high:
        return f", {high_value} or less" if Le in bounds else f" below {high_value}"
    return ""


def nearest_key(key: str, keys: Iterable[str]) -> str:
    """Advice for an unknown dotted key: a known key or section like it (`near_key`); else the keys of its section; else
    a top-level name like its section's, or all of them."""
    if advice := meant_key(key):
        return advice
    names = sorted(keys, key=_depth)
    if near := near_key(key, names):
        return f"did you mean {near}?"
    section = by_our_name(key.strip()).partition(".")[0]
    if inside := [name for name in names if name.startswith(f"{section}.")]:
        return f"known: {', '.join(inside)}"
    heads = list(dict.fromkeys(name.partition(".")[0] for name in names))
    near = max(heads, key=lambda name: likeness(section, name), default="")
    return f"did you mean {near}?" if likeness(section, near) >= 0.6 else f"known: {', '.join(heads)}"


def near_key(key: str, keys: Iterable[str]) -> str | None:
    """The known key most like a dotted key as a whole; else the key or section whose last part is most like its own (in
    another section only if very like). Ties go to the least deeply nested. None if nothing is like it, or it is itself
    a section."""
    names, key = sorted(keys, key=_depth), by_our_name(key.strip())
    sections = {name[:end] for name in names for end in range(len(name)) if name[end] == "."}
    if key in sections:
        return None
    return _like_whole(key, names) or _like_last(key, sorted([*names, *sorted(sections)], key=_depth))


def _like_whole(key: str, names: list[str]) -> str | None:
    """The name most like the key. Their last parts must be alike too: a long section in common is not enough."""
    alike = [name for name in names if likeness(key, name) >= 0.85 and likeness(_last(key), _last(name)) >= 0.5]
    return max(alike, key=lambda name: likeness(key, name), default=None)


def _like_last(key: str, targets: list[str]) -> str | None:
    """The target whose last part is most like the key's."""
    section = f"{key.partition('.')[0]}."
    elsewhere = 0.8 if any(name.startswith(section) for name in targets) else NEAR
    likely = {name: likeness(_last(key), _last(name)) for name in targets}
    alike = [name for name in targets if likely[name] >= (NEAR if name.startswith(section) else elsewhere)]
    return max(alike, key=lambda name: likely[name], default=None)


def likeness(one: str, other: str) -> float:
    """Similarity from 0 to 1, which means equal except for case."""
    return SequenceMatcher(None, other.lower(), one.lower()).ratio()


def _depth(key: str) -> int:
    return key.count(".")


def _last(key: str) -> str:
    return key.rpartition(".")[2]


def shown(value: Any) -> str:
    """A value as a user would write it."""
    if isinstance(value, bool) or value is None:
        return {True: "true", False: "false", None: "null"}[value]
    return repr(value)
