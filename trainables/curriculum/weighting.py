"""Weighting curricula (MacAvaney et al. 2020): easy samples weigh more until iteration m.

A heuristic turns the first-stage ranking into a value v in [0, 1] for each candidate (higher = ranked
better). A sample's ease D follows from v and the labels (Eq. 5, 6), its weight from D and the iteration (Eq. 3).
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from trainables.data.columns import NO_RANK, Split
from trainables.registry import Entry, Registry

Heuristic = Callable[[Split], np.ndarray]


def weights(ease: np.ndarray, iteration: int, m: float) -> np.ndarray:
    """W = D + (i / m)(1 - D) for i < m, else 1 (Eq. 3). `ease`: D in [0, 1]; `iteration`: i from 0; m may be inf."""
    if iteration >= m:
        return np.ones_like(ease)
    progress = 0.0 if math.isinf(m) else iteration / m
    return ease + progress * (1 - ease)


def pointwise_ease(value: np.ndarray, relevant: np.ndarray) -> np.ndarray:
    """D of a query-document sample: v where relevant, 1 - v elsewhere (Eq. 5)."""
    return np.where(relevant, value, 1 - value)


def pairwise_ease(positive: np.ndarray, negative: np.ndarray) -> np.ndarray:
    """D of a pair from the values of its two documents: (v+ - v- + 1) / 2 (Eq. 6)."""
    return (positive - negative + 1) / 2


def reciprocal_rank(split: Split) -> np.ndarray:
    """1 / first-stage rank (Eq. 7), float64 [C]. A candidate outside the run is below all ranks: 0."""
    ranked = split.rank != NO_RANK
    return np.where(ranked, 1 / np.where(ranked, split.rank, 1), 0.0)


def normalized_score(split: Split) -> np.ndarray:
    """First-stage score scaled to 0..1 within the query's run (Eq. 8), float64 [C].

    A candidate outside the run gets 0. Where all scores of a query are equal the run says nothing: .5.
    """
    values = np.zeros(len(split.document))
    listed = np.flatnonzero(~np.isnan(split.score))
    if not len(listed):
        return values
    owner, score = split.owner[listed], split.score[listed]
    low = np.full(len(split), np.inf)
    high = np.full(len(split), -np.inf)
    np.minimum.at(low, owner, score)
    np.maximum.at(high, owner, score)
    width = (high - low)[owner]
    flat = width == 0
    values[listed] = np.where(flat, 0.5, (score - low[owner]) / np.where(flat, 1, width))
    return values


MACAVANEY = "MacAvaney et al. 2020"
WEIGHTINGS: Registry[Heuristic | None] = Registry(
    "curriculum.weighting",
    Entry("none", None, "all samples weigh the same (plain training)", "baseline"),
    Entry("reciprocal_rank", reciprocal_rank, "ease from 1 / first-stage rank", f"{MACAVANEY}, Eq. 7"),
    Entry(
        "normalized_score",
        normalized_score,
        "ease from the first-stage score scaled within the query",
        f"{MACAVANEY}, Eq. 8",
    ),
)
