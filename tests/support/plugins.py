"""Plug-ins of tests: a scoring in a file, and a fixture that unloads what a test has loaded."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from trainables.core import plugins
from trainables.core.registry import REGISTRIES

LENGTH = """
import numpy as np
import tune_cl

@tune_cl.scoring("length", source="me")
def length(scored):
    "Characters of the query"
    return scored.of_queries(np.array([len(text) for text in scored.data.query_texts()], float)[scored.split.query])
"""

LINEAR = """
import time

import numpy as np

import tune_cl
from trainables.core.errors import Problem
from trainables.rankers.settings import RankerSettings
from trainables.training import checkpoint
from trainables.training.features import FeatureTraining
from trainables.training.ranker_folder import OWN, described


class LinearSettings(RankerSettings):
    default_lr = 0.1
    name: str = "linear"

    def refused(self, run):
        if run.curriculum.objective_switch != "none":
            yield Problem("curriculum.objective_switch", "linear has one objective", "none")


class Linear:
    def __init__(self, weights):
        self.weights, self.width = weights, len(weights)

    def score(self, features):
        return (features @ self.weights).astype(np.float32)


@tune_cl.ranker("linear", settings=LinearSettings, reads="features", on_cpu=True)
class LinearTraining(FeatureTraining):
    "Least squares by gradient descent"

    def __init__(self, run, prepared):
        super().__init__(run, prepared)
        self.train = prepared.data.splits["train"]
        self.weights = self.best = np.zeros(self.features.shape[1], np.float32)

    def iterate(self):
        started, rows = time.perf_counter(), self.features[self.train.document]
        error = rows @ self.weights - self.train.grade
        self.weights = self.weights - np.float32(self.run.training.lr) * (rows.T @ error).astype(np.float32) / len(rows)
        speed = len(rows) / (time.perf_counter() - started)
        metrics = self.end_iteration(started, self.score(self.dev), float(np.square(error).mean()), speed)
        if self.best_iteration == self.iteration:
            self.best = self.weights
        return metrics

    def score(self, split):
        return Linear(self.weights).score(self.features[split.document])

    def save_ranker(self, folder):
        self.weights = self.best

        def write(temporary):
            np.save(temporary / "weights.npy", self.best)
            checkpoint.write_json(temporary / OWN, described(self.run))

        checkpoint.write_folder(folder, write)

    @classmethod
    def read_ranker(cls, run, folder):
        return Linear(np.load(folder / "weights.npy"))

    def restore_ranker(self, folder):
        self.weights = np.load(folder / "weights.npy")

    def save(self, folder):
        np.save(folder / "both.npy", np.stack([self.weights, self.best]))
        checkpoint.save_tensors(folder, {checkpoint.DEV: checkpoint.dev_tensors(self.best_scores)})
        checkpoint.write_json(folder / checkpoint.STATE, self.document())

    def load(self, folder):
        self.restore_progress(folder)
        self.weights, self.best = np.load(folder / "both.npy")
"""


@pytest.fixture(autouse=True)
def unload() -> Iterator[None]:
    """Each test ends without plug-ins."""
    yield
    forget()


def forget() -> None:
    plugins.LOADED.clear()
    plugins.problem_here = None
    for registry in REGISTRIES:
        registry.remove({entry.module for entry in registry.entries.values() if not entry.built_in})


def written(folder: Path, text: str, name: str = "mine.py") -> str:
    (folder / name).write_text(text)
    return str(folder / name)
