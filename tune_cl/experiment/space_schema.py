"""The JSON Schema of a search space, from the keys' own: what an editor needs to complete and check them."""

from __future__ import annotations

from typing import Any

from trainables.config.keys import configuration_fields
from trainables.core.validation import adapter
from trainables.rankers import RANKERS
from tune_cl.experiment.search_keys import SEARCH_KEYS
from tune_cl.experiment.tree import NEVER_OPENED, SHORT
from tune_cl.space.parameters import KINDS
from tune_cl.space.space_files import TEXTS

Schema = dict[str, Any]
NUMBERS = {"type": "array", "items": {"type": ["number", "string"]}, "minItems": 2, "maxItems": 2}
LIST = {"type": "array", "minItems": 1}
RANGE = {
    "type": "object",
    "properties": {"uniform": NUMBERS, "loguniform": NUMBERS, "int": NUMBERS, "choice": LIST, "when": {}},
    "additionalProperties": False,
    "anyOf": [{"required": [kind]} for kind in KINDS],
}


def space_schema() -> Schema:
    """Where a key may be opened, its value, a range or a list of values. Keys stand nested, or dotted, which is checked
    at the top alone."""
    texts = {name: {"type": ["string", "null"]} for name in TEXTS}
    top = section(texts | {"baseline": {"type": ["object", "null"]}, "parameters": {}})
    for key, field in {**configuration_fields(RANKERS), **SEARCH_KEYS}.items():
        value = adapter(field).json_schema()
        if "$ref" in str(value):  # a teacher's ranker
            value = {"type": ["string", "object", "null"]}
        if not key.startswith(("search.", *NEVER_OPENED)):
            value = opened(value)
        value["description"] = field.description or ""
        *path, last = key.split(".")
        place = top
        for name in path:
            place = place["properties"].setdefault(name, section({}))
        place["properties"][last] = top["properties"][key] = value
    for name, key in SHORT.items():
        top["properties"][name] = {"anyOf": [top["properties"][name], top["properties"][key]]}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "search space of tune_cl",
        **top,
        "patternProperties": {r"^(parameters|baseline)\.": {}},
        "$defs": {"range": RANGE, "list": LIST},
    }


def section(properties: Schema) -> Schema:
    dotted = {r"\.": {}}
    return {
        "type": ["object", "null"],
        "properties": properties,
        "patternProperties": dotted,
        "additionalProperties": False,
    }


def opened(value: Schema) -> Schema:
    """A value, a range or the list of its values."""
    forms = [value, {"$ref": "#/$defs/range", "properties": {"choice": {"items": value}}}]
    takes_lists = any(part.get("type") == "array" for part in value.get("anyOf", [value]))
    return {"anyOf": forms if takes_lists else [*forms, {"$ref": "#/$defs/list", "items": value}]}
