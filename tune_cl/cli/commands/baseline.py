"""Examples:
  tune-cl baseline ../data/wikiqa bm25 --tune
  tune-cl baseline ../data/nfcorpus sdm --retrieve --tune --set metric=ndcg@10

Ranks the split's candidates, or, with --retrieve and where the candidates themselves were retrieved by BM25, the whole
collection to a depth of data.top_k. --tune takes the parameters that are best on dev by `metric`, --optimize-on-test
those that are best on test: a bound for BM25 and SDM, no fair baseline. `embedding` has nothing to tune. Parameters are
set with --set data.bm25.k1, data.bm25.b, ranker.vectors and ranker.vector_size."""

from __future__ import annotations

import time
from argparse import ArgumentParser, Namespace
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from trainables.baselines.lexical import Baseline, Params, Pool
from trainables.core.prose import say
from trainables.data.columns import Split, TextColumn
from trainables.data.combine import one_split
from trainables.evaluation.metrics import Evaluator, TrecOrder
from tune_cl.cli.options import DATA_HELP, add_overrides, add_split
from tune_cl.cli.tables import table

if TYPE_CHECKING:
    from trainables.config.keys import TrainingRun


@dataclass(frozen=True)
class GridBest:
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


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("data", metavar="DATA", help=DATA_HELP)
    parser.add_argument("baseline", metavar="BASELINE", help="bm25, sdm, embedding or oracle")
    add_split(parser, "test", "queries are ranked")
    setting = parser.add_mutually_exclusive_group()
    setting.add_argument("--tune", action="store_true", help="the best parameters of a grid on dev")
    setting.add_argument("--optimize-on-test", action="store_true", help="the best parameters of the grid on test")
    parser.add_argument("--retrieve", action="store_true", help="rank the whole collection")
    parser.add_argument("--output", type=Path, help="run file (default: BASELINE.SETTING.SPLIT.run.txt)")
    add_overrides(parser)


def execute(options: Namespace) -> dict[str, Any]:
    from trainables.baselines import load_baseline
    from trainables.core.files import output_file, require_file
    from trainables.evaluation.metrics import Evaluator
    from trainables.evaluation.trec_files import write_run
    from tune_cl.experiment.load import load_training_run, parse_overrides

    kind = load_baseline(options.baseline)
    setting = _setting(options, kind)
    output = options.output or Path(f"{options.baseline}.{setting}.{options.split}.run.txt")
    require_file("--output", output)
    run = load_training_run(None, options.overrides, options.data, kind.ranker)
    started = time.perf_counter()
    baseline = _prepare(kind, run, options, setting)
    if idle := [key for key in parse_overrides(options.overrides) if not key.startswith(_read(kind, setting))]:
        say(f"note: without effect on this baseline: {', '.join(idle)}")
    tuned = _tuned(baseline, setting)
    params = tuned.params if tuned else baseline.defaults()
    split, scores = rank(baseline, options.split, params)
    data = baseline.data
    values = Evaluator(split, data.document_ids, run.evaluation.relevance_level)(scores)
    with output_file(output) as file:
        write_run(file, split, data, scores, options.baseline)
    return {
        "metrics": {name: float(column.mean()) for name, column in values.items()},
        "params": params,
        "run_file": str(output),
        "setting": setting,
        "split": options.split,
        "queries": len(split),
        "ranked": "collection" if baseline.collection else "candidates",
        "chosen": tuned and {"metric": run.metric, "value": tuned.value, "points": tuned.points},
        "seconds": time.perf_counter() - started,
    }


def _setting(options: Namespace, kind: type[Baseline]) -> str:
    """default, tuned or optimized_on_test; raises ConfigError for options that exclude each other."""
    from trainables.core.errors import ConfigError, Problem

    problems, tunes, flag = [], options.tune and bool(kind.grid), "--optimize-on-test"
    if options.optimize_on_test and not kind.grid:
        problems.append(Problem(flag, f"{options.baseline} has no parameters to tune", f"leave {flag} out"))
    if options.optimize_on_test and options.split != "test":
        problems.append(Problem(flag, f"reports test, not {options.split}", "leave --split out"))
    if options.retrieve and not kind.retrieves:
        problems.append(Problem("--retrieve", f"{options.baseline} ranks candidates only", "leave --retrieve out"))
    if problems:
        raise ConfigError(problems)
    if tunes and options.split == "dev":
        say("note: --tune used dev itself: its dev values are a bound, not a fair baseline")
    if options.tune and not tunes:
        say(f"note: nothing to tune: {options.baseline} has no parameters to tune")
    return "tuned" if tunes else "optimized_on_test" if options.optimize_on_test else "default"


def _read(kind: type[Baseline], setting: str) -> tuple[str, ...]:
    """The prefixes of the keys that have an effect."""
    tuned_by = () if setting == "default" else ("metric",)
    return ("data.", "evaluation.", *tuned_by, *(("ranker.",) if kind.ranker else ()))


def _prepare(kind: type[Baseline], run: TrainingRun, options: Namespace, setting: str) -> Baseline:
    """The baseline over its data."""
    from trainables.data import load_data
    from trainables.data.columns import required_split

    splits = list(dict.fromkeys(["dev", options.split] if setting == "tuned" else [options.split]))
    data = None if options.retrieve else load_data(run.data, run.evaluation.relevance_level)
    collection = data is None or (data.retrieved and kind.retrieves)
    if data is None or collection:
        data = load_data(run.data.model_copy(update={"candidates": "qrels"}), run.evaluation.relevance_level)
    for name in splits:
        required_split(data, name)
    for note in [] if collection else data.notes:
        say(f"note: {note}")
    return kind(data, run, splits, collection)


def _tuned(baseline: Baseline, setting: str) -> GridBest | None:
    """The best parameters of the grid; None for default parameters."""
    name = {"tuned": "dev", "optimized_on_test": "test"}.get(setting)
    if name is None:
        return None
    say(f"trying {len(baseline.grid)} settings on {name}")
    return grid_best(baseline, name)


def render(document: dict[str, Any]) -> str:
    params = ", ".join(f"{key} {value}" for key, value in document["params"].items())
    tuned = document["chosen"]
    how = f"{document['setting']}: {params}"
    if tuned:
        where = "dev" if document["setting"] == "tuned" else "test itself: a bound, not a fair baseline"
        how += f" (best {tuned['metric']} {tuned['value']:.4f} of {tuned['points']} settings on {where})"
    head = f"{document['queries']} {document['split']} queries, ranked: {document['ranked']}"
    metrics = table(["metric", document["split"]], document["metrics"].items())
    return "\n\n".join([f"{head}\n{how}", metrics, f"run written to {document['run_file']}"])
