"""The "multilayer" network of gensim's similarity-learning study (2018): hidden layers on both mean word vectors.

Like ranker `embedding`, with hidden layers (100 and 64 units, relu) before the last one. For ranking, the cosine of
the means is added to the network's output.
"""

from __future__ import annotations

from itertools import pairwise

from torch import Tensor, nn

from trainables.rankers.base import Head
from trainables.rankers.embedding import Embedding, EmbeddingModule
from trainables.rankers.settings import EmbeddingMlpSettings


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
