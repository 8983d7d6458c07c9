"""Options that several commands share. What only a value needs is imported where it is read."""

from __future__ import annotations

import re
from argparse import ArgumentParser, Namespace
from collections.abc import Collection
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from trainables.core.errors import Problem
from tune_cl.history.search_folder import StorageOptions

if TYPE_CHECKING:
    from trainables.config.function import Objective
    from tune_cl.api.search import Search

LONG = re.compile(r"--[^\s=]+")


def keys() -> list[str]:
    """All configuration keys that `--set` takes."""
    from trainables.config.keys import configuration_fields, ranker_fields
    from trainables.rankers import RANKERS
    from tune_cl.experiment.search_keys import SEARCH_KEYS

    of_rankers = {key for name in RANKERS for key in ranker_fields(name)}
    return sorted({*configuration_fields(()), *SEARCH_KEYS, *of_rankers})


def unknown_options(arguments: str, known: Collection[str], command: str) -> list[Problem]:
    """The problems of the options among arguments that a command does not know. `known`: its options."""
    return [Problem(name, "unknown option", _meant(name, known, command)) for name in LONG.findall(arguments)]


def _meant(option: str, known: Collection[str], command: str) -> str:
    """The option or key like an unknown option, which may be one of other programs."""
    from trainables.core.validation import near_key

    name = option[2:].replace("-", "_")
    key = near_key(name, keys()) if "--set" in known else None
    if key is None:
        close = get_close_matches(option, known, n=1, cutoff=0.7)
        return f"did you mean {close[0]}?" if close else f"see {command} --help"
    short = f"--{key.rpartition('.')[2].replace('_', '-')}"
    return f"{short} VALUE" if short in known else f"--set {key}=VALUE"


def add_space(parser: ArgumentParser) -> None:
    """The argument that says what is searched, and its options."""
    from tune_cl.experiment.load import SpaceOptions

    parser.add_argument("space", metavar="SPACE", help="a shipped space (tune-cl list spaces) or a YAML file")
    SpaceOptions.add_to(parser)


def add_name(parser: ArgumentParser) -> None:
    """The argument that names a search."""
    parser.add_argument("name", metavar="NAME", help="of a search in the storage, as tune-cl run printed it")


def add_split(parser: ArgumentParser, default: str, what: str) -> None:
    """The option for a split; `what`: how it is used."""
    explained = f"whose {what} (default {default})"
    parser.add_argument("--split", default=default, choices=["train", "dev", "test"], help=explained)


def add_objective(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--objective",
        metavar="FILE.py:FUNCTION",
        help="a training function of your own: the file is run, and its function called with (config, trial)",
    )


def objective_option(options: Namespace) -> Objective | None:
    """The function that the option of `add_objective` names. Raises ConfigError if it cannot be loaded."""
    from trainables.config.function import load_objective

    return load_objective(options.objective) if options.objective else None


def add_overrides(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        dest="overrides",
        help="override a configuration key; VALUE is YAML; repeatable",
    )


def add_session(parser: ArgumentParser) -> None:
    """Options for where a search trains and stores its state."""
    from tune_cl.ray.access import RayOptions

    StorageOptions.add_to(parser)
    RayOptions.add_to(parser)


def storage_of(options: Namespace) -> StorageOptions:
    """What the options of `StorageOptions` say."""
    return StorageOptions(**StorageOptions.given(options))


def recorded(options: Namespace) -> Search:
    """The search of `add_name` in the storage of `StorageOptions`. Raises ConfigError if there is none, DataError if
    its journal is damaged."""
    from tune_cl.api.search import Search

    return Search(storage_of(options).existing(options.name))


def training_options(options: Namespace) -> dict[str, Any]:
    """The values of `add_objective`, and where Ray runs, of `add_session`, as the methods of a search take them."""
    from tune_cl.ray.access import RayOptions

    return RayOptions.given(options) | {"objective": objective_option(options)}
