"""Scoring functions: the difficulty of each training instance, higher = harder (Penha & Hauff 2020, Table 2).

Each returns float64 [I]. Besides the paper's functions, every weighting heuristic also serves as an order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from trainables.curriculum.match_scoring import bm25_std, semantic_std
from trainables.curriculum.rank_scoring import hardness
from trainables.curriculum.scored import Groups, Scored
from trainables.curriculum.teacher import model_loss, model_margin
from trainables.curriculum.weighting import WEIGHTINGS
from trainables.data.columns import TextColumn
from trainables.randomness import generator
from trainables.registry import Entry, Registry


@dataclass(frozen=True)
class Scoring:
    """A scoring function and what it reads.

    needs        fields of Scored that its values depend on, besides data, split and instances
    reads_texts  whether it applies only to data with texts
    unfit        why it does not apply to pairs to classify; None if it does
    """

    function: Callable[[Scored], np.ndarray]
    needs: frozenset[str] = frozenset()
    reads_texts: bool = True
    unfit: str | None = None

    def __call__(self, scored: Scored) -> np.ndarray:
        return self.function(scored)


def random(scored: Scored) -> np.ndarray:
    return generator(scored.seed, "random difficulty").permutation(len(scored.instances)).astype(np.float64)


def turns(scored: Scored) -> np.ndarray:
    """Number of utterances of the context."""
    return scored.of_queries(scored.data.turns[scored.split.query].astype(np.float64))


def context_words(scored: Scored) -> np.ndarray:
    """Mean number of words of the context's utterances."""
    data = scored.data
    means = Groups(np.arange(len(data.utterances)), data.utterance_offsets).means(word_counts(data.utterances))
    return scored.of_queries(means[scored.split.query])


def response_words(scored: Scored) -> np.ndarray:
    """Mean number of words of the query's candidates."""
    documents = scored.split.document[scored.groups.rows]
    return scored.of_queries(scored.groups.means(word_counts(scored.data.documents)[documents]))


def word_counts(texts: TextColumn) -> np.ndarray:
    """Number of words per text, separated by single spaces, int64 [N]; an empty text has none."""
    spaces = np.flatnonzero(texts.data == ord(" "))
    before = np.searchsorted(spaces, texts.offsets)
    return np.where(np.diff(texts.offsets) > 0, np.diff(before) + 1, 0)


NO_RUN = "reads a first-stage run, and pairs to classify have none"


def _by_weighting() -> list[Entry[Scoring]]:
    """Each weighting heuristic as an order."""
    named = [(entry.name, entry.value, entry.source) for entry in WEIGHTINGS.entries.values()]
    return [
        Entry(
            name,
            Scoring(hardness(name), frozenset({"reference"}), reads_texts=False, unfit=NO_RUN),
            f"1 - mean ease D of weighting {name}",
            source,
        )
        for name, heuristic, source in named
        if heuristic is not None
    ]


PENHA = "Penha & Hauff 2020, Table 2"
CANDIDATES = frozenset({"reference", "relevance_level"})
ONE_CANDIDATE = "compares a query's candidates, and a pair to classify has one"
ONE_UTTERANCE = "is the same for all pairs: each has one utterance"
BY_CHANCE = Scoring(random, frozenset({"seed"}), reads_texts=False)
SCORINGS: Registry[Scoring] = Registry(
    "curriculum.scoring",
    Entry("random", BY_CHANCE, "a random order, fixed by the seed", PENHA),
    Entry(
        "self_paced",
        BY_CHANCE,
        "the ranker's own loss, anew every curriculum.refresh iterations; a random order before that",
        "Kumar et al. 2010",
    ),
    Entry("turns", Scoring(turns, unfit=ONE_UTTERANCE), "utterances of the context", PENHA),
    Entry("context_words", Scoring(context_words), "mean words of the context's utterances", PENHA),
    Entry("response_words", Scoring(response_words, CANDIDATES), "mean words of the candidates", PENHA),
    Entry(
        "semantic_std",
        Scoring(semantic_std, CANDIDATES | {"vectors"}, unfit=ONE_CANDIDATE),
        "spread over the candidates of the cosine between their words and the context's",
        PENHA,
    ),
    Entry(
        "bm25_std",
        Scoring(bm25_std, CANDIDATES, unfit=ONE_CANDIDATE),
        "spread over the candidates of their BM25 scores",
        PENHA,
    ),
    Entry(
        "model_margin",
        Scoring(model_margin, CANDIDATES | {"teacher"}),
        "how little a trained teacher prefers the relevant candidates",
        PENHA,
    ),
    Entry(
        "model_loss",
        Scoring(model_loss, CANDIDATES | {"teacher"}),
        "a trained teacher's mean cross-entropy over the candidates",
        PENHA,
    ),
    *_by_weighting(),
)


def any_needs(names: Iterable[str], field: str) -> bool:
    """Whether one of the scorings reads the field of Scored."""
    return any(field in SCORINGS[name].needs for name in names)
