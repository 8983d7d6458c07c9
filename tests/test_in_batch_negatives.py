"""In-batch negatives: sentence-transformers' loss on the same batch, relevant documents left out, cached gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from tests.support.builders import tiny_data
from tests.support.training_runs import make_run, start, start_without_dropout
from trainables.data.instances import Batch
from trainables.rankers.ranker import DualEncoder
from trainables.training.accumulation import Accumulation
from trainables.training.contrast import Contrast
from trainables.training.losses import LossSettings
from trainables.training.prepared import prepare
from trainables.training.trainer import Training


@pytest.fixture(scope="module")
def data():
    return tiny_data(queries=24, candidates=6, seed=5)


def run_of(**training: Any):
    keys = {"loss": "softmax", "negatives": 2, "in_batch_negatives": True, "batch_size": 6, "precision": "fp32"}
    return make_run("bi_encoder", training=keys | training)


def without_repetition(training: Training) -> Batch:
    """A batch whose queries and documents are all different, as NoDuplicatesBatchSampler makes them."""
    instances, batcher, seen = training.batcher.instances, training.batcher, set()
    chosen: list[tuple[int, int, np.ndarray]] = []
    for row in range(len(instances)):
        positive, negative = instances.draw(np.array([row]), np.random.default_rng(row))
        texts = {("query", int(batcher.query_of_row[positive[0]]))}
        texts |= {("document", int(batcher.split.document[row])) for row in (*positive, *negative.ravel())}
        if not texts & seen:
            seen |= texts
            chosen.append((row, int(positive[0]), negative[0]))
    rows, positive, negative = zip(*chosen, strict=True)
    assert len(rows) > 2
    return Batch(np.array(rows), np.array(positive), np.stack(negative))


def vectors_of(training: Training, contrast: Contrast) -> Tensor:
    module, text = training.module, training.prepared.text
    assert isinstance(module, DualEncoder)
    rows = contrast.query_rows, contrast.document_rows
    return module.embed(**module.collate_texts(text.queries, text.documents, *rows))


@pytest.mark.slow
def test_the_loss_and_its_gradient_are_those_of_sentence_transformers(data) -> None:
    from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss

    training = start_without_dropout(run_of(), prepare(run_of(), data))
    assert training.in_batch is not None
    batch = without_repetition(training)
    contrast = training.in_batch.contrast(batch)
    vectors = vectors_of(training, contrast)
    asked, read = vectors.split([len(contrast.query_rows), len(contrast.document_rows)])
    document = {int(row): index for index, row in enumerate(contrast.document_rows)}
    lists = np.concatenate([batch.positive[:, None], batch.negative], axis=1)
    columns = [[document[int(training.batcher.split.document[row])] for row in column] for column in lists.T]
    theirs = MultipleNegativesRankingLoss(None, scale=20.0)  # pyright: ignore[reportArgumentType]
    columns = [asked[contrast.query_of], *(read[column] for column in columns)]
    expected = theirs.compute_loss_from_embeddings(columns, torch.empty(0))
    got = contrast.losses(vectors, LossSettings(temperature=0.05))
    assert not contrast.left_out.any()
    torch.testing.assert_close(got.mean(), expected)
    weights = list(training.module.parameters())
    gradients = (torch.autograd.grad(loss, weights, retain_graph=True) for loss in (got.mean(), expected))
    for ours, other in zip(*gradients, strict=True):
        assert ours.any()
        torch.testing.assert_close(ours, other, rtol=1e-4, atol=1e-5)


def test_relevant_documents_of_the_query_are_no_negatives_and_texts_count_once() -> None:
    contrast = Contrast(
        query_rows=np.array([0, 1]),
        document_rows=np.array([3, 5, 8]),
        query_of=np.array([0, 1, 0]),
        positive_of=np.array([0, 1, 2]),
        left_out=np.array([[False, False, True], [False, False, False], [True, False, False]]),
    )
    vectors = torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.5, 0.1], [0.2, 0.9], [0.7, 0.3]])
    losses, smooth = (contrast.losses(vectors, LossSettings(1, 1, 0.5, smoothing)) for smoothing in (0.0, 0.3))
    scores = [[1.0, 0.4, None], [0.2, 1.8, 0.6], [None, 0.4, 1.4]]  # dot products over the temperature
    for got, smoothed, row, positive in zip(losses.tolist(), smooth.tolist(), scores, (0, 1, 2), strict=True):
        logs = -np.log(sum(np.exp(score) for score in row if score is not None))
        assert got == pytest.approx(-(row[positive] + logs))
        spread = np.mean([score + logs for score in row if score is not None])  # over what is not another positive
        assert smoothed == pytest.approx(0.7 * got - 0.3 * spread)


def gradients(training: Training, samples: int | None) -> tuple[float, list[Tensor]]:
    """Loss and gradient of one batch, `samples` samples at a time."""
    assert training.in_batch is not None
    training.accumulation = Accumulation(samples, training.device)
    training.module.train()
    (batch,) = training.batcher.batches(0, 1)
    torch.manual_seed(7)
    loss = training._contrast(training.in_batch, batch, np.linspace(0.5, 1.5, len(batch.instance)))
    return float(loss), [weight.grad.clone() for weight in training.module.parameters() if weight.grad is not None]


@pytest.mark.parametrize("samples", [1, 4])
def test_cached_gradients_are_those_of_the_whole_batch(samples: int, data) -> None:
    training = start_without_dropout(run_of(), prepare(run_of(), data))
    loss, whole = gradients(training, None)
    cached_loss, cached = gradients(training, samples)
    assert cached_loss == pytest.approx(loss, abs=1e-6)
    assert len(cached) == len(whole) > 10
    for one, other in zip(cached, whole, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-5)


def test_cached_gradients_have_the_dropout_of_their_first_pass(data) -> None:
    """As if the parts had been encoded one after the other, with their graphs."""
    training = start(run_of(), data)
    _, cached = gradients(training, 2)
    training.accumulation = Accumulation(None, training.device)
    assert training.in_batch is not None
    (batch,) = training.batcher.batches(0, 1)
    contrast, weights = training.in_batch.contrast(batch), torch.linspace(0.5, 1.5, len(batch.instance))
    torch.manual_seed(7)
    parts = [training._embed(*rows) for rows in contrast.parts(3)]
    training.module.zero_grad()
    (contrast.losses(torch.cat(parts), LossSettings(temperature=0.05)) * weights).mean().backward()
    for one, weight in zip(cached, [w for w in training.module.parameters() if w.grad is not None], strict=True):
        torch.testing.assert_close(one, weight.grad, rtol=1e-5, atol=1e-5)


def test_training_learns_from_in_batch_negatives(data) -> None:
    training = start(run_of(batch_size=8, batches_per_iteration=12, max_iterations=3, lr=3e-3), data)
    losses = [training.iterate()["train_loss"] for _ in range(3)]
    assert losses[-1] < losses[0] / 2
