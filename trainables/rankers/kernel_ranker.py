"""Rankers that count similarities of query and document n-grams with Gaussian kernels: KNRM and ConvKNRM."""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from pydantic import Field
from torch import Tensor, nn

from trainables.data.columns import RankingData
from trainables.errors import ConfigError, Problem
from trainables.rankers.base import Head, TextSide
from trainables.rankers.first_stage import PLACE, ScoreAdditivity, require_first_stage
from trainables.rankers.kernels import FAR, GaussianKernels
from trainables.rankers.words import WordRanker, WordRankerModule, WordSettings

KERNELS = 11


class KernelSettings(WordSettings):
    kernels_learned: bool = Field(True, description="whether training moves and widens the kernels")
    add_first_stage: bool = Field(
        False, description="score = a * neural + (1 - a) * first-stage score, with a learned from sigmoid(-1)"
    )


class Grams(nn.Module, ABC):
    """Vectors of n-grams of one or more sizes."""

    def __init__(self, sizes: int):
        super().__init__()
        self.sizes = sizes

    @abstractmethod
    def forward(self, words: Tensor) -> Tensor:
        """Word vectors [B, L, D], zeros for padding, to unit vectors of the n-grams that start at each word,
        [B, sizes, L, E]."""


class KernelModule(WordRankerModule):
    """Kernel counts of all pairs of n-gram sizes, their logarithms summed over the query, and one linear layer.

    Scores [B], or class logits [B, K]. Padding counts in no kernel.
    """

    def __init__(
        self, vectors: Tensor, grams: Grams, settings: KernelSettings, max_length: int, from_front: bool, outputs: int
    ):
        super().__init__(vectors, settings, max_length, from_front)
        if settings.add_first_stage and outputs > 1:
            raise ConfigError(Problem(PLACE, "true, but classes have no first-stage score", "false"))
        self.grams = grams
        self.kernels = GaussianKernels(KERNELS, settings.kernels_learned)
        self.score = Head(grams.sizes**2 * KERNELS, outputs)
        self.reads_first_stage = settings.add_first_stage
        self.additivity = ScoreAdditivity() if settings.add_first_stage else None

    def forward(
        self,
        query: Tensor,
        query_mask: Tensor,
        query_of: Tensor,
        document: Tensor,
        document_mask: Tensor,
        **first_stage: Tensor,
    ) -> Tensor:
        """The tensors of `collate` and, where the module reads it, first_stage [B]."""
        queries, documents = self.grams(self.vectors(query)), self.grams(self.vectors(document))
        # Half precision would blur the exact-match kernel, which is 0.001 wide.
        with torch.autocast(query.device.type, enabled=False):
            counts = self._count(queries.float()[query_of], documents.float(), document_mask)
            counts = (counts * query_mask[query_of][:, None, :, None, None]).sum(2)
            scores = self.score(counts.flatten(1))
            return self.additivity(scores, **first_stage) if self.additivity else scores

    def _count(self, queries: Tensor, documents: Tensor, document_mask: Tensor) -> Tensor:
        """Logarithms of kernel counts, [B, query n, query words, document n, kernels]."""
        similarities = torch.bmm(queries.flatten(1, 2), documents.flatten(1, 2).transpose(1, 2))
        similarities = similarities.unflatten(2, documents.shape[1:3]).unflatten(1, queries.shape[1:3])
        return self.kernels(similarities.masked_fill(~document_mask[:, None, None, None, :], FAR))


class KernelRanker(WordRanker):
    text_keys = WordRanker.text_keys | {"add_first_stage"}

    def prepare(self, data: RankingData, settings: KernelSettings, seed: int) -> TextSide:
        """ConfigError where first-stage scores are wanted and the data has none."""
        if settings.add_first_stage:
            require_first_stage(data, data.splits)
        return super().prepare(data, settings, seed)
