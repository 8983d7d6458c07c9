"""The JSON Schema of a search space: what an editor needs to complete and check its keys."""

from __future__ import annotations

import math
from collections.abc import Mapping
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
NUMBERS = {"type": "array", "items": {"type": "number"}, "minItems": 2, "maxItems": 2}


def space_schema() -> Schema:
    """A key's value is what its pydantic field takes; where it may be opened, also a range, or a list of values. Keys
    stand nested or dotted. Of the registered names, those of plug-ins that are loaded are known as well."""
    fields = configuration_fields(()) | SEARCH_KEYS
    values = {key: _described(field, _value(key, field)) for key, field in fields.items()}
    values |= {key: _any_of(parts) for key, parts in _of_rankers().items()}
    opened = {key: _may_be_opened(key, value, _lists(value)) for key, value in values.items()}
    tree, plain = _section(opened, "keys"), _section(values, "values")
    for key, whole in SHORT.items():
        tree["properties"][key] = _any_of([tree["properties"][key], {"$ref": f"#/$defs/keys/{whole}"}])
    tree["properties"] |= {name: {"type": "string"} for name in TEXTS}
    tree["properties"] |= {
        "parameters": {},
        "baseline": _any_of([plain, {"type": "array", "items": {"enum": [*values]}}]),
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "search space of tune_cl",
        **tree,
        "patternProperties": {r"^(parameters|baseline)\.": {}},
        "$defs": {"keys": opened, "values": values},
    }


def _of_rankers() -> dict[str, list[Schema]]:
    """Each distinct form of the keys of rankers, whose fields may differ."""
    forms: dict[str, list[Schema]] = {}
    for name in RANKERS:
        for key, field in ranker_fields(name).items():
            form, seen = _described(field, _value(key, field)), forms.setdefault(key, [])
            if form not in seen:
                seen.append(form)
    return forms


def _value(key: str, field: FieldInfo) -> Schema:
    """What a field takes. Names of a registry are listed; a number may be the text inf."""
    annotation: Any = field.annotation
    if field.metadata:
        annotation = Annotated[annotation, *field.metadata]
    schema = TypeAdapter(annotation).json_schema()
    if named := next((part for part in field.metadata if isinstance(part, OneOf)), None):
        return {"enum": list(named.names)}
    if key in MAPPINGS:
        return _any_of([schema, {"type": "string"}])
    return _any_of([schema, {"const": "inf"}]) if schema.get("type") == "number" else schema


def _described(field: FieldInfo, schema: Schema) -> Schema:
    """The schema with the field's description and default, which editors show."""
    told: Schema = {"description": field.description} if field.description else {}
    default = None if field.is_required() else field.get_default(call_default_factory=True)
    if isinstance(default, str | int | float):
        told["default"] = str(default) if isinstance(default, float) and math.isinf(default) else default
    return schema | told


def _lists(value: Schema) -> bool:
    return any(part.get("type") == "array" for part in value.get("anyOf", [value]))


def _may_be_opened(key: str, value: Schema, is_list: bool) -> Schema:
    """A value or, for a key that trials may differ in, a range."""
    if key.startswith((*NEVER_OPENED, "search.")):
        return value
    here = {"$ref": f"#/$defs/values/{key}"}
    several = {"type": "array", "items": here, "minItems": 1}
    kinds = dict.fromkeys([Uniform.kind, LogUniform.kind, Integer.kind], NUMBERS)
    kinds |= dict.fromkeys([Choice.kind, Grid.kind], several)
    ranges = {
        "type": "object",
        "properties": {**kinds, "when": {"type": "object"}, "prior": {}, "step": {"type": "number"}},
        "additionalProperties": False,
        "anyOf": [{"required": [kind]} for kind in kinds],
    }
    told = {name: value[name] for name in ("description", "default") if name in value}
    return told | _any_of([here, ranges, *([] if is_list else [several])])


def _any_of(parts: list[Schema]) -> Schema:
    return parts[0] if len(parts) == 1 else {"anyOf": parts}


def _section(keys: Mapping[str, Schema], home: str, prefix: str = "") -> Schema:
    """A mapping of the keys that begin with the prefix, each dotted as a whole or in sections."""
    rest = [key.removeprefix(prefix) for key in keys if key.startswith(prefix)]
    properties = {name: {"$ref": f"#/$defs/{home}/{prefix}{name}"} for name in rest}
    inner = dict.fromkeys(name.partition(".")[0] for name in rest if "." in name)
    properties |= {name: _section(keys, home, f"{prefix}{name}.") for name in inner}
    return {"type": ["object", "null"], "properties": properties, "additionalProperties": False}
