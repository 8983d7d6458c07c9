"""Small trainings, started on the CPU."""

from __future__ import annotations

from typing import Any

import torch

from trainables.config.keys import TrainingConfig
from trainables.training.prepared import PreparedData, prepare
from trainables.training.trainer import Training

RANKERS = {
    "conv_knrm": {"name": "conv_knrm", "vector_size": 16, "filters": 8},
    "bert": {"name": "bert", "model": "tiny", "vocabulary_size": 300},
    "bi_encoder": {"name": "bi_encoder", "model": "tiny", "vocabulary_size": 300},
}


def make_run(ranker: str = "conv_knrm", seed: int = 1, **sections: dict[str, Any]) -> TrainingConfig:
    training = {"max_iterations": 4, "batches_per_iteration": 3, "batch_size": 8, "lr": 1e-3}
    return TrainingConfig.model_validate(
        {
            "ranker": RANKERS[ranker],
            "training": training | sections.pop("training", {}),
            "seed": seed,
            **sections,
        }
    )


def start(run: TrainingConfig, data) -> Training:
    return Training(run, prepare(run, data), device="cpu")


def start_without_dropout(run: TrainingConfig, prepared: PreparedData, device: str | None = "cpu") -> Training:
    """A training without dropout, whose masks would differ between devices, and between a batch and its parts."""
    training = Training(run, prepared, device)
    for module in training.module.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    return training
