"""A ranker: how well the best, the worst and the average word of a query are matched in the document.

tune-cl train --plugin own_ranker.py --data docstrings --ranker best_match
"""

import torch
from torch import Tensor
from torch.nn.functional import normalize

import tune_cl
from trainables.rankers.ranker import Head
from trainables.rankers.settings import WordSettings
from trainables.rankers.word_vectors import WordRanker, WordRankerModule


class BestMatchSettings(WordSettings):
    default_lr = 0.01
    name: str = "best_match"


class BestMatchModule(WordRankerModule):
    def __init__(self, vectors: Tensor, settings: BestMatchSettings, max_length: int, from_front: bool, outputs: int):
        super().__init__(vectors, settings, max_length, from_front)
        self.score = Head(3, outputs)

    def forward(self, query, query_mask, query_of, document, document_mask) -> Tensor:
        words, mask = normalize(self.vectors(query), dim=2)[query_of], query_mask[query_of]
        cosines = words @ normalize(self.vectors(document), dim=2).transpose(1, 2)
        best = cosines.masked_fill(~document_mask[:, None], -1).amax(2)
        mean = (best * mask).sum(1) / mask.sum(1).clamp(min=1)
        ends = best.masked_fill(~mask, -1).amax(1), best.masked_fill(~mask, 1).amin(1)
        return self.score(torch.stack([mean, *ends], 1)).float()


@tune_cl.ranker("best_match", source="an example", settings=BestMatchSettings)
class BestMatch(WordRanker):
    """A linear layer on the best matches of a query's words."""

    Module = BestMatchModule
