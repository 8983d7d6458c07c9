"""Sections of the configuration, and wrong values of them as Problems that say, in the user's terms, what is right."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
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
from pydantic_core import PydanticCustomError

from trainables.core.errors import ConfigError, Problem

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
NEAR = 0.65  # likeness from which a name counts as misspelt


class Section(BaseModel):
    """Keys of the configuration that stand together: typed, finite, none unknown."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=False, allow_inf_nan=False)

    @field_validator("*", mode="before")
    @classmethod
    def plain_number(cls, value: Any, field: ValidationInfo) -> Any:
        """Keeps true and false from being read as 1 and 0, and out what no library reads."""
        if unfit := unfit_number(cls.model_fields[str(field.field_name)].annotation, value):
            raise ValueError(unfit)
        return value

    def __deepcopy__(self, memo: object = None) -> Self:
        """Itself, which never changes: Ray copies the configuration of a trial several times."""
        return self


@dataclass(frozen=True)
class OneOf(AfterValidator):
    """For a field's annotation: the value must be one of these names. `others`: what else may be named, in words."""

    names: Iterable[str] = ()
    others: str = ""

    def __get_pydantic_json_schema__(self, core: Any, handler: Any) -> dict[str, Any]:
        schema = handler(core)
        return schema if self.others else {**schema, "enum": [*self.names]}


@dataclass(frozen=True)
class ActiveIf:
    """For the annotation of a field, or of a section: when it has an effect. If a field has several, all must hold.

    words  what it needs, as docs/reference/keys.md and notes to the user have it
    holds  whether it holds under the whole configuration
    """

    words: str
    holds: Callable[[Any], bool]


def section_of(field: FieldInfo) -> type[BaseModel] | None:
    """The class of the section that a field holds, if it holds one."""
    kind = field.annotation
    return kind if isinstance(kind, type) and issubclass(kind, BaseModel) else None


def needs(model: type[BaseModel], prefix: str = "", outer: tuple[str, ...] = ()) -> dict[str, str]:
    """Dotted key -> what it needs to have an effect, in words, for all keys that need anything."""
    conditions: dict[str, str] = {}
    for name, field in model.model_fields.items():
        words = (*(item.words for item in field.metadata if isinstance(item, ActiveIf)), *outer)
        if section := section_of(field):
            conditions |= needs(section, f"{prefix}{name}.", words)
        elif words:
            conditions[f"{prefix}{name}"] = ", and ".join(words)
    return conditions


def with_needs(keys: Iterable[str], conditions: Mapping[str, str]) -> str:
    """A list of keys without effect, each with what it needs."""
    return ", ".join(f"{key} (needs {conditions[key]})" if key in conditions else key for key in keys)


@cache
def conditions_of(model: type[BaseModel]) -> dict[str, list[ActiveIf]]:
    """Of each field of a section, what must hold for it to have an effect."""
    fields = model.model_fields.items()
    return {name: [item for item in field.metadata if isinstance(item, ActiveIf)] for name, field in fields}


def active_values(section: BaseModel, whole: BaseModel) -> dict[str, Any]:
    """A section as a nested mapping, without the keys that have no effect under the configuration `whole`."""
    values: dict[str, Any] = {}
    for name, conditions in conditions_of(type(section)).items():
        if not conditions or all(condition.holds(whole) for condition in conditions):
            value = getattr(section, name)
            values[name] = active_values(value, whole) if isinstance(value, BaseModel) else value
    return values


def validate_value(key: str, field: FieldInfo, value: Any) -> Any:
    """The value as the configuration holds it (`inf` as a float, ...); raises ConfigError at the key."""
    annotation: Any = field.annotation
    if unfit := unfit_number(annotation, value):
        raise ConfigError(field_problem(key, [{"type": "value_error", "ctx": {"error": unfit}}], value, field))
    if field.metadata:
        annotation = Annotated[annotation, *field.metadata]
    try:
        return TypeAdapter(annotation, config=ConfigDict(allow_inf_nan=False)).validate_python(value)
    except ValidationError as error:
        refused = [problem for detail in error.errors() for problem in refused_in(detail)]
        raise ConfigError(refused or field_problem(key, error.errors(), value, field)) from None


def unfit_number(annotation: Any, value: Any) -> str:
    """Why a value is none that a field of this type takes, although pydantic would take it; else empty."""
    if isinstance(value, bool):
        return "" if accepts_bool(annotation) else f"{shown(value)} is not possible"
    large = isinstance(value, int) and abs(value) > LARGEST
    return f"{value} is too large; a whole number up to {LARGEST}" if large else ""


