"""Pre-training: the ranker is trained on other data first, and every training starts from what it learned there.

The start is computed once per data and settings, and cached by content. A search's trials and confirmations share it
as they share their data: it depends on `training.pretrain_seed`, not on their own seeds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch

from trainables.config import CurriculumConfig, DataConfig, TrainingConfig, TrainingRun
from trainables.data.cache import cached, digest_of, entry_in_cache
from trainables.data.columns import RankingData
from trainables.prose import say
from trainables.randomness import generator
from trainables.rankers.base import RankerModule
from trainables.training import checkpoint
from trainables.training.device import Compute, here, release
from trainables.training.materials import Materials, ranker_of, read_of
from trainables.training.once import trained_once
from trainables.training.pretrain_data import joint_text, load_pretrain_data

if TYPE_CHECKING:
    from trainables.training.training import Training

FORMAT = 3  # raise when the same settings train another start
ENTRIES, WEIGHTS = "pretrained", "weights.safetensors"


def pretraining_run(run: TrainingRun) -> TrainingRun:
    """The training on the other data: as `run`, but without a curriculum, and with iterations, learning rate, relevance
    level and seed from the keys `training.pretrain_*`."""
    keys = run.training
    own = {key: TrainingConfig.model_fields[key].default for key in keys.pretraining()}
    changed = {"max_iterations": keys.pretrain_iterations, "lr": keys.pretrain_lr or keys.lr}
    return run.model_copy(
        update={
            "data": DataConfig(source=keys.pretrain_data or ""),
            "curriculum": CurriculumConfig(),
            "training": keys.model_copy(update=own | changed),
            "evaluation": run.evaluation.model_copy(update={"relevance_level": keys.pretrain_relevance_level}),
            "seed": int(generator(keys.pretrain_seed, "pre-training").integers(2**31)),
        }
    )


def pretrained_start(run: TrainingRun, data: RankingData, compute: Compute = here) -> dict[str, np.ndarray]:
    """The tensors that a training of `run` on `data` starts from, by name; trained now, through `compute`, if the cache
    lacks them."""
    plain = pretraining_run(run)
    other = load_pretrain_data(run, data)
    ranker, settings = ranker_of(run)
    _, text = joint_text(ranker, settings, data, other)
    # The digests identify the content; where the data lies does not matter.
    keys = plain.model_dump(exclude={"data"})
    made = Materials(other, text)
    key = digest_of(FORMAT, data.digest, read_of(plain, made), keys)

    entry = entry_in_cache(ENTRIES, key)
    if entry is None:  # on the machine that computes it, the weights are in its cache then; here they may not be
        weights = compute(pretrained_weights, plain, made, key)
        entry = cached(ENTRIES, key, lambda folder: checkpoint.save_arrays(weights, folder / WEIGHTS))
    return checkpoint.load_arrays(entry / WEIGHTS)


def with_start(plain: TrainingRun, run: TrainingRun, materials: Materials, compute: Compute = here) -> Materials:
    """The materials of a search's trials with the ranker of `run`, completed by the start that these trials share.

    The start is trained under the training keys of the search's baseline `plain`, even if trials differ in learning
    rate, loss or the like, so that all trials are compared from a common start.
    """
    if run.training.pretrain_data is None:
        return materials
    named = {"pretrain_data": run.training.pretrain_data}
    shared = plain.model_copy(update={"ranker": run.ranker, "training": plain.training.model_copy(update=named)})
    return replace(materials, start=pretrained_start(shared, materials.data, compute))


def load_start(module: RankerModule, run: TrainingRun, materials: Materials) -> None:
    """Puts the weights of the pre-training into a fresh module."""
    start: Mapping[str, np.ndarray] = materials.start or pretrained_start(run, materials.data)
    # Copies: the arrays may lie read-only in Ray's object store.
    checkpoint.load_trained_state(module, {name: torch.tensor(values) for name, values in start.items()})


def pretrained_weights(plain: TrainingRun, materials: Materials, key: str) -> dict[str, np.ndarray]:
    """The trained tensors of the best iteration of the pre-training `key`, by name; trained where this machine's cache
    lacks it."""
    entry = trained_once(ENTRIES, key, f"pre-training on {materials.data.name}", plain, materials, _leave)
    release()  # for the trials of the search
    return checkpoint.load_arrays(entry / WEIGHTS)


def _leave(training: Training, folder: Path) -> None:
    say(f"pre-trained to dev {training.run.metric} {training.best_value:.4f}")
    weights = {name: tensor.cpu().numpy() for name, tensor in training.best_weights.items()}
    checkpoint.save_arrays(weights, folder / WEIGHTS)
