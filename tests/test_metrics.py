"""The in-loop metrics equal trec_eval's, known answers included."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.trec_cases import DOCUMENT_IDS, Qrels, Run, columns, rankings
from trainables.core.errors import ConfigError, WorkFailed
from trainables.evaluation.metrics import METRICS, Evaluator, TrecOrder, parse_measures
from trainables.evaluation.reported import reported_values

CUTS = ["map@2", "mrr@1", "mrr@3", "p@3", "ndcg@1", "ndcg@20", "recall@2", "recall@100"]
MORE_METRICS = [*METRICS, *CUTS, "mrr", "ndcg"]


def values_of(qrels: Qrels, run: Run, metrics: list[str], relevance_level: int = 1) -> dict[str, list[float]]:
    data, scores = columns(qrels, run)
    evaluator = Evaluator(data.splits["test"], data.document_ids, relevance_level)
    return {name: values.tolist() for name, values in evaluator(scores, metrics).items()}


@given(rankings(), st.integers(1, 4))
def test_equals_trec_eval(case: tuple[Qrels, Run], relevance_level: int) -> None:
    qrels, run = case
    retrieved = {query: documents for query, documents in run.items() if documents}
    expected = reported_values(qrels, retrieved, parse_measures(MORE_METRICS), relevance_level)
    ours = values_of(qrels, run, MORE_METRICS, relevance_level)
    for name in MORE_METRICS:
        assert ours[name] == pytest.approx(expected[name], abs=1e-12), name


@given(rankings())
def test_ranking_is_by_float32_score_then_id_descending(case: tuple[Qrels, Run]) -> None:
    qrels, run = case
    data, scores = columns(qrels, run)
    split = data.splits["test"]
    rows = TrecOrder(split, data.document_ids)(scores)
    for query, (start, end) in zip(qrels, zip(split.offsets, split.offsets[1:], strict=False), strict=True):
        expected = sorted(run[query], key=lambda id: (np.float32(run[query][id]), id.encode()), reverse=True)
        assert [data.document_ids[split.document[row]] for row in rows[start:end]] == expected


def test_ndcg_gain_is_linear() -> None:
    values = values_of({"q": {"d1": 3, "d2": 1}}, {"q": {"d1": 1.0, "d2": 2.0}}, ["ndcg"])
    assert values["ndcg"] == [pytest.approx(0.796708, abs=1e-6)]


def test_the_exponential_gain_of_ndcg() -> None:
    """A known answer, which has 3 for grade 2; and trec_eval's nDCG, with the gains as grades."""
    qrels = {"q": {"d1": 0, "d10": 1, "d2": 2, "D3": 0}}
    run = {"q": {"d1": 0.4, "d10": 0.2, "d2": 0.5, "D3": 0.7}}
    assert values_of(qrels, run, ["ndcg_exp@2"])["ndcg_exp@2"] == [pytest.approx(0.521296, abs=1e-6)]
    judged = {"q": dict(zip(DOCUMENT_IDS, [4, 0, 3, 1, 2, 4, 0, 1, 3, 0], strict=True))}
    ranked = {"q": dict(zip(DOCUMENT_IDS[:8], [0.3, 0.9, 0.1, 0.7, 0.2, 0.5, 0.8, 0.4], strict=True))}
    gains = {"q": {document: 2**grade - 1 for document, grade in judged["q"].items()}}
    for cut in (1, 5, 10):
        expected = reported_values(gains, ranked, parse_measures([f"ndcg@{cut}"]))[f"ndcg@{cut}"]
        [ours] = values_of(judged, ranked, [f"ndcg_exp@{cut}"]).values()
        assert ours == pytest.approx(expected, abs=1e-9)
    [huge] = values_of({"q": {"d1": 2000, "d2": 1}}, {"q": {"d1": 1.0, "d2": 2.0}}, ["ndcg_exp@10"])["ndcg_exp@10"]
    assert huge == pytest.approx(1 / np.log2(3))


def test_nothing_relevant_or_judged_or_retrieved_counts_zero() -> None:
    qrels: Qrels = {"none": {"d1": 0}, "unjudged": {}, "empty": {"d1": 1}}
    run: Run = {"none": {"d1": 1.0}, "unjudged": {"d1": 1.0}, "empty": {}}
    for name, values in values_of(qrels, run, MORE_METRICS).items():
        assert values == [0, 0, 0], name


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 1e39])
def test_scores_that_cannot_be_ranked_are_refused(bad: float) -> None:
    with pytest.raises(WorkFailed, match="1 of 2 scores"):
        values_of({"q": {"d1": 1}}, {"q": {"d1": bad, "d2": 1.0}}, ["map"])


def test_every_unknown_metric_is_reported() -> None:
    unknown = ["rprec@3", "ndcg@0", "mpa", "p@1 "]
    with pytest.raises(ConfigError) as error:
        parse_measures(["map", *unknown])
    assert [problem.wrong for problem in error.value.problems] == [f"unknown metric '{name}'" for name in unknown]
