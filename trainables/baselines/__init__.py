"""Unsupervised baselines by name. Modules load on first use."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from trainables.registry import Entry, Registry

if TYPE_CHECKING:
    from trainables.baselines.base import Baseline

BASELINES: Registry[str] = Registry(
    "BASELINE",
    Entry(
        "bm25", "trainables.baselines.bm25:Bm25Baseline", "Lucene's BM25 over stemmed terms", "Robertson et al. 1994"
    ),
    Entry(
        "sdm",
        "trainables.baselines.sdm:Sdm",
        "BM25 of terms and of their neighbours in windows",
        "Metzler & Croft 2005",
    ),
    Entry(
        "embedding",
        "trainables.baselines.embedding:Embedding",
        "cosine of mean word vectors",
        "similarity-learning study, gensim 2018",
    ),
)


def load_baseline(name: str) -> type[Baseline]:
    """The baseline registered under a name. Raises ConfigError for an unknown one."""
    module, _, attribute = BASELINES[name].partition(":")
    return getattr(import_module(module), attribute)
