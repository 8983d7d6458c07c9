"""ConvKNRM (Dai et al. 2018), in the form MacAvaney et al. (2020) trained it with curricula.

Vectors of 1-, 2- and 3-grams (convolutions without activation, shared by query and document) are compared
by cosine, each size with each. Gaussian kernels count the similarities of each query n-gram; the logarithms of
these counts are summed over the query, and one linear layer makes the score. Here, padding of documents counts in
no kernel; the authors' program counts it, so its scores depend on the padded length.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from trainables.rankers.cpu import linear
from trainables.rankers.kernel_ranker import Grams, KernelModule, KernelRanker
from trainables.rankers.kernels import unit
from trainables.rankers.settings import ConvKnrmSettings

NGRAMS = (1, 2, 3)


class ConvolvedGrams(Grams):
    """1-, 2- and 3-grams; those that reach beyond the last word see zeros there."""

    def __init__(self, dimensions: int, filters: int):
        super().__init__(len(NGRAMS), max(NGRAMS))
        self.convolutions = nn.ModuleList(nn.Conv1d(dimensions, filters, n) for n in NGRAMS)

    def forward(self, words: Tensor) -> Tensor:
        """Computes a convolution as the product of its flattened weight with the words from each place on."""
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
