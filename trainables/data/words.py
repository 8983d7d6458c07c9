"""Words of texts as flat arrays, for BM25, word vectors and scoring functions."""

from __future__ import annotations

import re
from array import array
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import repeat
from unicodedata import normalize

import numpy as np
import regex

UNKNOWN = -1
_ASCII_WORD = re.compile(rb"[a-z0-9]+")
_WORD = regex.compile(r"[\p{L}\p{N}][\p{L}\p{N}\p{M}]*")


def words(text: str) -> list[str]:
    """The words of a text in lower case: runs of letters and digits of any script, with the marks that belong to them
    (Unicode's categories L, N and M, in normal form C). Any other character separates words."""
    return [word.decode() for word in _words(text)]


def normalised(text: str) -> str:
    """The words of a text, joined by spaces; texts that differ only in case or punctuation become equal."""
    return b" ".join(_words(text)).decode()


def _words(text: str) -> list[bytes]:
    if text.isascii():
        return _ASCII_WORD.findall(text.encode().lower())  # the same, twice as fast
    return [word.encode() for word in _WORD.findall(normalize("NFC", text.lower()))]


@dataclass(frozen=True)
class WordRows:
    """Words of N texts: the words of text i are ids[offsets[i]:offsets[i + 1]].

    ids         int32 [words]   index into `vocabulary`, UNKNOWN = a word that is not in it
    offsets     int64 [N + 1]
    vocabulary  the words by id, in order of first occurrence
    """

    ids: np.ndarray
    offsets: np.ndarray
    vocabulary: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def lengths(self) -> np.ndarray:
        """Number of words per text, int64 [N]."""
        return np.diff(self.offsets)

    @property
    def owner(self) -> np.ndarray:
        """For each word, the row of its text, int64 [words]."""
        return np.repeat(np.arange(len(self)), self.lengths)


def index_words(texts: Iterable[str]) -> WordRows:
    """Word ids of a corpus, with its own vocabulary (about four million words a second)."""
    ids: defaultdict[bytes, int] = defaultdict()
    ids.default_factory = ids.__len__
    flat, offsets = number_words(texts, ids.__getitem__)
    return WordRows(flat, offsets, tuple(word.decode() for word in ids))


class LookUp:
    """Looks up the words of texts in one vocabulary; words that it lacks become UNKNOWN."""

    def __init__(self, vocabulary: tuple[str, ...]):
        self.vocabulary = vocabulary
        self._ids = {word.encode(): number for number, word in enumerate(vocabulary)}

    def __call__(self, texts: Iterable[str]) -> WordRows:
        """Word ids of N texts."""
        return WordRows(*_numbered(texts, lambda found: map(self._ids.get, found, repeat(UNKNOWN))), self.vocabulary)


def look_up(texts: Iterable[str], vocabulary: tuple[str, ...]) -> WordRows:
    """Word ids of texts in a given vocabulary; words that it lacks become UNKNOWN."""
    return LookUp(vocabulary)(texts)


def number_words(texts: Iterable[str], number: Callable[[bytes], int]) -> tuple[np.ndarray, np.ndarray]:
    """The number of each word of N texts, int32 [words], and where each text starts, int64 [N + 1]."""
    return _numbered(texts, lambda found: map(number, found))


def _numbered(
    texts: Iterable[str], number_all: Callable[[list[bytes]], Iterable[int]]
) -> tuple[np.ndarray, np.ndarray]:
    """As `number_words`; `number_all`: the numbers of a text's words."""
    flat, offsets = array("i"), array("q", [0])
    for text in texts:
        flat.extend(number_all(_words(text)))
        offsets.append(len(flat))
    return np.array(flat, np.int32), np.array(offsets, np.int64)
