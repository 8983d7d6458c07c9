"""BiDAF-T: attention in both directions between query and document (Seo et al. 2017, as changed by Min et al. 2017).

Min et al. replace the answer's span by one score, so that the model tells which sentence answers a question; the
gensim similarity-learning study (2018) ranks with it. The document is Seo et al.'s context, the query their question.

Padding has no effect on anything here; the study masks nothing, so its scores depend on the padded length. A text
without words is read as one word of padding.
"""

from __future__ import annotations

import sys
from typing import Literal

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from trainables.extras.bidaf_t_settings import BidafTSettings
from trainables.rankers.ranker import Head, TextSide, Tokens
from trainables.rankers.word_vectors import (
    FIRST_WORD,
    PADDING,
    VOCABULARY,
    WordRanker,
    WordRankerModule,
    reads_from_front,
    table_of,
)

ALPHABET = "abcdefghijklmnopqrstuvwxyz0123456789"  # always in front; a vocabulary adds its own characters
NO_CHARACTER, UNKNOWN_CHARACTER, FIRST_CHARACTER = 0, 1, 2
CHARACTERS, CHARACTER_SIZE = 25, 8  # of a word that are read, and the dimensions of one
FILTERS, WIDTH = 100, 5  # over characters, and how many a filter spans
HIGHWAYS = 2
CARRY_BIAS = -1.0  # of a highway's gate, so that it begins by passing most of its input on (Srivastava et al. 2015)
LOW = -1e9  # replaces values that are left out of a maximum or softmax


class CharacterWords(nn.Module):
    """Word vectors from characters: a convolution, relu, and the maximum over start positions."""

    def __init__(self, alphabet: int):
        super().__init__()
        self.embedding = nn.Embedding(FIRST_CHARACTER + alphabet, CHARACTER_SIZE, padding_idx=NO_CHARACTER)
        self.filters = nn.Conv1d(CHARACTER_SIZE, FILTERS, WIDTH)

    def forward(self, characters: Tensor) -> Tensor:
        """Characters int64 [W, L], right-padded, to vectors [W, filters]; zeros for a word without characters."""
        embedded = self.embedding(characters).transpose(1, 2)
        features = self.filters(functional.pad(embedded, (0, self.filters.kernel_size[0] - 1))).relu()
        return (features * (characters != NO_CHARACTER)[:, None]).amax(2)


class Highway(nn.Module):
    """g relu(W x + b) + (1 - g) x with a gate g = sigmoid(V x + c) (Srivastava et al. 2015)."""

    def __init__(self, size: int):
        super().__init__()
        self.change, self.gate = nn.Linear(size, size), nn.Linear(size, size)
        nn.init.constant_(self.gate.bias, CARRY_BIAS)

    def forward(self, x: Tensor) -> Tensor:
        return torch.lerp(x, self.change(x).relu(), self.gate(x).sigmoid())


class BiLstm(nn.Module):
    """One LSTM layer in both directions over right-padded sequences.

    The second direction reads every sequence reversed within its own length: padding comes last in both, so it
    reaches no word's state.
    """

    def __init__(self, inputs: int, hidden: int):
        super().__init__()
        self.forwards = nn.LSTM(inputs, hidden, batch_first=True)
        self.backwards = nn.LSTM(inputs, hidden, batch_first=True)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        """x [B, L, inputs] and the mask of words, bool [B, L], to states [B, L, 2 hidden], 0 at padding."""
        positions = torch.arange(mask.shape[1], device=mask.device)
        last = mask.sum(1, keepdim=True) - 1
        mirrored = torch.where(mask, last - positions, positions)[..., None]
        forwards, _ = self.forwards(x)
        backwards, _ = self.backwards(x.gather(1, mirrored.expand_as(x)))
        backwards = backwards.gather(1, mirrored.expand_as(backwards))
        return torch.cat([forwards, backwards], 2) * mask[..., None]


class AttentionFlow(nn.Module):
    """What each document word takes from the query, and the query from the document (Seo et al. 2017, Eq. 1 and 2)."""

    def __init__(self, size: int, reference: Literal["paper", "study"]):
        super().__init__()
        self.reference = reference
        # w of Eq. 1 over [h; u; h * u]. A bias would change no softmax.
        self.weight = nn.Parameter(torch.empty(3, size))
        nn.init.uniform_(self.weight, -((3 * size) ** -0.5), (3 * size) ** -0.5)

    def forward(self, document: Tensor, document_mask: Tensor, query: Tensor, query_mask: Tensor) -> Tensor:
        """h [B, T, size] and u [B, J, size] with their masks [B, T] and [B, J] to G [B, T, 4 size]."""
        of_document, of_query, of_both = self.weight
        similarities = (
            torch.bmm(document * of_both, query.transpose(1, 2))
            + (document @ of_document)[:, :, None]
            + (query @ of_query)[:, None, :]
        ).masked_fill(~query_mask[:, None, :], LOW)
        attention = similarities.softmax(2)
        strongest = (similarities if self.reference == "paper" else attention).amax(2)
        salience = strongest.masked_fill(~document_mask, LOW).softmax(1)
        from_query = torch.bmm(attention, query)
        from_document = torch.bmm(salience[:, None, :], document)
        return torch.cat([document, from_query, document * from_query, document * from_document], 2)


