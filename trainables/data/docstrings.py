"""The built-in data: which part of a documentation string comes next?

Next-response ranking as in Penha & Hauff (2020), over the documentation strings of the installed scientific
packages: context = the first 1 to MOST_TURNS parts (paragraphs) of one, right response = the part after them,
wrong responses = parts of others, most of them near the context by BM25.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from trainables.data.bm25 import Bm25
from trainables.data.cache import cached, digest_of
from trainables.data.columns import RankingData, Split, TextColumn
from trainables.data.docstring_source import PACKAGES, Docstring, package_versions, read_package
from trainables.data.readers.assembly import ranks
from trainables.data.store import load_data_folder, save_data
from trainables.data.words import index_words, look_up, words
from trainables.randomness import generator

if TYPE_CHECKING:
    from trainables.config import DataConfig

NAME = "docstrings"
MOST_TURNS = 5
CANDIDATES = 10
NEAR = 4  # wrong responses among the NEAREST parts by BM25; the others are random
NEAREST = 40
FEWEST_PARTS = 3
TEST_CONTEXTS, DEV_CONTEXTS = 800, 400  # training gets all others
_FORMAT = 1  # raise it when the construction changes
_SEED = 0  # the data is one fixed data set, whatever the seed of a training


def load_docstrings(config: DataConfig) -> RankingData:
    """The data set, built on first use (some tens of seconds) and cached by the packages' versions."""
    versions = package_versions()
    digest = digest_of(_FORMAT, versions, config.bm25.k1, config.bm25.b)

    def build(folder: Path) -> None:
        docstrings = list(chain.from_iterable(map(read_package, PACKAGES)))
        save_data(make_data(docstrings, digest, config.bm25.k1, config.bm25.b), folder)

    return load_data_folder(cached("data", digest, build))


def make_data(docstrings: Sequence[Docstring], digest: str, k1: float, b: float) -> RankingData:
    """Contexts and candidates from documentation strings; the same input gives the same data."""
    kept, split_of = _split_by_module(_long_enough(docstrings))
    kept, split_of = _without_shared_texts(kept, split_of)
    contexts = _contexts(kept, split_of)
    pool = _Pool.of(kept, split_of, k1, b)
    splits, start = {}, 0
    for split, mine in contexts.items():
        splits[split] = pool.split(split, mine, start)
        start += len(mine)
    everything = list(chain.from_iterable(contexts.values()))
    return RankingData(
        name=NAME,
        digest=digest,
        document_ids=TextColumn.of(pool.ids),
        documents=TextColumn.of(pool.texts),
        query_ids=TextColumn.of(context.docstring.name for context in everything),
        utterances=TextColumn.of(part for context in everything for part in context.utterances),
        utterance_offsets=np.cumsum([0] + [context.turns for context in everything]),
        domain=np.array([list(PACKAGES).index(context.docstring.package) for context in everything], np.int16),
        domains=tuple(PACKAGES),
        splits=splits,
        notes=(f"{len(everything):,} contexts from {len(kept):,} documentation strings",),
    )
