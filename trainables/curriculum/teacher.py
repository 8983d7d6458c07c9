"""Difficulty as a trained ranker, the teacher, sees it: BERT_pred and BERT_loss of Penha & Hauff (2020), Table 2.

For a pair to classify, they are the margin of its class over the likeliest other class, and its cross-entropy.
"""

from __future__ import annotations

import numpy as np

from trainables.curriculum.scored import Groups, Scored


def model_margin(scored: Scored) -> np.ndarray:
    """Minus (mean probability of a query's relevant candidates - mean probability of its others), in [-1, 1].

    The paper's p(R+) - p(R-) with its leading minus sign; without candidates of one kind, that mean is 0. For a pair to
    classify: minus (probability of its class - largest probability of another).
    """
    if scored.data.task == "classification":
        right, others = _class_log_probabilities(scored)
        return scored.of_queries(np.exp(others.max(axis=1)) - np.exp(right))
    logits, relevant, groups = _judged(scored)
    probability = np.exp(-np.logaddexp(0, -logits))
    return scored.of_queries(_means_where(groups, probability, ~relevant) - _means_where(groups, probability, relevant))


def model_loss(scored: Scored) -> np.ndarray:
    """Mean binary cross-entropy over a query's candidates; for a pair to classify, the cross-entropy of its class."""
    if scored.data.task == "classification":
        return scored.of_queries(-_class_log_probabilities(scored)[0])
    logits, relevant, groups = _judged(scored)
    return scored.of_queries(groups.means(np.logaddexp(0, logits) - logits * relevant))


def _class_log_probabilities(scored: Scored) -> tuple[np.ndarray, np.ndarray]:
    """Log-probabilities of each pair's class, float64 [Q], and of each other class, float64 [Q, K - 1]."""
    logits = scored.teacher_scores().astype(np.float64)
    log_probability = logits - np.logaddexp.reduce(logits, axis=1, keepdims=True)
    right = np.arange(logits.shape[1]) == scored.split.grade[:, None]
    return log_probability[right], log_probability[~right].reshape(len(logits), -1)


def _judged(scored: Scored) -> tuple[np.ndarray, np.ndarray, Groups]:
    """Logits, float64 [K], and relevance, bool [K], of the candidates that count; and their groups."""
    groups = scored.groups
    logits = scored.teacher_scores()[groups.rows].astype(np.float64)
    return logits, scored.split.grade[groups.rows] >= scored.relevance_level, groups


def _means_where(groups: Groups, values: np.ndarray, chosen: np.ndarray) -> np.ndarray:
    return groups.sums(values * chosen) / np.maximum(groups.sums(chosen), 1)