class BidafTModule(WordRankerModule):
    """`vectors`: float32 [rows, D], row 0 all zeros; `characters`: unsigned [rows, L] of each word, right-padded.

    `alphabet`: how many characters there are.

    Scores [B], or class logits [B, K], of word rows.
    """

    def __init__(
        self,
        vectors: Tensor,
        characters: np.ndarray,
        alphabet: int,
        settings: BidafTSettings,
        max_length: int,
        from_front: bool,
        outputs: int = 1,
    ):
        super().__init__(vectors, settings, max_length, from_front)
        self.characters = characters
        self.character_words = CharacterWords(alphabet)
        size, states = vectors.shape[1] + FILTERS, 2 * settings.hidden
        self.highways = nn.Sequential(*(Highway(size) for _ in range(HIGHWAYS)))
        self.dropout = nn.Dropout(settings.dropout)
        self.context = BiLstm(size, settings.hidden)
        self.attention = AttentionFlow(states, settings.reference)
        self.modelling = nn.ModuleList([BiLstm(4 * states, settings.hidden), BiLstm(states, settings.hidden)])
        self.score = Head(states, outputs)

    def collate(
        self, queries: Tokens, documents: Tokens, query_rows: np.ndarray, document_rows: np.ndarray
    ) -> dict[str, Tensor]:
        """Each distinct word of the batch once, too: `words` [W] and `characters` [W, L], int64, are the words' rows
        and characters; `query` and `document` index `words`. Every text has a first word, even if it is padding."""
        texts = super().collate(queries, documents, query_rows, document_rows)
        query, document = texts["query"], texts["document"]
        words, index = np.unique(torch.cat([query.ravel(), document.ravel()]).numpy(), return_inverse=True)
        characters = self.characters[words]
        longest = max(1, int((characters != NO_CHARACTER).sum(1).max()))
        texts["query_mask"][:, 0] = texts["document_mask"][:, 0] = True
        return texts | {
            "words": torch.from_numpy(words),
            "characters": torch.from_numpy(characters[:, :longest].astype(np.int64)),
            "query": torch.from_numpy(index[: query.numel()]).view_as(query),
            "document": torch.from_numpy(index[query.numel() :]).view_as(document),
        }

    def forward(
        self,
        words: Tensor,
        characters: Tensor,
        query: Tensor,
        query_mask: Tensor,
        query_of: Tensor,
        document: Tensor,
        document_mask: Tensor,
    ) -> Tensor:
        # In half precision the softmax of similarities would be coarse, and LSTMs gain nothing on most devices.
        with torch.autocast(words.device.type, enabled=False):
            vectors = self.highways(torch.cat([self.vectors(words), self.character_words(characters)], 1))
            u = self.context(self.dropout(functional.embedding(query, vectors)), query_mask)
            h = self.context(self.dropout(functional.embedding(document, vectors)), document_mask)
            states = self.attention(h, document_mask, u[query_of], query_mask[query_of])
            for layer in self.modelling:
                states = layer(self.dropout(states), document_mask)
            strongest = states.masked_fill(~document_mask[..., None], LOW).amax(1)
            return self.score(self.dropout(strongest))


class BidafT(WordRanker):
    def build(self, text: TextSide, settings: BidafTSettings, max_length: int, outputs: int = 1) -> BidafTModule:
        vectors, vocabulary = table_of(text, settings), text.files[VOCABULARY]
        alphabet, from_front = alphabet_of(vocabulary), reads_from_front(text.files)
        characters = word_characters(vocabulary, alphabet)
        return BidafTModule(vectors, characters, len(alphabet), settings, max_length, from_front, outputs)


def alphabet_of(vocabulary: str) -> str:
    """The characters that words are read in: ALPHABET, then what else the vocabulary (a word a line) has, sorted."""
    return ALPHABET + "".join(sorted(set(vocabulary).difference(ALPHABET, "\n")))


def word_characters(vocabulary: str, alphabet: str) -> np.ndarray:
    """CHARACTERS of the word of each row of the vector table, unsigned [rows, CHARACTERS], right-padded with
    NO_CHARACTER.

    `vocabulary`: a word a line, in `alphabet`. Padding has no characters; the rows that unknown words share have one
    unknown one.
    """
    kind = np.min_scalar_type(FIRST_CHARACTER + len(alphabet))
    codes = np.zeros(sys.maxunicode + 1, kind)
    codes[_code_points(alphabet)] = FIRST_CHARACTER + np.arange(len(alphabet))
    characters = _code_points(f"{vocabulary}\n")
    ends = np.flatnonzero(characters == ord("\n"))
    starts = np.concatenate([[0], ends[:-1] + 1])
    positions = starts[:, None] + np.arange(CHARACTERS)
    table = np.full((FIRST_WORD + len(ends), CHARACTERS), NO_CHARACTER, kind)
    table[PADDING + 1 : FIRST_WORD, 0] = UNKNOWN_CHARACTER
    table[FIRST_WORD:] = np.where(
        positions < ends[:, None], codes[characters[np.minimum(positions, ends[:, None])]], NO_CHARACTER
    )
    return table


def _code_points(text: str) -> np.ndarray:
    return np.frombuffer(text.encode("utf-32-le"), "<u4")
