"""KNRM (Xiong et al. 2017): kernels over the cosine similarities of single words.

The paper tunes the word vectors on a search engine's clicks. `ranker.train_vectors` tunes them too, but is off by
default: a small training set is learned by heart that way (docs/rankers.md). The paper bounds its score by a tanh. This
changes no ranking but, under a pairwise loss, keeps scores from differing by more than 2; here the score is linear.
"""

from __future__ import annotations

from torch import Tensor

from trainables.rankers.kernel_ranker import Grams, KernelModule, KernelRanker
from trainables.rankers.kernels import unit
from trainables.rankers.settings import KnrmSettings


class Unigrams(Grams):
    def __init__(self) -> None:
        super().__init__(1, 1)

    def forward(self, words: Tensor) -> Tensor:
        return unit(words.transpose(0, 1))


class KnrmModule(KernelModule):
    def __init__(self, vectors: Tensor, settings: KnrmSettings, max_length: int, from_front: bool, outputs: int = 1):
        super().__init__(vectors, Unigrams(), settings, max_length, from_front, outputs)


class Knrm(KernelRanker):
    Module = KnrmModule
