"""Subsets of the training data for the first stage of a ranker of trees (Ferro et al. 2018, section 3).

They are chosen by labels and features, not by a trained ranker: what is easy is fixed before training.
"""

from __future__ import annotations

import math

import numpy as np

from trainables.core.errors import DataError, Problem
from trainables.curriculum.subset import Labelled
from trainables.data.columns import Split
from trainables.evaluation.metrics import Evaluator

NDCG = "ndcg@10"  # by which a feature ranks queries; the paper gives no cut-off


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
