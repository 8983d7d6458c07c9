"""Runs of queries: evaluate compares them, baseline makes those that need no training."""

from __future__ import annotations

import time
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np
import pytrec_eval

from trainables.baselines.lexical import Baseline, Params
from trainables.core.errors import ConfigError, DataError, Problem
from trainables.core.prose import say
from trainables.data.columns import MAX_GRADE, Split, TextColumn
from trainables.data.combine import one_split
from trainables.evaluation.metrics import (
    ACCURACY,
    METRIC_FORMS,
    METRICS,
    Evaluator,
    Judgments,
    Metric,
    Ranking,
    TrecOrder,
    parse_measures,
)
from trainables.evaluation.other_measures import Elsewhere, Qrels, Run, mean_of, values_elsewhere
from trainables.evaluation.significance import CORRECTIONS, adjust, paired_t_test
from trainables.evaluation.trec_files import read_qrels, read_run
from tune_cl.cli import Command
from tune_cl.cli.options import DATA_HELP, add_overrides, add_split
from tune_cl.cli.tables import table

if TYPE_CHECKING:
    from trainables.config.keys import TrainingRun


T = TypeVar("T")
CORRECTION = "holm"
BARE_MEASURES = {"map": "map", "rprec": "Rprec", "mrr": "recip_rank", "ndcg": "ndcg", "accuracy": "P.1"}
CUT_MEASURES = {"map": "map_cut", "p": "P", "recall": "recall", "ndcg": "ndcg_cut", "success": "success"}


class EvaluateCommand(Command):
    """Example: tune-cl evaluate qrels.test.txt bm25.run ranker.run --metrics map,ndcg@20 --relevance-level 2

    Evaluates TREC run files as trec_eval does, averaged over all queries of the qrels (trec_eval -c). Each run from the
    second on is compared with the first by a paired t-test over queries."""

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("qrels", metavar="QRELS", help="TREC qrels file, plain or .gz")
        parser.add_argument("runs", metavar="RUN", nargs="+", help="TREC run files; the first is the reference")
        names = ",".join(name for name in METRICS if name != ACCURACY)  # of rankings accuracy is p@1
        parser.add_argument(
            "--metrics", default=names, help=f"separated by commas; {METRIC_FORMS} (default %(default)s)"
        )
        parser.add_argument(
            "--relevance-level", type=int, default=1, metavar="N", help="lowest relevant grade (default 1)"
        )
        parser.add_argument("--correction", help=f"{', '.join(CORRECTIONS)} (default {CORRECTION})")

    def execute(self, options: Namespace) -> dict[str, Any]:
        metrics = [name.strip() for name in options.metrics.split(",")]
        document = evaluate(
            options.qrels, options.runs, metrics, options.relevance_level, options.correction or CORRECTION
        )
        if options.correction and len(options.runs) == 1:
            say("note: without effect on one run: --correction")
        return document

    def render(self, document: Mapping[str, Any]) -> str:
        """The document for people: the means, then each comparison with the first run."""
        runs = document["runs"]
        parts = [table(["run", *runs[0]["metrics"]], ([entry["run"], *entry["metrics"].values()] for entry in runs))]
        for entry in runs:
            if entry["queries_missing"]:
                parts.append(f"{entry['run']} lacks {entry['queries_missing']} judged queries; they count 0.")
        for entry in runs[1:]:
            parts.append(f"{entry['run']} against {runs[0]['run']}, paired t-test over queries:\n{_comparison(entry)}")
        return "\n\n".join(parts)


