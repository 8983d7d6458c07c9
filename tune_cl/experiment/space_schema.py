"""The JSON Schema of a search space, from the sections' own: what an editor needs to complete and check its keys."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

from trainables.config.keys import RankerName, TrainingConfig
from trainables.core.validation import section_of
from trainables.rankers import RANKERS
from tune_cl.experiment.search_keys import SearchConfig
from tune_cl.experiment.tree import NEVER_OPENED, SHORT
from tune_cl.space.parameters import KINDS
from tune_cl.space.space_files import TEXTS

Schema = dict[str, Any]
LIST = {"type": "array", "minItems": 1}
NUMBERS = {"type": "array", "items": {"type": ["number", "string"]}, "minItems": 2, "maxItems": 2}
RANGE = {
    "type": "object",
    "properties": {"uniform": NUMBERS, "loguniform": NUMBERS, "int": NUMBERS, "choice": LIST, "when": {}},
    "additionalProperties": False,
    "anyOf": [{"required": [kind]} for kind in KINDS],
}


def space_schema() -> Schema:
    """Where a key may be opened, its value, a range or a list of values. Keys stand nested or dotted. Of the registered
    names, those of plug-ins that are loaded are known as well."""
    run = properties_of(TrainingConfig)
    rankers = [properties_of(kind.settings, "ranker.") for kind in RANKERS.values()]
    merged: Schema = {}
    for properties in (*rankers, properties_of(RankerName, "ranker.")):
        merged |= properties  # of keys that differ between rankers, the last
    run["ranker"] = section(merged)
    search = section(properties_of(SearchConfig, "search."))
    short = {
        key: {"anyOf": [run[key], run[key]["properties"][whole.partition(".")[2]]]} for key, whole in SHORT.items()
    }
    texts = {name: {"type": ["string", "null"]} for name in TEXTS}
    own = {"baseline": {"type": ["object", "null"]}, "parameters": {}}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "search space of tune_cl",
        **section({**texts, **run, "search": search, **own}, short),
        "patternProperties": {r"^(parameters|baseline)\.": {}},
        "$defs": {"range": RANGE, "list": LIST},
    }


def section(properties: Schema, others: Schema | None = None) -> Schema:
    """A section with these keys, each also dotted where it stands in a section within. `others`: in place of some."""
    dotted = {
        f"{name}.{key}": value
        for name, inner in properties.items()
        for key, value in inner.get("properties", {}).items()
        if "properties" not in value
    }
    return {
        "type": ["object", "null"],
        "properties": dotted | properties | (others or {}),
        "additionalProperties": False,
    }


def properties_of(model: type[BaseModel], prefix: str = "") -> Schema:
    """The keys of a section of the configuration: sections of their own, values and ranges."""
    values = model.model_json_schema()["properties"]
    properties: Schema = {}
    for name, field in model.model_fields.items():
        inner = section_of(field)
        value = {key: part for key, part in values[name].items() if key != "title"}
        if inner is not None:
            properties[name] = section(properties_of(inner, f"{prefix}{name}."))
        elif f"{prefix}{name}".startswith(("search.", *NEVER_OPENED)):
            properties[name] = value if "$ref" not in str(value) else {"type": ["string", "object", "null"]}
        else:
            properties[name] = opened(value)
    return properties


def opened(value: Schema) -> Schema:
    """A value, a range or the list of its values."""
    told = {key: value.pop(key) for key in ("description", "default") if key in value}
    takes_lists = any(part.get("type") == "array" for part in value.get("anyOf", [value]))
    forms = [value, {"$ref": "#/$defs/range", "properties": {"choice": {"items": value}}}]
    return told | {"anyOf": forms if takes_lists else [*forms, {"$ref": "#/$defs/list", "items": value}]}
