"""Relative paths of a configuration made absolute: what is saved is read from other folders."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from trainables.curriculum.scored import TRAINED_VECTORS
from trainables.data import DOCSTRINGS
from tune_cl.experiment import Experiment

DATA = ("data.source", "training.pretrain_data")
PATHS = {  # keys that may name a local file or folder, and the value of each that never does
    **dict.fromkeys(DATA, DOCSTRINGS),
    "ranker.vectors": TRAINED_VECTORS,
    "curriculum.vectors": TRAINED_VECTORS,
    "ranker.model": "tiny",
}


def in_any_folder(experiment: Experiment) -> Experiment:
    """The experiment with the relative paths that it fixes made absolute: `resume` and `confirm` read them where they
    are called. Paths that the space opens, or makes a condition of, stay as they are written."""
    leaves = experiment.space.leaves
    kept = leaves.keys() | {key for leaf in leaves.values() for key in leaf.when}
    fixed, baseline = (
        {key: value if key in kept else absolute(key, value) for key, value in flat.items()}
        for flat in (experiment.fixed, experiment.baseline)
    )
    return replace(experiment, fixed=fixed, baseline=baseline)


def absolute(key: str, value: Any) -> Any:
    """The absolute path where the key's value is that of a local file or folder, else the value."""
    if key == "curriculum.teacher.ranker" and isinstance(value, Mapping):
        return {name: absolute(f"ranker.{name}", one) for name, one in value.items()}
    if key not in PATHS or not isinstance(value, str) or value == PATHS[key] or value.startswith("ir_datasets:"):
        return value
    path = Path(value).expanduser() if key in DATA else Path(value)
    return str(path.absolute()) if path.exists() else value
