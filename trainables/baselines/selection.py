"""Which parameters of a baseline are best on a split, and the ranking that parameters give."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from trainables.baselines.base import Baseline, Params, Pool
from trainables.data.columns import Split, TextColumn
from trainables.data.combine import one_split
from trainables.evaluation.metrics import Evaluator, TrecOrder


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
        judge = Evaluator(pool.split, baseline.data.document_ids, run.evaluation.relevance_level, pool.depth)
        totals += [judge(score(point), [run.metric])[run.metric].sum() for point in points]
    values = totals / len(baseline.data.splits[name])
    best = int(np.argmax(values))
    return Choice(points[best], float(values[best]), len(points))


def rank(baseline: Baseline, name: str, params: Params) -> tuple[Split, np.ndarray]:
    """A split with the candidates that the baseline retrieved or was given, and their scores, float64 [C]."""
    parts = [_ranked(baseline, pool, params) for pool in baseline.pools(name, params)]
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
