"""Scoring many candidates: sorted by length, in batches of about equal work."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch

from trainables.rankers.base import RankerModule, Tokens
from trainables.training.precision import Precision

TOKENS_A_BATCH = {"cpu": 2048, "cuda": 131072}


def score_candidates(
    module: RankerModule,
    queries: Tokens,
    documents: Tokens,
    query_rows: np.ndarray,
    document_rows: np.ndarray,
    device: torch.device,
    precision: Precision,
) -> np.ndarray:
    """Scores of B query-document pairs given as token rows, float32 [B], in the order given."""
    scores = np.empty(len(query_rows), np.float32)
    if not len(query_rows):
        return scores
    module.eval()
    costs = module.costs(queries, documents, query_rows, document_rows)
    with torch.inference_mode(), precision.autocast(device):
        for rows in _by_cost(costs, TOKENS_A_BATCH[device.type]):
            inputs = module.collate(queries, documents, query_rows[rows], document_rows[rows])
            output = module(**{name: tensor.to(device, non_blocking=True) for name, tensor in inputs.items()})
            scores[rows] = output.float().cpu().numpy()
    return scores


def _by_cost(costs: np.ndarray, budget: int) -> Iterator[np.ndarray]:
    """Positions grouped into batches of like cost whose padded size stays near the budget."""
    order = np.argsort(costs, kind="stable")
    start = 0
    while start < len(order):
        count = max(1, budget // max(1, int(costs[order[start]])))
        count = max(1, min(count, budget // max(1, int(costs[order[min(start + count, len(order)) - 1]]))))
        yield order[start : start + count]
        start += count
