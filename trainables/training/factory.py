"""The training that a configuration asks for: of a network over texts, or of trees over features."""

from __future__ import annotations

from pathlib import Path

from trainables.config import TrainingRun
from trainables.data.columns import required_split
from trainables.fit import task_notes
from trainables.training.materials import Materials
from trainables.training.saved import SavedRanker, load_ranker_folder
from trainables.training.saved_trees import SavedTrees, holds_trees, load_trees
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


def load_saved(folder: Path) -> SavedRanker | SavedTrees:
    """The trained ranker in a folder; raises DataError if there is none or it is broken."""
    return load_trees(folder) if holds_trees(folder) else load_ranker_folder(folder)
