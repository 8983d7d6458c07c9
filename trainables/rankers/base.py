"""What every ranker provides: a text side built once a search, and a torch module built once a trial."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import torch
from pydantic import BaseModel, ConfigDict
from torch import Tensor, nn

from trainables.data.columns import RankingData


class RankerSettings(BaseModel):
    """The `ranker.*` keys of one ranker; subclasses add theirs."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    name: str


@dataclass(frozen=True)
class Tokens:
    """Token ids of N texts. `ids`: int32 [tokens]; `offsets`: int64 [N + 1]."""

    ids: np.ndarray
    offsets: np.ndarray

    @classmethod
    def of(cls, texts: Iterable[Iterable[int]]) -> Tokens:
        rows = [np.asarray(row, np.int32) for row in texts]
        ids = np.concatenate(rows) if rows else np.empty(0, np.int32)
        return cls(ids, np.concatenate([[0], np.cumsum([len(row) for row in rows])]).astype(np.int64))

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def lengths(self) -> np.ndarray:
        return np.diff(self.offsets)


@dataclass(frozen=True)
class TextSide:
    """What a ranker needs of a collection, as flat arrays that all trials share.

    `arrays`: e.g. word vectors float32 [V, D], needed to build a fresh module only (a saved module's
    weights hold them). `files`: small text files by name that a saved ranker carries so that it can
    read new texts (tokenizer.json, vocabulary.txt, ...).
    """

    queries: Tokens
    documents: Tokens
    files: Mapping[str, str]
    arrays: Mapping[str, np.ndarray] = field(default_factory=dict)


class RankerModule(nn.Module, ABC):
    """Scores query-document pairs; higher = more relevant."""

    tolerates_bf16: ClassVar[bool] = False  # whether `training.precision: auto` may use bf16

    @abstractmethod
    def collate(
        self, queries: Tokens, documents: Tokens, query_rows: np.ndarray, document_rows: np.ndarray
    ) -> dict[str, Tensor]:
        """CPU tensors for `forward` from B pairs, given as rows of `queries` and `documents` (int [B] each)."""

    @abstractmethod
    def costs(
        self, queries: Tokens, documents: Tokens, query_rows: np.ndarray, document_rows: np.ndarray
    ) -> np.ndarray:
        """Padded length of each pair, int [B]: pairs of like cost belong in one batch."""

    @abstractmethod
    def forward(self, **inputs: Tensor) -> Tensor:
        """Scores, float32 [B]. Neither padding nor the rest of the batch changes a score."""

    def parameter_groups(self, lr: float) -> list[dict[str, Any]]:
        """Optimiser groups; a ranker with several learning rates overrides this."""
        return [{"params": [p for p in self.parameters() if p.requires_grad], "lr": lr}]


class Ranker(ABC):
    """A kind of ranker. Stateless; `settings` are the validated `ranker.*` keys."""

    Settings: ClassVar[type[RankerSettings]]

    @abstractmethod
    def prepare(self, data: RankingData, settings: Any, seed: int) -> TextSide:
        """Vocabulary, vectors and token ids of a whole data set; deterministic under the seed."""

    @abstractmethod
    def encode(self, files: Mapping[str, str], settings: Any, texts: Iterable[str]) -> Tokens:
        """Token ids of new texts with a saved ranker's files."""

    @abstractmethod
    def build(self, text: TextSide, settings: Any, max_length: int) -> RankerModule:
        """A fresh module, initialised from torch's current random state (set by the caller)."""

    @abstractmethod
    def restore(self, files: Mapping[str, str], settings: Any, max_length: int) -> RankerModule:
        """A module of the saved shape, whose weights the caller loads next (no downloads)."""


def take(
    tokens: Tokens, rows: np.ndarray, limit: int | np.ndarray, pad: int = 0, last: bool = False
) -> tuple[Tensor, Tensor]:
    """First (or `last`) `limit` tokens of each row, right-padded: ids int64 [B, L], mask bool [B, L] (L >= 1).

    `limit` holds for all rows, or is one number a row, int [B].
    """
    ends = tokens.offsets[rows + 1]
    lengths = np.minimum(ends - tokens.offsets[rows], limit)
    starts = ends - lengths if last else tokens.offsets[rows]
    width = max(1, int(lengths.max(initial=0)))
    mask = np.arange(width) < lengths[:, None]
    ids = np.full(mask.shape, pad, np.int64)
    ids[mask] = tokens.ids[(starts[:, None] + np.arange(width))[mask]]
    return torch.from_numpy(ids), torch.from_numpy(mask)
