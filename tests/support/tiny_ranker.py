"""A small `bert` ranker in a folder, without a training."""

from __future__ import annotations

from pathlib import Path

import torch

from tests.support.builders import tiny_data
from trainables.config.keys import TrainingConfig
from trainables.training.prepared import ranker_of
from trainables.training.saved_ranker import write_ranker


def save_tiny_bert(folder: Path) -> Path:
    """Writes one with random weights; returns the folder."""
    keys = {"ranker": {"name": "bert", "vocabulary_size": 300}, "training": {"max_length": 32}}
    run = TrainingConfig.model_validate(keys)
    ranker, settings = ranker_of(run)
    text = ranker.prepare(tiny_data(queries=3, turns=1), settings, seed=0)
    torch.manual_seed(0)
    write_ranker(run, ranker.build(text, settings, run.training.max_length), text, folder)
    return folder
