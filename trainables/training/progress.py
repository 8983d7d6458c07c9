"""How far a training of any kind has come: its history, its best iteration, and when it ends."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from pydantic import ValidationError

from trainables.config.keys import TrainingConfig
from trainables.config.objective import AnyRun, run_of
from trainables.core.errors import DataError, Problem
from trainables.data.columns import RankingData, Split, required_split
from trainables.data.combine import with_retrieved
from trainables.evaluation.metrics import dev_key
from trainables.evaluation.per_query import SplitEvaluator, evaluator_of, scores_file, write_evaluated
from trainables.training import checkpoint
from trainables.training.prepared import PreparedData


class Progress(ABC):
    """What trainings of all kinds have in common.

    digest      of the data that the training reads
    notes       what the user should know of the iterations done, and has not been told
    history     metrics of each completed iteration
    dev_values  float64 [Q], of each dev query after the last iteration
    """

    run: AnyRun

    def __init__(self, digest: str):
        self.digest = digest
        self.history: list[dict[str, float]] = []
        self.best_iteration = 0
        self.dev_values = np.empty(0)
        self.notes: list[str] = []

    def close(self) -> None:
        """Ends what runs beside the training; nothing is trained after it."""
        return

    def pop_notes(self) -> list[str]:
        """The notes since the last call."""
        notes = self.notes.copy()
        self.notes.clear()
        return notes

    @abstractmethod
    def iterate(self) -> dict[str, float]:
        """One iteration: trains, evaluates on dev, and returns its metrics."""

    @abstractmethod
    def load(self, folder: Path) -> None:
        """Restores what `save` wrote for the same configuration."""

    @property
    def machine(self) -> str:
        """What the training computes with, and why, in words."""
        return f"threads: {torch.get_num_threads()}"

    @property
    def iteration(self) -> int:
        """Number of completed iterations."""
        return len(self.history)

    @property
    def has_best(self) -> bool:
        return self.best_iteration > 0

    @property
    def best_value(self) -> float:
        return self.history[self.best_iteration - 1][dev_key(self.run.metric)] if self.has_best else -math.inf

    @property
    def finished(self) -> bool:
        """Whether the last iteration is done, or dev has not improved for `training.patience` iterations."""
        settings = self.run.training
        return self.iteration >= settings.max_iterations or self.iteration - self.best_iteration >= settings.patience

    @property
    def has_ranker(self) -> bool:
        """Whether `save_ranker` has something to write."""
        return True

    @abstractmethod
    def save_ranker(self, folder: Path) -> None:
        """Writes what the best iteration has trained."""

    @abstractmethod
    def restore_ranker(self, folder: Path) -> None:
        """Takes what `save_ranker` wrote, to apply it."""

    @abstractmethod
    def apply(self, split: str, folder: Path) -> tuple[dict[str, np.ndarray], Path]:
        """Applies what is trained to a split, and writes to the folder what comes of it; returns per-query values,
        float64 [Q] by metric, and the file that was written."""

    def document(self) -> dict[str, Any]:
        """The JSON part of a saved training."""
        return {
            "run": self.run.model_dump(),
            "data": self.digest,
            "history": list(self.history),
            "best_iteration": self.best_iteration,
        }

    @abstractmethod
    def save(self, folder: Path) -> None:
        """Writes the whole state into an existing folder."""

    def restore_progress(self, folder: Path) -> dict[str, Any]:
        """Restores the history; returns the JSON part of the state. Raises DataError for the state of another
        configuration."""
        state = read_state(folder)
        if not is_of(state, self.run, self.digest):
            wrong = "is the state of another configuration"
            raise DataError(Problem(str(folder), wrong, "a checkpoint of the same one"))
        self.history, self.best_iteration = state["history"], state["best_iteration"]
        return state


class RankerProgress(Progress):
    """What trainings of networks and of rankers over features have in common.

    best_scores  float32 [C], of the dev candidates at the best iteration; class logits [C, K] for pairs to classify
    best_documents  int32 [C], the documents that the best iteration retrieved; None: the dev candidates
    """

    run: TrainingConfig

    def __init__(self, run: TrainingConfig, prepared: PreparedData):
        super().__init__(prepared.digest)
        self.run, self.prepared = run, prepared
        self.dev = required_split(prepared.data, "dev")
        self.evaluator = evaluator_of(prepared.data, self.dev, run.evaluation.relevance_level, run.metric)
        self.best_scores = np.empty(0, np.float32)
        self.best_documents: np.ndarray | None = None

    @abstractmethod
    def score(self, split: Split) -> np.ndarray:
        """Scores of all candidates of a split, float32 [C]; class logits, [C, K], for pairs to classify."""

    def retrieve(self, split: Split) -> tuple[np.ndarray, np.ndarray] | None:
        """The documents retrieved for a split's queries, int32 [Q K], and their scores; None: candidates are ranked."""
        return None

    def ranked(self, name: str) -> tuple[RankingData, np.ndarray]:
        """The data, with the candidates of a split that are judged, and their scores as `score` gives them."""
        data, split = self.prepared.data, required_split(self.prepared.data, name)
        if (retrieved := self.retrieve(split)) is None:
            return data, self.score(split)
        return with_retrieved(data, name, *retrieved), retrieved[1]

    def evaluate(self, scores: np.ndarray, evaluator: SplitEvaluator | None = None) -> float:
        """Mean over queries of the configured metric, given scores of the dev candidates, float32 [C], or of those that
        `evaluator` judges."""
        self.dev_values = (evaluator or self.evaluator)(scores, [self.run.metric])[self.run.metric]
        return float(self.dev_values.mean())

    def apply(self, split: str, folder: Path) -> tuple[dict[str, np.ndarray], Path]:
        data, scores = self.ranked(split)
        evaluator = evaluator_of(data, data.splits[split], self.run.evaluation.relevance_level, self.run.metric)
        values = write_evaluated(folder, split, data, scores, self.run.ranker.name, evaluator)
        return values, scores_file(folder, split, data)

    def restore_progress(self, folder: Path) -> dict[str, Any]:
        state = super().restore_progress(folder)
        if self.has_best:
            self.best_scores, self.best_documents = checkpoint.best_scores(folder)
        return state


def read_state(folder: Path) -> dict[str, Any]:
    """The JSON part of a saved training: `Progress.document` and what its kind of training adds."""
    return checkpoint.read_json(folder / checkpoint.STATE)


def is_of(state: Mapping[str, Any], run: AnyRun, digest: str) -> bool:
    """Whether a state (`read_state`) is of this configuration on this data, wherever the data now lies; keys that the
    training does not read may differ. A state with keys that this version does not know counts as another
    configuration's."""
    try:
        saved = run_of(state["run"])
    except ValidationError:
        return False
    here = saved.data.model_copy(update={"source": run.data.source})
    same = saved.model_copy(update={"data": here}).in_force() == run.in_force()
    return same and state["data"] == digest
