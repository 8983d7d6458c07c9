"""Weighting curricula (MacAvaney et al. 2020): easy samples weigh more until iteration m.

A heuristic turns the first-stage ranking into a value v in [0, 1] for each candidate (higher = ranked
better). A sample's ease D follows from v and the labels (Eq. 5, 6), its weight from D and the iteration (Eq. 3).

The weights of self-paced learning follow from an instance's loss and a threshold that rises (Jiang et al. 2014).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy.special import ndtr

from trainables.core.errors import WorkFailed
from trainables.core.registry import Entry, Part, Registry, require_arguments
from trainables.data.columns import NO_RANK, Split
from trainables.data.instances import NONE, Batch

Heuristic = Callable[[Split], np.ndarray]
SelfPaced = Callable[[np.ndarray], np.ndarray]
NODES = 32  # of kde's grid per bandwidth
KDE_ERROR = 1e-7  # 2 · max|Φ''''| · 9/16 / 4! / NODES⁴, rounded up
MACAVANEY, JIANG = "MacAvaney et al. 2020", "Jiang et al. 2014"
CODE_RANK = 1000  # the rank that the paper's code gives to documents outside the run


def weights(ease: np.ndarray, iteration: int, m: float) -> np.ndarray:
    """W = D + (i / m)(1 - D) for i < m, else 1 (Eq. 3). `ease`: D in [0, 1]; `iteration`: i from 0; m may be inf."""
    if iteration >= m:
        return np.ones_like(ease)
    return ease + progress_of(iteration, m) * (1 - ease)


def progress_of(iteration: int, m: float) -> float:
    """i / m; 0 for m = inf."""
    return 0.0 if math.isinf(m) else iteration / m


def pointwise_ease(value: np.ndarray, relevant: np.ndarray) -> np.ndarray:
    """D of a query-document sample: v where relevant, 1 - v elsewhere (Eq. 5)."""
    return np.where(relevant, value, 1 - value)


def pairwise_ease(positive: np.ndarray, negative: np.ndarray) -> np.ndarray:
    """D of a pair from the values of its two documents: (v+ - v- + 1) / 2 (Eq. 6)."""
    return (positive - negative + 1) / 2


def linear_weight(loss: np.ndarray) -> np.ndarray:
    """1 - ℓ / λ, and 0 from λ on. `loss`: ℓ / λ >= 0."""
    return np.maximum(0, 1 - loss)


def mixture_weight(loss: np.ndarray) -> np.ndarray:
    """1 up to λ₂, 0 from λ₁ on, and ζ / ℓ - ζ / λ₁ between, with ζ = λ₁ λ₂ / (λ₁ - λ₂) and λ₂ = λ₁ / 2, so ζ = λ₁.
    `loss`: ℓ / λ₁ >= 0."""
    return np.clip(1 / np.maximum(loss, 0.5) - 1, 0, 1)


WEIGHTINGS: Registry[Heuristic | None] = Registry(
    "curriculum.weighting",
    Entry("none", None, "all samples weigh the same (plain training)", "baseline"),
    Entry(
        "difficulty", None, "ease of an instance from its rank in the order of curriculum.scoring", "beyond the papers"
    ),
    Entry(
        "self_paced_linear",
        None,
        "1 - loss / threshold, the difficulty by curriculum.scoring as the loss; the threshold rises",
        JIANG,
    ),
    Entry(
        "self_paced_mixture",
        None,
        "1 up to half the threshold, then falling to 0 at the threshold, which rises",
        JIANG,
    ),
    open_to_plugins=True,
)
SELF_PACED_WEIGHTS: dict[str, SelfPaced] = {"self_paced_linear": linear_weight, "self_paced_mixture": mixture_weight}
OF_DIFFICULTY = frozenset({"difficulty", *SELF_PACED_WEIGHTS})  # weightings that read curriculum.scoring


def weighting(name: str, summary: str = "", source: str = "") -> Callable[[Part], Part]:
    """Registers a function of (split) as a heuristic: the value of each candidate in [0, 1], float64 [C], higher =
    easier if relevant. Each heuristic is an order too (`curriculum.scoring`)."""

    def value(function: Any) -> Heuristic:
        require_arguments(function, "split")
        return function

    return WEIGHTINGS.decorator(name, summary, source, value)


@weighting("reciprocal_rank", "ease from 1 / first-stage rank", f"{MACAVANEY}, Eq. 7")
def reciprocal_rank(split: Split) -> np.ndarray:
    """1 / first-stage rank (Eq. 7), float64 [C]. A candidate outside the run is below all ranks and gets 0."""
    ranked = split.rank != NO_RANK
    return np.where(ranked, 1 / np.where(ranked, split.rank, 1), 0.0)


@weighting("normalized_score", "ease from the first-stage score scaled within the query", f"{MACAVANEY}, Eq. 8")
def normalized_score(split: Split) -> np.ndarray:
    """First-stage score scaled to 0..1 within the query's run (Eq. 8), float64 [C].

    A candidate outside the run gets 0. If a query's scores are all equal, or there is only one, the run says nothing
    and the value is .5.
    """
    values = np.zeros(len(split.document))
    listed, _, scaled = _scaled(split)
    values[listed] = np.where(np.isnan(scaled), 0.5, scaled)
    return values


@weighting("kde", "ease from the first-stage score's position in its query's distribution", f"{MACAVANEY}, KDE")
def kde(split: Split) -> np.ndarray:
    """Share of the query's run below the score, smoothed by Gaussian kernels of Scott's width, float64 [C].

    A candidate outside the run counts as if it ended the run: the distribution has no end, so the paper gives it more
    than 0. Where all scores are equal, as in normalized_score. Within KDE_ERROR of scipy.stats.gaussian_kde.
    """
    values = np.zeros(len(split.document))
    listed, owner, scaled = _scaled(split)
    values[listed] = 0.5
    differ = np.flatnonzero(~np.isnan(scaled))
    for rows in np.split(differ, np.flatnonzero(np.diff(owner[differ])) + 1):
        if len(rows):
            values[listed[rows]] = _smoothed_ranks(scaled[rows])
    lowest = np.ones(len(split))
    np.minimum.at(lowest, owner, values[listed])
    lowest[np.bincount(owner, minlength=len(split)) == 0] = 0  # an empty run
    outside = np.isnan(split.score)
    values[outside] = lowest[split.owner[outside]]
    return values


def _smoothed_ranks(scores: np.ndarray) -> np.ndarray:
    """Mean of Φ((score - s) / h) over all scores s of one query, float64 [N]; the scores run from 0 to 1.

    Each score is spread over the four nearest nodes of a grid, the grid is smoothed, and the means are read off it by
    the same weights: linear in N, where the sum itself takes N² terms (65 ms for 1,000 candidates instead of 0.2 ms).
    """
    width = scores.std(ddof=1) * len(scores) ** (-1 / 5)  # Scott's h
    position = scores / width * NODES
    below = np.floor(position)
    t = position - below
    shares = np.stack(  # Lagrange's, of the nodes -1, 0, 1 and 2 beside each score; node -1 is stored at index 0
        [
            -t * (t - 1) * (t - 2) / 6,
            (t + 1) * (t - 1) * (t - 2) / 2,
            -(t + 1) * t * (t - 2) / 2,
            (t + 1) * t * (t - 1) / 6,
        ]
    )
    nodes = below.astype(np.int64) + np.arange(4)[:, None]
    size = int(nodes.max()) + 1
    spread = np.bincount(nodes.ravel(), shares.ravel(), size)
    smooth = np.convolve(ndtr(np.arange(1 - size, size) / NODES), spread, "valid")
    return (shares * smooth[nodes]).sum(axis=0) / len(scores)


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
    documents outside the run have rank 1000; and 0 under kde, which that code evaluates at a score that is not known
    here. Raises WorkFailed for values of a heuristic that are none."""
    value = WEIGHTINGS[name]
    assert value is not None, f"{name} is not a heuristic"
    values = np.asarray(value(split), np.float64)
    if values.shape != split.document.shape or not ((values >= 0) & (values <= 1)).all():
        raise WorkFailed(f"curriculum.weighting: '{name}' does not give each candidate a value from 0 to 1")
    if code and name == "reciprocal_rank":
        values[split.rank == NO_RANK] = 1 / CODE_RANK
    if code and name == "kde":
        values[np.isnan(split.score)] = 0
    return values


