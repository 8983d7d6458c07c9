"""How many candidates are scored: which pairs share a batch, how large batches are, and that no score is missing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from trainables.rankers.ranker import RankerModule, Tokens
from trainables.training.device import Precision
from trainables.training.scoring import TOKENS_A_BATCH, Scorer

CPU = torch.device("cpu")
BUDGET = TOKENS_A_BATCH["cpu"]
FP32 = Precision(None, "fp32: asked for")
QUERIES = Tokens(np.array([7], np.int32), np.array([0, 1]))


class Lengths(RankerModule):
    """A pair's score is its document's row, or its first-stage score. `room`: tokens that fit in memory."""

    reads_first_stage = True

    def __init__(self, classes: int = 1, room: int = 1 << 60):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.eye(1))
        self.classes, self.room = classes, room
        self.batches: list[list[int]] = []

    def costs(self, queries: Tokens, documents: Tokens, query_rows: np.ndarray, document_rows: np.ndarray) -> Any:
        return documents.lengths[document_rows]

    def collate(self, queries: Tokens, documents: Tokens, query_rows: np.ndarray, document_rows: np.ndarray) -> Any:
        return {"rows": torch.from_numpy(document_rows), "lengths": torch.from_numpy(documents.lengths[document_rows])}

    def forward(self, rows: Tensor, lengths: Tensor, first_stage: Tensor | None = None) -> Tensor:
        self.batches.append(rows.tolist())
        if len(rows) * int(lengths.max()) > self.room:
            raise torch.OutOfMemoryError("tried to allocate 1 PiB")
        scores = (rows if first_stage is None else first_stage)[:, None].float() @ self.weight
        return scores[:, 0] if self.classes == 1 else scores + torch.arange(self.classes)


def scored(
    module: Lengths, lengths: list[int], precision: Precision = FP32, first_stage: np.ndarray | None = None
) -> np.ndarray:
    """Scores of pairs of these lengths."""
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    documents, rows = Tokens(np.zeros(offsets[-1], np.int32), offsets), np.arange(len(lengths))
    return Scorer(module, CPU, precision).pairs(QUERIES, documents, np.zeros_like(rows), rows, first_stage)


@pytest.mark.parametrize("classes", [1, 3])
def test_every_pair_gets_its_own_score_in_the_order_given(classes: int) -> None:
    module = Lengths(classes)
    lengths = np.random.default_rng(1).integers(0, 300, 2000).tolist()
    scores = scored(module, lengths)
    assert len(module.batches) > 20 and scores.dtype == np.float32
    expected = np.arange(2000.0) if classes == 1 else np.arange(2000.0)[:, None] + np.arange(3)
    np.testing.assert_array_equal(scores, expected)


def test_a_first_stage_score_goes_with_its_pair() -> None:
    lengths = np.random.default_rng(2).integers(1, 300, 200).tolist()
    first_stage = np.random.default_rng(3).random(200, np.float32)
    np.testing.assert_array_equal(scored(Lengths(), lengths, first_stage=first_stage), first_stage)


def test_batches_are_as_large_as_the_budget_and_no_larger() -> None:
    """A pair that is longer than the budget has a batch of its own; empty texts share one."""
    module, full = Lengths(), BUDGET // 16
    for lengths in ([16] * (2 * full + 44), [16] * full + [BUDGET // 2] * 3, [BUDGET + 1, 3 * BUDGET], [0] * 3):
        scored(module, lengths)
    assert [len(batch) for batch in module.batches] == [full, full, 44, full, 2, 1, 1, 1, 3]
    for seed in range(20):
        generator = np.random.default_rng(seed)
        module, lengths = Lengths(), generator.integers(0, generator.integers(2, BUDGET), 300).tolist()
        scored(module, lengths)
        assert all(len(batch) == 1 or len(batch) * lengths[batch[-1]] <= BUDGET for batch in module.batches)


def test_memory_that_proves_too_small_halves_the_batches_for_good() -> None:
    """Half of the batch's padded size fits: an empty text in it does not change that."""
    module, half = Lengths(room=BUDGET // 2), BUDGET // 2 // 16
    np.testing.assert_array_equal(scored(module, [16] * (3 * half + 8) + [0]), np.arange(3.0 * half + 9))
    assert [len(batch) for batch in module.batches] == [2 * half, half, half, half, 9]


def test_bf16_is_computed_where_it_is_chosen_and_the_scores_are_float32() -> None:
    module = Lengths()
    scores = scored(module, [3] * 600, Precision(torch.bfloat16, "bf16: asked for"))
    assert scores.dtype == np.float32
    np.testing.assert_array_equal(scores, torch.arange(600.0).bfloat16().float().numpy())
    assert not np.array_equal(scores, scored(module, [3] * 600))
