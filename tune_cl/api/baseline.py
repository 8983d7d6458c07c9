"""A ranking that needs no training, from start to end: `tune_cl.baseline` and `tune-cl baseline`."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import Field

from trainables.baselines import load_baseline
from trainables.baselines.lexical import Baseline, Params
from trainables.core.prose import say
from trainables.data import load_data
from trainables.data.columns import RankingData, Split, SplitName, required_split
from trainables.data.forms.frames import Data, as_source
from trainables.evaluation.measures import run_of
from trainables.evaluation.metrics import ACCURACY, METRICS
from trainables.evaluation.per_query import Accuracy, write_scores
from trainables.evaluation.reported import split_values
from tune_cl.api.outputs import output_path
from tune_cl.api.session import working
from tune_cl.experiment.load import Overrides, load_training_run
from tune_cl.results import Result


class Chosen(Result):
    """What was chosen on dev by `metric`: its value there, and the number of points."""

    metric: str
    value: float
    points: int


class Ranking(Result):
    """A split as a baseline ranks it.

    metrics   means over the queries
    params    all parameters
    queries   how many were ranked
    chosen    how the parameters were chosen; None for the default ones
    run_file  the TREC run, or the predictions of pairs; None if none was asked for
    run       {query: {document: score}}, as `tune_cl.evaluate` takes it, None of pairs; no part of the JSON
    """

    metrics: dict[str, float]
    params: dict[str, Any]
    split: str
    queries: int
    chosen: Chosen | None
    seconds: float
    run_file: Path | None
    run: Any = Field(exclude=True, repr=False)


def baseline(
    data: Data,
    name: str,
    split: SplitName = "test",
    tune: bool = False,
    output: str | Path | None = None,
    overrides: Overrides | None = None,
    progress: bool = True,
) -> Ranking:
    """Rankings without training: bm25, sdm, embedding.

        tune-cl baseline ../data/wikiqa bm25 --tune --output bm25.run

    Ranks the split's candidates, as the ranker does. embedding has nothing to tune; pairs to classify it parts by the
    threshold that is best on dev.

    data       docstrings, ir_datasets:NAME, hf:NAME, a folder (tune-cl list data); in Python also tables
    name       bm25, sdm, embedding, or oracle: the judgments themselves
    split      whose queries are ranked
    tune       the best parameters of a grid on dev
    output     a TREC run; by default none is written
    overrides  configuration keys with values or ranges (VALUE is YAML), repeatable
    progress   False: nothing is printed

    Raises ConfigError or DataError for what cannot be done.
    """
    with working(progress):
        kind = load_baseline(name)
        run = load_training_run(None, overrides or {}, as_source(data), kind.ranker)
        path = output_path(output, run.data.source, "") if output else None
        started = time.perf_counter()
        tuned = tune and bool(kind.grid)
        data = load_data(run.data, run.evaluation.relevance_level)
        splits = dict.fromkeys(["dev", split] if tuned or data.task == "classification" else [split])
        for part in splits:
            required_split(data, part)
        candidates = data.splits[split]
        for note in data.notes:
            say(f"note: {note}")
        ranker = kind(data, run, list(splits))
        if data.task == "classification":
            params, chosen, scores = _classified(ranker, candidates)
            values, scored = Accuracy(candidates)(scores), None
        else:
            params, chosen = _tuned(ranker) if tuned else (ranker.defaults(), None)
            scores = ranker.scorer(candidates)(params)
            values = split_values(candidates, data, scores, METRICS, run.evaluation.relevance_level)
            scored = _by_query(candidates, data, scores)
        if path:
            write_scores(path, candidates, data, scores, name)
        return Ranking(
            metrics={metric: float(column.mean()) for metric, column in values.items()},
            params=dict(params),
            split=split,
            queries=len(candidates),
            chosen=chosen,
            seconds=time.perf_counter() - started,
            run_file=path,
            run=scored,
        )


def _by_query(candidates: Split, data: RankingData, scores: np.ndarray) -> dict[str, Mapping[str, float]]:
    """The run as `tune_cl.evaluate` takes it: {query: {document: score}}."""
    by_row = run_of(candidates, data.document_ids, scores)
    return {data.query_ids[int(candidates.query[int(row)])]: ranked for row, ranked in by_row.items()}


def _tuned(ranker: Baseline) -> tuple[Params, Chosen]:
    say(f"trying {len(ranker.grid)} settings on dev")
    best = ranker.grid_best("dev")
    return best.params, Chosen(metric=ranker.run.metric, value=best.value, points=best.points)


def _classified(ranker: Baseline, split: Split) -> tuple[Params, Chosen, np.ndarray]:
    """Parameters and logits, [C, K], of pairs that are classified by the threshold that is best on dev."""
    from trainables.baselines.word_embeddings import best_threshold

    params, dev = ranker.defaults(), ranker.data.splits["dev"]
    on_dev, scores = (ranker.scorer(part)(params) for part in (dev, split))
    threshold, sides = best_threshold(on_dev, dev.grade, len(ranker.data.classes))
    logits = np.log(sides + 1.0)[(scores >= threshold).astype(int)]
    accuracy = float(sides.max(1).sum() / len(dev))
    chosen = Chosen(metric=ACCURACY, value=accuracy, points=len(np.unique(on_dev)))
    return {**params, "threshold": threshold}, chosen, logits
