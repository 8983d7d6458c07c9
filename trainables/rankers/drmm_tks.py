"""DRMM_TKS (MatchZoo; it has no paper): a network over the k highest similarities of each query word.

DRMM (Guo et al. 2016) with the top k cosine similarities in place of histograms. Each query word gets one value from
the network, and a gate weights the words. `reference: matchzoo` gates by a softmax over the query's words (MatchZoo 2).
`study` does what the gensim similarity-learning study (2018) does in effect: its softmax is over an axis of size 1, so
every word has weight 1, and its score has no last layer. The study also adds padding words to the sum, so its scores
depend on the padded length; here padding has no effect.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from trainables.rankers.ranker import Head
from trainables.rankers.settings import DrmmTksSettings
from trainables.rankers.word_vectors import WordRanker, WordRankerModule

MISSING = 0.0  # similarity, as of an unrelated word, that fills up documents of fewer than k words


class DrmmTksModule(WordRankerModule):
    """Scores [B], or class logits [B, K], of word rows."""

    def __init__(self, vectors: Tensor, settings: DrmmTksSettings, max_length: int, from_front: bool, outputs: int = 1):
        super().__init__(vectors, settings, max_length, from_front)
        self.topk = settings.topk
        self.network = _network(settings)
        gated = settings.reference == "matchzoo"
        self.gate = nn.Linear(vectors.shape[1], 1, bias=False) if gated else None  # a bias would change no softmax
        self.score = Head(1, outputs) if gated or outputs > 1 else None

    def forward(
        self, query: Tensor, query_mask: Tensor, query_of: Tensor, document: Tensor, document_mask: Tensor
    ) -> Tensor:
        # Half precision would blur the highest similarities, which lie close together.
        with torch.autocast(query.device.type, enabled=False):
            words = self.vectors(query)
            similarities = torch.bmm(
                functional.normalize(words, dim=-1)[query_of],
                functional.normalize(self.vectors(document), dim=-1).transpose(1, 2),
            )
            values = self.network(self._highest(similarities, document_mask)).squeeze(2)
            pooled = (values * self._gates(words, query_mask)[query_of]).sum(1)
            return pooled if self.score is None else self.score(pooled[:, None])

    def _highest(self, similarities: Tensor, document_mask: Tensor) -> Tensor:
        """The k highest similarities to real document words, descending, [B, query words, k]."""
        real = similarities.masked_fill(~document_mask[:, None], -torch.inf)
        wide = functional.pad(real, (0, max(0, self.topk - real.shape[2])), value=-torch.inf)
        highest = wide.topk(self.topk, dim=2).values
        return highest.masked_fill(highest.isneginf(), MISSING)

    def _gates(self, words: Tensor, mask: Tensor) -> Tensor:
        """Weights of the query words, [Q, L]; 0 for padding."""
        if self.gate is None:
            return mask.float()
        lowest = torch.finfo(words.dtype).min
        return self.gate(words).squeeze(2).masked_fill(~mask, lowest).softmax(1) * mask


def _network(settings: DrmmTksSettings) -> nn.Sequential:
    """k similarities to one value: softplus after every layer, He's uniform initial weights (as in the study)."""
    layers: list[nn.Module] = []
    inputs = settings.topk
    for outputs in (*settings.hidden, 1):
        linear = nn.Linear(inputs, outputs)
        nn.init.kaiming_uniform_(linear.weight, nonlinearity="relu")
        nn.init.zeros_(linear.bias)
        layers += [linear, nn.Softplus(), nn.Dropout(settings.dropout)]
        inputs = outputs
    return nn.Sequential(*layers[:-1])  # no dropout on the value itself


class DrmmTks(WordRanker):
    Module = DrmmTksModule
