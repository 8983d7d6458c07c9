"""What rankers over word vectors share: the table of vectors, and batches that read each query once."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from trainables.data.columns import RankingData
from trainables.rankers.base import Ranker, RankerModule, TextSide, Tokens, take
from trainables.rankers.pairs import keeps_latest
from trainables.rankers.settings import WordSettings
from trainables.rankers.vectors import PADDING, reads_from_front, table_shape, word_text_side, word_tokens


class WordRankerModule(RankerModule):
    """Rankers that compare the words of a query with those of a document.

    `vectors`: float32 [rows, D], row 0 (padding) all zeros; frozen ones may be in memory that others read, and are not
    written to: a loaded state replaces them. Subclasses' `forward` takes the tensors of `collate`.
    """

    def __init__(self, vectors: Tensor, settings: WordSettings, max_length: int, from_front: bool):
        super().__init__()
        self.max_query_length, self.max_length, self.from_front = settings.max_query_length, max_length, from_front
        self.vectors = nn.Embedding.from_pretrained(vectors, freeze=not settings.train_vectors, padding_idx=PADDING)
        if not settings.train_vectors:
            self.vectors.register_load_state_dict_pre_hook(_move_out)
        if settings.train_vectors and settings.unknown == "zero":
            # Words that match nothing shall go on doing so. Besides, the gradient of a cosine is 10^12 times too large
            # at a zero vector, and clipping would shrink all other gradients to nothing.
            self.register_buffer("zeros", (vectors == 0).all(1, keepdim=True), persistent=False)
            self.vectors.weight.register_hook(lambda grad: grad.masked_fill(self.zeros, 0))

    def collate(
        self, queries: Tokens, documents: Tokens, query_rows: np.ndarray, document_rows: np.ndarray
    ) -> dict[str, Tensor]:
        """Each distinct query once: query int64 [Q, Lq], query_mask bool [Q, Lq], query_of int64 [B] (which query a
        pair has), document int64 [B, Ld], document_mask bool [B, Ld]."""
        unique, query_of = np.unique(query_rows, return_inverse=True)
        query, query_mask = take(queries, unique, self.max_query_length, PADDING, last=self.from_front)
        document, document_mask = take(documents, document_rows, self.max_length, PADDING)
        return {
            "query": query,
            "query_mask": query_mask,
            "query_of": torch.from_numpy(query_of),
            "document": document,
            "document_mask": document_mask,
        }

    def costs(
        self, queries: Tokens, documents: Tokens, query_rows: np.ndarray, document_rows: np.ndarray
    ) -> np.ndarray:
        """Document words, which cause nearly all of the work."""
        return np.clip(documents.lengths[document_rows], 1, self.max_length)


def _move_out(vectors: nn.Embedding, state: Mapping[str, Tensor], prefix: str, *_: Any) -> None:
    """Before a state is loaded: gives frozen vectors memory of their own if the state has others."""
    if f"{prefix}weight" in state:
        vectors.weight = nn.Parameter(torch.empty_like(vectors.weight), requires_grad=False)


def table_of(text: TextSide, settings: WordSettings) -> Tensor:
    """The text side's word vectors, float32 [rows, D]: a copy if they are trained, else the memory that all trainings
    of a machine read. That may be read-only, in a file or in Ray's object store: a write would end the process."""
    if settings.train_vectors:
        return torch.tensor(text.arrays["vectors"])
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The given NumPy array is not writable")
        return torch.from_numpy(text.arrays["vectors"])


class WordRanker(Ranker):
    """A kind of ranker whose `Module(vectors, settings, max_length, from_front, outputs)` is a WordRankerModule."""

    Module: ClassVar[type[Any]]

    def prepare(self, data: RankingData, settings: WordSettings, seed: int) -> TextSide:
        from_front = keeps_latest(data, settings.keep)
        return word_text_side(
            data,
            settings.vectors,
            settings.vector_size,
            from_front,
            seed,
            settings.unknown,
            settings.unknown_deviation,
            settings.word2vec,
        )

    def encode(self, files: Mapping[str, str], settings: WordSettings, texts: Iterable[str]) -> Tokens:
        return word_tokens(files, texts)

    def build(self, text: TextSide, settings: WordSettings, max_length: int, outputs: int = 1) -> WordRankerModule:
        vectors = table_of(text, settings)
        return self.Module(vectors, settings, max_length, reads_from_front(text.files), outputs)

    def restore(
        self, files: Mapping[str, str], settings: WordSettings, max_length: int, outputs: int = 1
    ) -> WordRankerModule:
        return self.Module(torch.zeros(table_shape(files)), settings, max_length, reads_from_front(files), outputs)
