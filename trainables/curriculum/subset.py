"""Subsets of the training data for the first stage of a ranker of trees (Ferro et al. 2018, section 3).

Labels and features choose them, not a trained ranker: what is easy is said before training.
"""

from __future__ import annotations

import math

import numpy as np

from trainables.data.columns import RankingData, Split
from trainables.errors import DataError, Problem
from trainables.evaluation.metrics import Evaluator
from trainables.registry import Entry, Registry

FERRO = "Ferro et al. 2018"
LABEL_EXTREMES, RELEVANT_COUNT, FEATURE_NDCG = "label_extremes", "relevant_count", "feature_ndcg"
SUBSETS: Registry[str] = Registry(
    "curriculum.subset",
    Entry("none", "none", "all training data from the start", "standard training"),
    Entry(LABEL_EXTREMES, LABEL_EXTREMES, "documents with the lowest or the highest label", f"{FERRO}, l_HRel"),
    Entry(RELEVANT_COUNT, RELEVANT_COUNT, "queries with the most relevant documents", f"{FERRO}, q_NRel"),
    Entry(
        FEATURE_NDCG,
        FEATURE_NDCG,
        "queries that one feature alone ranks best",
        f"{FERRO}, q_BM25 and q_PageRank",
    ),
)


def label_extremes(split: Split) -> np.ndarray:
    """Candidate rows whose grade is the split's lowest or highest, int64 [N], ascending."""
    return np.flatnonzero((split.grade == split.grade.min()) | (split.grade == split.grade.max()))


def relevant_count(split: Split, relevance_level: int) -> np.ndarray:
    """Relevant candidates a query, float64 [Q]."""
    return np.bincount(split.owner[split.grade >= relevance_level], minlength=len(split)).astype(np.float64)


def feature_ndcg(split: Split, data: RankingData, feature: int, cutoff: int) -> np.ndarray:
    """nDCG (trec_eval's) of each query ranked by one feature, descending, float64 [Q].

    feature  its number, from 1 as in the data's files. Raises DataError if the data has no such feature.
    """
    count = 0 if data.features is None else data.features.shape[1]
    if data.features is None or feature > count:
        wrong = f"feature {feature}, but '{data.name}' has {count}"
        raise DataError(Problem("curriculum.feature", wrong, f"a number from 1 to {count}"))
    metric = f"ndcg@{cutoff}"
    return Evaluator(split, data.document_ids)(data.features[split.document, feature - 1], [metric])[metric]


def best_queries(split: Split, value: np.ndarray, share: float) -> np.ndarray:
    """Candidate rows of the `share` of queries with the highest value, int64 [N], ascending.

    At least one query; of equal queries at the border the first in the data.
    """
    count = math.ceil(share * len(split) - 1e-9)
    chosen = np.zeros(len(split), bool)
    chosen[np.argsort(-value, kind="stable")[:count]] = True
    return np.flatnonzero(chosen[split.owner])


def subset_rows(
    name: str, split: Split, data: RankingData, *, share: float, feature: int, cutoff: int, relevance_level: int
) -> np.ndarray:
    """Candidate rows of the split that the named subset keeps, int64 [N], ascending."""
    if name == LABEL_EXTREMES:
        return label_extremes(split)
    if name == RELEVANT_COUNT:
        return best_queries(split, relevant_count(split, relevance_level), share)
    if name == FEATURE_NDCG:
        return best_queries(split, feature_ndcg(split, data, feature, cutoff), share)
    return np.arange(len(split.document))
