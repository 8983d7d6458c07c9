"""Reads what a training of a confirmation has left (`trainables.training.conclusion`)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from trainables.core import storage
from trainables.core.errors import WorkFailed
from trainables.evaluation.per_query import values_file
from trainables.evaluation.trec_files import read_per_query
from trainables.training.checkpoint import read_json, require_whole, write_folder
from trainables.training.conclusion import RANKER, RESULT, TRAINING


def result_of(folder: Path, split: str) -> dict[str, Any] | None:
    """The result of a training; None if it has not finished. Raises one of DAMAGED if a file of it is not as it was
    written."""
    path = folder / split / RESULT
    if not path.exists():
        return None
    require_whole(folder / split)
    return read_json(path)


def is_trained(folder: Path) -> bool:
    """Whether the training itself has finished, whatever its ranker has been applied to."""
    return (folder / TRAINING).exists()


def ended_result(folder: Path, split: str) -> dict[str, Any]:
    """Like `result_of`, for a training that has finished."""
    return read_json(folder / split / RESULT)


def fetch_results(address: str, folder: Path) -> None:
    """Copies what a training left in S3, except its ranker, to a folder on this machine."""
    names = [name for name in storage.files_below(address) if not name.startswith(f"{RANKER}/")]
    write_folder(folder, lambda temporary: storage.download(address, temporary, names))


def values_by_query(folder: Path, split: str, metric: str) -> dict[str, float]:
    """The metric's values by query, in the order of the split. Raises WorkFailed for a function that reported none."""
    path = values_file(folder / split, split)
    if not path.exists():
        raise WorkFailed(f"{folder}: the function reported no {metric} by query, which a paired test needs")
    return read_per_query(path, metric)
