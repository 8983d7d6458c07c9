"""Difficulty as a trained ranker, the teacher, sees it: BERT_pred and BERT_loss of Penha & Hauff (2020), Table 2."""

from __future__ import annotations

import numpy as np

from trainables.curriculum.scored import Groups, Scored


def model_margin(scored: Scored) -> np.ndarray:
    """Minus (mean probability of a query's relevant candidates - mean probability of its others), in [-1, 1].

    The paper's p(R+) - p(R-) with its leading minus sign; a query without candidates of a kind has 0 for it.
    """
    logits, relevant, groups = _judged(scored)
    probability = np.exp(-np.logaddexp(0, -logits))
    return scored.of_queries(_means_where(groups, probability, ~relevant) - _means_where(groups, probability, relevant))


def model_loss(scored: Scored) -> np.ndarray:
    """Mean binary cross-entropy over a query's candidates, at least 0."""
    logits, relevant, groups = _judged(scored)
    return scored.of_queries(groups.means(np.logaddexp(0, logits) - logits * relevant))


def _judged(scored: Scored) -> tuple[np.ndarray, np.ndarray, Groups]:
    """Logits float64 [K] and relevance bool [K] of the candidates that count."""
    groups = scored.groups
    logits = scored.teacher_scores()[groups.rows].astype(np.float64)
    return logits, scored.split.grade[groups.rows] >= scored.relevance_level, groups


def _means_where(groups: Groups, values: np.ndarray, chosen: np.ndarray) -> np.ndarray:
    return groups.sums(values * chosen) / np.maximum(groups.sums(chosen), 1)
