"""Which parameters of a baseline are best on a split, and the ranking that parameters give."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from trainables.baselines.base import Baseline, Params, Pool
from trainables.data.columns import Split, TextColumn
from trainables.data.combine import one_split
from trainables.evaluation.metrics import Judged, Ranking, TrecOrder, parse_metrics


class Judge:
    """The mean of one metric over the queries of a pool, for many score arrays."""

    def __init__(self, pool: Pool, ids: TextColumn, metric: str, relevance_level: int):
        split = pool.split
        self._metric = parse_metrics([metric])[metric]
        self._grade, self._level = split.grade, relevance_level
        self._order = TrecOrder(split, ids)
        self._judged = Judged.of(split.judged_grade, split.judged_offsets, relevance_level)
        self._kept = np.flatnonzero(self._order.rank <= (pool.depth or np.inf))

    def __call__(self, scores: np.ndarray) -> float:
        order, kept = self._order, self._kept
        grade = self._grade[order(scores)[kept]]
        ranking = Ranking(self._judged, order.owner[kept], order.rank[kept], grade, self._level)
        return float(self._metric(ranking).mean())


@dataclass(frozen=True)
class Choice:
    """The best point of a grid. `params`: all parameters; `value`: of the metric there; `points`: number tried."""

    params: Params
    value: float
    points: int


def choose(baseline: Baseline, name: str) -> Choice:
    """The point of the baseline's grid with the highest mean of `metric` on a split; the first of ties."""
    run, defaults = baseline.run, baseline.defaults()
    points = [{**defaults, **point} for point in baseline.grid]
    totals = np.zeros(len(points))
    for pool in baseline.pools(name):
        score = baseline.scorer(pool.split)
        judge = Judge(pool, baseline.data.document_ids, run.metric, run.evaluation.relevance_level)
        totals += [len(pool.split) * judge(score(point)) for point in points]
    values = totals / len(baseline.data.splits[name])
    best = int(np.argmax(values))
    return Choice(points[best], float(values[best]), len(points))


def rank(baseline: Baseline, name: str, params: Params) -> tuple[Split, np.ndarray]:
    """A split with the candidates that the baseline retrieved or was given, and their scores, float64 [C]."""
    parts = [_ranked(baseline, pool, params) for pool in baseline.pools(name)]
    return one_split([split for split, _ in parts]), np.concatenate([scores for _, scores in parts])


def _ranked(baseline: Baseline, pool: Pool, params: Params) -> tuple[Split, np.ndarray]:
    scores = baseline.scorer(pool.split)(params)
    if pool.depth is None:
        return pool.split, scores
    return first_ranks(pool.split, scores, baseline.data.document_ids, pool.depth)


def first_ranks(split: Split, scores: np.ndarray, ids: TextColumn, depth: int) -> tuple[Split, np.ndarray]:
    """The split with only the `depth` best candidates of each query, best first, and their scores."""
    order = TrecOrder(split, ids)
    rows = order(scores)[order.rank <= depth]
    offsets = np.concatenate([[0], np.cumsum(np.minimum(split.sizes, depth))])
    columns = {name: getattr(split, name)[rows] for name in ("document", "grade", "rank", "score")}
    return replace(split, offsets=offsets, **columns), scores[rows]
