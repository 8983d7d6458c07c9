"""Do training labels look wrong? What BM25 says of them, compared with what it says of the labels of dev."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from trainables.core.randomness import generator
from trainables.data.columns import RankingData, Split
from trainables.data.combine import drawn_queries
from trainables.data.labels import bm25_scores
from trainables.data.settings import DataConfig

CHANCE = 0.5  # agreement of labels that have nothing to do with BM25
MOST_QUERIES = 2000  # of a split that are looked at
DRAWS = 1000  # of the bootstrap
LEAST_SIGNAL = 0.05  # distance of dev's agreement from chance; below it BM25 says nothing about labels


@dataclass(frozen=True)
class LabelCheck:
    """`train`, `dev`: agreement of the labels with BM25, that is, how often BM25 scores a relevant candidate of a query
    above another one (ties count half): the area under the ROC curve, mean over queries. `wrong_share`: the share of
    wrong training labels that would explain the difference, with its 95 % interval `ci95`; None where BM25 says nothing
    about dev's labels."""

    train: float
    dev: float
    wrong_share: float | None
    ci95: tuple[float, float] | None

    @property
    def finding(self) -> Literal["unclear", "wrong", "lexical", "as dev"]:
        """wrong: training labels agree with BM25 less than dev's, beyond chance; lexical: they agree more; as dev:
        neither is shown."""
        if self.ci95 is None:
            return "unclear"
        low, high = self.ci95
        return "wrong" if low > 0 else "lexical" if high < 0 < self.dev - CHANCE else "as dev"


def check_labels(data: RankingData, config: DataConfig, level: int) -> LabelCheck | None:
    """Compares training labels with dev's; None for data without texts, without documents to rank, or where no query of
    a split has both relevant and other candidates.

    A wrong label says nothing about the query, so it agrees with BM25 half of the time: with a share w of them,
    agreement is (1 - w) A + w / 2, where A is that of right labels. Dev's labels are taken as right; the interval is
    the bootstrap's over queries.
    """
    if data.task != "ranking" or data.features is not None or not {"train", "dev"} <= data.splits.keys():
        return None
    splits = [drawn_queries(data.splits[name], MOST_QUERIES, "label check, queries") for name in ("train", "dev")]
    train, dev = (agreements(split, bm25_scores(data, split, config), level) for split in splits)
    if not (len(train) and len(dev)):
        return None
    means = float(train.mean()), float(dev.mean())
    signal = means[1] - CHANCE
    if abs(signal) < LEAST_SIGNAL:
        return LabelCheck(*means, None, None)
    rng = generator(0, "label check")
    differences = _means(dev, rng) - _means(train, rng)
    low, high = np.percentile(differences / signal, [2.5, 97.5]).tolist()
    return LabelCheck(*means, (means[1] - means[0]) / signal, (low, high))


def agreements(split: Split, scores: np.ndarray, level: int) -> np.ndarray:
    """Area under the ROC curve of the candidates' scores (float [C]) in each query that has both relevant and other
    candidates, float64 [Q']. Unjudged candidates count as not relevant."""
    relevant, owner = split.grade >= level, split.owner
    value = np.unique(scores, return_inverse=True)[1] + owner * len(scores)
    ends = [np.searchsorted(np.sort(value), value, side) for side in ("left", "right")]
    rank = (sum(ends) + 1) / 2 - split.offsets[owner]  # from the lowest, of ties the mean
    count = np.bincount(owner[relevant], minlength=len(split))
    won = np.bincount(owner[relevant], rank[relevant], minlength=len(split)) - count * (count + 1) / 2
    pairs = count * (split.sizes - count)
    return won[pairs > 0] / pairs[pairs > 0]


def _means(values: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Means of DRAWS samples of the queries with replacement."""
    return np.array([values[rng.integers(len(values), size=len(values))].mean() for _ in range(DRAWS)])
