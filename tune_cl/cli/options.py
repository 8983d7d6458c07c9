"""Options that several commands share."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import Any

from trainables.config.function import Objective, load_objective
from tune_cl.experiment.load import parse_overrides
from tune_cl.history.search_folder import DEFAULT_STORAGE, STORAGE_HELP

DATA_HELP = "docstrings, ir_datasets:NAME, or a folder in one of the formats of tune-cl list data"


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
        help="a training function of your own, of which the file is run: see docs/how-to/own-trainer.md",
    )


def objective_option(options: Namespace) -> Objective | None:
    """The function that the option of `add_objective` names. Raises ConfigError if it cannot be loaded."""
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
    """Options for where a search runs and stores its state."""
    parser.add_argument("--storage", default=DEFAULT_STORAGE, help=STORAGE_HELP)
    parser.add_argument(
        "--tracking-uri", help="MLflow (default: $MLFLOW_TRACKING_URI, else a SQLite file in the storage)"
    )
    parser.add_argument("--address", help="of a Ray cluster: auto, or host:port (default: a local Ray)")
    parser.add_argument(
        "--allow-open-ray", action="store_true", help="start a local Ray even if RAY_AUTH_MODE opens it to everybody"
    )


def experiment_options(options: Namespace) -> dict[str, Any]:
    """The values of `add_experiment` and `add_overrides`, as `tune_cl.run` takes them."""
    names = ("space", "data", "ranker", "trials", "max_iterations", "seed")
    return {name: getattr(options, name) for name in names} | {"overrides": parse_overrides(options.overrides)}


def session_options(options: Namespace) -> dict[str, Any]:
    """The values of `add_session` but the storage, as `tune_cl.run` takes them."""
    return {name: getattr(options, name) for name in ("tracking_uri", "address", "allow_open_ray")}
