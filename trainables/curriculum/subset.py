"""The parts of the training data that the first stage of a ranker may be trained on (Ferro et al. 2018, section 3), by
name; `RankerKind.staged` says which rankers have one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from trainables.core.registry import Entry, Registry, loaded
from trainables.data.columns import RankingData, Split


@dataclass(frozen=True)
class Labelled:
    """What a subset may look at.

    share            of the queries, for subsets of queries
    feature          number of a feature, from 1 as in the data's files
    relevance_level  lowest relevant grade
    """

    split: Split
    data: RankingData
    share: float
    feature: int
    relevance_level: int


@dataclass(frozen=True)
class Subset:
    """The MODULE:NAME of a function that gives the candidate rows to keep, int64 [N], ascending, and the keys of
    `curriculum` it needs."""

    function: str
    needs: frozenset[str] = frozenset()

    def __call__(self, labelled: Labelled) -> np.ndarray:
        function: Callable[[Labelled], np.ndarray] = loaded(self.function)
        return function(labelled)


HOME = "trainables.extras.subsets"
FERRO = "Ferro et al. 2018"
SUBSETS: Registry[Subset] = Registry(
    "curriculum.subset",
    Entry("none", Subset(f"{HOME}:everything"), "all training data from the start", "standard training"),
    Entry(
        "label_extremes",
        Subset(f"{HOME}:label_extremes"),
        "documents with the lowest or the highest label",
        f"{FERRO}, l_HRel",
    ),
    Entry(
        "relevant_count",
        Subset(f"{HOME}:relevant_count", frozenset({"subset_share"})),
        "queries with the most relevant documents",
        f"{FERRO}, q_NRel",
    ),
    Entry(
        "feature_ndcg",
        Subset(f"{HOME}:feature_ndcg", frozenset({"subset_share", "feature"})),
        "queries that one feature alone ranks best",
        f"{FERRO}, q_BM25 and q_PageRank",
    ),
)
