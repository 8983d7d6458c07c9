"""Named values (scorings, pacings, rankers, ...): one entry each, looked up by the name users write.

A registry whose parts users may write themselves has a decorator beside it (`Registry.decorator`), with which the
built-in parts are registered too. Which entries a plug-in brought, `trainables.core.plugins` tells.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Container, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from types import MappingProxyType
from typing import Any, Generic, TypeVar

from trainables.core.errors import ConfigError, Problem, nearest

T = TypeVar("T")
Part = TypeVar("Part")
Value = TypeVar("Value", covariant=True)
OURS = ("trainables", "tune_cl")
NAME = re.compile(r"[A-Za-z]\w*")
OF_PLUGIN = "no loaded plug-in brings it (--plugin FILE)"


def loaded(place: str) -> Any:
    """The module, or what stands in it, at a MODULE or MODULE:ATTRIBUTE."""
    name, _, attribute = place.partition(":")
    module = import_module(name)
    return getattr(module, attribute) if attribute else module


@dataclass(frozen=True)
class Later:
    """The MODULE or MODULE:ATTRIBUTE of a value, which is loaded when first asked for; naming it imports nothing."""

    place: str


@dataclass(frozen=True)
class Entry(Generic[Value]):
    """A named value, what it does in one line, and where it comes from.

    given   the value, or where it is
    module  the module that registered it, if a decorator did
    part    what was decorated there, by its qualified name
    """

    name: str
    given: Value | Later
    summary: str
    source: str
    module: str = OURS[0]
    part: str = ""

    @cached_property
    def value(self) -> Value:
        if isinstance(self.given, Later):
            return loaded(self.given.place)
        return self.given

    @property
    def built_in(self) -> bool:
        return self.module.partition(".")[0] in OURS

    @property
    def file(self) -> str:
        """Of the module that registered it; the module's name for a notebook's."""
        return getattr(sys.modules.get(self.module), "__file__", None) or self.module


Derive = Callable[[Entry[T]], Entry[Any] | None]


class Registry(Mapping[str, T]):
    """Maps names to values; `location` is the configuration key that holds such a name, `open_to_plugins` says whether
    users can add to it; `aliases` are other names of entries, which `canonical` turns into theirs."""

    def __init__(
        self,
        location: str,
        *entries: Entry[T],
        open_to_plugins: bool = False,
        aliases: Mapping[str, str] = MappingProxyType({}),
    ):
        self.location, self.aliases = location, aliases
        self.entries = {entry.name: entry for entry in entries}
        self.open_to_plugins = open_to_plugins
        self._followers: list[tuple[Derive[T], Registry[Any]]] = []
        REGISTRIES.append(self)

    def __getitem__(self, name: str) -> T:
        entry = self.entries.get(self.aliases.get(name, name))
        if entry is None:
            raise ConfigError(Problem(self.location, f"unknown value '{name}'", self.advice(str(name))))
        return entry.value

    def __contains__(self, name: object) -> bool:
        return name in self.entries or name in self.aliases

    def canonical(self, name: str) -> str:
        """The entry's own name."""
        return self.aliases.get(name, name)

    def __iter__(self) -> Iterator[str]:
        return iter(self.entries)

    def __len__(self) -> int:
        return len(self.entries)

    def advice(self, name: str) -> str:
        """What would be right instead of an unknown name."""
        advice = nearest(name, [*self.entries, *self.aliases])
        return f"{advice}; {OF_PLUGIN}" if self.open_to_plugins and advice.startswith("known") else advice

    def add(self, entry: Entry[T]) -> None:
        """Adds an entry, or the new version of one that the same part of a module registered. Raises ValueError for a
        name that another part has."""
        if (other := self.entries.get(entry.name)) and (other.module, other.part) != (entry.module, entry.part):
            owner = "is built in" if other.built_in else f"is registered in {other.file}"
            raise ValueError(f"the name '{entry.name}' {owner}; another name")
        self.entries[entry.name] = entry
        for derive, follower in self._followers:
            if (derived := derive(entry)) is not None:
                follower.add(derived)

    def remove(self, modules: Container[str]) -> None:
        """Removes the entries that these modules registered."""
        for name in [name for name, entry in self.entries.items() if entry.module in modules]:
            del self.entries[name]

    def followed_by(self, other: Registry[Any], derive: Derive[T]) -> None:
        """Adds what `derive` makes of each entry, present and future, to another registry; None is left out."""
        self._followers.append((derive, other))
        for derived in filter(None, map(derive, self.entries.values())):
            other.add(derived)

    def decorator(
        self, name: object, summary: str, source: str, value_of: Callable[[Any], T]
    ) -> Callable[[Part], Part]:
        """Registers what `value_of` makes of a part, and leaves the part as it is. Without a `summary`, the first line
        of the part's docstring is one. Raises ValueError for a name that is taken or cannot be written in a
        configuration."""
        if not (isinstance(name, str) and NAME.fullmatch(name)):
            raise ValueError(f"{name!r} is not a name; a word of letters, digits and _, in parentheses")
        part_name = name

        def register(part: Part) -> Part:
            first_line = (inspect.getdoc(part) or "").strip().partition("\n")[0].rstrip(".")
            value, words = value_of(part), summary or first_line
            self.add(Entry(part_name, value, words, source, str(getattr(part, "__module__", "")), _name_of(part)))
            return part

        return register


REGISTRIES: list[Registry[Any]] = []
"""All registries."""


def _name_of(part: object) -> str:
    return getattr(part, "__qualname__", type(part).__qualname__)


def require_arguments(part: Any, *names: str) -> None:
    """Raises ValueError unless the part can be called with these arguments, in order."""
    right = f"a function of ({', '.join(names)})"
    if not callable(part) or inspect.isclass(part):
        raise ValueError(f"'{_name_of(part)}' is not a function; {right}")
    signature = inspect.signature(part)
    try:
        signature.bind(*names)
    except TypeError:
        raise ValueError(f"'{_name_of(part)}' takes {signature}; {right}") from None


def require_known(needs: Any, names: frozenset[str]) -> frozenset[str]:
    """The set of what a part declares to read. Raises ValueError for a name that is not among the `known`."""
    named = frozenset([needs] if isinstance(needs, str) else needs)
    if unknown := sorted(named - names):
        raise ValueError(f"reads {', '.join(map(repr, unknown))}; some of {', '.join(sorted(names))}")
    return named
