"""Measures of ir_measures, by its names and trec_eval's, over rankings as {query: {document: score}}."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from subprocess import SubprocessError
from typing import Any

import numpy as np

from trainables.core.errors import ConfigError, Problem
from trainables.data.columns import Split, TextColumn

Qrels = Mapping[str, Mapping[str, int]]
Run = Mapping[str, Mapping[str, float]]
LARGEST_CUT = 10**6
# What computing a measure may raise.
FAILS = (ValueError, RuntimeError, KeyError, OSError, ArithmeticError, SubprocessError)


@dataclass(frozen=True)
class IrMeasure:
    """A measure of ir_measures."""

    measure: Any

    @property
    def is_share(self) -> bool:
        """Whether its values lie between 0 and 1; else they are counts, which are summed."""
        return not self.measure.NAME.startswith("Num")

    def at_level(self, level: int) -> Any:
        """The measure with this lowest relevant grade, unless its name has one, or it reads none or is a count."""
        reads = "rel" in self.measure.SUPPORTED_PARAMS and self.is_share
        return self.measure(rel=level) if level > 1 and reads and "rel" not in self.measure.params else self.measure


@cache
def ir_measure(name: str) -> IrMeasure | None:
    """The measure of that name, in small letters too; None if there is none. Raises ValueError for a name of several
    (official, P)."""
    for measures in _parsed(name):
        if len(measures) > 1:
            raise ValueError(f"'{name}' is {len(measures)} values ({', '.join(map(str, measures[:3]))}, ...)")
        if _is_computable(measures[0]):
            return IrMeasure(measures[0])
    return None


def _parsed(name: str) -> Iterator[list[Any]]:
    """What the name means in ir_measures, and in trec_eval."""
    import ir_measures

    if name != name.strip():
        return
    names = {key.lower(): key for key in ir_measures.measures.registry}
    family = re.split(r"[(@]", name)[0]
    spelled = names.get(family.lower(), family) + name[len(family) :]
    for parse in (ir_measures.parse_measure, ir_measures.parse_trec_measure):
        try:
            parsed = parse(spelled)
        except (ValueError, KeyError, NameError, SyntaxError, TypeError, AttributeError, AssertionError):
            continue
        yield parsed if isinstance(parsed, list) else [parsed]


def _is_computable(measure: Any) -> bool:
    """Whether a library here computes it. pytrec_eval ends the process for a cut or a level of 0."""
    import ir_measures

    cut, level = measure.params.get("cutoff", 1), measure.params.get("rel", 1)
    if not (1 <= cut <= LARGEST_CUT and level >= 1):
        return False
    try:
        list(ir_measures.iter_calc([measure], {"0": {"d": 1}}, {"0": {"d": 1.0}}))
    except (*FAILS, TypeError, AttributeError, AssertionError):
        return False
    return True


def values_of_ir_measures(
    measures: Mapping[str, IrMeasure], qrels: Qrels, run: Run, level: int = 1
) -> dict[str, np.ndarray]:
    """Values by name, float64 [Q] in the order of the qrels; 0 for a query that the run lacks. Raises ConfigError for
    what cannot be computed. `level`: the lowest relevant grade."""
    if not measures:
        return {}
    import ir_measures

    rows = {query: str(row) for row, query in enumerate(qrels)}  # gdeval reads no other ids
    judged = {rows[query]: without_only_negatives(grades) for query, grades in qrels.items()}
    ranked = {rows[query]: documents for query, documents in run.items() if query in rows}
    at_level = {name: measure.at_level(level) for name, measure in measures.items()}
    values = {str(measure): np.zeros(len(qrels)) for measure in at_level.values()}  # two names may be one measure
    try:
        for value in ir_measures.iter_calc(list(at_level.values()), judged, ranked):
            values[str(value.measure)][int(value.query_id)] = value.value
    except FAILS as error:
        wrong = f"ir_measures cannot compute {', '.join(measures)} ({error})"
        raise ConfigError(Problem("metric", wrong, "another measure")) from None
    return {name: values[str(measure)] for name, measure in at_level.items()}


def without_only_negatives(grades: Mapping[str, int]) -> Mapping[str, int]:
    """Grades of a query, 0 where all are negative: pytrec_eval crashes or hangs on such a query."""
    return grades if max(grades.values(), default=0) >= 0 else dict.fromkeys(grades, 0)


def qrels_of(split: Split, document_ids: TextColumn) -> Qrels:
    """The judgments of a split, its queries by their rows; documents outside the collection by a number."""
    qrels: dict[str, dict[str, int]] = {str(query): {} for query in range(len(split))}
    judged = split.judgments
    rows = zip(judged.query.tolist(), judged.document.tolist(), judged.value.tolist(), strict=True)
    for number, (query, document, grade) in enumerate(rows):
        name = document_ids[document] if document >= 0 else f"outside the collection {number}"
        qrels[str(query)][name] = int(grade)
    return qrels


def run_of(split: Split, document_ids: TextColumn, scores: np.ndarray) -> Run:
    """Scores of a split's candidates, [C], as float32, which is what trec_eval compares."""
    run: dict[str, dict[str, float]] = {}
    columns = split.owner.tolist(), split.document.tolist(), np.asarray(scores, np.float32).tolist()
    for query, document, score in zip(*columns, strict=True):
        run.setdefault(str(query), {})[document_ids[document]] = score
    return run