def accepts_bool(annotation: Any) -> bool:
    """Whether true and false are values of the type. Where a number is due, pydantic reads them as 1 and 0."""
    return annotation in (bool, Any) or any(accepts_bool(part) for part in get_args(annotation))


def accepts_list(annotation: Any) -> bool:
    """Whether a list may be a value of the type."""
    return annotation is Any or get_origin(annotation) in (list, tuple) or any(map(accepts_list, get_args(annotation)))


def refusal(*problems: Problem) -> PydanticCustomError:
    """What a validator raises for values that do not go together; `problems_of` unpacks it."""
    return PydanticCustomError("refused", "refused", {"problems": problems})


def refused_in(detail: Mapping[str, Any]) -> list[Problem]:
    """The Problems in a pydantic detail that a `refusal` made; none in any other."""
    return list(detail["ctx"]["problems"]) if detail["type"] == "refused" else []


def problems_of(error: ValidationError, fields: Mapping[str, FieldInfo], prefix: str = "") -> list[Problem]:
    """The Problems in a pydantic error, one a key; `prefix`: the dotted key of the validated model."""
    by_key: dict[str, list[Any]] = defaultdict(list)
    refused: list[Problem] = []
    for detail in error.errors():
        path = [str(part) for part in detail["loc"]]
        dotted = [prefix + ".".join(path[:end]) for end in range(1, len(path) + 1)]
        whole = dotted[-1] if dotted else prefix.rstrip(".")
        if inner := refused_in(detail):
            refused += inner
        else:
            by_key[next((key for key in dotted if key in fields), whole)].append(detail)
    problems = []
    for key, details in by_key.items():
        value = details[0]["input"]
        known = fields.get(key)
        problems.append(field_problem(key, details, value, known) if known else key_problem(key, value, fields))
    return [*problems, *refused]


def key_problem(key: str, value: Any, fields: Iterable[str]) -> Problem:
    """What is wrong with a key that cannot hold a value: it is a section, or unknown."""
    fields = list(fields)
    if inside := [name for name in fields if name.startswith(f"{key}.")]:
        return Problem(key, f"{shown(value)} given for a section of keys", f"its keys: {', '.join(inside)}")
    return Problem(key, "unknown key", nearest_key(key, fields))


def field_problem(key: str, details: list[Any], value: Any, field: FieldInfo) -> Problem:
    """What is wrong with a known key's value, from pydantic's details (several for a union)."""
    right = expected(field.annotation, field.metadata)
    if field.description:
        right += f" ({field.description})"
    kind, context = details[0]["type"], details[0].get("ctx", {})
    if kind == "value_error":
        wrong, _, advice = str(context["error"]).partition("; ")
        return Problem(key, wrong, advice or right)
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
    """Advice for an unknown dotted key: a key or section like it; else the keys of its section, or all sections."""
    names = list(keys)
    heads = list(dict.fromkeys(name.partition(".")[0] for name in names))
    section, dot, _ = key.partition(".")
    close = [] if dot else get_close_matches(section.lower(), heads, n=1, cutoff=0.8)
    near = close[0] if close else near_key(key, names)
    if near is None and section not in heads:
        near = next(iter(get_close_matches(section, heads, n=1)), None)
    inside = [name for name in names if name.startswith(f"{section}.")]
    return f"did you mean {near}?" if near else f"known: {', '.join(inside or heads)}"


def near_key(key: str, keys: Iterable[str]) -> str | None:
    """The known key whose last part is most like that of a dotted key: of the same section, or of another if it is
    very like; None if nothing is like it."""
    section, _, last = key.lower().rpartition(".")
    by_last: dict[str, str] = {}
    inside: dict[str, str] = {}
    for name in sorted(keys, key=lambda name: name.count(".")):
        head, _, end = name.lower().rpartition(".")
        by_last.setdefault(end, name)
        if head == section:
            inside.setdefault(end, name)
    for names, cutoff in ((inside, NEAR), (by_last, 0.8)):
        if close := get_close_matches(last, names, n=1, cutoff=cutoff):
            return names[close[0]]
    return None


def shown(value: Any) -> str:
    """A value as a user would write it."""
    if isinstance(value, bool) or value is None:
        return {True: "true", False: "false", None: "null"}[value]
    return repr(value)
