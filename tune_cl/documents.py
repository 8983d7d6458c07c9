"""The JSON of results that are classes of fields."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, is_dataclass
from typing import Any


def document_of(value: Any) -> Any:
    """The fields of a class by name, also within it. A name that ends with an underscore, because Python has a word
    like it, is written without."""
    return asdict(value, dict_factory=_named) if is_dataclass(value) and not isinstance(value, type) else value


def _named(fields: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    return {name.rstrip("_"): value for name, value in fields}
