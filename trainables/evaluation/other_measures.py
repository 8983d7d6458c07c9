"""Measures that this library does not compute itself: those of pytrec_eval and of ir_measures, by their names there."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from subprocess import SubprocessError
from typing import Any, Literal

import numpy as np

from trainables.core.errors import ConfigError, Problem

Qrels = Mapping[str, Mapping[str, int]]
Run = Mapping[str, Mapping[str, float]]
GEOMETRIC, LEAST_GEOMETRIC = "gm_", 1e-5  # trec_eval's geometric means, and the least value that they count
NO_MEASURES = ("runid", "relstring")
FAILS = (ValueError, RuntimeError, KeyError, OSError, SubprocessError)  # what computing a measure may raise
COUNTS = ("num", "utility", "sdcg", "qrels", GEOMETRIC)  # begin the names of measures whose values leave [0, 1]


@dataclass(frozen=True)
class Elsewhere:
    """A measure of another library. `name`: as written; `measure`: pytrec_eval's form of it, or ir_measures' own."""

    name: str
    library: Literal["pytrec_eval", "ir_measures"]
    measure: Any

    @property
    def is_share(self) -> bool:
        """Whether its values lie between 0 and 1 and are averaged as they are."""
        return not self.name.lower().startswith(COUNTS)


@cache
def measure_elsewhere(name: str) -> Elsewhere | None:
    """The measure of that name; None if neither library knows it."""
    if measure := _of_trec_eval(name):
        return Elsewhere(name, "pytrec_eval", measure)
    found = _of_ir_measures(name)
    return None if found is None else Elsewhere(name, "ir_measures", found)


def _of_trec_eval(name: str) -> str | None:
    """pytrec_eval's form of a measure by trec_eval's name (iprec_at_recall.0.10 of iprec_at_recall_0.10), None if it is
    none, or several values."""
    import pytrec_eval

    named = re.fullmatch(r"(.+?)[._@]([0-9.]+)", name)
    family, argument = named.groups() if named else (name, "")
    if family not in pytrec_eval.supported_measures or family in NO_MEASURES:
        return None
    measure = f"{family}.{argument}" if argument else family
    try:
        found = pytrec_eval.RelevanceEvaluator({"q": {"d": 1}}, {measure}).evaluate({"q": {"d": 1.0}})["q"]
    except ValueError:
        return None
    return measure if list(found) == [measure.replace(".", "_", 1)] else None


def _of_ir_measures(name: str) -> Any | None:
    """A measure of ir_measures, by its own name, in small letters too, or trec_eval's; None if it knows none."""
    import ir_measures

    if re.search(r"@(?!([1-9][0-9]{0,5}|0?\.[0-9]+)$)|rel=0", name):  # a cut or level on which pytrec_eval crashes
        return None
    names = {key.lower(): key for key in ir_measures.measures.registry}
    family = re.match(r"[^(@]*", name)
    spelled = names.get(family[0].lower(), family[0]) + name[family.end() :] if family else name
    for parse in (ir_measures.parse_measure, ir_measures.parse_trec_measure):
        try:
            found = parse(spelled)
            found = found[0] if isinstance(found, list) else found
            list(ir_measures.iter_calc([found], {"0": {"d": 1}}, {"0": {"d": 1.0}}))
        except (*FAILS, NameError, SyntaxError, TypeError, AttributeError, AssertionError):
            continue
        return found
    return None


def values_elsewhere(
    measures: Iterable[Elsewhere], qrels: Qrels, run: Run, relevance_level: int = 1
) -> dict[str, np.ndarray]:
    """Values by name, float64 [Q] in the order of the qrels; for a query that the run lacks 0, or the logarithm of
    trec_eval's least value for its geometric means. Raises ConfigError for what a library cannot compute."""
    measures = list(measures)
    by_trec_eval = {each.name: each.measure for each in measures if each.library == "pytrec_eval"}
    others = {each.name: each.measure for each in measures if each.library == "ir_measures"}
    return _by_trec_eval(by_trec_eval, qrels, run, relevance_level) | _by_ir_measures(others, qrels, run)


def _by_trec_eval(measures: Mapping[str, str], qrels: Qrels, run: Run, relevance_level: int) -> dict[str, np.ndarray]:
    if not measures:
        return {}
    import pytrec_eval

    judged = {
        query: grades if max(grades.values(), default=0) >= 0 else dict.fromkeys(grades, 0)
        for query, grades in qrels.items()
    }
    ranked = {query: documents for query, documents in run.items() if query in qrels}
    evaluator = pytrec_eval.RelevanceEvaluator(judged, set(measures.values()), relevance_level=relevance_level)
    results = evaluator.evaluate(ranked)
    absent = {name: np.log(LEAST_GEOMETRIC) if name.startswith(GEOMETRIC) else 0.0 for name in measures}
    return {
        name: np.array(
            [results[query][measure.replace(".", "_", 1)] if query in results else absent[name] for query in qrels]
        )
        for name, measure in measures.items()
    }


def _by_ir_measures(measures: Mapping[str, Any], qrels: Qrels, run: Run) -> dict[str, np.ndarray]:
    if not measures:
        return {}
    import ir_measures

    numbers = {query: str(row) for row, query in enumerate(qrels)}  # gdeval reads no other ids
    judged = {numbers[query]: grades for query, grades in qrels.items()}
    ranked = {numbers[query]: documents for query, documents in run.items() if query in numbers}
    values = {str(measure): np.zeros(len(qrels)) for measure in measures.values()}  # two names may be one measure
    try:
        for value in ir_measures.iter_calc(list(measures.values()), judged, ranked):
            values[str(value.measure)][int(value.query_id)] = value.value
    except FAILS as error:
        wrong = f"ir_measures cannot compute {', '.join(measures)} ({error})"
        raise ConfigError(Problem("metric", wrong, "another measure")) from None
    return {name: values[str(measure)] for name, measure in measures.items()}


def mean_of(name: str, column: np.ndarray) -> float:
    """The mean over queries: of geometric means the values are logarithms."""
    return float(np.exp(column.mean()) if name.startswith(GEOMETRIC) else column.mean())
