"""Makes relative paths of a configuration absolute, for what is saved may be read from other folders."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from trainables.curriculum.scored import TRAINED_VECTORS
from trainables.data import DOCSTRINGS
from tune_cl.experiment import Experiment

DATA = ("data.source", "training.pretrain_data")
PATHS = {  # keys that may name a local file or folder, each with the one value that never does
    **dict.fromkeys(DATA, DOCSTRINGS),
    "ranker.vectors": TRAINED_VECTORS,
    "curriculum.vectors": TRAINED_VECTORS,
    "ranker.model": "tiny",
}


def in_any_folder(experiment: Experiment) -> Experiment:
    """The experiment with the relative paths that it fixes made absolute, for `resume` and `confirm` may be called
    elsewhere. Paths of keys that are opened, or named in conditions, stay as they are written."""
    leaves = experiment.space.leaves
    kept = leaves.keys() | {key for leaf in leaves.values() for key in leaf.when}
    fixed, baseline = (
        {key: value if key in kept else absolute(key, value) for key, value in flat.items()}
        for flat in (experiment.fixed, experiment.baseline)
    )
    return replace(experiment, fixed=fixed, baseline=baseline)


def absolute(key: str, value: Any) -> Any:
    """The absolute path if the key's value is the path of a local file or folder, else the value."""
    if key == "curriculum.teacher.ranker" and isinstance(value, Mapping):
        return {name: absolute(f"ranker.{name}", one) for name, one in value.items()}
    if key not in PATHS or not isinstance(value, str) or value == PATHS[key] or value.startswith("ir_datasets:"):
        return value
    path = Path(value).expanduser() if key in DATA else Path(value)
    return str(path.absolute()) if path.exists() else value
