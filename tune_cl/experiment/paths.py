"""A search's configuration with absolute paths."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from trainables.data import DOCSTRINGS
from trainables.data.clusters import NONE
from trainables.rankers.settings import TRAINED_VECTORS, RankerSettings
from tune_cl.experiment.experiment import Experiment
from tune_cl.space.parameters import Parameter, choice
from tune_cl.space.space import Flat, Space

DATA = ("data.source", "training.pretrain_data")
PATHS = {  # keys whose value may be a local path, each with the one value that never is
    **dict.fromkeys(DATA, DOCSTRINGS),
    "ranker.vectors": TRAINED_VECTORS,
    "curriculum.vectors": TRAINED_VECTORS,
    "curriculum.file": None,
    "data.query_clusters": NONE,
    "ranker.model": "tiny",
}


def in_any_folder(experiment: Experiment) -> Experiment:
    """The experiment with absolute paths: trials work in other folders, and `resume` and `confirm` may be called from
    other folders."""
    parameters = {key: _parameter(key, parameter) for key, parameter in experiment.space.parameters.items()}
    return replace(
        experiment,
        fixed=_absolutes(experiment.fixed),
        baseline=_absolutes(experiment.baseline),
        space=Space(parameters, _absolutes(experiment.space.fixed)),
        points=tuple(map(_absolutes, experiment.points)),
    )


def _absolutes(flat: Mapping[str, Any]) -> Flat:
    return {key: absolute(key, value) for key, value in flat.items()}


def _parameter(key: str, parameter: Parameter) -> Parameter:
    when = {other: tuple(absolute(other, value) for value in values) for other, values in parameter.when.items()}
    if parameter.is_number:
        return replace(parameter, when=when)
    return choice(*(absolute(key, option) for option in parameter.ends), when=when)


def absolute(key: str, value: Any) -> Any:
    """The absolute path if the key's value is the path of an existing file or folder, else the value."""
    if isinstance(value, RankerSettings):  # a teacher's
        return value.model_copy(update={name: absolute(f"ranker.{name}", one) for name, one in value})
    if key not in PATHS or not isinstance(value, str) or value == PATHS[key] or value.startswith("ir_datasets:"):
        return value
    path = Path(value).expanduser() if key in DATA else Path(value)
    return str(path.absolute()) if path.exists() else value
