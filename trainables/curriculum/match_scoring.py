"""How differently the candidates match the context: sigma_SM and sigma_BM25 of Penha & Hauff (2020), Table 2.

Neither the paper nor its code negates these: a small spread, where all candidates match alike, is easy.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from scipy.sparse import csr_array

from trainables.curriculum.scored import CODE, Scored
from trainables.data.bm25 import Bm25
from trainables.data.words import index_words, look_up
from trainables.errors import ConfigError, Problem
from trainables.rankers.settings import TRAINED_VECTORS

BM25_K1, BM25_B = 1.5, 0.75  # as in gensim 3.8, which the paper's code calls
SEMANTIC_WORDS = 20  # k
VECTOR_SIZE = 100  # of trained vectors: the default of ranker conv_knrm, so that both use the same vectors
_BLOCK = 1 << 15  # candidates matched at once


def bm25_std(scored: Scored) -> np.ndarray:
    """Standard deviation over a query's candidates of their BM25 (Okapi) scores for the context's words.

    The corpus holds each document once that is among the candidates that count (`Scored.groups`).
    """
    split, data, groups = scored.split, scored.data, scored.groups
    documents, rows = np.unique(split.document[groups.rows], return_inverse=True)
    corpus = index_words(data.documents[document] for document in documents.tolist())
    contexts = look_up((data.query_text(query) for query in split.query.tolist()), corpus.vocabulary)
    scores = Bm25(corpus, "okapi", BM25_K1, BM25_B).pair_scores(contexts, groups.owner, rows)
    return scored.of_queries(scored.spread(scores))


def semantic_std(scored: Scored) -> np.ndarray:
    """Standard deviation over a query's candidates of the mean cosine between words of the context and words of the
    candidate.

    Of each text only the first 20 words count (code: the last 20 of the context), and of these only words that have a
    vector; a candidate without any such pair gets 0. Raises ConfigError or DataError for a bad file of vectors.
    """
    # Imported here because it loads torch, which merely naming a scoring must not.
    from trainables.rankers.pairs import keeps_latest
    from trainables.rankers.vectors import FIRST_WORD, word_text_side

    if scored.vectors != TRAINED_VECTORS and not Path(scored.vectors).is_file():
        raise ConfigError(no_vectors(scored.vectors))
    from_front = keeps_latest(scored.data, "latest")
    text = word_text_side(scored.data, scored.vectors, VECTOR_SIZE, from_front, seed=0)
    units = _units(text.arrays["vectors"][FIRST_WORD:])
    split, groups = scored.split, scored.groups
    query_rows, document_rows = split.query[groups.owner], split.document[groups.rows]
    cosines = np.empty(len(groups.rows))
    for start in range(0, len(cosines), _BLOCK):
        part = slice(start, start + _BLOCK)
        contexts, context_of = np.unique(query_rows[part], return_inverse=True)
        asked, asked_words = _vector_sums(text.queries, contexts, units, last=scored.reference == CODE)
        said, said_words = _vector_sums(text.documents, document_rows[part], units)
        pairs = asked_words[context_of] * said_words
        cosines[part] = np.einsum("ij,ij->i", asked[context_of], said) / np.maximum(pairs, 1)
    return scored.of_queries(scored.spread(cosines))


def no_vectors(name: str) -> Problem:
    """The problem of a missing file of word vectors."""
    right = f"{TRAINED_VECTORS}, or a file of word2vec, GloVe or fastText vectors"
    return Problem("curriculum.vectors", f"no file '{name}'", right)


def _units(vectors: np.ndarray) -> np.ndarray:
    """The vectors scaled to length 1, float32 [V, D]; zero vectors stay zero."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors / np.where(lengths > 0, lengths, 1)


def _vector_sums(tokens, rows: np.ndarray, units: np.ndarray, last: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """Sum of the unit vectors of each text's first (or last) words, float32 [B, D], and how many of them have one, [B].

    The dot product of two such sums is the sum of the cosines over all pairs of words.
    """
    from trainables.rankers.vectors import FIRST_WORD

    starts, ends = tokens.offsets[rows], tokens.offsets[rows + 1]
    if last:
        starts = np.maximum(starts, ends - SEMANTIC_WORDS)
    at = starts[:, None] + np.arange(SEMANTIC_WORDS)
    inside = at < ends[:, None]
    words = np.where(inside, tokens.ids[np.where(inside, at, 0)], 0) - FIRST_WORD if len(tokens.ids) else at * 0 - 1
    known = words >= 0
    counts = known.sum(axis=1)
    indptr = np.concatenate([[0], np.cumsum(counts)])
    chosen = csr_array((np.ones(indptr[-1], np.float32), words[known], indptr), (len(rows), len(units)))
    return chosen @ units, counts
