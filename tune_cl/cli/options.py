"""Options that several commands share."""

from __future__ import annotations

import os
from argparse import ArgumentParser, Namespace
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from trainables.core.errors import ConfigError, Problem
from trainables.core.prose import say
from trainables.data import DOCSTRINGS, require_source
from trainables.rankers.settings import TRAINED_VECTORS
from tune_cl.experiment.experiment import Experiment
from tune_cl.experiment.load import load_experiment
from tune_cl.history.journal import read_events
from tune_cl.history.search_folder import DEFAULT_STORAGE, STORAGE_HELP, SearchFolder
from tune_cl.history.tracking_uri import moved, resolve_tracking_uri
from tune_cl.ray.access import AUTH_MODE, is_open
from tune_cl.ray.address import require_cluster
from tune_cl.space.parameters import Choice, Leaf
from tune_cl.space.space import Flat, Space

DATA_HELP = "docstrings, ir_datasets:NAME, or a folder in one of the formats of tune-cl list data"


def add_experiment(parser: ArgumentParser) -> None:
    """Options for what is searched, and how much."""
    parser.add_argument("space", metavar="SPACE", help="a shipped space (tune-cl list spaces) or a YAML file")
    parser.add_argument("--data", help=DATA_HELP)
    parser.add_argument("--ranker", help="see tune-cl list rankers")
    parser.add_argument("--trials", type=int, help="trials, the baseline included")
    parser.add_argument("--max-iterations", type=int, help="iterations a trial at most")
    parser.add_argument("--seed", type=int, help="of sampling and of every training")


def add_name(parser: ArgumentParser) -> None:
    """The argument that names a search."""
    parser.add_argument("name", metavar="NAME", help="of a search in the storage, as tune-cl run printed it")


def add_split(parser: ArgumentParser, default: str, what: str) -> None:
    """The option for a split; `what`: how it is used."""
    explained = f"whose {what} (default {default})"
    parser.add_argument("--split", default=default, choices=["train", "dev", "test"], help=explained)


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


def experiment_of(options: Namespace) -> Experiment:
    """The experiment given by the options of `add_experiment` and `add_overrides`. Raises ConfigError if it is invalid,
    DataError if its data does not exist."""
    flags = {"search.trials": options.trials, "training.max_iterations": options.max_iterations, "seed": options.seed}
    overrides = [f"{key}={value}" for key, value in flags.items() if value is not None]
    experiment = load_experiment(options.space, [*overrides, *options.overrides], options.data, options.ranker)
    if not experiment.objective:
        require_source(experiment.base_ranker().data.source)
    return experiment


def tracking_uri_of(options: Namespace, search_folder: SearchFolder) -> str:
    """The tracking URI of an existing search, by the options of `add_session` and its first event."""
    first = next(read_events(search_folder.journal))
    named = moved(first["tracking_uri"], first["storage"], search_folder.storage)
    return resolve_tracking_uri(search_folder.storage, options.tracking_uri, named)


def require_ray(options: Namespace) -> None:
    """Raises ConfigError if the cluster does not answer, or if the environment opens a local Ray to everybody without
    --allow-open-ray."""
    require_cluster(options.address)
    if options.address is None and is_open():
        mode = repr(os.environ[AUTH_MODE])
        wrong = f"{mode} opens the local Ray: whoever reaches this machine over the network can run code as you"
        if not options.allow_open_ray:
            raise ConfigError(Problem(AUTH_MODE, wrong, "unset it, or add --allow-open-ray"))
        say(f"warning: {AUTH_MODE}: {wrong}")


DATA = ("data.source", "training.pretrain_data")
PATHS = {  # keys whose value may be a local path, each with the one value that never is
    **dict.fromkeys(DATA, DOCSTRINGS),
    "ranker.vectors": TRAINED_VECTORS,
    "curriculum.vectors": TRAINED_VECTORS,
    "ranker.model": "tiny",
}


def in_any_folder(experiment: Experiment) -> Experiment:
    """The experiment with absolute paths: trials work in other folders, and `resume` and `confirm` may be called from
    other folders."""
    space, search = experiment.space, experiment.search
    return replace(
        experiment,
        fixed=_absolutes(experiment.fixed),
        baseline=_absolutes(experiment.baseline),
        space=Space(
            {key: _with_absolute_paths(key, leaf) for key, leaf in space.leaves.items()}, _absolutes(space.context)
        ),
        search=search.model_copy(update={"points": tuple(map(_absolutes, search.points))}),
    )


def _absolutes(flat: Mapping[str, Any]) -> Flat:
    return {key: absolute(key, value) for key, value in flat.items()}


def _with_absolute_paths(key: str, leaf: Leaf) -> Leaf:
    when = {other: tuple(absolute(other, value) for value in values) for other, values in leaf.when.items()}
    if isinstance(leaf, Choice):
        leaf = replace(leaf, options=tuple(absolute(key, option) for option in leaf.options))
    return replace(leaf, when=when)


def absolute(key: str, value: Any) -> Any:
    """The absolute path if the key's value is the path of an existing file or folder, else the value."""
    if key == "curriculum.teacher.ranker" and isinstance(value, Mapping):
        return {name: absolute(f"ranker.{name}", one) for name, one in value.items()}
    if key not in PATHS or not isinstance(value, str) or value == PATHS[key] or value.startswith("ir_datasets:"):
        return value
    path = Path(value).expanduser() if key in DATA else Path(value)
    return str(path.absolute()) if path.exists() else value
