"""Rankers over features: what a training of one defines, and the trained ranker."""

from __future__ import annotations

import time
from abc import abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from trainables.config.keys import TrainingConfig
from trainables.core.errors import DataError, Problem
from trainables.core.prose import say
from trainables.core.registry import loaded
from trainables.data.columns import RankingData, require_features
from trainables.evaluation.metrics import dev_key
from trainables.training.prepared import PreparedData
from trainables.training.progress import RankerProgress


class FeatureTraining(RankerProgress):
    """The training of a ranker over features, in one process; `RankerProgress` has what else it defines."""

    def __init__(self, run: TrainingConfig, prepared: PreparedData):
        super().__init__(run, prepared)
        self.features = require_features(prepared.data, run.ranker.name)

    def end_iteration(
        self, started: float, scores: np.ndarray, train_loss: float, speed: float, available_share: float = 1.0
    ) -> dict[str, float]:
        """Evaluates an iteration and adds it to the history; returns its metrics, as `iterate` does.

        started          when it began, by `time.perf_counter`
        scores           of the dev candidates, float32 [C]
        speed            query-document pairs that were trained on a second
        available_share  of the training data
        """
        metrics = {
            "train_loss": train_loss,
            "available_share": available_share,
            "mean_weight": 1.0,
            "samples_per_second": speed,
            dev_key(self.run.metric): self.evaluate(scores),
            "seconds": time.perf_counter() - started,
        }
        if metrics[dev_key(self.run.metric)] > self.best_value:
            self.best_iteration, self.best_scores = self.iteration + 1, scores
        self.history.append(metrics)
        return metrics

    @classmethod
    def notes_on(cls, run: TrainingConfig, data: RankingData) -> tuple[str, ...]:
        """What the user should know before the training. Raises DataError for data that it cannot use."""
        require_features(data, run.ranker.name)
        return ()

    @classmethod
    @abstractmethod
    def read_ranker(cls, run: TrainingConfig, folder: Path) -> Any:
        """What `save_ranker` wrote: its `width`, how many features it learned, and `score(features)`, float32 [N], of
        features, float32 [N, width]. Raises OSError, ValueError, KeyError or TypeError for files that are damaged."""


def training_over_features(run: TrainingConfig) -> type[FeatureTraining]:
    """How a run's ranker over features is trained and read."""
    training = run.kind.training
    if training is None:
        raise TypeError(f"{run.ranker.name} is not a ranker over features")
    return loaded(training) if isinstance(training, str) else training


@dataclass(frozen=True)
class SavedFeatureRanker:
    """A trained ranker that scores feature vectors, without its training data."""

    run: TrainingConfig
    ranker: Any
    classes: ClassVar[tuple[str, ...]] = ()  # it ranks

    def score_split(self, data: RankingData, name: str, precision: str | None = None) -> np.ndarray:
        """Scores of the candidates of the named split, float32 [C]; `precision` is for networks. The last features may
        be absent, as files leave out what is 0. Raises DataError for texts, or for more features than it learned."""
        features, width = require_features(data, self.run.ranker.name), self.ranker.width
        count = features.shape[1]
        if count > width:
            wrong = f"'{data.name}' has {count} features, the ranker learned {width}"
            raise DataError(Problem("--data", wrong, "data with the same features"))
        if count < width:
            say(f"'{data.name}' has {count} of the {width} features that the ranker learned; the others are 0")
        candidates = features[data.splits[name].document]
        return self.ranker.score(np.pad(candidates, ((0, 0), (0, width - count))))
