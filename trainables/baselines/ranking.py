"""What a baseline ranks, and the best parameters of its grid."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from trainables.baselines.lexical import Baseline, Params
from trainables.data.columns import Split, TextColumn
from trainables.data.combine import one_split
from trainables.evaluation.metrics import Evaluator, TrecOrder


class GridBest(NamedTuple):
    """The best point of a grid. `params`: all parameters; `value`: the metric there; `points`: number of points."""

    params: Params
    value: float
    points: int


def grid_best(baseline: Baseline, name: str) -> GridBest:
    """The point of the baseline's grid with the highest mean of `metric` on a split; the first of ties."""
    run, defaults = baseline.run, baseline.defaults()
    points = [{**defaults, **point} for point in baseline.grid]
    totals = np.zeros(len(points))
    for pool in baseline.pools(name):
        score = baseline.scorer(pool.split)
        evaluator = Evaluator(pool.split, baseline.data.document_ids, run.evaluation.relevance_level, pool.depth)
        totals += [evaluator(score(point), [run.metric])[run.metric].sum() for point in points]
    values = totals / len(baseline.data.splits[name])
    best = int(np.argmax(values))
    return GridBest(points[best], float(values[best]), len(points))


def rank(baseline: Baseline, name: str, params: Params) -> tuple[Split, np.ndarray]:
    """A split with the candidates that the baseline retrieved or was given, and their scores, float64 [C]."""
    splits, columns = [], []
    for pool in baseline.pools(name, params):
        split, scores = pool.split, baseline.scorer(pool.split)(params)
        if pool.depth is not None:
            split, scores = first_ranks(split, scores, baseline.data.document_ids, pool.depth)
        splits.append(split)
        columns.append(scores)
    return one_split(splits), np.concatenate(columns)


def first_ranks(split: Split, scores: np.ndarray, ids: TextColumn, depth: int) -> tuple[Split, np.ndarray]:
    """The split with only the `depth` best candidates of each query, best first, and their scores."""
    order = TrecOrder(split, ids)
    rows = order(scores)[order.rank <= depth]
    offsets = np.concatenate([[0], np.cumsum(np.minimum(split.sizes, depth))])
    columns = {name: getattr(split, name)[rows] for name in ("document", "grade", "rank", "score")}
    return replace(split, offsets=offsets, **columns), scores[rows]