def evaluate(
    qrels: str, runs: list[str], metrics: list[str], relevance_level: int = 1, correction: str = CORRECTION
) -> dict[str, Any]:
    """Evaluates TREC runs with pytrec_eval; each from the second on is compared with the first by a paired t-test.

    Means are over all queries of the qrels (trec_eval's -c): a query that the run lacks counts 0, and
    `queries_missing` says how many those are; queries without judgments are ignored. A note on stderr says if no
    judgment reaches `relevance_level`. p-values are corrected, metric by metric, over the runs compared. `t` is
    infinite if all differences are equal but not 0, and p is then 0 (`paired_t_test`).

    Returns `{"runs": [{run, metrics, queries_missing, vs_first: {metric: {difference, t, p, p_adjusted, ci95}}}]}`.
    Raises ConfigError for a wrong option, DataError for wrong files.
    """
    parsed = _check_options(metrics, relevance_level, correction)
    judged, read = _read_all(qrels, runs)
    if len(runs) > 1 and len(judged) < 2:
        raise DataError(Problem(qrels, "one query only", "a paired t-test needs judgments for two or more"))
    highest = max(grade for grades in judged.values() for grade in grades.values())
    if highest < relevance_level:
        none = f"no judgment reaches grade {relevance_level} (--relevance-level), the highest is {highest}"
        say(f"note: {qrels}: {none}: all metrics but ndcg are 0")
    ours = {name: metric for name, metric in parsed.items() if isinstance(metric, Metric)}
    others = [measure for measure in parsed.values() if isinstance(measure, Elsewhere)]
    values = []
    for run in read:
        found = per_query(judged, run, ours, relevance_level)
        found |= values_elsewhere(others, judged, run, relevance_level)
        values.append({name: found[name] for name in parsed})
    document: list[dict[str, Any]] = [
        {
            "run": path,
            "metrics": {name: mean_of(name, column) for name, column in columns.items()},
            "queries_missing": len(judged.keys() - run.keys()),
        }
        for path, run, columns in zip(runs, read, values, strict=True)
    ]
    for entry, comparison in zip(document[1:], _compare(values, list(parsed), correction), strict=True):
        entry["vs_first"] = comparison
    return {"runs": document}


def per_query(qrels: Qrels, run: Run, metrics: Mapping[str, Metric], relevance_level: int = 1) -> dict[str, np.ndarray]:
    """Values by pytrec_eval, float64 [Q] for each metric, in the order of the qrels; 0 for a query the run lacks."""
    # A negative grade counts as 0 in all these measures, but pytrec_eval crashes or hangs on a query with no other.
    judged = {query: {document: max(grade, 0) for document, grade in grades.items()} for query, grades in qrels.items()}
    ranked = {query: documents for query, documents in run.items() if query in qrels}
    values: dict[str, np.ndarray] = {}
    here = {name: metric for name, metric in metrics.items() if metric.family == "ndcg_exp"}  # trec_eval has it not
    values |= {name: metric(_ranking(qrels, run, relevance_level)) for name, metric in here.items()}
    trecs = {name: metric for name, metric in metrics.items() if name not in here}
    for level in dict.fromkeys(metric.level or relevance_level for metric in trecs.values()):
        of_level = {name: metric for name, metric in trecs.items() if (metric.level or relevance_level) == level}
        measures = {_measure(metric) for metric in of_level.values()}
        results = pytrec_eval.RelevanceEvaluator(judged, measures, relevance_level=level).evaluate(ranked)
        values |= {name: _column(results, metric, qrels) for name, metric in of_level.items()}
    return {name: values[name] for name in metrics}


def _ranking(qrels: Qrels, run: Run, relevance_level: int) -> Ranking:
    """The run's documents of the judged queries in trec_eval's order: by score as float32, then by id."""
    judged = [np.array(list(grades.values())) for grades in qrels.values()]
    offsets = np.cumsum([0, *map(len, judged)])
    rows = []
    for row, (query, grades) in enumerate(qrels.items()):
        ranked = run.get(query, {}).items()
        order = sorted(ranked, key=lambda pair: (np.float32(pair[1]), pair[0].encode()), reverse=True)
        rows += [(row, rank, grades.get(document, 0)) for rank, (document, _) in enumerate(order, start=1)]
    of, ranks, found = np.array(rows, np.int64).reshape(-1, 3).T
    return Ranking(Judgments.of(np.concatenate(judged), offsets, relevance_level), of, ranks, found, relevance_level)


def _column(results: Mapping[str, Mapping[str, float]], metric: Metric, qrels: Qrels) -> np.ndarray:
    key = _measure(metric).replace(".", "_")
    column = np.array([results[query][key] if query in results else 0.0 for query in qrels])
    if metric.family == "mrr" and metric.cut is not None:
        column[column < 1 / metric.cut] = 0.0  # the first relevant document is below the cut
    return column


def _measure(metric: Metric) -> str:
    """trec_eval's name for the measure; trec_eval has no reciprocal rank with a cut."""
    if metric.cut is None or metric.family == "mrr":
        return BARE_MEASURES[metric.family]
    return f"{CUT_MEASURES[metric.family]}.{metric.cut}"


