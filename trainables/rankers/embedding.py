"""Mean word vectors of query and document: their cosine, or a softmax regression on both (gensim's similarity-learning
study, 2018).

For ranking, the score is the cosine (the study's word2vec baseline) plus a linear layer on the features of both means;
the layer starts at zero, so that an untrained ranker is the baseline. For classification, the layer alone gives the
logits: the study's regression on [v1; v2].
"""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional

from trainables.rankers.ranker import Head
from trainables.rankers.settings import EmbeddingMlpSettings, EmbeddingSettings
from trainables.rankers.word_vectors import WordRanker, WordRankerModule


class EmbeddingModule(WordRankerModule):
    """Scores [B], or class logits [B, K], of word rows."""

    def __init__(
        self, vectors: Tensor, settings: EmbeddingSettings, max_length: int, from_front: bool, outputs: int = 1
    ):
        super().__init__(vectors, settings, max_length, from_front)
        self.products = settings.products
        self.features = (3 if settings.products else 2) * vectors.shape[1]
        self.score = Head(self.features, outputs)
        nn.init.zeros_(self.score.weight)
        nn.init.zeros_(self.score.bias)

    def forward(
        self, query: Tensor, query_mask: Tensor, query_of: Tensor, document: Tensor, document_mask: Tensor
    ) -> Tensor:
        with torch.autocast(query.device.type, enabled=False):  # half precision would blur the cosine
            queries = self._directions(query, query_mask)[query_of]
            documents = self._directions(document, document_mask)
            scores = self.compare(queries, documents)
            return scores + (queries * documents).sum(1) if self.score.out_features == 1 else scores

    def compare(self, queries: Tensor, documents: Tensor) -> Tensor:
        """Scores [B] or logits [B, K] of the directions of mean vectors, [B, D] each."""
        return self.score(self.pair_features(queries, documents))

    def pair_features(self, queries: Tensor, documents: Tensor) -> Tensor:
        """[v1; v2], or [v1; v2; v1 * v2], [B, 2 D or 3 D], scaled to a variance near 1 whatever the vectors' size."""
        queries, documents = (side * queries.shape[1] ** 0.5 for side in (queries, documents))
        parts = [queries, documents] + ([queries * documents] if self.products else [])
        return torch.cat(parts, 1)

    def _directions(self, ids: Tensor, mask: Tensor) -> Tensor:
        """Mean vectors at unit length, [texts, D]; zeros for a text without a known word."""
        return functional.normalize((self.vectors(ids) * mask[:, :, None]).sum(1), dim=1)


class Embedding(WordRanker):
    Module = EmbeddingModule


class EmbeddingMlpModule(EmbeddingModule):
    """Scores [B], or class logits [B, K], of word rows."""

    def __init__(
        self, vectors: Tensor, settings: EmbeddingMlpSettings, max_length: int, from_front: bool, outputs: int = 1
    ):
        super().__init__(vectors, settings, max_length, from_front, outputs)
        sizes = (self.features, *settings.hidden)
        layers = [layer for pair in pairwise(sizes) for layer in (nn.Linear(*pair), nn.ReLU())]
        self.hidden = nn.Sequential(*layers)
        self.score = Head(sizes[-1], outputs)

    def compare(self, queries: Tensor, documents: Tensor) -> Tensor:
        return self.score(self.hidden(self.pair_features(queries, documents)))


class EmbeddingMlp(Embedding):
    Module = EmbeddingMlpModule
