"""Scoring many candidates: sorted by length, in batches of about equal work."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import torch

from trainables.errors import WorkFailed
from trainables.rankers.base import RankerModule, Tokens, on_device
from trainables.training.accumulation import attempt
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
    first_stage: np.ndarray | None = None,
) -> np.ndarray:
    """Scores of B query-document pairs given as token rows, float32 [B], in the order given; of a ranker with K
    classes their logits, float32 [B, K]. `first_stage`: the pairs' first-stage scores, float32 [B], for a ranker that
    reads them."""
    scores = np.empty(0, np.float32)
    if not len(query_rows):
        return scores
    module.eval()

    def scores_of(rows: np.ndarray) -> np.ndarray:
        inputs = module.collate(queries, documents, query_rows[rows], document_rows[rows])
        if first_stage is not None:
            inputs["first_stage"] = torch.from_numpy(first_stage[rows])
        output = module(**on_device(inputs, device))
        return output.float().cpu().numpy()

    costs = module.costs(queries, documents, query_rows, document_rows)
    with torch.inference_mode(), precision.autocast(device):
        for rows in _by_cost(costs, TOKENS_A_BATCH[device.type]):
            found = _halving(scores_of, rows, device)
            if not len(scores):
                scores = np.empty((len(query_rows), *found.shape[1:]), np.float32)
            scores[rows] = found
    return scores


def _halving(scores_of: Callable[[np.ndarray], np.ndarray], rows: np.ndarray, device: torch.device) -> np.ndarray:
    """scores_of(rows), in as many parts as the device's memory asks for. WorkFailed where one pair does not fit."""
    scores = attempt(lambda: scores_of(rows), device)
    if scores is not None:
        return scores
    if len(rows) == 1:
        raise WorkFailed(f"one pair does not fit in the memory of {device}; a smaller training.max_length may help")
    return np.concatenate([_halving(scores_of, half, device) for half in np.array_split(rows, 2)])


def _by_cost(costs: np.ndarray, budget: int) -> Iterator[np.ndarray]:
    """Positions grouped into batches of like cost whose padded size stays near the budget."""
    order = np.argsort(costs, kind="stable")
    start = 0
    while start < len(order):
        count = max(1, budget // max(1, int(costs[order[start]])))
        count = max(1, min(count, budget // max(1, int(costs[order[min(start + count, len(order)) - 1]]))))
        yield order[start : start + count]
        start += count