def _check_options(metrics: list[str], relevance_level: int, correction: str) -> dict[str, Metric | Elsewhere]:
    problems: list[Problem] = []
    parsed = _collect(problems, lambda: parse_measures(metrics, "--metrics"))
    _collect(problems, lambda: CORRECTIONS[correction])
    if relevance_level < 1:
        problems.append(Problem("--relevance-level", f"{relevance_level} is below 1", "give 1 or more"))
    if relevance_level > MAX_GRADE:
        problems.append(Problem("--relevance-level", f"{relevance_level} is not a grade", f"give {MAX_GRADE} or less"))
    if problems or parsed is None:
        raise ConfigError(problems)
    return parsed


def _read_all(qrels: str, runs: list[str]) -> tuple[Qrels, list[Run]]:
    """Reads all files; raises one DataError with the problems of all of them."""
    problems: list[Problem] = []
    judged = _collect(problems, lambda: read_qrels(qrels, pipes=True))
    read = [_collect(problems, lambda path=path: read_run(path, pipes=True)) for path in runs]
    if judged is not None:
        for path, run in zip(runs, read, strict=True):
            if run is not None and not judged.keys() & run.keys():
                wrong = f"no query of the run is in {qrels}"
                problems.append(Problem(path, wrong, "give the qrels of this run's queries"))
    if problems or judged is None:
        raise DataError(problems)
    for path, run in zip(runs, read, strict=True):
        if run is not None and not any(
            judged[query].keys() & run[query].keys() for query in judged.keys() & run.keys()
        ):
            say(f"note: {path}: none of its documents is judged; are the ids those of {qrels}?")
    return judged, [run for run in read if run is not None]


def _collect(problems: list[Problem], work: Callable[[], T]) -> T | None:
    try:
        return work()
    except (ConfigError, DataError) as error:
        problems += error.problems
        return None


def _compare(values: list[dict[str, np.ndarray]], metrics: list[str], correction: str) -> list[dict[str, Any]]:
    """{metric: {difference, t, p, p_adjusted, ci95}} for each run from the second on."""
    first, *others = values
    comparisons: list[dict[str, Any]] = [{} for _ in others]
    for metric in metrics:
        tests = [paired_t_test(other[metric], first[metric]) for other in others]
        adjusted = adjust([test.p for test in tests], correction)
        for comparison, test, p_adjusted in zip(comparisons, tests, adjusted, strict=True):
            figures = {"difference": test.difference, "t": test.t, "p": test.p}
            comparison[metric] = figures | {"p_adjusted": float(p_adjusted), "ci95": list(test.ci95)}
    return comparisons


def _comparison(entry: Mapping[str, Any]) -> str:
    columns = ["metric", "difference", "95 % from", "to", "t", "p", "p adjusted"]
    rows = (
        [name, test["difference"], *test["ci95"], test["t"], _p(test["p"]), _p(test["p_adjusted"])]
        for name, test in entry["vs_first"].items()
    )
    return table(columns, rows)


def _p(p: float) -> str:
    return "<0.0001" if p < 0.0001 else f"{p:.4f}"


