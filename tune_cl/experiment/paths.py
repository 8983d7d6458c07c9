"""Local paths become absolute: trials work in other folders, and `resume` and `confirm` may be called
from other folders."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from trainables.data import DOCSTRINGS
from trainables.data.clusters import NONE
from trainables.rankers.settings import TRAINED_VECTORS, RankerSettings

DATA = ("data.source", "training.pretrain_data")
PATHS = {  # keys whose value may be a local path, each with the one value that never is
    **dict.fromkeys(DATA, DOCSTRINGS),
    "ranker.vectors": TRAINED_VECTORS,
    "curriculum.vectors": TRAINED_VECTORS,
    "curriculum.file": None,
    "data.query_clusters": NONE,
    "ranker.model": "tiny",
}


def absolute(key: str, value: Any) -> Any:
    """The absolute path if the key's value is the path of an existing file or folder, else the value."""
    if isinstance(value, RankerSettings):  # a teacher's
        return value.model_copy(update={name: absolute(f"ranker.{name}", one) for name, one in value})
    if key not in PATHS or not isinstance(value, str) or value == PATHS[key] or value.startswith("ir_datasets:"):
        return value
    path = Path(value).expanduser() if key in DATA else Path(value)
    return str(path.absolute()) if path.exists() else value
