"""Rankers that count similarities of query and document n-grams with Gaussian kernels: KNRM and ConvKNRM."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from trainables.core.errors import ConfigError, Problem
from trainables.data.columns import RankingData
from trainables.rankers.fast.cpu import linear, rows
from trainables.rankers.fast.kernels import FAR, GaussianKernels, unit
from trainables.rankers.first_stage import KEY, ScoreAdditivity, require_first_stage
from trainables.rankers.ranker import FeatureModule, Head, TextSide, Tokens
from trainables.rankers.settings import ConvKnrmSettings, KernelSettings, KnrmSettings
from trainables.rankers.word_vectors import PADDING, WordRanker, WordRankerModule

KERNELS = 11
ROWS = 128  # words are padded to a multiple of this: libraries prepare each new shape of a product


class Grams(nn.Module, ABC):
    """Vectors of n-grams of one or more sizes; the longest has `longest` words."""

    def __init__(self, sizes: int, longest: int):
        super().__init__()
        self.sizes, self.longest = sizes, longest

    @abstractmethod
    def forward(self, words: Tensor) -> Tensor:
        """Vectors of each word and those that follow it, [N, longest, D], zeros after a text's last word, to unit
        vectors of the n-grams that start there, [sizes, N, E]."""


class KernelModule(WordRankerModule, FeatureModule):
    """Kernel counts of all pairs of n-gram sizes, their logarithms summed over the query, and one linear layer.

    Scores [B], or class logits [B, K]. Padding counts in no kernel.
    """

    def __init__(
        self, vectors: Tensor, grams: Grams, settings: KernelSettings, max_length: int, from_front: bool, outputs: int
    ):
        super().__init__(vectors, settings, max_length, from_front)
        if settings.add_first_stage and outputs > 1:
            raise ConfigError(Problem(KEY, "true, but classes have no first-stage score", "false"))
        self.grams = grams
        self.kernels = GaussianKernels(KERNELS, settings.kernels_learned)
        self.score = Head(grams.sizes**2 * KERNELS, outputs)
        self.reads_first_stage = settings.add_first_stage
        self.additivity = ScoreAdditivity() if settings.add_first_stage else None

    def collate(
        self, queries: Tokens, documents: Tokens, query_rows: np.ndarray, document_rows: np.ndarray
    ) -> dict[str, Tensor]:
        """Adds the positions of real words in the flattened masks, int64 [N] each: query_words, document_words, and
        asked_words in the query masks of all pairs. They are found here, as counting them on a GPU means waiting."""
        texts = super().collate(queries, documents, query_rows, document_rows)
        return texts | {
            "query_words": _positions(texts["query_mask"]),
            "document_words": _positions(texts["document_mask"]),
            "asked_words": _positions(texts["query_mask"][texts["query_of"]]),
        }

    def features(
        self,
        query: Tensor,
        query_mask: Tensor,
        query_of: Tensor,
        document: Tensor,
        document_mask: Tensor,
        query_words: Tensor,
        document_words: Tensor,
        asked_words: Tensor,
    ) -> Tensor:
        """Logarithms of kernel counts, summed over the query."""
        queries, documents = self._grams((query, query_mask, query_words), (document, document_mask, document_words))
        # Half precision would blur the exact-match kernel, which is 0.001 wide.
        with torch.autocast(query.device.type, enabled=False):
            queries, documents = (grams.to(self.score.weight.dtype) for grams in (queries, documents))
            return self._count(rows(queries, query_of), query_mask[query_of], asked_words, documents, document_mask)

    def scored(self, features: Tensor, first_stage: Tensor | None) -> Tensor:
        with torch.autocast(features.device.type, enabled=False):
            scores = self.score(features)
            return self.additivity(scores, first_stage) if self.additivity else scores

    def _grams(self, *texts: tuple[Tensor, Tensor, Tensor]) -> list[Tensor]:
        """Unit vectors of the n-grams that start at each word, [B, sizes, L, E] for each of `texts` (ids [B, L], mask
        [B, L], positions of words [N]); zeros for padding, which is not computed."""
        reach = self.grams.longest - 1
        following = [
            functional.pad(ids, (0, reach), value=PADDING).unfold(1, reach + 1, 1).flatten(0, 1)[positions]
            for ids, _, positions in texts
        ]
        counts = [len(positions) for *_, positions in texts]
        rest = following[0].new_full((-sum(counts) % ROWS, reach + 1), PADDING)
        grams = self.grams(self.vectors(torch.cat([*following, rest]))).split([*counts, len(rest)], 1)
        return [
            _spread(of_texts.flatten(0, 1), _of_sizes(positions, mask, self.grams.sizes), mask, self.grams.sizes)
            for of_texts, (_, mask, positions) in zip(grams, texts, strict=False)
        ]

    def _count(
        self, queries: Tensor, query_mask: Tensor, query_words: Tensor, documents: Tensor, document_mask: Tensor
    ) -> Tensor:
        """Logarithms of kernel counts summed over the query's words, [B, query n * document n * kernels]; they are
        computed only for words of queries, not for their padding."""
        sizes, length = queries.shape[1:3]
        similarities = torch.bmm(queries.flatten(1, 2), documents.flatten(1, 2).transpose(1, 2))
        words = _of_sizes(query_words, query_mask, sizes)
        similarities = rows(similarities.flatten(0, 1), words).unflatten(1, documents.shape[1:3])
        padding = ~document_mask[words // (sizes * length)]
        counts = self.kernels(similarities.masked_fill(padding[:, None], FAR))
        return _spread(counts.flatten(1), words, query_mask, sizes).sum(2).flatten(1)


def _positions(mask: Tensor) -> Tensor:
    """Where the flattened mask is true, int64 [N]."""
    return mask.flatten().nonzero().squeeze(1)


def _of_sizes(words: Tensor, mask: Tensor, sizes: int) -> Tensor:
    """Positions of words in a flattened mask [B, L], int64 [N], to those in a flattened [B, sizes, L], int64
    [sizes * N]: all of one size, then all of the next."""
    length = mask.shape[1]
    first = words + words // length * ((sizes - 1) * length)
    return (first + torch.arange(sizes, device=words.device)[:, None] * length).flatten()


def _spread(values: Tensor, positions: Tensor, mask: Tensor, sizes: int) -> Tensor:
    """Values [N, D] at their positions in a flattened [B, sizes, L], else zeros: [B, sizes, L, D]. `mask`: [B, L]."""
    flat = values.new_zeros(mask.numel() * sizes, values.shape[1]).index_copy(0, positions, values)
    return flat.view(mask.shape[0], sizes, mask.shape[1], -1)


class KernelRanker(WordRanker):
    def prepare(self, data: RankingData, settings: KernelSettings, seed: int) -> TextSide:
        """Raises ConfigError if first-stage scores are wanted and the data has none."""
        if settings.add_first_stage:
            require_first_stage(data, data.splits)
        return super().prepare(data, settings, seed)


class Unigrams(Grams):
    def __init__(self) -> None:
        super().__init__(1, 1)

    def forward(self, words: Tensor) -> Tensor:
        return unit(words.transpose(0, 1))


class KnrmModule(KernelModule):
    """Its counts are fixed, unless kernels or vectors are trained: then only the last layer learns."""

    def __init__(self, vectors: Tensor, settings: KnrmSettings, max_length: int, from_front: bool, outputs: int = 1):
        super().__init__(vectors, Unigrams(), settings, max_length, from_front, outputs)
        if not (settings.kernels_learned or settings.train_vectors):
            self.fixed_features = "knrm", settings.max_query_length, max_length, from_front


class Knrm(KernelRanker):
    Module = KnrmModule


NGRAMS = (1, 2, 3)


class ConvolvedGrams(Grams):
    """1-, 2- and 3-grams; those that reach beyond the last word see zeros there."""

    def __init__(self, dimensions: int, filters: int):
        super().__init__(len(NGRAMS), max(NGRAMS))
        self.convolutions = nn.ModuleList(nn.Conv1d(dimensions, filters, n) for n in NGRAMS)

    def forward(self, words: Tensor) -> Tensor:
        """Computes a convolution as the product of its flattened weight with the words from each position on."""
        grams = []
        for n, convolution in zip(NGRAMS, self.convolutions, strict=True):
            weight = convolution.get_parameter("weight").transpose(1, 2).flatten(1)
            grams.append(linear(words[:, :n].flatten(1), weight, convolution.get_parameter("bias")))
        return unit(torch.stack(grams).to(words.dtype))


class ConvKnrmModule(KernelModule):
    def __init__(
        self, vectors: Tensor, settings: ConvKnrmSettings, max_length: int, from_front: bool, outputs: int = 1
    ):
        grams = ConvolvedGrams(vectors.shape[1], settings.filters)
        super().__init__(vectors, grams, settings, max_length, from_front, outputs)


class ConvKnrm(KernelRanker):
    Module = ConvKnrmModule
