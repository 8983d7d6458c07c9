"""Runs evaluated as trec_eval does, and compared by paired tests over queries."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeVar, cast

import numpy as np
import pytrec_eval

from trainables.core.errors import ConfigError, DataError, Problem
from trainables.core.prose import say
from trainables.data.columns import MAX_GRADE
from trainables.evaluation.metrics import ACCURACY, FAMILIES, METRICS, Judgments, Metric, Ranking, parse_measures
from trainables.evaluation.other_measures import Elsewhere, Qrels, Run, mean_of, values_elsewhere
from trainables.evaluation.significance import CORRECTIONS, adjust, paired_t_test
from trainables.evaluation.trec_files import read_qrels, read_run

T = TypeVar("T")
CORRECTION = "holm"
USUAL = tuple(name for name in METRICS if name != ACCURACY)  # of rankings accuracy is p@1
BARE_MEASURES = {"map": "map", "rprec": "Rprec", "mrr": "recip_rank", "ndcg": "ndcg", "accuracy": "P.1"}
CUT_MEASURES = {"map": "map_cut", "p": "P", "recall": "recall", "ndcg": "ndcg_cut", "success": "success"}
GivenQrels = str | Path | Qrels
GivenRun = str | Path | Run


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
    metrics          means over all queries of the qrels
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
        found: dict[str, Any] = {"run": self.run, "metrics": {**self.metrics}, "queries_missing": self.queries_missing}
        if self.vs_first is not None:
            found["vs_first"] = {name: asdict(one) | {"ci95": list(one.ci95)} for name, one in self.vs_first.items()}
        return found


@dataclass(frozen=True)
class Evaluation:
    """What `tune_cl.evaluate` found. `queries`: ids in the order of the values."""

    runs: tuple[EvaluatedRun, ...]
    queries: tuple[str, ...]

    @property
    def document(self) -> dict[str, Any]:
        """That of `tune-cl evaluate --json`."""
        return {"runs": [one.document for one in self.runs]}


def evaluate(
    qrels: GivenQrels,
    runs: GivenRun | Sequence[GivenRun] | Mapping[str, GivenRun],
    metrics: str | Sequence[str] = USUAL,
    relevance_level: int = 1,
    correction: str = CORRECTION,
) -> Evaluation:
    """Evaluates TREC runs with pytrec_eval; each from the second on is compared with the first by a paired t-test.

    qrels            a file, or {query: {document: grade}}
    runs             one or several: files, or {query: {document: score}}; a mapping of names to these names them
    metrics          names, or a text with commas between them
    relevance_level  the lowest relevant grade
    correction       of p-values, metric by metric, over the runs compared

    Means are over all queries of the qrels (trec_eval's -c): a query that the run lacks counts 0; queries without
    judgments are ignored. A note says if no judgment reaches `relevance_level`. `t` is infinite if all differences are
    equal but not 0, and p is then 0 (`paired_t_test`). Raises ConfigError for a wrong option, DataError for wrong
    files.
    """
    names = [name.strip() for name in metrics.split(",")] if isinstance(metrics, str) else list(metrics)
    parsed = _check_options(names, relevance_level, correction)
    judged_by, named = _name_of(qrels, "qrels"), _named(runs)
    judged, read = _read_all(judged_by, qrels, named)
    if len(read) > 1 and len(judged) < 2:
        raise DataError(Problem(judged_by, "one query only", "a paired t-test needs judgments for two or more"))
    highest = max(grade for grades in judged.values() for grade in grades.values())
    if highest < relevance_level:
        none = f"no judgment reaches grade {relevance_level} (--relevance-level), the highest is {highest}"
        say(f"note: {judged_by}: {none}: all metrics but ndcg are 0")
    values = [_values(judged, run, parsed, relevance_level) for run in read]
    comparisons = [None, *_compare(values, names, correction)]
    found = (
        EvaluatedRun(
            name,
            {metric: mean_of(metric, column) for metric, column in columns.items()},
            len(judged.keys() - run.keys()),
            columns,
            comparison,
        )
        for (name, _), run, columns, comparison in zip(named, read, values, comparisons, strict=True)
    )
    return Evaluation(tuple(found), tuple(judged))


def _named(runs: GivenRun | Sequence[GivenRun] | Mapping[str, GivenRun]) -> list[tuple[str, GivenRun]]:
    """Runs with what results call them. Raises DataError if there is none."""
    if isinstance(runs, Mapping) and not _is_run(runs):
        return [(str(name), cast(GivenRun, run)) for name, run in runs.items()]
    several = [runs] if isinstance(runs, str | Path | Mapping) else runs
    named = [(_name_of(cast(GivenRun, run), f"run {number}"), run) for number, run in enumerate(several, 1)]
    if not named:
        raise DataError(Problem("runs", "there is none", "one file or more"))
    return cast(list[tuple[str, GivenRun]], named)


def _is_run(runs: Mapping[str, Any]) -> bool:
    """Whether a mapping is one run, {query: {document: score}}, and not runs by name."""
    first = next(iter(runs.values()), None)
    scores = next(iter(first.values()), 0.0) if isinstance(first, Mapping) else None
    return scores is not None and not isinstance(scores, Mapping)


def _name_of(given: GivenQrels | GivenRun, otherwise: str) -> str:
    return str(given) if isinstance(given, str | Path) else otherwise


def _values(
    qrels: Qrels, run: Run, measures: Mapping[str, Metric | Elsewhere], relevance_level: int
) -> dict[str, np.ndarray]:
    ours = {name: metric for name, metric in measures.items() if isinstance(metric, Metric)}
    others = [measure for measure in measures.values() if isinstance(measure, Elsewhere)]
    found = per_query(qrels, run, ours, relevance_level) | values_elsewhere(others, qrels, run, relevance_level)
    return {name: found[name] for name in measures}


def per_query(qrels: Qrels, run: Run, metrics: Mapping[str, Metric], relevance_level: int = 1) -> dict[str, np.ndarray]:
    """Values by pytrec_eval, float64 [Q] for each metric, in the order of the qrels; 0 for a query the run lacks."""
    # A negative grade counts as 0 in all these measures, but pytrec_eval crashes or hangs on a query with no other.
    judged = {query: {document: max(grade, 0) for document, grade in grades.items()} for query, grades in qrels.items()}
    ranked = {query: documents for query, documents in run.items() if query in qrels}
    values: dict[str, np.ndarray] = {}
    here = {name: metric for name, metric in metrics.items() if not FAMILIES[metric.family].in_trec_eval}
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


def _read_all(name: str, qrels: GivenQrels, runs: Sequence[tuple[str, GivenRun]]) -> tuple[Qrels, list[Run]]:
    """Reads all files; raises one DataError with the problems of all of them."""
    problems: list[Problem] = []
    judged = qrels if isinstance(qrels, Mapping) else _collect(problems, lambda: read_qrels(qrels, pipes=True))
    read = [
        run if isinstance(run, Mapping) else _collect(problems, lambda path=run: read_run(path, pipes=True))
        for _, run in runs
    ]
    if judged is not None:
        for (path, _), run in zip(runs, read, strict=True):
            if run is not None and not judged.keys() & run.keys():
                wrong = f"no query of the run is in {name}"
                problems.append(Problem(path, wrong, "give the qrels of this run's queries"))
    if problems or judged is None:
        raise DataError(problems)
    for (path, _), run in zip(runs, read, strict=True):
        if run is not None and not any(
            judged[query].keys() & run[query].keys() for query in judged.keys() & run.keys()
        ):
            say(f"note: {path}: none of its documents is judged; are the ids those of {name}?")
    return judged, [run for run in read if run is not None]


def _collect(problems: list[Problem], work: Callable[[], T]) -> T | None:
    try:
        return work()
    except (ConfigError, DataError) as error:
        problems += error.problems
        return None


def _compare(
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
