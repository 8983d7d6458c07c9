"""Runs evaluated by pytrec_eval and ir_measures, and compared by paired tests over queries: `tune_cl.evaluate`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
from pydantic import Field

from trainables.core.errors import ConfigError, DataError, Problem, gathering
from trainables.core.prose import say
from trainables.data.columns import MAX_GRADE
from trainables.evaluation.measures import IrMeasure, Qrels, Run
from trainables.evaluation.metrics import ACCURACY, METRICS, Metric, parse_measures
from trainables.evaluation.reported import reported_values
from trainables.evaluation.significance import holm, paired_t_test
from trainables.evaluation.trec_files import Table, by_query, read_qrels, read_run, rows_of_mapping
from tune_cl.results import Result

USUAL = tuple(name for name in METRICS if name != ACCURACY)  # of rankings accuracy is p@1
COLUMNS = (("qid", "query_id", "query-id"), ("docno", "doc_id", "corpus-id"), ("score", "label", "relevance"))


class PairedTest(Result):
    """A metric of a run against the first run's, over queries. p_adjusted: over the runs compared (Holm)."""

    difference: float
    t: float
    p: float
    p_adjusted: float
    ci95: tuple[float, float]


class EvaluatedRun(Result):
    """run              its file or name
    metrics          means over all queries of the qrels; of counts (num_ret) the sum
    queries_missing  judged queries that the run lacks; they count 0
    vs_first         tests against the first run, by metric; None of the first
    values           of each metric by query, float64 [Q], in the order of the qrels; no part of the JSON
    """

    run: str
    metrics: dict[str, float]
    queries_missing: int
    vs_first: dict[str, PairedTest] | None = None
    values: Any = Field(exclude=True, repr=False)


class Evaluation(Result):
    """What an evaluation came to. queries: ids in the order of the values; no part of the JSON."""

    runs: tuple[EvaluatedRun, ...]
    queries: tuple[str, ...] = Field(exclude=True, repr=False)


def evaluate(
    qrels: Any,
    runs: Any,
    metrics: str | Iterable[Any] | None = None,
    relevance_level: int = 1,
) -> Evaluation:
    """Measures of run files, and paired tests.

        tune-cl evaluate qrels.test.txt bm25.run ranker.run --metrics map,ndcg@20 --relevance-level 2

    Means are over all queries of the qrels (trec_eval's -c): a query that a run lacks counts 0; queries without
    judgments are ignored. Each run from the second on is compared with the first by a paired t-test over queries.

    qrels            a TREC file, plain or .gz; in Python also {query: {document: grade}} or a DataFrame with qid,
                     docno, label
    runs             TREC files, of which the first is the reference; in Python also {query: {document: score}},
                     DataFrames with qid, docno, score, or a mapping of names to these
    metrics          names of trec_eval and ir_measures with commas between them: map, mrr@10, ndcg@10, P_5, bpref, ...
    relevance_level  the lowest relevant grade

    Raises ConfigError for a wrong option, DataError for wrong files and values.
    """
    if isinstance(metrics, str):
        metrics = metrics.split(",")
    names = [str(name).strip() for name in metrics or USUAL]
    measures = checked_measures(names, relevance_level)
    qrels_name, judged, named_runs = read_all(qrels, runs)
    if len(named_runs) > 1 and len(judged) < 2:
        raise DataError(Problem(qrels_name, "one query only", "a paired t-test needs judgments for two or more"))
    highest = max((grade for grades in judged.values() for grade in grades.values()), default=0)
    if highest < relevance_level:
        none = f"no judgment reaches grade {relevance_level} (--relevance-level), the highest is {highest}"
        say(f"note: {qrels_name}: {none}: all metrics but ndcg are 0")
    values = [reported_values(judged, run, measures, relevance_level) for run in named_runs.values()]
    tests = [None, *paired_tests(values, names)]
    evaluated = []
    for name, columns, against_first in zip(named_runs, values, tests, strict=True):
        missing = len(judged.keys() - named_runs[name].keys())
        means = {metric: mean_or_sum(measures[metric], column) for metric, column in columns.items()}
        evaluated.append(
            EvaluatedRun(run=name, metrics=means, queries_missing=missing, vs_first=against_first, values=columns)
        )
    return Evaluation(runs=tuple(evaluated), queries=tuple(judged))


