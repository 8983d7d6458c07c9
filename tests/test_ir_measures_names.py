"""Metrics by the names that ir_measures gives them."""

from __future__ import annotations

import numpy as np
import pytest

from trainables.config.keys import TrainingRun
from trainables.core.errors import ConfigError
from trainables.evaluation.metrics import parse_metrics
from trainables.evaluation.runs import per_query

QRELS = {"q1": {"a": 2, "b": 1, "c": 0}, "q2": {"a": 1, "d": 3}, "q3": {"e": 1}}
RUN = {"q1": {"c": 3.0, "b": 2.0, "a": 1.0}, "q2": {"d": 1.0, "x": 2.0}}
NAMES = [
    "nDCG@10",
    "nDCG",
    "RR@10",
    "RR",
    "AP",
    "AP@2",
    "AP(rel=2)",
    "RR(rel=2)@10",
    "R@100",
    "R(rel=2)@2",
    "P@1",
    "Rprec",
]


@pytest.mark.parametrize("name", NAMES)
def test_values_are_those_of_ir_measures(name: str) -> None:
    ir_measures = pytest.importorskip("ir_measures")
    measure = ir_measures.parse_measure(name)
    given = ir_measures.iter_calc([measure], QRELS, RUN)
    theirs = {value.query_id: value.value for value in given}
    ours = per_query(QRELS, RUN, parse_metrics([name]))[name]
    np.testing.assert_allclose(ours, [theirs.get(query, 0.0) for query in QRELS], atol=1e-9)


@pytest.mark.parametrize("name", ["nDCG(rel=2)@10", "ERR@10", "R", "map(rel=2)", "AP(rel=0)", "P(rel=2)"])
def test_what_cannot_be_computed_is_named_with_what_can(name: str) -> None:
    with pytest.raises(ConfigError, match=r"unknown metric .*; known: .* AP, RR@K, nDCG@K"):
        parse_metrics([name])


@pytest.mark.parametrize(("name", "ours"), [("nDCG@10", "ndcg@10"), ("RR@10", "mrr@10"), ("AP", "map"), ("P@1", "p@1")])
def test_a_search_takes_them_under_our_names(name: str, ours: str) -> None:
    assert TrainingRun.model_validate({"metric": name}).metric == ours


def test_a_search_has_its_level_in_one_key() -> None:
    with pytest.raises(ValueError, match=r"'AP\(rel=2\)' sets a relevance level; .* evaluation.relevance_level: N"):
        TrainingRun.model_validate({"metric": "AP(rel=2)"})
