"""Scoring many candidates: sorted by length, in batches of about equal work."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
import torch
from torch import Tensor

from trainables.errors import WorkFailed
from trainables.rankers.base import RankerModule, Tokens, on_device
from trainables.training.accumulation import Lack, attempt
from trainables.training.precision import Precision

TOKENS_A_BATCH = {"cpu": 2048, "cuda": 32768}


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
    """Scores of B query-document pairs given as token rows, float32 [B], in the order given; for a ranker with K
    classes, their logits, float32 [B, K]. `first_stage`: the pairs' first-stage scores, float32 [B], for a ranker that
    reads them."""
    if not len(query_rows):
        return np.empty(0, np.float32)
    module.eval()

    def scores_of(rows: np.ndarray) -> Tensor:
        inputs = module.collate(queries, documents, query_rows[rows], document_rows[rows])
        if first_stage is not None:
            inputs["first_stage"] = torch.from_numpy(first_stage[rows])
        return module(**on_device(inputs, device)).float()

    costs = module.costs(queries, documents, query_rows, document_rows)
    order = np.argsort(costs, kind="stable")
    with torch.inference_mode(), precision.autocast(device):
        found = torch.cat(list(_in_batches(scores_of, costs, order, device))).cpu().numpy()  # one wait for the device
    scores = np.empty_like(found)
    scores[order] = found
    return scores


def _in_batches(
    scores_of: Callable[[np.ndarray], Tensor], costs: np.ndarray, order: np.ndarray, device: torch.device
) -> Iterator[Tensor]:
    """Yields the scores of the pairs batch by batch, in `order`, the cheapest first. Each time the device runs out of
    memory, the padded size of the batches is lowered. Raises WorkFailed if one pair alone does not fit."""
    budget, start = TOKENS_A_BATCH[device.type], 0
    while start < len(order):
        rows = order[start : start + _fitting(costs, order[start:], budget)]
        scores = attempt(partial(scores_of, rows), device)
        if not isinstance(scores, Lack):
            start += len(rows)
            yield scores
        elif len(rows) > 1:
            budget = len(rows) // 2 * int(costs[rows[-1]])
        else:
            right = "a smaller training.max_length may help"
            raise WorkFailed(f"one pair does not fit in the memory of {device} ({scores.words}); {right}")


def _fitting(costs: np.ndarray, order: np.ndarray, budget: int) -> int:
    """How many pairs from the start of `order` (cheapest first) make a batch of padded size `budget`; at least one."""
    count = max(1, budget // max(1, int(costs[order[0]])))
    return max(1, min(count, budget // max(1, int(costs[order[min(count, len(order)) - 1]]))))
