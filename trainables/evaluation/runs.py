"""Runs evaluated as trec_eval does, and compared by paired tests over queries."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np

from trainables.core.errors import ConfigError, DataError, Problem, gathering
from trainables.core.prose import say
from trainables.data.columns import MAX_GRADE
from trainables.evaluation.measures import IrMeasure, Qrels, Run
from trainables.evaluation.metrics import ACCURACY, METRICS, Metric, parse_measures
from trainables.evaluation.reported import reported_values
from trainables.evaluation.significance import CORRECTIONS, adjust, paired_t_test
from trainables.evaluation.trec_files import read_qrels, read_run

CORRECTION = "holm"
USUAL = tuple(name for name in METRICS if name != ACCURACY)  # of rankings accuracy is p@1
COLUMNS = (("qid", "query_id", "query-id"), ("docno", "doc_id", "corpus-id"), ("score", "label", "relevance"))


@dataclass(frozen=True)
class Comparison:
    """A metric of a run against the first run's, over queries. `p_adjusted`: over the runs compared."""

    difference: float
    t: float
    p: float
    p_adjusted: float
    ci95: tuple[float, float]


@dataclass(frozen=True)
class EvaluatedRun:
    """run              its file or name
    metrics          means over all queries of the qrels; of counts (num_ret) the sum
    queries_missing  judged queries that the run lacks; they count 0
    values           of each metric by query, float64 [Q], in the order of the qrels
    vs_first         comparisons with the first run, by metric; None of the first
    """

    run: str
    metrics: Mapping[str, float]
    queries_missing: int
    values: Mapping[str, np.ndarray]
    vs_first: Mapping[str, Comparison] | None = None

    @property
    def document(self) -> dict[str, Any]:
        document: dict[str, Any] = {"run": self.run, "metrics": {**self.metrics}}
        document["queries_missing"] = self.queries_missing
        if self.vs_first is not None:
            document["vs_first"] = {name: asdict(one) | {"ci95": list(one.ci95)} for name, one in self.vs_first.items()}
        return document


@dataclass(frozen=True)
class Evaluation:
    """What `tune_cl.evaluate` found. `queries`: ids in the order of the values."""

    runs: tuple[EvaluatedRun, ...]
    queries: tuple[str, ...]

    @property
    def document(self) -> dict[str, Any]:
        """That of `tune-cl evaluate --json`."""
        return {"runs": [run.document for run in self.runs]}


def evaluate(
    qrels: Any,
    runs: Any,
    metrics: str | Iterable[Any] | None = USUAL,
    relevance_level: int = 1,
    correction: str = CORRECTION,
) -> Evaluation:
    """Evaluates TREC runs by pytrec_eval and ir_measures; each from the second on is compared with the first by a
    paired t-test.

    qrels            a file, {query: {document: grade}}, or a DataFrame with qid, docno, label
    runs             one or several: files, {query: {document: score}}, DataFrames with qid, docno, score; a mapping of
                     names to these names them
    metrics          names, measures of ir_measures, or a text with commas between them; None: the usual ones
    relevance_level  the lowest relevant grade
    correction       of p-values, metric by metric, over the runs compared

    Means are over all queries of the qrels (trec_eval's -c): a query that the run lacks counts 0; queries without
    judgments are ignored. A note says if no judgment reaches `relevance_level`. `t` is infinite if all differences are
    equal but not 0, and p is then 0 (`paired_t_test`). Raises ConfigError for a wrong option, DataError for wrong
    files and values.
    """
    if metrics is None:
        metrics = USUAL
    given_names = metrics.split(",") if isinstance(metrics, str) else metrics
    names = [str(name).strip() for name in given_names]
    measures = _checked_options(names, relevance_level, correction)
    qrels_name, judged, named_runs = _read_all(qrels, runs)
    if len(named_runs) > 1 and len(judged) < 2:
        raise DataError(Problem(qrels_name, "one query only", "a paired t-test needs judgments for two or more"))
    highest = max((grade for grades in judged.values() for grade in grades.values()), default=0)
    if highest < relevance_level:
        none = f"no judgment reaches grade {relevance_level} (--relevance-level), the highest is {highest}"
        say(f"note: {qrels_name}: {none}: all metrics but ndcg are 0")
    values = [reported_values(judged, run, measures, relevance_level) for run in named_runs.values()]
    comparisons = [None, *_comparisons(values, names, correction)]
    evaluated = []
    for name, columns, comparison in zip(named_runs, values, comparisons, strict=True):
        means = {metric: _summary(measures[metric], column) for metric, column in columns.items()}
        missing = len(judged.keys() - named_runs[name].keys())
        evaluated.append(EvaluatedRun(name, means, missing, columns, comparison))
    return Evaluation(tuple(evaluated), tuple(judged))


def _summary(measure: Metric | IrMeasure, column: np.ndarray) -> float:
    """The mean over queries; the sum of counts, as in trec_eval."""
    return float(column.mean()) if measure.is_share else float(column.sum())


