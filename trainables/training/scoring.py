"""Scores of query-document pairs and nearest documents, in batches of similar length that fit in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from weakref import WeakKeyDictionary

import numpy as np
import torch
from torch import Tensor

from trainables.core.cache import digest_of
from trainables.core.errors import WorkFailed
from trainables.data.columns import Split
from trainables.rankers.first_stage import first_stage_for
from trainables.rankers.ranker import DualEncoder, FeatureModule, RankerModule, TextSide, Tokens, on_device
from trainables.training.device import Precision
from trainables.training.memory import Lack, attempt

TOKENS_A_BATCH = {"cpu": 8192, "cuda": 32768}
PAIRS_A_BLOCK = 1 << 16  # compared at a time: with 1,024 numbers a vector, 512 MB
DOCUMENTS_A_BLOCK, SCORES_A_BLOCK = 1 << 16, 1 << 25  # scored at a time: 128 MB of scores
SPLITS_KEPT = 6  # of a text side, whose features are kept
NO_ROWS = np.empty(0, np.int64)


@dataclass(frozen=True)
class Scorer:
    """A network in evaluation mode, and what it computes with."""

    module: RankerModule
    device: torch.device
    precision: Precision

    def candidates(
        self, text: TextSide, split: Split, rows: np.ndarray | None = None, features: Tensor | None = None
    ) -> np.ndarray:
        """Scores of a split's candidates, of all or of some rows, float32 [rows]; or class logits, [rows, K].
        `features`: those of all candidates, where they are known."""
        first_stage = first_stage_for(self.module, split)
        if rows is None:
            rows, features = np.arange(len(split.document)), fixed_features(self, text, split)
        first_stage = None if first_stage is None else first_stage[rows]
        if features is not None:
            return self._of_features(features[torch.from_numpy(rows)], first_stage)
        queries, read = split.query[split.owner[rows]], split.document[rows]
        return self.pairs(text.queries, text.documents, queries, read, first_stage)

    def pairs(
        self,
        queries: Tokens,
        documents: Tokens,
        query_rows: np.ndarray,
        document_rows: np.ndarray,
        first_stage: np.ndarray | None = None,
    ) -> np.ndarray:
        """Scores of B query-document pairs given as token rows, float32 [B], in the order given; for a ranker with K
        classes, their logits, float32 [B, K]. `first_stage`: the pairs' first-stage scores, float32 [B], for a ranker
        that reads them."""
        if not len(query_rows):
            return np.empty(0, np.float32)
        module = self.module.eval()
        if isinstance(module, DualEncoder):
            return self._compared(queries, documents, query_rows, document_rows)

        def scores_of(rows: np.ndarray) -> Tensor:
            inputs = module.collate(queries, documents, query_rows[rows], document_rows[rows])
            if first_stage is not None:
                inputs["first_stage"] = torch.from_numpy(first_stage[rows])
            return module(**on_device(inputs, self.device)).float()

        return self._computed(scores_of, module.costs(queries, documents, query_rows, document_rows))

    def _of_features(self, features: Tensor, first_stage: np.ndarray | None) -> np.ndarray:
        """Scores of B pairs, as `pairs` gives them, from what `features` gave."""
        module = self.module.eval()
        inputs = {"features": features}
        if first_stage is not None:
            inputs["first_stage"] = torch.from_numpy(first_stage)
        with torch.inference_mode(), self.precision.autocast(self.device):
            return module(**on_device(inputs, self.device)).float().cpu().numpy()

    def features(
        self, queries: Tokens, documents: Tokens, query_rows: np.ndarray, document_rows: np.ndarray
    ) -> np.ndarray:
        """What a FeatureModule reads of B pairs, float32 [B, F]."""
        module = self.module.eval()
        assert isinstance(module, FeatureModule)

        def of_rows(rows: np.ndarray) -> Tensor:
            inputs = module.collate(queries, documents, query_rows[rows], document_rows[rows])
            return module.features(**on_device(inputs, self.device)).float()

        return self._computed(of_rows, module.costs(queries, documents, query_rows, document_rows))

    def _compared(
        self, queries: Tokens, documents: Tokens, query_rows: np.ndarray, document_rows: np.ndarray
    ) -> np.ndarray:
        """Scores of B pairs, float32 [B]; each distinct text is encoded once."""
        asked, query_of = np.unique(query_rows, return_inverse=True)
        read, document_of = np.unique(document_rows, return_inverse=True)
        vectors, others = self._vectors(queries, asked), self._vectors(documents, read, of_documents=True)
        scores = np.empty(len(query_rows), np.float32)
        for start in range(0, len(scores), PAIRS_A_BLOCK):
            part = slice(start, start + PAIRS_A_BLOCK)
            np.einsum("bh,bh->b", vectors[query_of[part]], others[document_of[part]], out=scores[part])
        return scores

    def nearest(
        self, queries: Tokens, documents: Tokens, query_rows: np.ndarray, depth: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """The `depth` documents of highest score for each of Q queries (all, if there are fewer), best first: their
        rows, int32 [Q K], and scores, float32 [Q K]. Exact: every query is compared with every document."""
        self.module.eval()
        asked = torch.from_numpy(self._vectors(queries, query_rows)).to(self.device)
        read = torch.from_numpy(self._vectors(documents, np.arange(len(documents)), of_documents=True))
        width = min(len(read), DOCUMENTS_A_BLOCK)
        parts = [_nearest_of(part, read, depth) for part in asked.split(max(1, SCORES_A_BLOCK // width))]
        scores, index = (torch.cat(side).cpu().numpy().ravel() for side in zip(*parts, strict=True))
        return index.astype(np.int32), scores

    def _vectors(self, texts: Tokens, rows: np.ndarray, of_documents: bool = False) -> np.ndarray:
        """Vectors of queries, or of documents, float32 [rows, H]."""
        module = self.module
        assert isinstance(module, DualEncoder)

        def embedded(part: np.ndarray) -> Tensor:
            both = (NO_ROWS, rows[part]) if of_documents else (rows[part], NO_ROWS)
            return module.embed(**on_device(module.collate_texts(texts, texts, *both), self.device))

        return self._computed(embedded, module.text_lengths(texts, rows))

    def _computed(self, values_of: Callable[[np.ndarray], Tensor], costs: np.ndarray) -> np.ndarray:
        """Values [N, ...] of N pairs or texts, in their order, computed in batches of similar cost."""
        order = np.argsort(costs, kind="stable")
        with torch.inference_mode(), self.precision.autocast(self.device):
            by_cost = torch.cat(list(_in_batches(values_of, costs, order, self.device)))
            by_cost = by_cost.cpu().numpy()  # one wait for the device
        values = np.empty_like(by_cost)
        values[order] = by_cost
        return values


# By text side: the features of splits' candidates, float32 [C, F], that a process has computed.
_features: WeakKeyDictionary[TextSide, dict[tuple[object, ...], Tensor]] = WeakKeyDictionary()


def fixed_features(scorer: Scorer, text: TextSide, split: Split) -> Tensor | None:
    """Features of all candidates of a split, float32 [C, F], computed once in a process: all trainings have the same.
    None for a ranker whose features training moves."""
    module = scorer.module
    if not isinstance(module, FeatureModule) or module.fixed_features is None or not len(split.document):
        return None
    queries = split.query[split.owner]
    key = (*module.fixed_features, scorer.device.type, digest_of(queries, split.document))
    computed = _features.setdefault(text, {})
    if key not in computed:
        while len(computed) >= SPLITS_KEPT:
            computed.pop(next(iter(computed)))
        computed[key] = torch.from_numpy(scorer.features(text.queries, text.documents, queries, split.document))
    return computed[key]


def _nearest_of(queries: Tensor, documents: Tensor, depth: int) -> tuple[Tensor, Tensor]:
    """Highest scores [Q, K] and their documents [Q, K], best first; `documents` [N, H] come to the device in blocks."""
    device, start = queries.device, 0
    scores, index = queries.new_empty(len(queries), 0), torch.empty(len(queries), 0, dtype=torch.int64, device=device)
    for block in documents.split(DOCUMENTS_A_BLOCK):
        places = torch.arange(start, start := start + len(block), device=device).expand(len(queries), -1)
        scores = torch.cat([scores, queries @ block.to(device).T], 1)
        scores, best = scores.topk(min(depth, scores.shape[1]), 1)
        index = torch.cat([index, places], 1).gather(1, best)
    return scores, index


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
