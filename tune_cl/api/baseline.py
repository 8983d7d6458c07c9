"""A ranking that needs no training, from start to end: `tune_cl.baseline` and `tune-cl baseline`."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any, Literal

import numpy as np
from pydantic import Field

from trainables.baselines import load_baseline
from trainables.baselines.lexical import Baseline
from trainables.config.keys import TrainingConfig
from trainables.core.files import output_file
from trainables.core.prose import say
from trainables.data import load_data
from trainables.data.columns import RankingData, Split, SplitName, required_split
from trainables.data.forms.frames import Data, as_source
from trainables.evaluation.metrics import ACCURACY, METRICS
from trainables.evaluation.per_query import Accuracy, write_predictions
from trainables.evaluation.reported import split_values
from trainables.evaluation.trec_files import write_run
from tune_cl.api.outputs import data_label, output_path
from tune_cl.api.session import working
from tune_cl.experiment.load import Overrides, load_training_run, parse_overrides
from tune_cl.results import Result

Setting = Literal["default", "tuned"]
NAMED = "DATA.BASELINE.SETTING.SPLIT.run.txt"  # an output: a file of this name in the working folder


class Chosen(Result):
    """What was chosen from a grid by `metric`: its value there, and the number of points."""

    metric: str
    value: float
    points: int


class Ranking(Result):
    """A split as a baseline ranks it.

    metrics   means over the queries
    params    all parameters
    setting   default, or tuned (on dev)
    queries   how many were ranked
    ranked    candidates, or pairs (which are classified)
    chosen    how the parameters were chosen; None for the default ones
    run_file  the TREC run, or the predictions of pairs; None if none was asked for
    run       {query: {document: score}}, as `tune_cl.evaluate` takes it; no part of the JSON
    """

    metrics: dict[str, float]
    params: dict[str, Any]
    setting: Setting
    split: str
    queries: int
    ranked: str
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

        tune-cl baseline ../data/wikiqa bm25 --tune
        tune-cl baseline ../data/cacm sdm --tune --set metric=ndcg@10

    Ranks the split's candidates, as the ranker does. embedding has nothing to tune; pairs to classify it parts by the
    threshold that is best on dev. Parameters are data.bm25.k1, data.bm25.b, ranker.vectors and ranker.vector_size.

    data       docstrings, ir_datasets:NAME, hf:NAME, or a folder in one of the formats of tune-cl list data; in
               Python also tables
    name       bm25, sdm, embedding, or oracle: the judgments themselves
    split      whose queries are ranked
    tune       the best parameters of a grid on dev
    output     a TREC run; in Python by default none is written
    overrides  configuration keys with values or ranges (VALUE is YAML), repeatable
    progress   False: nothing is printed

    Raises ConfigError or DataError for what cannot be done.
    """
    with working(progress):
        kind = load_baseline(name)
        setting: Setting = "tuned" if tune and kind.grid else "default"
        if setting == "tuned" and split == "dev":
            say("note: --tune used dev itself: its dev values are a bound, not a fair baseline")
        run = load_training_run(None, overrides or {}, as_source(data), kind.ranker)
        ranking_file = _file(output, run, f"{name}.{setting}.{split}.run.txt")
        started = time.perf_counter()
        ranker = _prepared(kind, run, split, setting)
        if tune and setting == "default" and ranker.data.task == "ranking":
            say(f"note: nothing to tune: {name} has no parameters to tune")
        _note_idle(kind, setting, overrides or {})
        if ranker.data.task == "classification":
            predictions_file = _file(output, run, f"{name}.tuned.{split}.predictions.tsv")
            return _classified(ranker, split, predictions_file, started)
        return _ranked(ranker, name, split, setting, ranking_file, started)


def _file(output: str | Path | None, run: TrainingConfig, name: str) -> Path | None:
    """The file to write, named after the data where none is: runs of other data stay."""
    if output is None:
        return None
    named = f"{data_label(run.data.source)}.{name}"
    return output_path(None if output == NAMED else output, named, run.data.source)


def _note_idle(kind: type[Baseline], setting: Setting, overrides: Overrides) -> None:
    read = ["data.", "evaluation."]
    read += [] if setting == "default" else ["metric"]
    read += ["ranker."] if kind.ranker else []
    if idle := [key for key in parse_overrides(overrides) if not key.startswith(tuple(read))]:
        say(f"note: without effect on this baseline: {', '.join(idle)}")


def _prepared(kind: type[Baseline], run: TrainingConfig, split: str, setting: Setting) -> Baseline:
    """The baseline over its data."""
    data = load_data(run.data, run.evaluation.relevance_level)
    on_dev = setting == "tuned" or data.task == "classification"
    splits = list(dict.fromkeys(["dev", split] if on_dev else [split]))
    for name in splits:
        required_split(data, name)
    for note in data.notes:
        say(f"note: {note}")
    return kind(data, run, splits)


def _ranked(
    ranker: Baseline, name: str, split_name: str, setting: Setting, output: Path | None, started: float
) -> Ranking:
    tuned = None
    if setting == "tuned":
        say(f"trying {len(ranker.grid)} settings on dev")
        tuned = ranker.grid_best("dev")
    params = tuned.params if tuned else ranker.defaults()
    split = ranker.data.splits[split_name]
    scores = ranker.scorer(split)(params)
    values = split_values(split, ranker.data, scores, METRICS, ranker.run.evaluation.relevance_level)
    if output:
        with output_file(output) as file:
            write_run(file, split, ranker.data, scores, name)
    return Ranking(
        metrics={metric: float(column.mean()) for metric, column in values.items()},
        params=dict(params),
        setting=setting,
        split=split_name,
        queries=len(split),
        ranked="candidates",
        chosen=Chosen(metric=ranker.run.metric, value=tuned.value, points=tuned.points) if tuned else None,
        seconds=time.perf_counter() - started,
        run_file=output,
        run=_run(ranker.data, split, scores),
    )


def _classified(ranker: Baseline, split_name: str, output: Path | None, started: float) -> Ranking:
    """Pairs classified by the threshold that is best on dev."""
    from trainables.baselines.word_embeddings import best_threshold

    data, params = ranker.data, ranker.defaults()
    dev, split = data.splits["dev"], data.splits[split_name]
    on_dev, scores = ranker.scorer(dev)(params), ranker.scorer(split)(params)
    threshold, sides = best_threshold(on_dev, dev.grade, len(data.classes))
    logits = np.log(sides + 1.0)[(scores >= threshold).astype(int)]
    if output:
        with output_file(output) as file:
            write_predictions(file, split, data, logits)
    best = float(sides.max(1).sum() / len(dev))
    return Ranking(
        metrics={ACCURACY: float(Accuracy(split)(logits)[ACCURACY].mean())},
        params={**params, "threshold": threshold},
        setting="tuned",
        split=split_name,
        queries=len(split),
        ranked="pairs",
        chosen=Chosen(metric=ACCURACY, value=best, points=len(np.unique(on_dev))),
        seconds=time.perf_counter() - started,
        run_file=output,
        run=_run(data, split, scores),
    )


def _run(data: RankingData, split: Split, scores: np.ndarray) -> dict[str, dict[str, float]]:
    queries = [data.query_ids[query] for query in split.query[split.owner].tolist()]
    documents = [data.document_ids[document] for document in split.document.tolist()]
    run: dict[str, dict[str, float]] = {}
    for query, document, score in zip(queries, documents, scores.tolist(), strict=True):
        run.setdefault(query, {})[document] = score
    return run
