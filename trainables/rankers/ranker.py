"""What every ranker provides: a text side built once per search, and a torch module built once per trial."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from trainables.data.columns import RankingData

WEIGHTS = "model.safetensors"


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


@dataclass(frozen=True, eq=False)
class TextSide:
    """What a ranker needs from a collection, as flat arrays that all trials share.

    `arrays`: e.g. word vectors float32 [V, D], needed only to build a fresh module (a saved module's
    weights hold them). `files`: small text files by name that a saved ranker carries so that it can
    read new texts (tokenizer.json, vocabulary.txt, ...).
    """

    queries: Tokens
    documents: Tokens
    files: Mapping[str, str]
    arrays: Mapping[str, np.ndarray] = field(default_factory=dict)


class RankerModule(nn.Module, ABC):
    """Scores query-document pairs, higher = more relevant; if built for K > 1 classes, gives their logits instead."""

    tolerates_bf16: ClassVar[bool] = False  # whether `training.precision: auto` may use bf16
    reads_first_stage: bool = False  # whether `forward` also takes `first_stage`, float32 [B]: the run's scores

    @abstractmethod
    def collate(
        self, queries: Tokens, documents: Tokens, query_rows: np.ndarray, document_rows: np.ndarray
    ) -> dict[str, Any]:
        """Inputs of `forward` for B pairs, given as rows of `queries` and `documents` (int [B] each): CPU tensors, and
        values that are read only on the CPU."""

    @abstractmethod
    def costs(
        self, queries: Tokens, documents: Tokens, query_rows: np.ndarray, document_rows: np.ndarray
    ) -> np.ndarray:
        """Padded length of each pair, int [B]: pairs of similar cost belong in one batch."""

    @abstractmethod
    def forward(self, **inputs: Any) -> Tensor:
        """Scores, float32 [B], or class logits, float32 [B, K]. Neither padding nor the rest of the batch
        changes them."""

    def parameter_groups(self, lr: float) -> list[dict[str, Any]]:
        """Optimiser groups; a ranker with several learning rates overrides this."""
        return [{"params": [p for p in self.parameters() if p.requires_grad], "lr": lr}]

    def merge_adapters(self) -> None:
        """Adds adapters, if there are any, to the weights beside which they were trained: what is saved has none."""
        return


class DualEncoder(RankerModule):
    """A ranker that encodes queries and documents apart: the score of a pair is the dot product of two vectors."""

    @abstractmethod
    def text_lengths(self, texts: Tokens, rows: np.ndarray) -> np.ndarray:
        """Tokens that are read of each text, special ones included, int [N]."""

    @abstractmethod
    def collate_texts(
        self, queries: Tokens, documents: Tokens, query_rows: np.ndarray, document_rows: np.ndarray
    ) -> dict[str, Any]:
        """Inputs of `embed` for Q queries and D documents, given as rows; one of them may be none."""

    @abstractmethod
    def embed(self, **inputs: Any) -> Tensor:
        """Vectors float32 [Q + D, H], those of the queries first."""

    def collate(
        self, queries: Tokens, documents: Tokens, query_rows: np.ndarray, document_rows: np.ndarray
    ) -> dict[str, Any]:
        """Inputs of `embed` for the distinct texts of B pairs, and which vectors are a pair's: `query_of` and
        `document_of`, int64 [B]."""
        asked, query_of = np.unique(query_rows, return_inverse=True)
        read, document_of = np.unique(document_rows, return_inverse=True)
        pairs = {"query_of": query_of, "document_of": len(asked) + document_of}
        inputs = self.collate_texts(queries, documents, asked, read)
        return inputs | {name: torch.from_numpy(index) for name, index in pairs.items()}

    def costs(
        self, queries: Tokens, documents: Tokens, query_rows: np.ndarray, document_rows: np.ndarray
    ) -> np.ndarray:
        """Tokens of the longer text of each pair."""
        return np.maximum(self.text_lengths(queries, query_rows), self.text_lengths(documents, document_rows))

    def views(self, vectors: Tensor) -> list[Tensor]:
        """The forms of the vectors at each of which the loss is trained; itself alone, unless a ranker has others."""
        return [vectors]

    def forward(self, query_of: Tensor, document_of: Tensor, **inputs: Any) -> Tensor:
        """Scores [B]; in training, of several views [V, B]."""
        scores = [(view[query_of] * view[document_of]).sum(1) for view in self.views(self.embed(**inputs))]
        return scores[0] if len(scores) == 1 else torch.stack(scores)


class FeatureModule(RankerModule):
    """A ranker that scores a pair by a few numbers, its features.

    fixed_features  what these follow from beside the texts; None: training moves them
    """

    fixed_features: tuple[object, ...] | None = None

    @abstractmethod
    def features(self, **inputs: Any) -> Tensor:
        """Features of B pairs, float32 [B, F], from the tensors of `collate`."""

    @abstractmethod
    def scored(self, features: Tensor, first_stage: Tensor | None) -> Tensor:
        """Scores [B], or class logits [B, K]. `first_stage`: as `forward` takes it."""

    def forward(self, features: Tensor | None = None, first_stage: Tensor | None = None, **inputs: Tensor) -> Tensor:
        """Takes the tensors of `collate`, or `features` in their place, and first_stage [B] if the module reads it."""
        return self.scored(self.features(**inputs) if features is None else features, first_stage)


def on_device(inputs: Mapping[str, Any], device: torch.device) -> dict[str, Any]:
    """Inputs of `forward` with their tensors on a device."""
    return {name: sent(value, device) if torch.is_tensor(value) else value for name, value in inputs.items()}


def sent(values: Tensor, device: torch.device) -> Tensor:
    """A CPU tensor, moved to a device. It is pinned for a GPU: CUDA may wait for larger tensors that are not."""
    return (values.pin_memory() if device.type == "cuda" else values).to(device, non_blocking=True)


class Head(nn.Linear):
    """The last layer of a ranker: features [..., D] to scores [...] (one output), or to class logits [..., K]."""

    def __init__(self, features: int, outputs: int = 1):
        super().__init__(features, outputs)

    def forward(self, input: Tensor) -> Tensor:
        result = super().forward(input)
        return result.squeeze(-1) if self.out_features == 1 else result


class Ranker(ABC):
    """A kind of network over texts. Stateless; `settings` are the validated `ranker.*` keys."""

    @abstractmethod
    def prepare(self, data: RankingData, settings: Any, seed: int) -> TextSide:
        """Vocabulary, vectors and token ids of a whole data set; deterministic under the seed."""

    def weights_identity(self, settings: Any) -> list[object]:
        """What identifies the files of weights that `build` reads, beyond their name in `settings`."""
        return []

    @abstractmethod
    def encode(self, files: Mapping[str, str], settings: Any, texts: Iterable[str]) -> Tokens:
        """Token ids of new texts with a saved ranker's files."""

    def encode_queries(self, files: Mapping[str, str], settings: Any, texts: Iterable[str]) -> Tokens:
        """Token ids of new queries; as of other texts, unless a ranker reads queries in another way."""
        return self.encode(files, settings, texts)

    @abstractmethod
    def build(self, text: TextSide, settings: Any, max_length: int, outputs: int = 1) -> RankerModule:
        """A fresh module, initialised from torch's current random state (set by the caller). For `open`, the text side
        has files alone.

        `outputs`: 1 for scores [B]; K > 1 for logits [B, K] of that many classes.
        """

    def write(
        self, module: RankerModule, files: Mapping[str, str], classes: Sequence[str], folder: Path
    ) -> Mapping[str, str]:
        """Writes a trained module into a folder, if there is one in the form of other libraries, and returns those text
        files that the folder does not hold. `classes`: empty if it ranks."""
        weights = {name: tensor.detach().cpu().contiguous() for name, tensor in module.state_dict().items()}
        save_file(weights, folder / WEIGHTS)
        return files

    def open(
        self, folder: Path, files: dict[str, str], settings: Any, max_length: int, outputs: int
    ) -> tuple[RankerModule, dict[str, str]]:
        """The module of a folder by `write`, with its weights, and its text files. `files`: what `write` returned."""
        nothing = Tokens.of(())
        module = self.build(TextSide(nothing, nothing, files), settings, max_length, outputs)
        module.load_state_dict(load_file(folder / WEIGHTS))
        return module, files


def padded_rows(
    tokens: Tokens, rows: np.ndarray, limit: int | np.ndarray, pad: int = 0, last: bool = False
) -> tuple[Tensor, Tensor]:
    """First (or `last`) `limit` tokens of each row, right-padded: ids int64 [B, L], mask bool [B, L] (L >= 1).

    `limit` is one number for all rows, or one per row, int [B].
    """
    ends = tokens.offsets[rows + 1]
    lengths = np.minimum(ends - tokens.offsets[rows], limit)
    starts = ends - lengths if last else tokens.offsets[rows]
    width = max(1, int(lengths.max(initial=0)))
    mask = np.arange(width) < lengths[:, None]
    ids = np.full(mask.shape, pad, np.int64)
    ids[mask] = tokens.ids[(starts[:, None] + np.arange(width))[mask]]
    return torch.from_numpy(ids), torch.from_numpy(mask)
