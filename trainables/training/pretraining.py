"""Pre-training: the weights that trainings start from, trained once on other data and kept in the cache."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from trainables.config.keys import CurriculumConfig, TrainingConfig, TrainingSettings
from trainables.core.cache import cached, cached_resumable, digest_of, entry_in_cache, load_arrays, save_arrays
from trainables.core.prose import say
from trainables.core.randomness import generator
from trainables.data.columns import RankingData
from trainables.data.settings import DataConfig
from trainables.training.device import Compute, best_device, here, release
from trainables.training.prepared import PreparedData, joint_text, load_pretrain_data, ranker_of, read_of
from trainables.training.saves import trained
from trainables.training.trainer import Training

FORMAT = 4  # raise when the same settings train another start
ENTRIES = "pretrained"


def trained_once(
    kind: str,
    key: str,
    doing: str,
    plain: TrainingConfig,
    prepared: PreparedData,
    leave: Callable[[Training, Path], None],
) -> Path:
    """The entry `key` of this machine's cache, with what `leave` writes of the training `plain` when it has ended; its
    state is in the cache too, so that one that was killed goes on.

    `key` identifies configuration and data. `doing`: what the user is told while it is trained.
    """

    def build(entry: Path, state: Path) -> None:
        what = f"{plain.ranker.name}, at most {plain.training.max_iterations} iterations"
        say(f"{doing} ({what}, on {best_device()})")
        run = without_data(plain)
        leave(trained(lambda: Training(run, prepared), state, say), entry)

    return cached_resumable(kind, key, build)


def without_data(run: TrainingConfig) -> TrainingConfig:
    """The training of an entry whose key fixes the data's content: a state made of the same data under other keys of
    `data` is a state of this one."""
    return run.model_copy(update={"data": DataConfig()})


def arrays_once(
    kind: str, key: str, compute: Compute, function: Callable[..., dict[str, np.ndarray]], *arguments: Any
) -> dict[str, np.ndarray]:
    """The arrays of the cache entry `key`. If this machine's cache lacks it, function(*arguments, key) gives them,
    through `compute`, which may call it on another machine."""
    entry = entry_in_cache(kind, key)
    if entry is None:
        arrays = compute(function, *arguments, key)
        entry = cached(kind, key, lambda folder: save_arrays(folder, arrays))
    return load_arrays(entry)


def pretraining_run(run: TrainingConfig) -> TrainingConfig:
    """The training on the other data: as `run`, but without a curriculum, and with iterations, learning rate, relevance
    level and seed from the keys `training.pretrain_*`."""
    keys = run.training
    defaults = {key: TrainingSettings.model_fields[key].default for key in keys.pretraining()}
    changed = {"max_iterations": keys.pretrain_iterations, "lr": keys.pretrain_lr or keys.lr}
    return run.model_copy(
        update={
            "data": DataConfig(source=keys.pretrain_data or ""),
            "curriculum": CurriculumConfig(),
            "training": keys.model_copy(update=defaults | changed),
            "evaluation": run.evaluation.model_copy(update={"relevance_level": keys.pretrain_relevance_level}),
            "seed": int(generator(keys.pretrain_seed, "pre-training").integers(2**31)),
        }
    )


def pretrained_start(run: TrainingConfig, data: RankingData, compute: Compute = here) -> dict[str, np.ndarray]:
    """The tensors that a training of `run` on `data` starts from, by name; trained now, through `compute`, if the cache
    lacks them."""
    plain = pretraining_run(run)
    other = load_pretrain_data(run, data)
    ranker, settings = ranker_of(run)
    _, text = joint_text(ranker, settings, data, other)
    joint = PreparedData(other, text)
    # The digests identify the content; where the data lies does not matter.
    key = digest_of(FORMAT, data.digest, read_of(plain, joint), plain.model_dump(exclude={"data"}))
    return arrays_once(ENTRIES, key, compute, pretrained_weights, plain, joint)


def pretrained_weights(plain: TrainingConfig, prepared: PreparedData, key: str) -> dict[str, np.ndarray]:
    """The trained tensors of the best iteration of the pre-training `key`, by name; trained where this machine's cache
    lacks it."""

    def leave(training: Training, folder: Path) -> None:
        say(f"pre-trained to dev {training.run.metric} {training.best_value:.4f}")
        save_arrays(folder, {name: tensor.cpu().numpy() for name, tensor in training.best_weights.items()})

    entry = trained_once(ENTRIES, key, f"pre-training on {prepared.data.name}", plain, prepared, leave)
    release()  # for the trials of the search
    return load_arrays(entry)


def with_start(
    plain: TrainingConfig, run: TrainingConfig, prepared: PreparedData, compute: Compute = here
) -> PreparedData:
    """The prepared data of a search's trials with the ranker of `run`, completed by the start that these trials share.

    The start is trained under the training keys of the search's baseline `plain`, even if trials differ in learning
    rate, loss or the like, so that all trials are compared from a common start.
    """
    if run.training.pretrain_data is None:
        return prepared
    named = {"pretrain_data": run.training.pretrain_data}
    shared = plain.model_copy(update={"ranker": run.ranker, "training": plain.training.model_copy(update=named)})
    return replace(prepared, start=pretrained_start(shared, prepared.data, compute))


def with_own_start(run: TrainingConfig, prepared: PreparedData) -> PreparedData:
    """The prepared data with the start of a training that has a pre-training, unless it is there."""
    return prepared if prepared.start is not None else with_start(run, run, prepared)
