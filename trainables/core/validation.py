"""Sections of the configuration, and pydantic's errors as Problems that say, in the user's terms, what is right."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from typing import Annotated, Any, Self, get_args, get_origin

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    TypeAdapter,
    ValidationError,
    ValidationInfo,
    field_validator,
)
from pydantic.fields import FieldInfo
from pydantic_core import PydanticCustomError

from trainables.core.errors import ConfigError, Problem


class Section(BaseModel):
    """Keys of the configuration that stand together: typed, finite, none unknown."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    @field_validator("*", mode="before")
    @classmethod
    def no_truth_value_as_number(cls, value: Any, field: ValidationInfo) -> Any:
        require_no_truth_value(cls.model_fields[str(field.field_name)].annotation, value)
        return value

    def __deepcopy__(self, memo: object = None) -> Self:
        """Itself, which never changes: Ray copies the configuration of a trial several times."""
        return self


def require_no_truth_value(annotation: Any, value: Any) -> None:
    """Raises ValueError for true and false, which pydantic would read as the numbers 1 and 0."""
    if isinstance(value, bool) and not accepts(annotation, bool):
        raise ValueError(f"{shown(value)} is not possible")


def accepts(annotation: Any, *kinds: Any) -> bool:
    """Whether a value of one of these kinds may be one of the type."""
    if annotation is Any or annotation in kinds or get_origin(annotation) in kinds:
        return True
    return any(accepts(part, *kinds) for part in get_args(annotation))


@dataclass(frozen=True)
class OneOf(AfterValidator):
    """For a field's annotation: the value must be one of these names. `others`: what else may be named, in words."""

    names: Iterable[str] = ()
    others: str = ""

    def __get_pydantic_json_schema__(self, core: Any, handler: Any) -> dict[str, Any]:
        names = {"examples": [*self.names], "$comment": self.others} if self.others else {"enum": [*self.names]}
        return {**handler(core), **names}


@dataclass(frozen=True, eq=False)
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


@cache
def conditions_of(model: type[BaseModel]) -> dict[str, tuple[ActiveIf, ...]]:
    """Of each field of a section, what must hold for it to have an effect."""
    fields = model.model_fields.items()
    return {name: tuple(item for item in field.metadata if isinstance(item, ActiveIf)) for name, field in fields}


def needs(model: type[BaseModel], prefix: str = "", outer: tuple[ActiveIf, ...] = ()) -> dict[str, str]:
    """Dotted key -> what it needs to have an effect, in words, for all keys that need anything."""
    words: dict[str, str] = {}
    for name, conditions in conditions_of(model).items():
        conditions = (*conditions, *outer)
        if section := section_of(model.model_fields[name]):
            words |= needs(section, f"{prefix}{name}.", conditions)
        elif conditions:
            words[f"{prefix}{name}"] = ", and ".join(condition.words for condition in conditions)
    return words


def active_values(
    section: BaseModel, whole: BaseModel, prefix: str = "", answers: dict[ActiveIf, bool] | None = None
) -> dict[str, Any]:
    """Dotted key -> value, of the keys of a section that have an effect under the configuration `whole`. `answers`:
    of the conditions so far."""
    answers = {} if answers is None else answers
    values: dict[str, Any] = {}
    for name, conditions in conditions_of(type(section)).items():
        for condition in conditions:
            if condition not in answers:
                answers[condition] = condition.holds(whole)
            if not answers[condition]:
                break
        else:
            key, value = f"{prefix}{name}", getattr(section, name)
            if isinstance(value, BaseModel):
                values |= active_values(value, whole, f"{key}.", answers)
            elif isinstance(value, Mapping):
                values |= {f"{key}.{inner}": one for inner, one in value.items()}
            else:
                values[key] = value
    return values


def with_needs(keys: Iterable[str], conditions: Mapping[str, str]) -> str:
    """A list of keys without effect, each with what it needs."""
    return ", ".join(f"{key} (needs {conditions[key]})" if key in conditions else key for key in keys)


# -- pydantic's errors -------------------------------------------------------------------------------------------------


