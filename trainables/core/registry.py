"""Named values (scorings, pacings, rankers, ...): one entry each, looked up by the name users write."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from trainables.core.errors import ConfigError, Problem, nearest

T = TypeVar("T")
Value = TypeVar("Value", covariant=True)


@dataclass(frozen=True)
class Entry(Generic[Value]):
    """A named value, what it does in one line, and where it comes from."""

    name: str
    value: Value
    summary: str
    source: str


class Registry(Mapping[str, T]):
    """Maps names to values; `location` is the configuration key that holds such a name."""

    def __init__(self, location: str, *entries: Entry[T]):
        self.location = location
        self.entries = {entry.name: entry for entry in entries}

    def __getitem__(self, name: str) -> T:
        if name not in self.entries:
            raise ConfigError(Problem(self.location, f"unknown value '{name}'", nearest(str(name), self.entries)))
        return self.entries[name].value

    def __contains__(self, name: object) -> bool:
        return name in self.entries

    def __iter__(self) -> Iterator[str]:
        return iter(self.entries)

    def __len__(self) -> int:
        return len(self.entries)
