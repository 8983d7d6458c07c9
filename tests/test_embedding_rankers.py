"""Rankers over mean word vectors: the cosine before training, the study's features, hidden layers."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.nn import functional

from tests.support.builders import tiny_data
from trainables.baselines.word_embeddings import Embedding as CosineBaseline
from trainables.config.keys import TrainingConfig
from trainables.data.columns import RankingData
from trainables.rankers.embedding import EmbeddingMlpModule, EmbeddingModule
from trainables.rankers.settings import EmbeddingMlpSettings, EmbeddingSettings
from trainables.rankers.word_vectors import FIRST_WORD
from trainables.training.prepared import prepare
from trainables.training.trainer import Training


@pytest.fixture(scope="module")
def data() -> RankingData:
    return tiny_data(queries=12, candidates=5, seed=2)


def training(data: RankingData, **ranker: object) -> Training:
    run = TrainingConfig.model_validate({"ranker": {"name": "embedding", "vector_size": 16} | ranker})
    return Training(run, prepare(run, data), device="cpu")


def table(rows: int = 12, size: int = 6) -> torch.Tensor:
    vectors = torch.randn(FIRST_WORD + rows, size, generator=torch.Generator().manual_seed(0))
    vectors[:FIRST_WORD] = 0
    return vectors


def pair() -> tuple[torch.Tensor, ...]:
    """Two queries, three pairs; the last word of query 1 is unknown, and so is all of document 2."""
    first = FIRST_WORD
    query = torch.tensor([[first, first + 1, 0], [first + 2, first + 3, 1]])
    document = torch.tensor([[first + 4, first + 5], [first + 6, 0], [1, 2]])
    return query, query > 0, torch.tensor([0, 1, 1]), document, document > 0


def test_untrained_it_is_the_embedding_baseline(data: RankingData) -> None:
    """Its word2vec baseline has a MAP of .6285 on WikiQA in the study, with vectors of its own."""
    model = training(data)
    split = data.splits["test"]
    expected = CosineBaseline(data, model.run, ["test"]).scorer(split)({})
    np.testing.assert_allclose(model.score(split), expected, atol=1e-6)
    model.iterate()
    assert not np.allclose(model.score(split), expected, atol=1e-3)


def test_classes_are_a_regression_on_both_means() -> None:
    vectors = table()
    module = EmbeddingModule(vectors, EmbeddingSettings.model_validate({"products": False}), 8, False, outputs=3)
    torch.nn.init.normal_(module.score.weight)
    query, query_mask, query_of, document, document_mask = pair()
    means = [functional.normalize(vectors[ids].sum(1), dim=1) for ids in (query[query_of], document)]
    features = torch.cat(means, 1) * 6**0.5
    expected = features @ module.score.weight.T
    torch.testing.assert_close(module(query, query_mask, query_of, document, document_mask), expected)
    assert not features[2, 6:].any(), "a text without a known word has no direction"


def test_hidden_layers_are_the_studys() -> None:
    module = EmbeddingMlpModule(table(), EmbeddingMlpSettings.model_validate({}), 8, False, outputs=2)
    shapes = [tuple(layer.weight.shape) for layer in module.hidden if isinstance(layer, torch.nn.Linear)]
    assert shapes == [(100, 18), (64, 100)] and module.score.weight.shape == (2, 64)
    assert sum(isinstance(layer, torch.nn.ReLU) for layer in module.hidden) == 2
    assert module(*pair()).shape == (3, 2)
