"""A trained ranker of trees as a folder of its own: the trees in LightGBM's text form, and the configuration."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import lightgbm as lgb
import numpy as np
from pydantic import ValidationError

from trainables.config import TrainingRun
from trainables.data.columns import RankingData
from trainables.errors import DataError, Problem
from trainables.rankers.lambdamart import require_features
from trainables.training import checkpoint
from trainables.training.prefixes import MODEL, read_trees
from trainables.training.ranker_folder import CONFIG
from trainables.training.trees import score_features, settings_of


@dataclass(frozen=True)
class SavedTrees:
    """A trained ranker that scores feature vectors, without its training data."""

    run: TrainingRun
    booster: lgb.Booster
    classes: ClassVar[tuple[str, ...]] = ()  # trees rank

    def score_split(self, data: RankingData, name: str) -> np.ndarray:
        """Scores of the candidates of the named split, float32 [C]. Raises DataError for texts, or for another number
        of features."""
        features = require_features(data)
        if features.shape[1] != self.booster.num_feature():
            wrong = f"'{data.name}' has {features.shape[1]} features, the ranker learned {self.booster.num_feature()}"
            raise DataError(Problem("--data", wrong, "data with the same features"))
        rows = data.splits[name].document
        return score_features(self.booster, features[rows], settings_of(self.run).trees_per_iteration)


def holds_trees(folder: Path) -> bool:
    return (folder / MODEL).is_file()


def load_trees(folder: Path) -> SavedTrees:
    """Reads a SavedTrees folder. Raises DataError if one of its files is broken."""
    try:
        checkpoint.require_whole(folder)
        run = TrainingRun.model_validate(checkpoint.read_json(folder / CONFIG)["run"])
        booster = read_trees(folder / MODEL)
    except (OSError, ValueError, KeyError, TypeError, ValidationError, lgb.basic.LightGBMError) as error:
        wrong = f"cannot be read: {error}"
        raise DataError(Problem(str(folder), wrong, "a ranker written by tune-cl train")) from error
    return SavedTrees(run, booster)
