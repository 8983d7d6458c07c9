"""A tiny training in the form in which Ray hands it to a trial."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.support.builders import tiny_data
from tests.support.trec_folder import write_trec_folder
from trainables.config.keys import TrainingConfig
from trainables.config.objective import AnyRun, run_of
from trainables.training.conclusion import RUN


def tiny_trial(folder: Path, **reserved: float) -> dict[str, Any]:
    """The trainable's `config`, for data that is written to the folder; one thread unless `threads` says otherwise."""
    made = tiny_data(queries={"train": 12, "dev": 6}, candidates=4, turns=1)
    run = TrainingConfig.model_validate(
        {
            "data": {"source": str(write_trec_folder(made, folder))},
            "ranker": {"name": "conv_knrm", "vector_size": 8, "filters": 4},
            "training": {"batch_size": 8, "batches_per_iteration": 2, "max_iterations": 4},
        }
    )
    return config_of(run) | reserved


def config_of(run: AnyRun, threads: int = 1, gpu: float = 0) -> dict[str, Any]:
    return {"trial": "t0001", "checkpoint": None, "threads": threads, "gpu": gpu, RUN: json.dumps(run.model_dump())}


def run_in(config: dict[str, Any]) -> Any:
    """The training of a trial's configuration."""
    return run_of(json.loads(config[RUN]))
