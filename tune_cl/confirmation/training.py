"""One training of a confirmation: goes on where it was killed, then applies its best weights to a split once.

A training's folder holds `state/` while it trains, then `ranker/`, `training.json` and a folder for each split that the
ranker was applied to: its TREC run (or predictions of classes), per-query values and `result.json`.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from trainables.config.objective import AnyRun
from trainables.core.storage import patiently
from trainables.evaluation.metrics import dev_key
from trainables.evaluation.per_query import values_file
from trainables.evaluation.trec_files import read_per_query
from trainables.training.checkpoint import SEAL, read_json, require_whole, seal, write_folder, write_json
from trainables.training.factory import make_training
from trainables.training.progress import Progress
from trainables.training.saves import DAMAGED, iterations, resumed_or_new

STATE, RANKER, TRAINING, RESULT = "state", "ranker", "training.json", "result.json"


def result_of(folder: Path, split: str) -> dict[str, Any] | None:
    """The result that `confirm_run` wrote; None if it has not finished. Raises one of DAMAGED if a file of it is not as
    it was written."""
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


Make = Callable[[AnyRun, Any], Progress]
"""A training at its start, of its configuration and materials."""


def confirm_run(
    run: AnyRun,
    materials: Any,
    folder: Path,
    split: str,
    saved: Callable[[], None] = lambda: None,
    make: Make = make_training,
) -> None:
    """Trains what is left to train, and applies the weights that are best on dev to `split`.

    `saved` is called whenever another iteration's state is in the folder; `materials` is what `make` reads. The
    result's `notes` say if the last state or the trained ranker was damaged, so that the training started again, and if
    the device ran out of memory. Raises WorkFailed if the loss is no longer a number.
    """
    notes: list[str] = []
    training = trained_before(lambda: make(run, materials), folder, notes.append)
    if training is None:
        training = resumed_or_new(lambda: make(run, materials), folder / STATE, notes.append)
        finish_training(training, folder, saved, notes)
        training.restore_ranker(folder / RANKER)
    if (folder / STATE).exists():  # a kill may have come between the record of the training's end and this
        shutil.rmtree(folder / STATE)
    trained = read_json(folder / TRAINING)

    def write(temporary: Path) -> None:
        values, file = training.apply(split, temporary)
        means = {name: float(column.mean()) for name, column in values.items()}
        write_json(temporary / RESULT, {"metrics": means, "run_file": file.name, **trained})
        seal(temporary)

    write_folder(folder / split, write)


def trained_before(make: Callable[[], Progress], folder: Path, say: Callable[[str], None]) -> Progress | None:
    """A training that has finished, with its ranker; None if there is none. `say` is told of one that is damaged, whose
    record is removed."""
    if not is_trained(folder):
        return None
    training = make()
    try:
        require_whole(folder)
        read_json(folder / TRAINING)  # which an earlier version left without a checksum
        patiently(lambda: training.restore_ranker(folder / RANKER))
    except DAMAGED as error:
        say(f"{folder} is damaged ({error}); the training starts again")
    else:
        return training
    for name in (TRAINING, SEAL):
        (folder / name).unlink(missing_ok=True)
    return None


def finish_training(training: Progress, folder: Path, saved: Callable[[], None], notes: list[str]) -> None:
    """Trains to the end; leaves the ranker and a summary."""
    try:
        for _ in iterations(training, folder / STATE, saved):
            notes += training.pop_notes()
    finally:
        training.close()
    training.save_ranker(folder / RANKER)
    dev = [row[dev_key(training.run.metric)] for row in training.history]
    seconds = sum(row["seconds"] for row in training.history)
    reached = {"dev": training.best_value, "best_iteration": training.best_iteration, "notes": notes}
    write_json(folder / TRAINING, {**reached, "iterations": len(dev), "seconds": seconds, "dev_by_iteration": dev})
    seal(folder, TRAINING)


def values_by_query(folder: Path, split: str, metric: str) -> dict[str, float]:
    """The metric's values by query that `confirm_run` wrote, in the order of the split."""
    return read_per_query(values_file(folder / split, split), metric)


def read_values(folder: Path, split: str, metric: str) -> np.ndarray:
    """`values_by_query` without the ids, float64 [Q]."""
    return np.array(list(values_by_query(folder, split, metric).values()))
