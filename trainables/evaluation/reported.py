"""Values that are reported: of test, of runs and of baselines, by ir_measures. The evaluator of dev
(`metrics.Evaluator`) gives the same, faster; a test holds the two equal."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from trainables.data.columns import RankingData, Split
from trainables.evaluation.measures import IrMeasure, Qrels, Run, ir_measure, qrels_of, run_of, values_of_ir_measures
from trainables.evaluation.metrics import FAMILIES, Judgments, Metric, Ranking, parse_measures


def split_values(
    split: Split, data: RankingData, scores: np.ndarray, names: Iterable[str], level: int
) -> dict[str, np.ndarray]:
    """Values of scores of a split's candidates, float32 [C], by query, float64 [Q] for each named measure."""
    qrels, run = qrels_of(split, data.document_ids), run_of(split, data.document_ids, scores)
    return reported_values(qrels, run, parse_measures(names), level)


def reported_values(
    qrels: Qrels, run: Run, measures: Mapping[str, Metric | IrMeasure], level: int = 1
) -> dict[str, np.ndarray]:
    """Values by query, float64 [Q] in the order of the qrels for each measure; 0 for a query that the run lacks."""
    theirs = {name: found for name, measure in measures.items() if (found := _of_ir_measures(measure))}
    values = values_of_ir_measures(theirs, qrels, run, level)
    for name, measure in measures.items():
        if isinstance(measure, Metric) and name not in theirs:
            values[name] = measure(_ranking(qrels, run, level))
        elif isinstance(measure, Metric) and measure.family == "mrr" and measure.cut is not None:
            rank_is_within = values[name] >= 1 / measure.cut
            values[name] = np.where(rank_is_within, values[name], 0.0)
    return {name: values[name] for name in measures}


def _of_ir_measures(measure: Metric | IrMeasure) -> IrMeasure | None:
    """None if ir_measures has no such measure. Its RR has no cut where ties are broken as in trec_eval."""
    if isinstance(measure, IrMeasure):
        return measure
    name = FAMILIES[measure.family].theirs
    if name and measure.cut and measure.family != "mrr":
        name = f"{name}@{measure.cut}"
    return ir_measure(name) if name else None


def _ranking(qrels: Qrels, run: Run, level: int) -> Ranking:
    """The run's documents of the judged queries in trec_eval's order: by score as float32, then by id."""
    judged = [np.array(list(grades.values()), np.int64) for grades in qrels.values()]
    offsets = np.cumsum([0, *map(len, judged)])
    rows = []
    for row, (query, grades) in enumerate(qrels.items()):
        ranked = run.get(query, {}).items()
        order = sorted(ranked, key=lambda pair: (np.float32(pair[1]), pair[0].encode()), reverse=True)
        rows += [(row, rank, grades.get(document, 0)) for rank, (document, _) in enumerate(order, start=1)]
    owners, ranks, grades_in_order = np.array(rows, np.int64).reshape(-1, 3).T
    of_judged = Judgments.of(np.concatenate(judged), offsets, level)
    return Ranking(of_judged, owners, ranks, grades_in_order, level)
