"""The training instances of data, and the difficulty of each."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np

from trainables.config.keys import TrainingConfig
from trainables.config.task_fit import require_scoring
from trainables.core.prose import say
from trainables.curriculum.scoring import SCORINGS, difficulty
from trainables.data import load_data
from trainables.data.columns import RankingData, Split, required_split
from trainables.data.instances import NONE, Instances


@dataclass(frozen=True)
class SplitInstances:
    """The instances of a split under a configuration's loss and negatives."""

    run: TrainingConfig
    data: RankingData
    split: Split
    instances: Instances

    def __len__(self) -> int:
        return len(self.instances)

    @property
    def query(self) -> np.ndarray:
        """Row of each instance's query among the data's queries, int [I]."""
        return self.split.query[self.instances.query]

    @property
    def document(self) -> np.ndarray:
        """Candidate row of the document that each instance is about, int64 [I]: the relevant one, or that of an
        instance of a non-relevant document alone; DRAWN if it is drawn again at each use."""
        positive = self.instances.fixed_positive
        return np.where(positive == NONE, self.instances.negative, positive)

    @property
    def negative(self) -> np.ndarray:
        """Candidate row of the fixed negative of each pair, int64 [I]; NONE or DRAWN elsewhere."""
        return np.where(self.instances.fixed_positive == NONE, NONE, self.instances.negative)

    @property
    def labels(self) -> list[float | str]:
        """1 for an instance with a relevant document, 0 for one without; the name of a pair's class."""
        positive = self.instances.fixed_positive
        if self.data.classes:
            return [self.data.classes[grade] for grade in self.split.grade[positive]]
        return (positive != NONE).astype(np.float64).tolist()

    def ids(self, rows: np.ndarray) -> Iterator[str | None]:
        """Document ids of candidate rows; None for NONE and DRAWN."""
        for row in rows.tolist():
            yield self.data.document_ids[int(self.split.document[row])] if row >= 0 else None

    def texts(self, rows: np.ndarray) -> Iterator[str | None]:
        """Texts of candidate rows; None for NONE and DRAWN."""
        for row in rows.tolist():
            yield self.data.documents[int(self.split.document[row])] if row >= 0 else None


@dataclass(frozen=True)
class Difficulties:
    """Difficulty of each instance, float64 [I], higher = harder. `cached`: whether it was read from the cache."""

    values: np.ndarray
    seconds: float
    cached: bool


def instances_of(run: TrainingConfig, split: str, scoring: str | None = None) -> SplitInstances:
    """The instances of a split of the configured data, which `scoring` must suit. Raises ConfigError or DataError."""
    if scoring is not None:
        SCORINGS[scoring]  # raises for an unknown name before the data is read
    data = load_data(run.data, run.evaluation.relevance_level)
    if scoring is not None:
        require_scoring(scoring, data)
    from trainables.training.teachers import teacher_scores
    from trainables.training.trainer import split_instances  # imports torch: input errors come first

    part = required_split(data, split)
    return SplitInstances(run, data, part, split_instances(run, data, part, partial(teacher_scores, run, data, part)))


def difficulties(scored: SplitInstances, scoring: str) -> Difficulties:
    """The instances' difficulty under a scoring function; says so if it orders nothing."""
    from trainables.training.batching import scored_of
    from trainables.training.device import here
    from trainables.training.teachers import OF_NEED

    run, data, split = scored.run, scored.data, scored.split
    teachers = {need: partial(scores_of, run, data, split, here) for need, scores_of in OF_NEED.items()}
    started = time.perf_counter()
    values, cached = difficulty(scoring, scored_of(run, data, split, scored.instances, teachers))
    seconds = time.perf_counter() - started
    if len(values) > 1 and values.min() == values.max():
        say(f"note: all {len(values):,} instances have the same value: they would keep the order of the data")
    return Difficulties(values, seconds, cached)
