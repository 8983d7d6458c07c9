"""Options that several commands share. What only a value needs is imported where it is read."""

from __future__ import annotations

import re
from argparse import ArgumentParser, Namespace
from collections.abc import Collection
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from trainables.core.errors import Problem
from tune_cl.history.search_folder import DEFAULT_STORAGE, STORAGE_HELP

if TYPE_CHECKING:
    from trainables.config.function import Objective

LONG = re.compile(r"--[^\s=]+")
DATA_HELP = "docstrings, ir_datasets:NAME, or a folder in one of the formats of tune-cl list data"


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
    from trainables.core.foreign import meant_key
    from trainables.core.validation import near_key

    name = option[2:].replace("-", "_")
    if "--set" in known and (advice := meant_key(name)):
        return advice
    key = near_key(name, keys()) if "--set" in known else None
    if key is None:
        close = get_close_matches(option, known, n=1, cutoff=0.7)
        return f"did you mean {close[0]}?" if close else f"see {command} --help"
    short = f"--{key.rpartition('.')[2].replace('_', '-')}"
    return f"{short} VALUE" if short in known else f"--set {key}=VALUE"


def add_experiment(parser: ArgumentParser) -> None:
    """Options for what is searched, and how much."""
    parser.add_argument("space", metavar="SPACE", help="a shipped space (tune-cl list spaces) or a YAML file")
    parser.add_argument("--data", help=DATA_HELP)
    parser.add_argument("--ranker", help="see tune-cl list rankers")
    parser.add_argument("--trials", type=int, help="trials, of both arms")
    parser.add_argument("--max-iterations", type=int, help="iterations a trial at most")
    parser.add_argument("--seed", type=int, help="of sampling and of every training")


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


def add_storage(parser: ArgumentParser) -> None:
    """Options for where a search's state and MLflow's runs are."""
    parser.add_argument("--storage", default=DEFAULT_STORAGE, help=STORAGE_HELP)
    parser.add_argument(
        "--tracking-uri", help="MLflow (default: $MLFLOW_TRACKING_URI, else a SQLite file in the storage)"
    )


def add_session(parser: ArgumentParser) -> None:
    """Options for where a search runs and stores its state."""
    add_storage(parser)
    parser.add_argument("--address", help="of a Ray cluster: auto, or host:port (default: a local Ray)")
    parser.add_argument(
        "--allow-open-ray", action="store_true", help="start a local Ray even if RAY_AUTH_MODE opens it to everybody"
    )


def experiment_options(options: Namespace) -> dict[str, Any]:
    """The values of `add_experiment` and `add_overrides`, as `tune_cl.run` takes them."""
    from tune_cl.experiment.load import parse_overrides

    names = ("space", "data", "ranker", "trials", "max_iterations", "seed")
    return {name: getattr(options, name) for name in names} | {"overrides": parse_overrides(options.overrides)}


def training_options(options: Namespace) -> dict[str, Any]:
    """The values of `add_objective`, and where Ray runs, of `add_session`, as the methods of a search take them."""
    session = {"address": options.address, "allow_open_ray": options.allow_open_ray}
    return session | {"objective": objective_option(options)}
