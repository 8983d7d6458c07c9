"""The kinds of training: which one a configuration asks for, what it shares with others, and how long an iteration of
it takes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import overload

import numpy as np
import torch
from torch import Tensor

from trainables.config.keys import TrainingConfig
from trainables.config.objective import AnyRun, ObjectiveRun
from trainables.config.task_fit import task_notes
from trainables.data.columns import required_split
from trainables.training.checkpoint import load_trained_state
from trainables.training.features import FeatureTraining, SavedFeatureRanker, training_over_features
from trainables.training.objective import ObjectiveTraining, PreparedObjective
from trainables.training.prepared import PreparedData
from trainables.training.pretraining import with_own_start
from trainables.training.ranker_folder import is_of_others
from trainables.training.saved_ranker import (
    SavedRanker,
    load_encoder,
    load_ranker_folder,
    write_ranker,
)
from trainables.training.teachers import completed
from trainables.training.trainer import Training, initial_module, training_negatives

STEPS = 4


def seconds_per_iteration(
    run: TrainingConfig, prepared: PreparedData, threads: int, device: str | None = None
) -> float:
    """Estimated seconds of one iteration: its steps at the pace of a few measured ones, plus one evaluation on dev.

    A first short iteration warms up; the second is measured. `device`: as in `make_training`.
    """
    torch.set_num_threads(threads)
    if run.reads == "features":
        measured = training_over_features(run)(run, prepared)
        measured.iterate()
        return measured.iterate()["seconds"]
    few = {"batches_per_iteration": STEPS, "max_iterations": 2}
    short = run.training.model_copy(update={**few, "pretrain_data": None})
    run_of_few = run.model_copy(update={"training": short})
    prepared = _with_blank_teachers(run_of_few, prepared)
    training = Training(run_of_few, completed(run_of_few, prepared), device)
    training.batcher.window = 1  # so few batches, sorted by length, would differ more than those of an iteration
    training.iterate()
    measured = training.iterate()
    pairs = STEPS * short.batch_size * training.batcher.instances.documents_a_sample
    steps_seconds = pairs / measured["samples_per_second"]
    evaluation = measured["seconds"] - steps_seconds
    return evaluation + steps_seconds / STEPS * run.training.batches_per_iteration


def _with_blank_teachers(run: TrainingConfig, prepared: PreparedData) -> PreparedData:
    """The prepared data with what teachers would give, all zeros: which scores they give does not change the pace."""
    data, split = prepared.data, required_split(prepared.data, "train")
    blank = np.zeros((len(split.document), len(data.classes)) if data.classes else len(split.document), np.float32)
    blanks = {need: blank if need == "teacher" else blank[None] for need in run.teachers}
    return replace(prepared, teachers={**blanks, **prepared.teachers})


RankerTraining = Training | FeatureTraining
AnyTraining = RankerTraining | ObjectiveTraining
AnyPrepared = PreparedData | PreparedObjective


@overload
def make_training(run: TrainingConfig, prepared: PreparedData, device: str | None = None) -> RankerTraining: ...
@overload
def make_training(run: AnyRun, prepared: AnyPrepared, device: str | None = None) -> AnyTraining: ...
def make_training(run: AnyRun, prepared: AnyPrepared, device: str | None = None) -> AnyTraining:
    """A training at its start, after a pre-training and a teacher that it needs and the prepared data lacks.

    `device` is for networks; None: the GPU if there is one.
    """
    if isinstance(run, ObjectiveRun):
        assert isinstance(prepared, PreparedObjective)
        return ObjectiveTraining(run, prepared)
    assert isinstance(prepared, PreparedData)
    if run.reads == "features":
        return training_over_features(run)(run, prepared)
    return Training(run, completed(run, prepared), device)


def training_notes(run: TrainingConfig, prepared: PreparedData) -> tuple[str, ...]:
    """What the user should know about the training data as this training reads it.

    Raises DataError or ConfigError if it cannot read the data.
    """
    required_split(prepared.data, "dev")
    if run.reads == "features":
        return training_over_features(run).notes_on(run, prepared.data)
    split, negatives = training_negatives(run, prepared)
    given = "teacher" in run.teachers and split.teacher is not None
    taught = ("the teacher's scores are those that the data gives: no teacher is trained",) if given else ()
    return (*task_notes(run, prepared.data), *taught, *negatives.instances.notes)


def write_best_ranker(run: TrainingConfig, prepared: PreparedData, weights: Mapping[str, Tensor], folder: Path) -> None:
    """Writes the ranker of a network's best weights, as `Training.save_ranker` does, without a training."""
    module = initial_module(run, with_own_start(run, prepared))
    load_trained_state(module, weights)
    module.merge_adapters()
    write_ranker(run, module, prepared.text, folder, prepared.data.classes)


def load_saved(folder: Path) -> SavedRanker | SavedFeatureRanker:
    """The trained ranker in a folder, or an encoder of others in a folder or of a hub name. Raises DataError or
    ConfigError if there is none or it is broken."""
    if is_of_others(folder):
        return load_encoder(str(folder))
    return load_ranker_folder(folder)
