"""The JSON Schema of a search space: what an editor needs to complete and check its keys."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Annotated, Any

from pydantic import TypeAdapter
from pydantic.fields import FieldInfo

from trainables.config.keys import configuration_fields, ranker_fields
from trainables.core.validation import OneOf
from trainables.rankers import RANKERS
from tune_cl.experiment.resolution import MAPPINGS, NEVER_OPENED, SHORT, TEXTS
from tune_cl.experiment.search_keys import SEARCH_KEYS
from tune_cl.space.parameters import Choice, Grid, Integer, LogUniform, Uniform

Schema = dict[str, Any]
LIST = {"type": "array", "minItems": 1}
NUMBERS = {"type": "array", "items": {"type": "number"}, "minItems": 2, "maxItems": 2}


def space_schema() -> Schema:
    """A key's value is what its pydantic field takes; where it may be opened, also a range, or a list of values. Keys
    stand nested or dotted. Of the registered names, those of plug-ins that are loaded are known as well."""
    fields = {key: [field] for key, field in (configuration_fields(()) | SEARCH_KEYS).items()} | _of_rankers()
    values = {key: _any_of(_distinct(_value(key, field) for field in forms)) for key, forms in fields.items()}
    shut = {key: value for key, value in values.items() if key.startswith((*NEVER_OPENED, "search."))}
    keys = {key: _told(fields[key]) | (shut.get(key) or _opened(key, value)) for key, value in values.items()}
    homes = {key: "keys" if key in shut else "values" for key in keys}
    tree = _section(dict.fromkeys(keys, "keys"))
    for key, whole in SHORT.items():
        tree["properties"][key] = _any_of([tree["properties"][key], {"$ref": f"#/$defs/keys/{whole}"}])
    tree["properties"] |= {name: {"type": "string"} for name in TEXTS}
    tree["properties"] |= {
        "parameters": {},
        "baseline": _any_of([_section(homes), {"type": "array", "items": {"enum": [*values]}}]),
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "search space of tune_cl",
        **tree,
        "patternProperties": {r"^(parameters|baseline)\.": {}},
        "$defs": {
            "list": LIST,
            "range": _range(),
            "keys": keys,
            "values": {key: value for key, value in values.items() if key not in shut},
        },
    }


def _of_rankers() -> dict[str, list[FieldInfo]]:
    """The fields of each key of rankers, which may differ."""
    forms: dict[str, list[FieldInfo]] = {}
    for name in RANKERS:
        for key, field in ranker_fields(name).items():
            forms.setdefault(key, []).append(field)
    return forms


def _value(key: str, field: FieldInfo) -> Schema:
    """What a field takes. Names of a registry are listed; a number may be the text inf."""
    annotation: Any = field.annotation
    if field.metadata:
        annotation = Annotated[annotation, *field.metadata]
    schema = TypeAdapter(annotation).json_schema()
    schema.pop("description", None)
    named = next((part for part in field.metadata if isinstance(part, OneOf)), None)
    if named and not named.others:
        return {"enum": list(named.names)}
    if key in MAPPINGS:
        return _any_of([schema, {"type": "string"}])
    unbounded = any(getattr(part, "allow_inf_nan", False) for part in field.metadata)
    return _any_of([schema, {"const": "inf"}]) if unbounded else schema


def _told(forms: list[FieldInfo]) -> Schema:
    """The description and default of a key, which editors show; of those that differ between rankers, the former."""
    schema: Schema = {"description": "; ".join(_distinct(field.description for field in forms if field.description))}
    default = None if forms[0].is_required() else forms[0].get_default(call_default_factory=True)
    if len(_distinct(field.default for field in forms)) == 1 and isinstance(default, str | int | float):
        schema["default"] = str(default) if isinstance(default, float) and math.isinf(default) else default
    return schema


def _lists(value: Schema) -> bool:
    return any(part.get("type") == "array" for part in value.get("anyOf", [value]))


def _opened(key: str, value: Schema) -> Schema:
    """A value, a range or the list of its values. `choice` and `grid` hold values of the key; all else in a range is
    the same for all keys."""
    here = {"$ref": f"#/$defs/values/{key}"}
    forms = [here, {"$ref": "#/$defs/range", "patternProperties": {f"^{Choice.kind}|{Grid.kind}$": {"items": here}}}]
    return {"anyOf": forms if _lists(value) else [*forms, {"$ref": "#/$defs/list", "items": here}]}


def _range() -> Schema:
    """What all ranges have in common."""
    kinds = dict.fromkeys([Uniform.kind, LogUniform.kind, Integer.kind], NUMBERS)
    kinds |= dict.fromkeys([Choice.kind, Grid.kind], LIST)
    return {
        "type": "object",
        "properties": {**kinds, "when": {"type": "object"}, "prior": {}, "step": {"type": "number"}},
        "additionalProperties": False,
        "anyOf": [{"required": [kind]} for kind in kinds],
    }


def _any_of(parts: list[Schema]) -> Schema:
    return parts[0] if len(parts) == 1 else {"anyOf": parts}


def _distinct(items: Iterable[Any]) -> list[Any]:
    seen: list[Any] = []
    for item in items:
        seen += [] if item in seen else [item]
    return seen


def _section(homes: Mapping[str, str], prefix: str = "") -> Schema:
    """A mapping of the keys that begin with the prefix, each dotted as a whole or in sections. `homes`: the part of
    $defs that has a key."""
    rest = [key.removeprefix(prefix) for key in homes if key.startswith(prefix)]
    properties = {name: {"$ref": f"#/$defs/{homes[prefix + name]}/{prefix}{name}"} for name in rest}
    inner = dict.fromkeys(name.partition(".")[0] for name in rest if "." in name)
    properties |= {name: _section(homes, f"{prefix}{name}.") for name in inner}
    return {"type": ["object", "null"], "properties": properties, "additionalProperties": False}