def _checked_options(names: list[str], relevance_level: int, correction: str) -> dict[str, Metric | IrMeasure]:
    problems: list[Problem] = []
    measures: dict[str, Metric | IrMeasure] = {}
    with gathering(problems):
        measures = parse_measures(names, "--metrics")
    with gathering(problems):
        CORRECTIONS[correction]
    if not 1 <= relevance_level <= MAX_GRADE:
        problems.append(Problem("--relevance-level", f"{relevance_level} is not a grade", f"1 to {MAX_GRADE}"))
    if problems:
        raise ConfigError(problems)
    return measures


# -- what is given -----------------------------------------------------------------------------------------------------


def _read_all(qrels: Any, runs: Any) -> tuple[str, Qrels, dict[str, Run]]:
    """The name of the qrels, their grades, and the runs by name; raises one DataError with the problems of all."""
    named = _named(runs)
    if not named:
        raise DataError(Problem("runs", "there is none", "one file or more"))
    problems: list[Problem] = []
    name, judged = _name_of(qrels, "qrels"), None
    try:
        judged = _table(qrels, name, lambda path: read_qrels(path, pipes=True), _grade, "a grade")
    except DataError as error:
        problems += error.problems
    read: dict[str, Run] = {}
    for run_name, run in named:
        try:
            read[run_name] = _table(run, run_name, lambda path: read_run(path, pipes=True), _score, "a finite score")
        except DataError as error:
            problems += error.problems
            continue
        if judged is not None and not judged.keys() & read[run_name].keys():
            wrong = f"no query of the run is in {name}"
            problems.append(Problem(run_name, wrong, "give the qrels of this run's queries"))
    if problems or judged is None:
        raise DataError(problems)
    for run_name, run in read.items():
        if not any(judged[query].keys() & run[query].keys() for query in judged.keys() & run.keys()):
            say(f"note: {run_name}: none of its documents is judged; are the ids those of {name}?")
    return name, judged, read


def _named(runs: Any) -> list[tuple[str, Any]]:
    """Runs with what results call them."""
    if isinstance(runs, Mapping) and not _is_run(runs):
        return [(str(name), run) for name, run in runs.items()]
    is_one = isinstance(runs, str | Path | Mapping) or hasattr(runs, "columns")
    several: Sequence[Any] = [runs] if is_one else [*cast(Iterable[Any], runs)]
    return [(_name_of(run, f"run {number}"), run) for number, run in enumerate(several, 1)]


def _is_run(runs: Mapping[Any, Any]) -> bool:
    """Whether a mapping is one run, {query: {document: score}}, and not runs by name."""
    first = next(iter(runs.values()), None)
    if not isinstance(first, Mapping):
        return False
    return not isinstance(next(iter(first.values()), 0.0), Mapping)


def _name_of(given: Any, otherwise: str) -> str:
    return str(given) if isinstance(given, str | Path) else otherwise


def _table(
    given: Any, name: str, read: Callable[[str | Path], Any], value_of: Callable[[Any], Any], right: str
) -> dict[str, dict[str, Any]]:
    """{query: {document: value}} of a file, a mapping or a DataFrame. Raises DataError naming query and document of
    each value that is none."""
    if isinstance(given, str | Path):
        return read(given)
    table: dict[str, dict[str, Any]] = {}
    problems = []
    for query, document, value in _rows(given, name):
        row = table.setdefault(query, {})
        try:
            row[document] = value_of(value)
        except (TypeError, ValueError):
            place = f"query '{query}', document '{document}'"
            problems.append(Problem(name, f"{place}: {value!r} is not {right}", f"give it {right}, or leave it out"))
    if problems:
        raise DataError(problems)
    return table


def _rows(given: Any, name: str) -> Iterator[tuple[str, str, Any]]:
    if isinstance(given, Mapping):
        for query, documents in given.items():
            if not isinstance(documents, Mapping):
                raise DataError(Problem(name, f"query '{query}' has no documents", "{query: {document: value}}"))
            for document, value in documents.items():
                yield str(query), str(document), value
        return
    columns = [next((column for column in names if column in given.columns), None) for names in COLUMNS]
    if None in columns:
        wrong = f"a DataFrame with the columns {', '.join(map(str, given.columns))}"
        raise DataError(Problem(name, wrong, "qid, docno, and label or score"))
    for query, document, value in zip(*(given[column].tolist() for column in columns), strict=True):
        yield str(query), str(document), value


def _score(value: Any) -> float:
    if not math.isfinite(score := float(value)):
        raise ValueError
    return score


def _grade(value: Any) -> int:
    if (grade := int(value)) != float(value) or abs(grade) > MAX_GRADE:
        raise ValueError
    return grade


def _comparisons(
    values: Sequence[Mapping[str, np.ndarray]], metrics: Sequence[str], correction: str
) -> list[dict[str, Comparison]]:
    """By metric, for each run from the second on."""
    first, *others = values
    comparisons: list[dict[str, Comparison]] = [{} for _ in others]
    for metric in metrics:
        tests = [paired_t_test(other[metric], first[metric]) for other in others]
        adjusted = adjust([test.p for test in tests], correction)
        for comparison, test, p_adjusted in zip(comparisons, tests, adjusted, strict=True):
            comparison[metric] = Comparison(test.difference, test.t, test.p, float(p_adjusted), test.ci95)
    return comparisons
