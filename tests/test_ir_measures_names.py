"""Metrics by the names that ir_measures, trec_eval and others give them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from tests.support.trec_cases import columns
from trainables.config.keys import TrainingConfig
from trainables.core.errors import ConfigError
from trainables.evaluation.metrics import Evaluator, parse_measures
from trainables.evaluation.reported import reported_values
from tune_cl.api.evaluate import evaluate

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
    ours = reported_values(QRELS, RUN, parse_measures([name]))[name]
    np.testing.assert_allclose(ours, [theirs.get(query, 0.0) for query in QRELS], atol=1e-9)


@pytest.mark.parametrize("name", ["nDCG(rel=2)@10", "R", "AP(rel=0)", "P@0", "ndcg_cut_0", "P_0", "gm_map"])
def test_what_cannot_be_computed_is_named_with_what_can(name: str) -> None:
    with pytest.raises(ConfigError, match=r"unknown metric .*; known: .* AP, RR@K, nDCG@K"):
        parse_measures([name])


@pytest.mark.parametrize(("name", "ours"), [("nDCG@10", "ndcg@10"), ("RR@10", "mrr@10"), ("AP", "map"), ("P@1", "p@1")])
def test_a_search_takes_them_under_our_names(name: str, ours: str) -> None:
    assert TrainingConfig.model_validate({"metric": name}).metric == ours


def test_a_search_has_its_level_in_one_key() -> None:
    with pytest.raises(ValueError, match=r"'AP\(rel=2\)' sets a relevance level; .* evaluation.relevance_level: N"):
        TrainingConfig.model_validate({"metric": "AP(rel=2)"})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("ndcg_cut_10", 0.8155),
        ("recip_rank", 0.75),
        ("Success@1", 0.5),
        ("success.2", 1.0),
        ("success@2", 1.0),
        ("P.1", 0.5),
        ("P_1", 0.5),
        ("Precision@1", 0.5),
        ("recall_2", 1.0),
        ("map_cut_1", 0.5),
    ],
)
def test_names_of_others(name: str, value: float) -> None:
    run = {"q1": {"b": 2.0, "a": 1.0}, "q2": {"c": 1.0}}
    found = evaluate({"q1": {"a": 2, "b": 0}, "q2": {"c": 1}}, [run], [name]).runs[0].metrics
    assert found == {name: pytest.approx(value, abs=1e-4)}


@pytest.mark.parametrize("name", ["ndcg@5", "mrr@100", "recall@100", "bpref", "infAP", "Judged@2", "judged@2", "set_F"])
def test_a_training_and_the_command_agree_on_any_measure(name: str, tmp_path: Path) -> None:
    qrels = {"1": {"d1": 2, "d2": 0, "D3": 1}, "2": {"d1": 1, "d10": 0}}
    run = {"1": {"d2": 3.0, "d1": 2.0, "_9": 1.5, "D3": 1.0}, "2": {"d10": 2.0, "d1": 1.0}}
    data, scores = columns(qrels, run)
    evaluator = Evaluator(data.splits["test"], data.document_ids, metric=name)
    for file, content in (("qrels.json", qrels), ("run.json", run)):
        (tmp_path / file).write_text(json.dumps(content))
    theirs = evaluate(tmp_path / "qrels.json", tmp_path / "run.json", [name]).runs[0].metrics
    assert evaluator(scores)[name].mean() == pytest.approx(theirs[name], abs=1e-6)
    assert TrainingConfig.model_validate({"metric": name}).metric == name


@pytest.mark.parametrize("name", ["num_ret", "official", "ndgc@5", "p@0", "ndcg@0", "ndcg@x"])
def test_a_training_takes_no_other(name: str) -> None:
    with pytest.raises(ValueError, match=f"'{name}'"):
        TrainingConfig.model_validate({"metric": name})
