"""First-stage scores as a part of a ranker's score (OpenNIR's `add_runscore`; MacAvaney et al. 2020)."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import torch
from torch import Tensor, nn

from trainables.core.errors import ConfigError, Problem
from trainables.data.columns import RankingData, Split
from trainables.rankers.ranker import RankerModule

KEY = "ranker.add_first_stage"
FIRST_ALPHA = -1.0  # sigmoid(-1) = .268941 of the score is neural at the start


class ScoreAdditivity(nn.Module):
    """a neural + (1 - a) first_stage with a = sigmoid(alpha); alpha is the one parameter."""

    def __init__(self) -> None:
        super().__init__()
        self.alpha = nn.Parameter(torch.tensor(FIRST_ALPHA))

    def forward(self, neural: Tensor, first_stage: Tensor) -> Tensor:
        """Scores [B] of both kinds to scores [B]."""
        return torch.lerp(first_stage, neural, self.alpha.sigmoid())


def require_first_stage(data: RankingData, splits: Iterable[str]) -> None:
    """Raises ConfigError if one of the splits has no first-stage score at all."""
    for name in splits:
        if np.isnan(data.splits[name].score).all():
            wrong = f"'{data.name}' has no first-stage scores in its {name} split"
            raise ConfigError(Problem(KEY, wrong, "false, or data whose candidates come from a run or from BM25"))


def first_stage_scores(split: Split) -> np.ndarray:
    """First-stage scores of all candidates, float32 [C].

    A candidate that is not in the run gets its query's lowest score. If a query has no scores at all, its candidates
    get the lowest of the split; being equal for all of them, it changes no order.
    """
    lowest = np.full(len(split), np.nan)
    np.fmin.at(lowest, split.owner, split.score)
    lowest = np.where(np.isnan(lowest), np.fmin.reduce(split.score), lowest)
    return np.where(np.isnan(split.score), lowest[split.owner], split.score).astype(np.float32)


def first_stage_for(module: RankerModule, split: Split) -> np.ndarray | None:
    """first_stage_scores for a ranker that reads them, else None."""
    return first_stage_scores(split) if module.reads_first_stage else None
