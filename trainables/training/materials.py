"""What all trainings on one data set with one ranker share: built once, read by reference."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass

import numpy as np

from trainables.config import TrainingRun
from trainables.data import load_data
from trainables.data.columns import RankingData, require_texts_to_rank
from trainables.rankers import load_ranker, ranker_settings
from trainables.rankers.base import Ranker, RankerSettings, TextSide


@dataclass(frozen=True)
class Materials:
    """The data and the ranker's text side of it, both flat arrays.

    teacher  float32 [C]: the scores that a search's teacher gives the training candidates (see `teacher`), or None
    """

    data: RankingData
    text: TextSide
    teacher: np.ndarray | None = None


def materials_key(run: TrainingRun) -> str:
    """Equal keys, equal materials: data and ranker settings decide them."""
    parts = [run.data.model_dump(), run.ranker]
    return hashlib.sha256(json.dumps(parts, sort_keys=True, default=str).encode()).hexdigest()[:16]


def ranker_of(run: TrainingRun) -> tuple[Ranker, RankerSettings]:
    return load_ranker(run.ranker["name"]), ranker_settings(run.ranker)


def prepare(run: TrainingRun, data: RankingData | None = None) -> Materials:
    """Reads the data (unless given) and prepares the ranker's text side.

    The text side takes no trial's seed: vocabulary and word vectors belong to the collection, so that
    trials with different seeds differ in training alone.
    """
    data = data or load_data(run.data)
    require_texts_to_rank(data)
    ranker, settings = ranker_of(run)
    return Materials(data, ranker.prepare(data, settings, seed=0))
