"""The training that a configuration asks for: of a network over texts, or of trees over features."""

from __future__ import annotations

from pathlib import Path

from safetensors.torch import load_file

from trainables.config import TrainingRun
from trainables.data.columns import required_split
from trainables.fit import task_notes
from trainables.training.materials import Materials
from trainables.training.saved import WEIGHTS, SavedRanker, load_ranker_folder, save_ranker
from trainables.training.saved_trees import SavedTrees, holds_trees, load_trees, save_trees
from trainables.training.training import Training, training_instances
from trainables.training.trees import TreeTraining, tree_notes

AnyTraining = Training | TreeTraining


def make_training(run: TrainingRun, materials: Materials, device: str | None = None) -> AnyTraining:
    """A training at its start. `device` is for networks; None: the GPU if there is one. Trees grow on the CPU."""
    return TreeTraining(run, materials) if run.grows_trees else Training(run, materials, device)


def training_notes(run: TrainingRun, materials: Materials) -> tuple[str, ...]:
    """What the user should know about the training data as this training reads it.

    Raises DataError or ConfigError if it cannot read the data.
    """
    required_split(materials.data, "dev")
    if run.grows_trees:
        return tree_notes(run, materials.data)
    return (*task_notes(run, materials.data), *training_instances(run, materials)[1].notes)


def save_best(training: AnyTraining, folder: Path) -> None:
    """Writes the ranker of the best iteration as a folder for `load_saved`; the training then holds this ranker too."""
    if isinstance(training, TreeTraining):
        save_trees(training, folder)
    else:
        save_ranker(training, folder)


def take_saved(training: AnyTraining, folder: Path) -> None:
    """Gives a training the ranker that `save_best` wrote, to score with."""
    if isinstance(training, TreeTraining):
        training.booster = load_trees(folder).booster
    else:
        training.module.load_state_dict(load_file(folder / WEIGHTS))


def load_saved(folder: Path) -> SavedRanker | SavedTrees:
    """The trained ranker in a folder; raises DataError if there is none or it is broken."""
    return load_trees(folder) if holds_trees(folder) else load_ranker_folder(folder)