CODE_EPSILON = 1e-8  # added to D by the paper's code to avoid weights of 0


@dataclass(frozen=True)
class Losses:
    """Losses of the instances for the weights of self-paced learning (Jiang et al. 2014, "Easy Samples First").

    loss       float64 [I], from 0
    threshold  λ at iteration 0: the quantile of the losses at `delta`
    function   weight of ℓ / λ
    """

    loss: np.ndarray
    delta: float
    function: SelfPaced

    @cached_property
    def threshold(self) -> float:
        return max(float(np.quantile(self.loss, self.delta)), LEAST)

    def weights(self, rows: np.ndarray | slice, progress: float) -> np.ndarray:
        """Weight of instances, float64 [B]. The threshold is λ / (1 - progress): it grows without bound until all
        weights are 1 at progress 1."""
        return self.function(self.loss[rows] * (1 - progress) / self.threshold)


LEAST = 1e-12  # of a threshold, where most losses are 0


@dataclass(frozen=True)
class Weigher:
    """Weights of samples by their ease D (MacAvaney et al. 2020, Eq. 3), or by their losses.

    value     float64 [C] or None: the heuristic's value of each candidate
    relevant  bool [C] or None: candidates whose D in a pointwise sample is their value v, not 1 - v
    ease      float64 [I] or None: D of each instance, used where there is no `value`
    losses    of the instances, or None; used instead of D
    epsilon   added to D
    """

    m: float
    anti: bool
    pairwise: bool
    value: np.ndarray | None = None
    relevant: np.ndarray | None = None
    ease: np.ndarray | None = None
    losses: Losses | None = None
    epsilon: float = 0.0

    @property
    def reads_difficulty(self) -> bool:
        """Whether weights follow from the difficulty of the instances."""
        return self.ease is not None or self.losses is not None

    def __call__(self, samples: Batch, iteration: int) -> np.ndarray:
        """Weight of each sample at an iteration (from 0), float64 [B].

        A list weighs as its hardest pair, as in the code of MacAvaney et al. with several negatives.
        """
        if iteration >= self.m or (self.value is None and not self.reads_difficulty):
            return np.ones(len(samples.instance))
        if self.losses is not None:
            return self.losses.weights(samples.instance, progress_of(iteration, self.m))
        return weights(turned(self._ease(samples), self.anti) + self.epsilon, iteration, self.m)

    def used_share(self, iteration: int) -> float:
        """Share of the instances that weigh more than 0 at an iteration (from 0)."""
        if self.losses is None or iteration >= self.m:
            return 1.0
        return float((self.losses.weights(slice(None), progress_of(iteration, self.m)) > 0).mean())

    def _ease(self, samples: Batch) -> np.ndarray:
        if self.value is None or self.relevant is None:
            assert self.ease is not None
            return self.ease[samples.instance]
        if self.pairwise:
            ease = pairwise_ease(self.value[samples.positive], self.value[samples.negative.T])
            return ease.min(0) if ease.ndim > 1 else ease
        rows = np.where(samples.positive == NONE, samples.negative, samples.positive)
        return pointwise_ease(self.value[rows], self.relevant[rows])

    def with_difficulty(self, difficulty: np.ndarray) -> Weigher:
        """The weigher for a new difficulty of the instances; the same weigher if it does not read difficulty."""
        if self.losses is not None:
            return replace(self, losses=replace(self.losses, loss=losses_of(difficulty, self.anti)))
        return self if self.ease is None else replace(self, ease=ease_of(difficulty))


def turned(ease: np.ndarray, anti: bool) -> np.ndarray:
    """D under an anti-curriculum, where hard samples weigh more: 1 - D; otherwise D itself."""
    return 1 - ease if anti else ease


def losses_of(difficulty: np.ndarray, anti: bool) -> np.ndarray:
    """Difficulty as losses, float64 [I]: as it is, or from its lowest value on if that is below 0. Under an
    anti-curriculum the hardest instance has loss 0."""
    if anti:
        return difficulty.max(initial=0) - difficulty
    return difficulty - min(difficulty.min(initial=0), 0)


def ease_of(difficulty: np.ndarray) -> np.ndarray:
    """D = 1 - rank-normalised difficulty, float64 [I]: 1 for the easiest, 0 for the hardest; ties share a rank."""
    if len(difficulty) < 2:
        return np.ones(len(difficulty))
    from scipy.stats import rankdata  # here: it takes a third of a second to import

    return 1 - (rankdata(difficulty) - 1) / (len(difficulty) - 1)
