"""Runs evaluated by pytrec_eval and ir_measures, and compared by paired tests over queries: `tune_cl.evaluate`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
from pydantic import Field

from trainables.core.errors import ConfigError, DataError, Problem
from trainables.data.columns import MAX_GRADE
from trainables.evaluation.metrics import ACCURACY, METRICS, parse_measures
from trainables.evaluation.reported import reported_values
from trainables.evaluation.significance import holm, paired_t_test
from trainables.evaluation.trec_files import Table, by_query, read_qrels, read_run, rows_of_mapping
from tune_cl.results import Interval, Result

USUAL = tuple(name for name in METRICS if name != ACCURACY)  # of rankings accuracy is p@1
COLUMNS = (("qid", "query_id", "query-id"), ("docno", "doc_id", "corpus-id"), ("score", "label", "relevance"))


class PairedTest(Result):
    """A metric of a run against the first run's, over queries. p_adjusted: by Holm over the runs compared."""

    difference: float
    t: float
    p: float
    p_adjusted: float
    ci95: Interval


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
    vs_first: dict[str, PairedTest] | None
    values: Any = Field(exclude=True, repr=False)


class Evaluation(Result):
    """What an evaluation came to. queries: ids in the order of the values; no part of the JSON."""

    runs: tuple[EvaluatedRun, ...]
    queries: tuple[str, ...] = Field(exclude=True, repr=False)


def evaluate(qrels: Any, runs: Any, metrics: str | Iterable[Any] | None = None, relevance_level: int = 1) -> Evaluation:
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
    measures = parse_measures([str(name).strip() for name in metrics or USUAL], "--metrics")
    if not 1 <= relevance_level <= MAX_GRADE:
        wrong = f"{relevance_level} is not a grade"
        raise ConfigError(Problem("--relevance-level", wrong, f"1 to {MAX_GRADE}"))
    judged, named_runs = read_all(qrels, runs)
    evaluated: list[EvaluatedRun] = []
    tests: list[dict[str, PairedTest] | None] = [None]
    values = [reported_values(judged, run, measures, relevance_level) for run in named_runs.values()]
    if len(values) > 1:
        tests += paired_tests(values[0], values[1:])
    for (name, run), columns, against_first in zip(named_runs.items(), values, tests, strict=True):
        means = {}
        for metric, column in columns.items():
            means[metric] = float(column.mean() if measures[metric].is_share else column.sum())
        missing = len(judged.keys() - run.keys())
        evaluated.append(
            EvaluatedRun(run=name, metrics=means, queries_missing=missing, vs_first=against_first, values=columns)
        )
    return Evaluation(runs=tuple(evaluated), queries=tuple(judged))


def paired_tests(
    first: Mapping[str, np.ndarray], others: Sequence[Mapping[str, np.ndarray]]
) -> list[dict[str, PairedTest]]:
    """By metric, for each of the other runs."""
    tests: list[dict[str, PairedTest]] = [{} for _ in others]
    for metric, reference in first.items():
        of_metric = [paired_t_test(other[metric], reference) for other in others]
        adjusted = holm(np.array([test.p for test in of_metric])).tolist()
        for row, test, p in zip(tests, of_metric, adjusted, strict=True):
            row[metric] = PairedTest(difference=test.difference, t=test.t, p=test.p, p_adjusted=p, ci95=test.ci95)
    return tests


def read_all(qrels: Any, runs: Any) -> tuple[Table, dict[str, Table]]:
    """The grades, and the runs by name. Raises one DataError with the problems of all."""
    problems: list[Problem] = []
    tables: dict[str, Table] = {}
    qrels_name = str(qrels) if isinstance(qrels, str | Path) else "qrels"
    judged = table_of(qrels, qrels_name, "label", problems)
    for name, run in runs_by_name(runs):
        table = tables[name] = table_of(run, name, "score", problems)
        if judged and table and not judged.keys() & table.keys():
            wrong = f"no query of the run is in {qrels_name}"
            problems.append(Problem(name, wrong, "give the qrels of this run's queries"))
    if not tables:
        problems.append(Problem("runs", "there is none", "one file or more"))
    if len(tables) > 1 and len(judged) == 1:
        problems.append(Problem(qrels_name, "one query only", "a paired t-test needs judgments for two or more"))
    if problems:
        raise DataError(problems)
    return judged, tables


def runs_by_name(runs: Any) -> list[tuple[str, Any]]:
    """Runs with what results call them."""
    if isinstance(runs, Mapping):
        first: Any = next(iter(runs.values()), None)
        of_one_run = isinstance(first, Mapping) and not isinstance(next(iter(first.values()), 0), Mapping)
        if not of_one_run:
            return [(str(name), run) for name, run in runs.items()]
    is_one = isinstance(runs, str | Path | Mapping) or hasattr(runs, "columns")
    several: list[Any] = [runs] if is_one else [*cast(Iterable[Any], runs)]
    return [(str(run) if isinstance(run, str | Path) else f"run {at}", run) for at, run in enumerate(several, 1)]


def table_of(source: Any, name: str, column: str, problems: list[Problem]) -> Table:
    """{query: {document: value}} of a file, a mapping or a DataFrame. What is wrong is added to the problems."""
    try:
        if isinstance(source, str | Path):
            return read_run(source) if column == "score" else read_qrels(source)
        if isinstance(source, Mapping):
            return by_query(rows_of_mapping(source, name), name, column)
        columns = [next((one for one in names if one in source.columns), names[0]) for names in COLUMNS]
        queries, documents, values = (source[one].tolist() for one in columns)
        return by_query(zip(map(str, queries), map(str, documents), values, strict=True), name, column)
    except DataError as error:
        problems += error.problems
    except (KeyError, AttributeError):
        problems.append(Problem(name, "not a run or qrels", "{query: {document: value}}, or qid, docno, score (label)"))
    return {}
