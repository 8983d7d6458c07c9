"""How long an iteration takes, measured on a few real steps."""

from __future__ import annotations

import torch

from trainables.config import TrainingRun
from trainables.training.materials import Materials
from trainables.training.training import Training
from trainables.training.trees import TreeTraining

STEPS = 4


def seconds_per_iteration(run: TrainingRun, materials: Materials, threads: int, device: str | None = None) -> float:
    """Estimated seconds of one iteration: its steps at the pace of a few measured ones, plus one evaluation on dev.

    A first short iteration warms up; the second is measured. `device`: as in `make_training`.
    """
    torch.set_num_threads(threads)
    if run.grows_trees:
        trees = TreeTraining(run, materials, share=False)
        trees.iterate()
        return trees.iterate()["seconds"]
    few = {"batches_per_iteration": STEPS, "max_iterations": 2, "window": 1}
    short = run.training.model_copy(update={**few, "pretrain_data": None})
    training = Training(run.model_copy(update={"training": short}), materials, device)
    training.iterate()
    measured = training.iterate()
    pairs = STEPS * short.batch_size * (2 if training.batcher.instances.pairwise else 1)
    steps_seconds = pairs / measured["samples_per_second"]
    evaluation = measured["seconds"] - steps_seconds
    return evaluation + steps_seconds / STEPS * run.training.batches_per_iteration
