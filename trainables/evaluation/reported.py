"""Values that are reported: of test, of runs and of baselines, by pytrec_eval and ir_measures. The evaluator of dev
(`metrics.Evaluator`) gives the same, faster; a test holds the two equal."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from trainables.data.columns import RankingData, Split
from trainables.evaluation.measures import IrMeasure, Qrels, Run, qrels_of, run_of, values_of_ir_measures
from trainables.evaluation.metrics import FAMILIES, Judgments, Metric, Ranking, parse_measures

BARE_MEASURES = {"map": "map", "rprec": "Rprec", "mrr": "recip_rank", "ndcg": "ndcg", "accuracy": "P.1"}
CUT_MEASURES = {"map": "map_cut", "p": "P", "recall": "recall", "ndcg": "ndcg_cut", "success": "success"}


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
    values = values_of_ir_measures(
        {name: one for name, one in measures.items() if isinstance(one, IrMeasure)}, qrels, run, level
    )
    ours = {name: one for name, one in measures.items() if isinstance(one, Metric)}
    for of_level in dict.fromkeys(metric.level or level for metric in ours.values()):
        names = {name: metric for name, metric in ours.items() if (metric.level or level) == of_level}
        values |= _values_of_trec_eval(names, qrels, run, of_level)
    return {name: values[name] for name in measures}


def _values_of_trec_eval(metrics: Mapping[str, Metric], qrels: Qrels, run: Run, level: int) -> dict[str, np.ndarray]:
    import pytrec_eval

    # A negative grade counts as 0 in all these measures, but pytrec_eval crashes or hangs on a query with no other.
    judged = {query: {document: max(grade, 0) for document, grade in grades.items()} for query, grades in qrels.items()}
    ranked = {query: documents for query, documents in run.items() if query in qrels}
    named = {name: _trec_name(metric) for name, metric in metrics.items() if FAMILIES[metric.family].in_trec_eval}
    evaluator = pytrec_eval.RelevanceEvaluator(judged, set(named.values()), relevance_level=level)
    results = evaluator.evaluate(ranked)
    values = {}
    for name, metric in metrics.items():
        if name not in named:
            values[name] = metric(_ranking(qrels, run, level))
            continue
        key = named[name].replace(".", "_")
        column = np.array([results[query][key] if query in results else 0.0 for query in qrels])
        if metric.family == "mrr" and metric.cut is not None:
            column[column < 1 / metric.cut] = 0.0  # the first relevant document is below the cut
        values[name] = column
    return values


def _trec_name(metric: Metric) -> str:
    """trec_eval's name for the measure; trec_eval has no reciprocal rank with a cut."""
    if metric.cut is None or metric.family == "mrr":
        return BARE_MEASURES[metric.family]
    return f"{CUT_MEASURES[metric.family]}.{metric.cut}"


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
