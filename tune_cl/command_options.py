"""Options as the fields of a dataclass, each said once: the parser of the command, the command that asks for the same
again, and the arguments of the call in Python are made of them."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Collection, Mapping
from dataclasses import MISSING, Field, dataclass, field, fields
from pathlib import Path
from shlex import quote
from typing import Any, ClassVar, get_args, get_type_hints


@dataclass(frozen=True)
class Option:
    """What a field says of its option. `joined`: several values are given at once, separated by commas; without it, a
    field of several values is an option that can be repeated."""

    help: str
    metavar: str | None = None
    choices: Collection[str] | None = None
    joined: bool = False


REQUIRED = MISSING
DATA_HELP = "docstrings, ir_datasets:NAME, or a folder in one of the formats of tune-cl list data"


def option(
    default: Any,
    help: str,
    metavar: str | None = None,
    choices: Collection[str] | None = None,
    joined: bool = False,
) -> Any:
    """A field that is an option of a command. Its help ends with the default if there is one. With the default REQUIRED
    the dataclass needs a value, and the command line does not."""
    shown = help if _absent(default) or "default" in help else f"{help} (default {default})"
    return field(default=default, metadata={"option": Option(shown, metavar, choices, joined)})


def flag_of(name: str) -> str:
    """`--max-seeds` of the field `max_seeds`."""
    return f"--{name.replace('_', '-')}"


class Options:
    """Base of a command's options, a frozen dataclass of `option` fields."""

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]

    @classmethod
    def add_to(cls, parser: ArgumentParser) -> None:
        """Adds an option for each field. What is not given stays None, False or empty."""
        types = get_type_hints(cls)
        for one in _options(cls):
            said: Option = one.metadata["option"]
            if types[one.name] is bool:
                parser.add_argument(flag_of(one.name), dest=one.name, action="store_true", help=said.help)
                continue
            action = "append" if one.default == () and not said.joined else "store"
            kinds = types[one.name], *get_args(types[one.name])
            kind = next((each for each in (str, int, float, Path) if each in kinds), str)
            parser.add_argument(
                flag_of(one.name),
                dest=one.name,
                action=action,
                type=kind,
                metavar=said.metavar,
                choices=said.choices,
                help=said.help,
            )

    @classmethod
    def given(cls, namespace: Namespace) -> dict[str, Any]:
        """The values of the options that a command line has, by field."""
        found = {one.name: _value(one, getattr(namespace, one.name)) for one in _options(cls)}
        return {name: value for name, value in found.items() if not _absent(value)}

    def words(self, always: Collection[str] = ()) -> str:
        """The options that ask for the same again, as a user types them: those that differ from their defaults, and
        those named in `always`."""
        asked = [one for one in _options(type(self)) if one.name in always or getattr(self, one.name) != one.default]
        return " ".join(part for one in asked for part in _typed(one, getattr(self, one.name)))

    @property
    def changed(self) -> Mapping[str, Any]:
        """The values that differ from the defaults, by field, as the call in Python takes them."""
        values = {one.name: getattr(self, one.name) for one in _options(type(self))}
        return {one.name: values[one.name] for one in _options(type(self)) if values[one.name] != one.default}


def _absent(value: Any) -> bool:
    return value is None or value is False or value is REQUIRED or value == ()


def _options(cls: type[Options]) -> list[Field[Any]]:
    return [one for one in fields(cls) if "option" in one.metadata]


def _value(one: Field[Any], value: Any) -> Any:
    """What an option of the command line means: of several values, a tuple with each once."""
    if one.default != ():
        return value
    several = value or ()
    return tuple(dict.fromkeys(filter(None, several.split(",")) if isinstance(several, str) else several))


def _typed(one: Field[Any], value: Any) -> list[str]:
    """The parts of the command line that give a value."""
    flag = flag_of(one.name)
    if isinstance(value, bool):
        return [flag] if value else []
    if not isinstance(value, tuple):
        return [flag, quote(str(value))]
    values = [",".join(value)] if one.metadata["option"].joined else value
    return [part for each in values for part in (flag, quote(each))]
