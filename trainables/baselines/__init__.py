"""Unsupervised baselines by name. Modules load on first use."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from trainables.core.registry import Entry, Registry

if TYPE_CHECKING:
    from trainables.baselines.lexical import Baseline


BASELINES: Registry[str] = Registry(
    "BASELINE",
    Entry(
        "bm25", "trainables.baselines.lexical:Bm25Baseline", "Lucene's BM25 over stemmed terms", "Robertson et al. 1994"
    ),
    Entry(
        "sdm",
        "trainables.baselines.lexical:Sdm",
        "BM25 of terms and of their neighbours in windows",
        "Metzler & Croft 2005",
    ),
    Entry(
        "embedding",
        "trainables.baselines.word_embeddings:Embedding",
        "cosine of mean word vectors",
        "similarity-learning study, gensim 2018",
    ),
    Entry(
        "oracle",
        "trainables.baselines.lexical:Oracle",
        "the judged grades: the optimal re-ranker of the candidates",
        "MacAvaney et al. 2020",
    ),
)


def load_baseline(name: str) -> type[Baseline]:
    """The baseline registered under a name. Raises ConfigError for an unknown one."""
    module, _, attribute = BASELINES[name].partition(":")
    return getattr(import_module(module), attribute)
