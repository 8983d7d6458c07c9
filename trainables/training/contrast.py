"""In-batch negatives: a query's positive against all documents of its batch, the positives and negatives of the other
queries too (Karpukhin et al. 2020, section 3.2; Henderson et al. 2017; MultipleNegativesRankingLoss of
sentence-transformers)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from trainables.data.instances import Batch
from trainables.rankers.ranker import sent
from trainables.training.batching import Batcher
from trainables.training.losses import LossSettings, smoothed


@dataclass(frozen=True)
class Contrast:
    """The distinct texts of a batch of B lists, A queries and R documents, and what is compared.

    query_rows, document_rows  int [A], [R]: rows of the texts
    query_of  int64 [B]: the query of each list
    positive_of  int64 [B]: the document that is its positive
    left_out  bool [B, R]: documents that are not negatives of the list, because they are relevant to its query too
    """

    query_rows: np.ndarray
    document_rows: np.ndarray
    query_of: np.ndarray
    positive_of: np.ndarray
    left_out: np.ndarray

    def __len__(self) -> int:
        return len(self.query_rows) + len(self.document_rows)

    def parts(self, count: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """The rows of the texts, (queries, documents), in so many parts of nearly equal size."""
        queries = len(self.query_rows)
        for part in np.array_split(np.arange(len(self)), min(count, len(self))):
            yield self.query_rows[part[part < queries]], self.document_rows[part[part >= queries] - queries]

    def losses(self, vectors: Tensor, settings: LossSettings) -> Tensor:
        """Loss softmax of each list's positive among the batch's documents, [B]. `vectors` [A + R, H]: those of the
        queries first."""
        device, queries = vectors.device, len(self.query_rows)
        query_of, positive_of, left_out = (
            sent(torch.from_numpy(array), device) for array in (self.query_of, self.positive_of, self.left_out)
        )
        scores = vectors[:queries][query_of] @ vectors[queries:].T / settings.temperature
        logs = scores.masked_fill(left_out, -torch.inf).log_softmax(1).masked_fill(left_out, 0)
        right = logs.gather(1, positive_of[:, None]).squeeze(1)
        return smoothed(logs, right, (~left_out).sum(1), settings.label_smoothing)


class InBatchNegatives:
    """Lays out the batches of a training. `relevance_level`: the lowest relevant grade."""

    def __init__(self, batcher: Batcher, relevance_level: int):
        self.batcher, self.documents = batcher, len(batcher.text.documents)
        relevant = np.flatnonzero(batcher.split.grade >= relevance_level)
        self.relevant = self._keys(batcher.query_of_row[relevant], batcher.split.document[relevant])

    def _keys(self, queries: np.ndarray, documents: np.ndarray) -> np.ndarray:
        """A number for each pair of a query and a document."""
        return queries.astype(np.int64) * self.documents + documents

    def contrast(self, batch: Batch) -> Contrast:
        """The contrast of a batch of lists. Of the documents that are relevant to a query among its candidates, only
        the list's own stay."""
        lists = np.concatenate([batch.positive[:, None], batch.negative.reshape(len(batch.positive), -1)], axis=1)
        queries = self.batcher.query_of_row[batch.positive]
        query_rows, query_of = np.unique(queries, return_inverse=True)
        document_rows, index = np.unique(self.batcher.split.document[lists], return_inverse=True)
        rows = index.reshape(lists.shape)
        left_out = np.isin(self._keys(queries[:, None], document_rows), self.relevant)
        np.put_along_axis(left_out, rows, False, axis=1)
        return Contrast(query_rows, document_rows, query_of, rows[:, 0], left_out)
