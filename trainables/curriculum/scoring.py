"""Scoring functions: the difficulty of each training instance, higher = harder (Penha & Hauff 2020, Table 2)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from trainables.data.columns import RankingData, Split, TextColumn
from trainables.data.instances import Instances
from trainables.randomness import generator
from trainables.registry import Entry, Registry


@dataclass(frozen=True)
class Scored:
    """What a scoring function may look at."""

    data: RankingData
    split: Split
    instances: Instances
    seed: int


Scoring = Callable[[Scored], np.ndarray]


def random(scored: Scored) -> np.ndarray:
    """A random order of the instances."""
    return generator(scored.seed, "random difficulty").permutation(len(scored.instances)).astype(np.float64)


def turns(scored: Scored) -> np.ndarray:
    """Number of utterances of the context."""
    return _of_queries(scored, scored.data.turns[scored.split.query].astype(np.float64))


def context_words(scored: Scored) -> np.ndarray:
    """Mean number of words of the context's utterances."""
    data = scored.data
    totals = _sums(word_counts(data.utterances), data.utterance_offsets)
    return _of_queries(scored, (totals / np.maximum(data.turns, 1))[scored.split.query])


def response_words(scored: Scored) -> np.ndarray:
    """Mean number of words of the query's candidates."""
    split = scored.split
    totals = _sums(word_counts(scored.data.documents)[split.document], split.offsets)
    return _of_queries(scored, totals / np.maximum(split.sizes, 1))


def word_counts(texts: TextColumn) -> np.ndarray:
    """Words a text, parted by single spaces, int64 [N]; an empty text has none."""
    spaces = np.concatenate([[0], np.cumsum(texts.data == ord(" "))])
    return np.where(np.diff(texts.offsets) > 0, np.diff(spaces[texts.offsets]) + 1, 0)


def _sums(values: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """Sum of each group values[offsets[i]:offsets[i + 1]]; an empty group gives 0."""
    return np.diff(np.concatenate([[0], np.cumsum(values)])[offsets])


def _of_queries(scored: Scored, values: np.ndarray) -> np.ndarray:
    """One value a query of the split, repeated for each of its instances."""
    return values[scored.instances.query]


PENHA = "Penha & Hauff 2020, Table 2"
SCORINGS: Registry[Scoring] = Registry(
    "curriculum.scoring",
    Entry("random", random, "a random order, fixed by the seed", PENHA),
    Entry("turns", turns, "utterances of the context", PENHA),
    Entry("context_words", context_words, "mean words of the context's utterances", PENHA),
    Entry("response_words", response_words, "mean words of the candidates", PENHA),
)
