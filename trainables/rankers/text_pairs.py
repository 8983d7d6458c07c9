"""Query-document pairs as one token sequence: where special tokens go, and what truncation keeps."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
import torch
from tokenizers import Tokenizer
from torch import Tensor

from trainables.core.cache import cached, load_arrays, save_arrays
from trainables.data.columns import RankingData
from trainables.rankers.ranker import TextSide, Tokens, padded_rows
from trainables.rankers.settings import Keep


def keeps_latest(data: RankingData, keep: Keep) -> bool:
    """Whether long queries lose their first tokens: only if the data set has queries of several utterances."""
    return keep == "latest" and bool((data.turns > 1).any())


def truncated(query: np.ndarray, document: np.ndarray, limit: int) -> tuple[np.ndarray, np.ndarray]:
    """Lengths to keep, summing to at most `limit`, of two texts of lengths int [B].

    Equals popping one token at a time off the longer text, or off the document if both are equally
    long (the `longest_first` truncation of BERT's sentence pairs).
    """
    query_lengths = np.minimum(query, np.maximum(limit - document, limit - limit // 2))
    document_lengths = np.minimum(document, np.maximum(limit - query, limit // 2))
    return query_lengths, document_lengths


@dataclass(frozen=True)
class PairTemplate:
    """Special tokens around the two texts of a pair, e.g. [CLS] query [SEP] document [SEP].

    `second_segment`: whether the document has token type 1. `longest`: most tokens that the encoder reads.
    `pad`: id of padding. `from_front`: whether a truncated query loses its first tokens, not its last.
    """

    before: tuple[int, ...]
    between: tuple[int, ...]
    after: tuple[int, ...]
    second_segment: bool
    longest: int
    pad: int
    from_front: bool

    @classmethod
    def of(cls, tokenizer: Tokenizer, longest: int, pad: int, from_front: bool) -> PairTemplate:
        """Reads the template off a pair that the tokenizer's own post-processor encodes."""
        pair = tokenizer.encode("a", "a")
        query, document = (np.flatnonzero([i == side for i in pair.sequence_ids]) for side in (0, 1))
        return cls(
            before=tuple(pair.ids[: query[0]]),
            between=tuple(pair.ids[query[-1] + 1 : document[0]]),
            after=tuple(pair.ids[document[-1] + 1 :]),
            second_segment=bool(pair.type_ids[document[0]] == 1),
            longest=longest,
            pad=pad,
            from_front=from_front,
        )

    @classmethod
    def of_text(cls, tokenizer: Tokenizer, pad: int, from_front: bool) -> PairTemplate:
        """The special tokens around one text, as those of a pair whose document is empty."""
        one = tokenizer.encode("a")
        text = np.flatnonzero([index == 0 for index in one.sequence_ids])
        before, after = tuple(one.ids[: text[0]]), tuple(one.ids[text[-1] + 1 :])
        return cls(before, (), after, False, 0, pad, from_front)

    @classmethod
    def from_json(cls, text: str) -> PairTemplate:
        fields = json.loads(text)
        return cls(**fields | {side: tuple(fields[side]) for side in ("before", "between", "after")})

    def typed(self, segments: bool) -> PairTemplate:
        """The template for a model with segments, or without."""
        return replace(self, second_segment=self.second_segment and segments)

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @property
    def specials(self) -> int:
        return len(self.before) + len(self.between) + len(self.after)

    def lengths(self, queries: np.ndarray, documents: np.ndarray, max_length: int) -> tuple[np.ndarray, np.ndarray]:
        """Kept lengths of the two texts, int [B] each, when the pair has at most `max_length` tokens."""
        return truncated(queries, documents, max_length - self.specials)

    def cut(
        self, queries: np.ndarray, documents: np.ndarray, max_length: int
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """How documents are cut into passages: kept query length, passage length, number of passages; int [B] each.

        A document longer than the room that the (truncated) query leaves is cut into the fewest equal parts that
        fit; the last one is shorter if the tokens do not divide evenly (as in MacAvaney et al.'s code).
        """
        query, _ = self.lengths(queries, documents, max_length)
        room = np.maximum(1, max_length - self.specials - query)  # a query may leave no room to an empty document
        count = np.maximum(1, -(-documents // room))
        return query, -(-documents // count), count

    def assemble(
        self,
        queries: Tokens,
        documents: Tokens,
        query_rows: np.ndarray,
        document_rows: np.ndarray,
        max_length: int,
        passages_of: int | None = None,
    ) -> dict[str, Tensor]:
        """`input_ids` and `token_type_ids` int64 [B, L], `attention_mask` bool [B, L], right-padded.

        With `passages_of`, that many first tokens of a document are read, in passages: one row per passage, a pair's
        rows together, and `passages` int64 [B] counts them.
        """
        lengths = queries.lengths[query_rows], documents.lengths[document_rows]
        if passages_of is None:
            query_lengths, document_lengths = self.lengths(*lengths, max_length)
            query, query_mask = padded_rows(queries, query_rows, query_lengths, last=self.from_front)
            document, document_mask = padded_rows(documents, document_rows, document_lengths)
            return self.laid_out(query[query_mask], query_lengths, document[document_mask], document_lengths)
        read = np.minimum(lengths[1], passages_of)
        query_lengths, size, count = self.cut(lengths[0], read, max_length)
        document, document_mask = padded_rows(documents, document_rows, read)
        repeated = np.repeat(query_lengths, count)
        query, query_mask = padded_rows(queries, np.repeat(query_rows, count), repeated, last=self.from_front)
        sizes = np.repeat(size, count)
        last = np.cumsum(count) - 1
        sizes[last] = read - (count - 1) * size
        inputs = self.laid_out(query[query_mask], repeated, document[document_mask], sizes)
        return inputs | {"passages": torch.from_numpy(count.astype(np.int64))}

    def laid_out(
        self, query: Tensor, query_lengths: np.ndarray, document: Tensor, document_lengths: np.ndarray
    ) -> dict[str, Tensor]:
        """Rows of token ids. The texts are flat: the tokens of all rows one after the other."""
        parts = [self.before, query, self.between, document, self.after]
        fixed = (len(self.before), len(self.between), len(self.after))
        sizes = np.stack(np.broadcast_arrays(fixed[0], query_lengths, fixed[1], document_lengths, fixed[2]), 1)
        ends = np.cumsum(sizes, axis=1)
        columns = np.arange(ends[:, -1].max())
        ids = np.full((len(ends), len(columns)), self.pad, np.int64)
        for part, end, size in zip(parts, ends.T, sizes.T, strict=True):
            # A boolean index fills row by row, the order in which the texts' tokens lie in `part`.
            slots = (columns >= (end - size)[:, None]) & (columns < end[:, None])
            ids[slots] = part if torch.is_tensor(part) else np.tile(part, len(ends))
        mask = columns < ends[:, -1:]
        types = mask & (columns >= ends[:, 2:3]) & self.second_segment
        return {
            "input_ids": torch.from_numpy(ids),
            "attention_mask": torch.from_numpy(mask),
            "token_type_ids": torch.from_numpy(types.astype(np.int64)),
        }


def mean_of_passages(vectors: Tensor, passages: Tensor) -> Tensor:
    """Mean [B, D] of each pair's vectors: `vectors` [P, D] are grouped by pair, `passages` int [B] counts them."""
    # Unsafe, because checking the counts would mean waiting for the GPU.
    return torch.segment_reduce(vectors, "mean", lengths=passages, unsafe=vectors.is_cuda)


_FILES, _ARRAYS, _TOKENS = "files", "arrays", "tokens"


def cached_text_side(kind: str, digest: str, build: Callable[[], TextSide]) -> TextSide:
    """The text side of this digest, built if the cache has none; its arrays are memory-mapped."""
    return _load(cached(kind, digest, lambda folder: _save(build(), folder)))


def _save(text: TextSide, folder: Path) -> None:
    columns = {"queries": text.queries, "documents": text.documents}
    for part in ("ids", "offsets"):
        save_arrays(folder / _TOKENS, {f"{name}.{part}": getattr(tokens, part) for name, tokens in columns.items()})
    save_arrays(folder / _ARRAYS, text.arrays)
    (folder / _FILES).mkdir()
    for name, content in text.files.items():
        (folder / _FILES / name).write_text(content, encoding="utf-8")


def _load(folder: Path) -> TextSide:
    columns = load_arrays(folder / _TOKENS)
    return TextSide(
        queries=Tokens(columns["queries.ids"], columns["queries.offsets"]),
        documents=Tokens(columns["documents.ids"], columns["documents.offsets"]),
        files={path.name: path.read_text(encoding="utf-8") for path in sorted((folder / _FILES).iterdir())},
        arrays=load_arrays(folder / _ARRAYS),
    )
