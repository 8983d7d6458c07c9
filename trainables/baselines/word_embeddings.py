"""Mean word vectors compared by cosine: the baseline of the similarity-learning study (gensim, 2018)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from scipy.sparse import csr_array

from trainables.baselines.lexical import Baseline, Params, Scorer
from trainables.config.keys import TrainingConfig
from trainables.core.errors import ConfigError, Problem
from trainables.data.columns import RankingData, Split, required_split
from trainables.rankers.settings import TRAINED_VECTORS, WordSettings

if TYPE_CHECKING:
    from trainables.rankers.ranker import TextSide, Tokens


_PAIRS = 1 << 16  # compared at once


class Embedding(Baseline):
    """Cosine of the mean vectors of query and document over the words that have one.

    A text without such a word scores 0 (the study drew a random vector for it). Vectors are trained on the
    collection, or read from the file that `ranker.vectors` names.
    """

    ranker = "embedding"
    classifies = True

    def __init__(self, data: RankingData, run: TrainingConfig, splits: Sequence[str]):
        super().__init__(data, run, splits)
        if not isinstance(run.ranker, WordSettings):
            right = f"{self.ranker}, or another that has"
            raise ConfigError(Problem("ranker.name", f"{run.ranker.name} has no word vectors", right))
        self.words = run.ranker
        if self.words.vectors == TRAINED_VECTORS:
            required_split(data, "train")  # vectors are trained on its queries too

    def defaults(self) -> Params:
        """`ranker.vectors`, and for trained ones `ranker.vector_size` and `ranker.word2vec`."""
        trained = ("vector_size", "word2vec") if self.words.vectors == TRAINED_VECTORS else ()
        return {key: getattr(self.words, key) for key in ("vectors", *trained)}

    def scorer(self, split: Split) -> Scorer:
        from trainables.rankers.word_vectors import word_text_side  # imports torch

        words = self.words
        text = word_text_side(
            self.data, words.vectors, words.vector_size, from_front=False, seed=0, model=words.word2vec
        )
        scores = mean_vector_scores(text, split)
        return lambda params: scores


def best_threshold(scores: np.ndarray, classes: np.ndarray, count: int) -> tuple[float, np.ndarray]:
    """The score that tells classes apart best, with one class below it and one from it on, and how many pairs of each
    class lie on either side, int64 [2, count]. `classes`: int [C], below `count`."""
    order = np.argsort(scores, kind="stable")
    ranked = scores[order]
    cuts = np.concatenate([[0], np.flatnonzero(np.diff(ranked)) + 1])
    one_hot = np.eye(count, dtype=np.int64)[classes[order]]
    below = np.concatenate([np.zeros((1, count), np.int64), np.cumsum(one_hot, axis=0)])
    sides = np.stack([below[cuts], below[-1] - below[cuts]])
    best = int(np.argmax(sides.max(2).sum(0)))
    cut = cuts[best]
    return float(ranked[cut] if cut == 0 else (ranked[cut - 1] + ranked[cut]) / 2), sides[:, best]


def mean_vector_scores(text: TextSide, split: Split) -> np.ndarray:
    """Cosine of the mean word vectors of each candidate and its query, float64 [C]."""
    from trainables.rankers.word_vectors import FIRST_WORD  # imports torch

    table = np.array(text.arrays["vectors"], np.float64)
    table[:FIRST_WORD] = 0  # padding and unknown words
    documents, index = np.unique(split.document, return_inverse=True)
    query = _mean_directions(text.queries, split.query, table)[split.owner]
    return _dots(query, _mean_directions(text.documents, documents, table), index)


def _mean_directions(tokens: Tokens, rows: np.ndarray, table: np.ndarray) -> np.ndarray:
    """Direction of the mean of each text's vectors, at unit length, float64 [rows, D]; 0 for a text without a word."""
    lengths = tokens.lengths[rows]
    ends = np.concatenate([[0], np.cumsum(lengths)])
    ids = tokens.ids[np.repeat(tokens.offsets[rows] - ends[:-1], lengths) + np.arange(ends[-1])]
    sums = csr_array((np.ones(len(ids)), ids, ends), shape=(len(rows), len(table))) @ table
    norms = np.linalg.norm(sums, axis=1, keepdims=True)
    return np.divide(sums, norms, out=np.zeros_like(sums), where=norms > 0)


def _dots(a: np.ndarray, b: np.ndarray, index: np.ndarray) -> np.ndarray:
    """a[i] · b[index[i]], float64 [C]."""
    scores = np.empty(len(a))
    for start in range(0, len(a), _PAIRS):
        part = slice(start, start + _PAIRS)
        scores[part] = np.einsum("ij,ij->i", a[part], b[index[part]])
    return scores