class BaselineCommand(Command):
    """Examples:
      tune-cl baseline ../data/wikiqa bm25 --tune
      tune-cl baseline ../data/nfcorpus sdm --retrieve --tune --set metric=ndcg@10

    Ranks the split's candidates, or, with --retrieve and where the candidates themselves were retrieved by BM25, the
    whole collection to a depth of data.top_k. --tune takes the parameters that are best on dev by `metric`, --optimize-
    on-test those that are best on test: a bound for BM25 and SDM, no fair baseline. `embedding` has nothing to tune;
    pairs to classify it parts by the threshold that is best on dev, with one class on either side. Parameters are set
    with --set data.bm25.k1, data.bm25.b, ranker.vectors and ranker.vector_size."""

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("data", metavar="DATA", help=DATA_HELP)
        parser.add_argument("baseline", metavar="BASELINE", help="bm25, sdm, embedding or oracle")
        add_split(parser, "test", "queries are ranked")
        setting = parser.add_mutually_exclusive_group()
        setting.add_argument("--tune", action="store_true", help="the best parameters of a grid on dev")
        setting.add_argument("--optimize-on-test", action="store_true", help="the best parameters of the grid on test")
        parser.add_argument("--retrieve", action="store_true", help="rank the whole collection")
        parser.add_argument("--output", type=Path, help="run file (default: BASELINE.SETTING.SPLIT.run.txt)")
        add_overrides(parser)

    def execute(self, options: Namespace) -> dict[str, Any]:
        from trainables.baselines import load_baseline
        from trainables.core.files import output_file, require_file
        from trainables.evaluation.trec_files import write_run
        from tune_cl.experiment.load import load_training_run, parse_overrides

        kind = load_baseline(options.baseline)
        setting = _setting(options, kind)
        output = options.output or Path(f"{options.baseline}.{setting}.{options.split}.run.txt")
        require_file("--output", output)
        run = load_training_run(None, options.overrides, options.data, kind.ranker)
        started = time.perf_counter()
        baseline = _prepare(kind, run, options, setting)
        if options.tune and setting == "default" and baseline.data.task == "ranking":
            say(f"note: nothing to tune: {options.baseline} has no parameters to tune")
        read = ("data.", "evaluation.", *(() if setting == "default" else ("metric",)))
        read += ("ranker.",) if kind.ranker else ()
        if idle := [key for key in parse_overrides(options.overrides) if not key.startswith(read)]:
            say(f"note: without effect on this baseline: {', '.join(idle)}")
        if baseline.data.task == "classification":
            return _classified(baseline, options) | {"seconds": time.perf_counter() - started}
        tuned = None
        if chosen_on := {"tuned": "dev", "optimized_on_test": "test"}.get(setting):
            say(f"trying {len(baseline.grid)} settings on {chosen_on}")
            tuned = grid_best(baseline, chosen_on)
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

    def render(self, document: dict[str, Any]) -> str:
        params = ", ".join(f"{key} {value}" for key, value in document["params"].items())
        tuned = document["chosen"]
        how = f"{document['setting']}: {params}"
        if tuned:
            where = "dev" if document["setting"] == "tuned" else "test itself: a bound, not a fair baseline"
            how += f" (best {tuned['metric']} {tuned['value']:.4f} of {tuned['points']} settings on {where})"
        head = f"{document['queries']} {document['split']} queries, ranked: {document['ranked']}"
        metrics = table(["metric", document["split"]], document["metrics"].items())
        return "\n\n".join([f"{head}\n{how}", metrics, f"run written to {document['run_file']}"])


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


def _classified(baseline: Baseline, options: Namespace) -> dict[str, Any]:
    """Pairs classified by the threshold that is best on dev."""
    from trainables.baselines.word_embeddings import best_threshold
    from trainables.core.files import output_file
    from trainables.evaluation.per_query import Accuracy, write_predictions

    data, params = baseline.data, baseline.defaults()
    dev, split = data.splits["dev"], data.splits[options.split]
    on_dev = baseline.scorer(dev)(params)
    threshold, sides = best_threshold(on_dev, dev.grade, len(data.classes))
    logits = np.log(sides + 1.0)[(baseline.scorer(split)(params) >= threshold).astype(int)]
    output = options.output or Path(f"{options.baseline}.tuned.{options.split}.predictions.tsv")
    with output_file(output) as file:
        write_predictions(file, split, data, logits)
    chosen = {"metric": ACCURACY, "value": float(sides.max(1).sum() / len(dev)), "points": len(np.unique(on_dev))}
    return {
        "metrics": {ACCURACY: float(Accuracy(split)(logits)[ACCURACY].mean())},
        "params": params | {"threshold": threshold},
        "run_file": str(output),
        "setting": "tuned",
        "split": options.split,
        "queries": len(split),
        "ranked": "pairs",
        "chosen": chosen,
    }


def _setting(options: Namespace, kind: type[Baseline]) -> str:
    """default, tuned or optimized_on_test; raises ConfigError for options that exclude each other."""
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
    return "tuned" if tunes else "optimized_on_test" if options.optimize_on_test else "default"


def _prepare(kind: type[Baseline], run: TrainingRun, options: Namespace, setting: str) -> Baseline:
    """The baseline over its data."""
    from trainables.data import load_data
    from trainables.data.columns import required_split

    data = None if options.retrieve else load_data(run.data, run.evaluation.relevance_level)
    collection = data is None or (data.retrieved and kind.retrieves)
    if data is None or collection:
        data = load_data(run.data.model_copy(update={"candidates": "qrels"}), run.evaluation.relevance_level)
    on_dev = setting == "tuned" or data.task == "classification"
    splits = list(dict.fromkeys(["dev", options.split] if on_dev else [options.split]))
    for name in splits:
        required_split(data, name)
    for note in [] if collection else data.notes:
        say(f"note: {note}")
    return kind(data, run, splits, collection)
