"""Terms of English texts: stemmed words without stop words, as Lucene's English analysis makes them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING

from trainables.data.words import UNKNOWN, words

if TYPE_CHECKING:
    from gensim.parsing.porter import PorterStemmer

STOPPED = -2
# Lucene's EnglishAnalyzer.ENGLISH_STOP_WORDS_SET, which Anserini uses too.
STOP_WORDS = frozenset(
    {
        "a", "an", "and", "are", "as", "at", "be", "but", "by", "for", "if",
        "in", "into", "is", "it", "no", "not", "of", "on", "or", "such", "that",
        "the", "their", "then", "there", "these", "they", "this", "to", "was", "will", "with",
    }
)  # fmt: skip


@cache
def _stemmer() -> PorterStemmer:
    from gensim.parsing.porter import PorterStemmer  # takes a second to import

    return PorterStemmer()


def term(word: str) -> str | None:
    """Porter stem of a word, None for a stop word."""
    return None if word in STOP_WORDS else _stemmer().stem(word)


def terms(text: str) -> list[str]:
    """The terms of a text in their order."""
    return [found for found in map(term, words(text)) if found is not None]


class TermNumbers(dict[bytes, int]):
    """Number of a word's term in a vocabulary, UNKNOWN if that lacks it, STOPPED for a stop word.

    Each distinct word is stemmed only once, when it is first met.
    """

    def __init__(self, vocabulary: Mapping[str, int]):
        super().__init__()
        self._vocabulary = vocabulary

    def __missing__(self, word: bytes) -> int:
        found = term(word.decode())
        self[word] = STOPPED if found is None else self._vocabulary.get(found, UNKNOWN)
        return self[word]
