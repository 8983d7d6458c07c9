"""Examples:
tune-cl run quickstart
tune-cl run penha2020_pacing --data ../data/msdialog --ranker bert --set ranker.model=bert-base-uncased
tune-cl run my_space.yaml --trials 40 --address auto --storage /shared/runs"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from trainables.curriculum.scored import TRAINED_VECTORS
from trainables.data import DOCSTRINGS
from tune_cl.commands import result
from tune_cl.commands.settings import add_experiment, add_overrides, add_session, experiment_of, require_cluster
from tune_cl.experiment import Experiment
from tune_cl.place import new_place
from tune_cl.tracking.uri import resolve_tracking_uri

render = result.render
DATA = ("data.source", "training.pretrain_data")
PATHS = {  # keys that may name a local file or folder, and the value of each that never does
    **dict.fromkeys(DATA, DOCSTRINGS),
    "ranker.vectors": TRAINED_VECTORS,
    "curriculum.vectors": TRAINED_VECTORS,
    "ranker.model": "tiny",
}


def add_arguments(parser: ArgumentParser) -> None:
    add_experiment(parser)
    parser.add_argument("--name", help="of the search (default: the space's name, numbered where it is taken)")
    add_session(parser)
    add_overrides(parser)


def execute(options: Namespace) -> dict[str, Any]:
    experiment = in_any_folder(experiment_of(options))
    place = new_place(options.storage, options.name, experiment.name)
    tracking_uri = resolve_tracking_uri(place.storage, options.tracking_uri)
    require_cluster(options.address)
    from tune_cl.search.runner import start_search  # imports Ray and torch: not before the input is known to be good

    return start_search(experiment, place, tracking_uri, options.address)


def in_any_folder(experiment: Experiment) -> Experiment:
    """The experiment with the relative paths that it fixes made absolute: `resume` and `confirm` read them where they
    are called. Paths that the space opens, or makes a condition of, stay as they are written."""
    leaves = experiment.space.leaves
    kept = leaves.keys() | {key for leaf in leaves.values() for key in leaf.when}
    fixed, baseline = (
        {key: value if key in kept else _absolute(key, value) for key, value in flat.items()}
        for flat in (experiment.fixed, experiment.baseline)
    )
    return replace(experiment, fixed=fixed, baseline=baseline)


def _absolute(key: str, value: Any) -> Any:
    """The absolute path where the key's value is that of a local file or folder, else the value."""
    if key == "curriculum.teacher.ranker" and isinstance(value, Mapping):
        return {name: _absolute(f"ranker.{name}", one) for name, one in value.items()}
    if key not in PATHS or not isinstance(value, str) or value == PATHS[key] or value.startswith("ir_datasets:"):
        return value
    path = Path(value).expanduser() if key in DATA else Path(value)
    return str(path.absolute()) if path.exists() else value
