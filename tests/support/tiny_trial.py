"""A tiny training in the form in which Ray hands it to a trial."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.support.builders import tiny_data
from tests.support.trec_folder import write_trec_folder
from trainables.config.keys import TrainingRun


def tiny_trial(folder: Path, **reserved: float) -> dict[str, Any]:
    """The trainable's `config`, for data that is written to the folder; one thread unless `threads` says otherwise."""
    made = tiny_data(queries={"train": 12, "dev": 6}, candidates=4, turns=1)
    run = TrainingRun.model_validate(
        {
            "data": {"source": str(write_trec_folder(made, folder))},
            "ranker": {"name": "conv_knrm", "vector_size": 8, "filters": 4},
            "training": {"batch_size": 8, "batches_per_iteration": 2, "max_iterations": 4},
        }
    )
    return {"trial": "t0001", "run": run, "checkpoint": None, "threads": 1} | reserved
