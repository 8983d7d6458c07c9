"""KNRM's kernel counts over fixed word vectors: computed once in a process, and the training is the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.support.builders import tiny_data
from trainables.config.keys import TrainingConfig
from trainables.rankers.knrm import KnrmModule
from trainables.training.prepared import PreparedData, prepare
from trainables.training.trainer import Training

CURRICULUM = {"pacing": "root", "scoring": "self_paced", "weighting": "normalized_score", "m": 3}


def knrm_run(curriculum: dict[str, Any] | None = None, **ranker: Any) -> TrainingConfig:
    training = {"max_iterations": 4, "batches_per_iteration": 3, "batch_size": 8, "lr": 0.01}
    keys = {"ranker": {"name": "knrm", "vector_size": 16, **ranker}, "training": training, "seed": 1}
    return TrainingConfig.model_validate(keys | {"curriculum": curriculum or {}})


def prepared_for(run: TrainingConfig) -> PreparedData:
    return prepare(run, tiny_data(queries=24, candidates=6, seed=5))


def iterated(run: TrainingConfig, prepared: PreparedData, iterations: int = 3) -> Training:
    training = Training(run, prepared, device="cpu")
    for _ in range(iterations):
        training.iterate()
    return training


def losses(training: Training) -> list[float]:
    return [row["train_loss"] for row in training.history]


@pytest.mark.parametrize("add_first_stage", [False, True])
def test_a_training_on_known_features_is_the_one_that_computes_them(
    add_first_stage: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = knrm_run(CURRICULUM, add_first_stage=add_first_stage)
    prepared = prepared_for(run)
    known = iterated(run, prepared)
    assert known.batcher.features is not None
    monkeypatch.setattr(KnrmModule, "fixed_features", property(lambda self: None, lambda self, value: None))
    computing = iterated(run, prepared)
    assert computing.batcher.features is None
    assert losses(known) == pytest.approx(losses(computing), rel=1e-5)
    scores = [training.score(prepared.data.splits["test"]).reshape(-1, 6) for training in (known, computing)]
    # Kernels that count nothing add the same to all documents of a query: their weights follow rounding errors.
    within = [values - values.mean(1, keepdims=True) for values in scores]
    np.testing.assert_allclose(*within, rtol=1e-3, atol=1e-4)


def test_another_training_of_the_process_reads_no_text(monkeypatch: pytest.MonkeyPatch) -> None:
    run = knrm_run()
    prepared = prepared_for(run)
    first = iterated(run, prepared)

    def collate(*_: Any) -> Any:
        raise AssertionError("features are computed again")

    monkeypatch.setattr(KnrmModule, "collate", collate)
    assert losses(iterated(run, prepared)) == losses(first)


@pytest.mark.parametrize("keys", [{"kernels_learned": True}, {"train_vectors": True}])
def test_features_that_training_moves_are_not_kept(keys: dict[str, Any]) -> None:
    run = knrm_run(**keys)
    training = iterated(run, prepared_for(run))
    assert training.batcher.features is None and training.module.fixed_features is None