def mean_or_sum(measure: Metric | IrMeasure, column: np.ndarray) -> float:
    """The mean over queries; of counts the sum, as in trec_eval."""
    return float(column.mean() if measure.is_share else column.sum())


def checked_measures(names: list[str], relevance_level: int) -> dict[str, Metric | IrMeasure]:
    """The measures of these names. Raises ConfigError with all that is wrong with the options."""
    problems: list[Problem] = []
    measures: dict[str, Metric | IrMeasure] = {}
    with gathering(problems):
        measures = parse_measures(names, "--metrics")
    if not 1 <= relevance_level <= MAX_GRADE:
        problems.append(Problem("--relevance-level", f"{relevance_level} is not a grade", f"1 to {MAX_GRADE}"))
    if problems:
        raise ConfigError(problems)
    return measures


def paired_tests(values: Sequence[Mapping[str, np.ndarray]], metrics: Sequence[str]) -> list[dict[str, PairedTest]]:
    """By metric, for each run from the second on; p is adjusted by Holm, metric by metric."""
    first, *others = values
    tests: list[dict[str, PairedTest]] = [{} for _ in others]
    for metric in metrics:
        of_metric = [paired_t_test(other[metric], first[metric]) for other in others]
        adjusted = holm(np.array([test.p for test in of_metric])).tolist()
        for row, test, p in zip(tests, of_metric, adjusted, strict=True):
            row[metric] = PairedTest(difference=test.difference, t=test.t, p=test.p, p_adjusted=p, ci95=test.ci95)
    return tests


# -- what is given -------------------------------------------------------------------------------------------------


def read_all(qrels: Any, runs: Any) -> tuple[str, Qrels, dict[str, Run]]:
    """The name of the qrels, their grades, and the runs by name; raises one DataError with the problems of all."""
    named = runs_by_name(runs)
    if not named:
        raise DataError(Problem("runs", "there is none", "one file or more"))
    problems: list[Problem] = []
    qrels_name = name_of(qrels, "qrels")
    judged: Table = {}
    read: dict[str, Run] = {}
    try:
        judged = table_of(qrels, qrels_name, "label")
    except DataError as error:
        problems += error.problems
    for name, run in named:
        try:
            read[name] = table_of(run, name, "score")
        except DataError as error:
            problems += error.problems
            continue
        if judged and not judged.keys() & read[name].keys():
            wrong = f"no query of the run is in {qrels_name}"
            problems.append(Problem(name, wrong, "give the qrels of this run's queries"))
    if problems:
        raise DataError(problems)
    for name, run in read.items():
        if not any(judged[query].keys() & run[query].keys() for query in judged.keys() & run.keys()):
            say(f"note: {name}: none of its documents is judged; are the ids those of {qrels_name}?")
    return qrels_name, judged, read


def runs_by_name(runs: Any) -> list[tuple[str, Any]]:
    """Runs with what results call them."""
    if isinstance(runs, Mapping) and not is_run(runs):
        return [(str(name), run) for name, run in runs.items()]
    is_one = isinstance(runs, str | Path | Mapping) or hasattr(runs, "columns")
    several: Sequence[Any] = [runs] if is_one else [*cast(Iterable[Any], runs)]
    return [(name_of(run, f"run {number}"), run) for number, run in enumerate(several, 1)]


def is_run(runs: Mapping[Any, Any]) -> bool:
    """Whether a mapping is one run, {query: {document: score}}, and not runs by name."""
    first = next(iter(runs.values()), None)
    if not isinstance(first, Mapping):
        return False
    return not isinstance(next(iter(first.values()), 0.0), Mapping)


def name_of(source: Any, otherwise: str) -> str:
    return str(source) if isinstance(source, str | Path) else otherwise


def table_of(source: Any, name: str, column: str) -> Table:
    """{query: {document: value}} of a file, a mapping or a DataFrame. Raises DataError."""
    if isinstance(source, str | Path):
        return read_run(source) if column == "score" else read_qrels(source)
    if isinstance(source, Mapping):
        return by_query(rows_of_mapping(source, name), name, column)
    columns = [next((one for one in names if one in source.columns), None) for names in COLUMNS]
    if None in columns:
        wrong = f"a DataFrame with the columns {', '.join(map(str, source.columns))}"
        raise DataError(Problem(name, wrong, "qid, docno, and label or score"))
    queries, documents, values = (source[one].tolist() for one in columns)
    return by_query(zip(map(str, queries), map(str, documents), values, strict=True), name, column)
