"""ConvKNRM (Dai et al. 2018), in the form MacAvaney et al. (2020) trained it with curricula.

Vectors of 1-, 2- and 3-grams (convolutions without activation, shared by query and document) are compared
by cosine, each size with each; Gaussian kernels count the similarities of a query n-gram, their logarithms
are summed over the query and one linear layer makes the score. Padding of documents counts in no kernel
here, whereas the authors' program counts it, so that scores there depend on the padded length.
"""

from __future__ import annotations

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional

from trainables.rankers.kernel_ranker import Grams, KernelModule, KernelRanker, KernelSettings

NGRAMS = (1, 2, 3)


class ConvKnrmSettings(KernelSettings):
    name: str = "conv_knrm"
    filters: int = Field(128, ge=1, description="dimensions of an n-gram")


class ConvolvedGrams(Grams):
    """1-, 2- and 3-grams; zeros follow the last word for those that reach beyond it."""

    def __init__(self, dimensions: int, filters: int):
        super().__init__(len(NGRAMS))
        self.convolutions = nn.ModuleList(nn.Conv1d(dimensions, filters, n) for n in NGRAMS)

    def forward(self, words: Tensor) -> Tensor:
        columns = words.transpose(1, 2)
        grams = [conv(functional.pad(columns, (0, n - 1))) for n, conv in zip(NGRAMS, self.convolutions, strict=True)]
        return functional.normalize(torch.stack(grams, 1).transpose(2, 3), dim=-1)


class ConvKnrmModule(KernelModule):
    def __init__(
        self, vectors: Tensor, settings: ConvKnrmSettings, max_length: int, from_front: bool, outputs: int = 1
    ):
        grams = ConvolvedGrams(vectors.shape[1], settings.filters)
        super().__init__(vectors, grams, settings, max_length, from_front, outputs)


class ConvKnrm(KernelRanker):
    Settings = ConvKnrmSettings
    Module = ConvKnrmModule
