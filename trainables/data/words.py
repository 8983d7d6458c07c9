"""Words of texts as flat arrays: what BM25, word vectors and scoring functions share."""

from __future__ import annotations

import re
from array import array
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

UNKNOWN = -1
_WORD = re.compile(rb"[a-z0-9]+")


def words(text: str) -> list[str]:
    """The words of a text: runs of [a-z0-9] after lower-casing A-Z; any other character parts words."""
    return [word.decode() for word in _words(text)]


def normalised(text: str) -> str:
    """The words of a text with a space between them; texts that differ only in case or punctuation become equal."""
    return b" ".join(_words(text)).decode()


def _words(text: str) -> list[bytes]:
    return _WORD.findall(text.encode().lower())  # of bytes: lower-cases ASCII only, which is all that _WORD keeps


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
        """Words a text, int64 [N]."""
        return np.diff(self.offsets)

    @property
    def owner(self) -> np.ndarray:
        """For each word the text it stands in, int64 [words]."""
        return np.repeat(np.arange(len(self)), self.lengths)


def index_words(texts: Iterable[str]) -> WordRows:
    """Word ids of a corpus, with its own vocabulary (about four million words a second)."""
    ids: defaultdict[bytes, int] = defaultdict()
    ids.default_factory = ids.__len__
    flat, offsets = number_words(texts, ids.__getitem__)
    return WordRows(flat, offsets, tuple(word.decode() for word in ids))


def look_up(texts: Iterable[str], vocabulary: tuple[str, ...]) -> WordRows:
    """Word ids of texts in a given vocabulary; words that it lacks become UNKNOWN."""
    ids = {word.encode(): number for number, word in enumerate(vocabulary)}
    return WordRows(*number_words(texts, lambda word: ids.get(word, UNKNOWN)), vocabulary)


def number_words(texts: Iterable[str], number: Callable[[bytes], int]) -> tuple[np.ndarray, np.ndarray]:
    """The number of each word of N texts, int32 [words], and where each text starts, int64 [N + 1]."""
    flat, offsets = array("i"), array("q", [0])
    for text in texts:
        flat.extend(map(number, _words(text)))
        offsets.append(len(flat))
    return np.array(flat, np.int32), np.array(offsets, np.int64)
