"""Unsupervised baselines by name. Modules load on first use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainables.core.registry import Entry, Registry, loaded

if TYPE_CHECKING:
    from trainables.baselines.lexical import Baseline

LEXICAL = "trainables.baselines.lexical"
EMBEDDING = "trainables.baselines.word_embeddings:Embedding"
GENSIM, ORACLE = "similarity-learning study, gensim 2018", "the judged grades: the optimal re-ranker of the candidates"
BASELINES: Registry[str] = Registry(
    "BASELINE",
    Entry("bm25", f"{LEXICAL}:Bm25Baseline", "Lucene's BM25 over stemmed terms", "Robertson et al. 1994"),
    Entry("sdm", f"{LEXICAL}:Sdm", "BM25 of terms and of their neighbours in windows", "Metzler & Croft 2005"),
    Entry("embedding", EMBEDDING, "cosine of mean word vectors", GENSIM),
    Entry("oracle", f"{LEXICAL}:Oracle", ORACLE, "MacAvaney et al. 2020"),
)


def load_baseline(name: str) -> type[Baseline]:
    """The baseline registered under a name. Raises ConfigError for an unknown one."""
    return loaded(BASELINES[name])
