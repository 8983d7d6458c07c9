"""Weighting curricula (MacAvaney et al. 2020): easy samples weigh more until iteration m.

A heuristic turns the first-stage ranking into a value v in [0, 1] for each candidate (higher = ranked
better). A sample's ease D follows from v and the labels (Eq. 5, 6), its weight from D and the iteration (Eq. 3).
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from trainables.curriculum.kde import cumulated
from trainables.data.columns import NO_RANK, Split
from trainables.registry import Entry, Registry

Heuristic = Callable[[Split], np.ndarray]
CODE_RANK = 1000  # the rank that the paper's code gives to documents outside the run


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
    """1 / first-stage rank (Eq. 7), float64 [C]. A candidate outside the run is below all ranks and gets 0."""
    ranked = split.rank != NO_RANK
    return np.where(ranked, 1 / np.where(ranked, split.rank, 1), 0.0)


def normalized_score(split: Split) -> np.ndarray:
    """First-stage score scaled to 0..1 within the query's run (Eq. 8), float64 [C].

    A candidate outside the run gets 0. If a query's scores are all equal, or there is only one, the run says nothing
    and the value is .5.
    """
    values = np.zeros(len(split.document))
    listed, _, scaled = _scaled(split)
    values[listed] = np.where(np.isnan(scaled), 0.5, scaled)
    return values


def kde(split: Split) -> np.ndarray:
    """Share of the query's run below the score, smoothed by Gaussian kernels of Scott's width, float64 [C].

    Edge cases as in normalized_score. Within 1e-7 of scipy.stats.gaussian_kde (see trainables.curriculum.kde).
    """
    values = np.zeros(len(split.document))
    listed, owner, scaled = _scaled(split)
    values[listed] = 0.5
    told = ~np.isnan(scaled)
    queries, place = np.unique(owner[told], return_inverse=True)
    values[listed[told]] = cumulated(scaled[told], place, len(queries))
    return values


def _scaled(split: Split) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Candidate rows in the run, their queries, and their scores scaled to 0..1 within the query.

    NaN where all scores of a query are equal.
    """
    listed = np.flatnonzero(~np.isnan(split.score))
    owner, score = split.owner[listed], split.score[listed]
    low = np.full(len(split), np.inf)
    high = np.full(len(split), -np.inf)
    np.minimum.at(low, owner, score)
    np.maximum.at(high, owner, score)
    with np.errstate(invalid="ignore"):
        width = (high - low)[owner]
        return listed, owner, (score - low[owner]) / np.where(width > 0, width, np.nan)


def values_of(name: str, split: Split, code: bool) -> np.ndarray:
    """Value of each candidate under a heuristic, float64 [C]. `code`: as in the code of MacAvaney et al., where
    documents outside the run have rank 1000."""
    value = WEIGHTINGS[name]
    assert value is not None, f"{name} is no heuristic"
    found = value(split)
    if code and name == "reciprocal_rank":
        found[split.rank == NO_RANK] = 1 / CODE_RANK
    return found


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
    Entry("kde", kde, "ease from the first-stage score's place in its query's distribution", f"{MACAVANEY}, KDE"),
    Entry(
        "difficulty", None, "ease of an instance from its place in the order of curriculum.scoring", "beyond the papers"
    ),
)
