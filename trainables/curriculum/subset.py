"""The parts of the training data that the first stage of a ranker may be trained on (Ferro et al. 2018, section 3), by
name; `RankerKind.staged` says which rankers have one.

They are chosen by labels and features, not by a trained ranker: what is easy is fixed before training.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from trainables.core.errors import DataError, Problem
from trainables.core.registry import Entry, Registry
from trainables.data.columns import RankingData, Split
from trainables.evaluation.metrics import Evaluator

NDCG = "ndcg@10"  # by which a feature ranks queries; the paper gives no cut-off
FERRO = "Ferro et al. 2018"


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
    """A function that gives the candidate rows to keep, int64 [N], ascending, and the keys of `curriculum` it needs."""

    function: Callable[[Labelled], np.ndarray]
    needs: frozenset[str] = frozenset()

    def __call__(self, labelled: Labelled) -> np.ndarray:
        return self.function(labelled)


def everything(labelled: Labelled) -> np.ndarray:
    return np.arange(len(labelled.split.document))


def label_extremes(labelled: Labelled) -> np.ndarray:
    """Candidates whose grade is the split's lowest or highest."""
    grade = labelled.split.grade
    return np.flatnonzero((grade == grade.min()) | (grade == grade.max()))


def relevant_count(labelled: Labelled) -> np.ndarray:
    """Candidates of the queries that have the most relevant candidates."""
    split = labelled.split
    relevant = np.bincount(split.owner[split.grade >= labelled.relevance_level], minlength=len(split))
    return best_queries(split, relevant, labelled.share)


def feature_ndcg(labelled: Labelled) -> np.ndarray:
    """Candidates of the queries with the highest nDCG@10 (trec_eval's) when ranked by one feature, descending.

    Raises DataError if the data has no such feature.
    """
    split, data = labelled.split, labelled.data
    count = 0 if data.features is None else data.features.shape[1]
    if data.features is None or labelled.feature > count:
        wrong = f"feature {labelled.feature}, but '{data.name}' has {count}"
        raise DataError(Problem("curriculum.feature", wrong, f"a number from 1 to {count}"))
    value = Evaluator(split, data.document_ids)(data.features[split.document, labelled.feature - 1], [NDCG])[NDCG]
    return best_queries(split, value, labelled.share)


def best_queries(split: Split, value: np.ndarray, share: float) -> np.ndarray:
    """Candidate rows of the `share` of queries with the highest value.

    At least one query; ties at the cut go to the first in the data.
    """
    count = math.ceil(share * len(split) - 1e-9)
    best = np.zeros(len(split), bool)
    best[np.argsort(-value, kind="stable")[:count]] = True
    return np.flatnonzero(best[split.owner])


SUBSETS: Registry[Subset] = Registry(
    "curriculum.subset",
    Entry("none", Subset(everything), "all training data from the start", "standard training"),
    Entry(
        "label_extremes",
        Subset(label_extremes),
        "documents with the lowest or the highest label",
        f"{FERRO}, l_HRel",
    ),
    Entry(
        "relevant_count",
        Subset(relevant_count, frozenset({"subset_share"})),
        "queries with the most relevant documents",
        f"{FERRO}, q_NRel",
    ),
    Entry(
        "feature_ndcg",
        Subset(feature_ndcg, frozenset({"subset_share", "feature"})),
        "queries that one feature alone ranks best",
        f"{FERRO}, q_BM25 and q_PageRank",
    ),
)