def refusal(*problems: Problem) -> PydanticCustomError:
    """What a validator raises for values that do not go together; `problems_of` unpacks it."""
    return PydanticCustomError("refused", "refused", {"problems": problems})


@cache
def adapter(field: FieldInfo) -> TypeAdapter[Any]:
    """Validates values of one key."""
    annotation: Any = field.annotation

    def checked(value: Any) -> Any:
        require_no_truth_value(field.annotation, value)
        return value

    annotation = Annotated[annotation, *field.metadata, BeforeValidator(checked)]
    return TypeAdapter(annotation, config=ConfigDict(allow_inf_nan=False))


def validate_value(key: str, field: FieldInfo, value: Any) -> Any:
    """The value as the configuration holds it (`inf` as a float, ...); raises ConfigError at the key."""
    try:
        return adapter(field).validate_python(value)
    except ValidationError as error:
        raise ConfigError(problems_of(error, {key: field}, f"{key}.")) from None


def problems_of(error: ValidationError, fields: Mapping[str, FieldInfo], prefix: str = "") -> list[Problem]:
    """The Problems in a pydantic error, one a key; `prefix`: the dotted key of the validated model."""
    by_key: dict[str, list[Any]] = defaultdict(list)
    refused: list[Problem] = []
    details: list[Any] = error.errors()
    for detail in details:
        path = [str(part) for part in detail["loc"]]
        places = [prefix + ".".join(path[:end]) for end in range(len(path) + 1)]
        places[0] = prefix.rstrip(".")
        if detail["type"] == "refused":
            refused += detail["ctx"]["problems"]
        else:
            by_key[next((key for key in places if key in fields), places[-1])].append(detail)
    return [*(problem_of(key, details, fields) for key, details in by_key.items()), *refused]


def problem_of(key: str, details: list[Any], fields: Mapping[str, FieldInfo]) -> Problem:
    """What is wrong with a key's value, from pydantic's details (several for a union)."""
    value = shown(details[0]["input"])
    if key not in fields:
        return unknown_key(key, value, fields)
    meaning = fields[key].description
    if details[0]["type"] == "value_error":
        wrong, _, advice = str(details[0]["ctx"]["error"]).partition("; ")
        return Problem(key, wrong, advice or meaning or "another value")
    if details[0]["type"] == "missing":
        return Problem(key, "missing", meaning or "a value")
    expected = dict.fromkeys(str(detail["msg"]).removeprefix("Input ") for detail in details)
    return Problem(key, f"{value} is not possible", f"{' or '.join(expected)} ({meaning})")


def unknown_key(key: str, value: str, keys: Iterable[str]) -> Problem:
    """What is wrong with a key that cannot hold a value: it is a section, or unknown."""
    keys = list(keys)
    if inside := [name for name in keys if name.startswith(f"{key}.")]:
        return Problem(key, f"{value} given for a section of keys", f"its keys: {', '.join(inside)}")
    if near := nearest_key(key, keys):
        return Problem(key, "unknown key", f"did you mean {near}?")
    sections = dict.fromkeys(name.partition(".")[0] for name in keys)
    section = [name for name in keys if name.startswith(f"{key.partition('.')[0]}.")]
    return Problem(key, "unknown key", f"known: {', '.join(section or sections)}")


def nearest_key(key: str, keys: Iterable[str]) -> str | None:
    """The known key or section that is most like a dotted key by its last part: one of the same section or, if it is
    very like, any other; None if nothing is like it."""
    section, _, last = key.lower().rpartition(".")
    inside: dict[str, str] = {}
    anywhere: dict[str, str] = {}
    for name in sorted(keys, key=lambda name: name.count(".")):
        head, _, end = name.lower().rpartition(".")
        anywhere.setdefault(end, name)
        anywhere.setdefault(name.partition(".")[0], name.partition(".")[0])
        if head == section:
            inside.setdefault(end, name)
    for names, likeness in ((inside, 0.65), (anywhere, 0.8)):
        if close := get_close_matches(last, names, n=1, cutoff=likeness):
            return names[close[0]]
    return None


def shown(value: Any) -> str:
    """A value as a user would write it."""
    if isinstance(value, bool) or value is None:
        return {True: "true", False: "false", None: "null"}[value]
    return repr(value)
