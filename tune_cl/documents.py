"""The JSON of results that are classes of fields."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, is_dataclass
from typing import Any

from pydantic import BaseModel


def document_of(value: Any) -> Any:
    """The fields of a class by name, also within it. A name that ends with an underscore, because Python has a word
    like it, is written without."""
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    return asdict(value, dict_factory=_named) if is_dataclass(value) and not isinstance(value, type) else value


def _named(fields: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    return {name.rstrip("_"): _dumped(value) for name, value in fields}


def _dumped(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [_dumped(one) for one in value]
    return value.model_dump(mode="json") if isinstance(value, BaseModel) else value
