"""Words of texts as flat arrays, for BM25, word vectors and scoring functions."""

from __future__ import annotations

import re
from array import array
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from itertools import pairwise, repeat
from typing import Literal
from unicodedata import normalize

import numpy as np
import regex

UNKNOWN = -1
_ASCII_WORD = re.compile(rb"[a-z0-9]+")
_WORD = regex.compile(r"[\p{L}\p{N}][\p{L}\p{N}\p{M}]*")
_SCRIPTS = "".join(rf"\p{{{name}}}" for name in ("Han", "Hiragana", "Katakana", "Thai", "Lao", "Khmer", "Myanmar"))
_UNSPACED = regex.compile(rf"[{_SCRIPTS}\u30fc]+")  # of scripts without spaces, and the mark of long vowels in Katakana
_RUN = regex.compile(rf"[{_SCRIPTS}\u30fc]+|[^{_SCRIPTS}\u30fc]+")
_LETTER = regex.compile(r"\X")  # with its marks

UNSPACED_SHARE = 0.01  # of the texts
Cut = Literal["spaces", "script", "bigrams"]  # how texts are cut into words


def words(text: str, cut: Cut = "spaces") -> list[str]:
    """The words of a text in lower case: runs of letters and digits of any script, with the marks that belong to them
    (Unicode's categories L, N and M, in normal form C). Any other character separates words. `cut: script`: words of
    scripts without spaces are cut into bigrams of letters; `bigrams`: all words are."""
    return [word.decode() for word in _words(text, cut)]


def normalised(text: str) -> str:
    """The words of a text, joined by spaces; texts that differ only in case or punctuation become equal."""
    return b" ".join(_words(text)).decode()


def _words(text: str, cut: Cut = "spaces") -> list[bytes]:
    if text.isascii() and cut != "bigrams":
        return _ASCII_WORD.findall(text.encode().lower())  # the same, twice as fast
    parts = _WORD.findall(normalize("NFC", text.lower()))
    if cut == "bigrams":
        parts = [part for word in parts for part in bigrams(word)]
    elif cut == "script" and _UNSPACED.search(text):
        parts = [part for word in parts for run in _RUN.findall(word) for part in _parts(run)]
    return [word.encode() for word in parts]


def _parts(run: str) -> list[str]:
    return bigrams(run) if _UNSPACED.match(run) else [run]


def bigrams(word: str) -> list[str]:
    """Adjacent pairs of a word's letters; a word of one letter is itself."""
    letters = _LETTER.findall(word)
    return [one + other for one, other in pairwise(letters)] or [word]


def for_lucene(text: str, cut: Cut) -> str:
    """A text in which bigrams are words of Latin letters and digits, which Lucene's English analysis leaves as they
    are: it would cut Chinese into characters, and leave Thai whole."""
    if cut == "bigrams":
        return " ".join(map(_code, words(text, cut)))
    if cut == "spaces":
        return text
    return _UNSPACED.sub(lambda run: f" {' '.join(map(_code, bigrams(normalize('NFC', run[0]))))} ", text)


def _code(word: str) -> str:
    return "".join(f"w{ord(letter)}" for letter in word)


def cut_of(texts: Iterable[str]) -> Cut:
    """How texts are best cut: by script, if a hundredth of them has words of scripts without spaces; else at spaces."""
    unspaced = [not text.isascii() and bool(_UNSPACED.search(text)) for text in texts]
    return "script" if sum(unspaced) > UNSPACED_SHARE * len(unspaced) else "spaces"


@dataclass(frozen=True)
class WordRows:
    """Words of N texts: the words of text i are ids[offsets[i]:offsets[i + 1]].

    ids         int32 [words]   index into `vocabulary`, UNKNOWN = a word that is not in it
    offsets     int64 [N + 1]
    vocabulary  the words by id, in order of first occurrence
    cut         how the texts were cut into words
    """

    ids: np.ndarray
    offsets: np.ndarray
    vocabulary: tuple[str, ...]
    cut: Cut = "spaces"

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


def index_words(texts: Iterable[str], cut: Cut = "spaces") -> WordRows:
    """Word ids of a corpus, with its own vocabulary (about four million words a second)."""
    ids: defaultdict[bytes, int] = defaultdict()
    ids.default_factory = ids.__len__
    flat, offsets = number_words(texts, partial(map, ids.__getitem__), cut)
    return WordRows(flat, offsets, tuple(word.decode() for word in ids), cut)


def look_up(texts: Iterable[str], vocabulary: tuple[str, ...], cut: Cut = "spaces") -> WordRows:
    """Word ids of texts in a given vocabulary; words that it lacks become UNKNOWN."""
    ids = {word.encode(): number for number, word in enumerate(vocabulary)}
    flat, offsets = number_words(texts, lambda row: map(ids.get, row, repeat(UNKNOWN)), cut)
    return WordRows(flat, offsets, vocabulary, cut)


def number_words(
    texts: Iterable[str], numbers: Callable[[list[bytes]], Iterable[int]], cut: Cut = "spaces"
) -> tuple[np.ndarray, np.ndarray]:
    """The number of each word of N texts, int32 [words], and where each text starts, int64 [N + 1]. `numbers`: of the
    words of a text."""
    flat, offsets = array("i"), array("q", [0])
    for text in texts:
        flat.extend(numbers(_words(text, cut)))
        offsets.append(len(flat))
    return np.array(flat, np.int32), np.array(offsets, np.int64)
