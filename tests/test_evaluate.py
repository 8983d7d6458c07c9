"""The command evaluate: published tables, comparisons, and what it says about wrong input."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import ir_measures
import numpy as np
import pandas as pd
import pytest
import scipy.stats

import tune_cl
from tests.support.console import Console
from tests.support.trec_cases import write_qrels
from trainables.core.errors import ConfigError, DataError
from trainables.evaluation.metrics import METRICS, parse_measures
from trainables.evaluation.reported import reported_values
from trainables.evaluation.trec_files import read_qrels, read_run
from tune_cl.api.evaluate import USUAL, evaluate
from tune_cl.cli.texts import evaluate_text

# As the README files of the data give them.
GIVEN_RUNS = [
    ("msmarco-dl", "train", "run.train.txt", 2, "0.1358", "0.4981", "0.4458"),
    ("msmarco-dl", "dev", "run.dev.txt", 2, "0.2685", "0.6533", "0.4796"),
    ("msmarco-dl", "test", "run.test.txt", 2, "0.2476", "0.7024", "0.5058"),
    ("msmarco-dl", "train", "run.splade.train.txt", 2, "0.3328", "0.8255", "0.6846"),
    ("msmarco-dl", "dev", "run.splade.dev.txt", 2, "0.4826", "0.8422", "0.7197"),
    ("msmarco-dl", "test", "run.splade.test.txt", 2, "0.4464", "0.9186", "0.7308"),
    ("mediqa", "test", "run.test.txt", 2, "0.7909", "0.8950", "0.9134"),
    ("cacm", "test", "run.test.txt", 1, "0.3340", "0.8077", "0.5466"),
    ("semeval-cqa", "test", "run.test.txt", 2, "0.5953", "0.6783", "0.7268"),
]


@pytest.mark.parametrize(("folder", "split", "run", "level", "map", "mrr", "ndcg"), GIVEN_RUNS)
def test_reproduces_the_tables_of_the_given_runs(
    shared: Path, folder: str, split: str, run: str, level: int, map: str, mrr: str, ndcg: str
) -> None:
    home = shared / "trec" / folder
    [found] = evaluate(home / f"qrels.{split}.txt", home / run, "map, mrr@10, ndcg@10", level).runs
    rounded = {name: f"{value:.4f}" for name, value in found.metrics.items()}
    assert rounded == {"map": map, "mrr@10": mrr, "ndcg@10": ndcg}
    assert found.queries_missing == 0 and found.vs_first is None


@pytest.fixture
def files(tmp_path: Path) -> dict[str, str]:
    """Five queries; `b` ranks some worse than `a`, `c` equals `a`, `short` lacks two queries and has one of its own."""
    queries = [f"q{i}" for i in range(5)]
    first = [(query, "d1", 2.0) for query in queries]
    rows = {
        "a": first + [(query, "d2", 1.0) for query in queries],
        "b": first + [(query, "d2", 6.0 if query in ("q1", "q3") else 1.0) for query in queries],
        "short": [("q0", "d1", 1.0), ("q1", "d1", 1.0), ("q2", "d1", 1.0), ("other", "d1", 1.0)],
    }
    rows["c"] = rows["a"]
    paths = {name: str(tmp_path / f"{name}.run") for name in rows} | {"qrels": str(tmp_path / "qrels.txt")}
    write_qrels(paths["qrels"], {query: {"d1": 1, "d2": 0} for query in queries})
    for name, lines in rows.items():
        Path(paths[name]).write_text("".join(f"{q} Q0 {d} 1 {score} {name}\n" for q, d, score in lines))
    return paths


def test_runs_are_given_as_files_or_in_memory(files: dict[str, str]) -> None:
    qrels, runs = read_qrels(files["qrels"]), {name: read_run(files[name]) for name in ("a", "b")}
    of_files = tune_cl.evaluate(files["qrels"], [files["a"], files["b"]], metrics=["map", "p@1"])
    named = tune_cl.evaluate(qrels, runs, metrics="map,p@1")
    assert [one.run for one in named.runs] == ["a", "b"] and named.queries == ("q0", "q1", "q2", "q3", "q4")
    unnamed = tune_cl.evaluate(qrels, [runs["a"], files["b"]], ["map", "p@1"])
    assert [one.run for one in unnamed.runs] == ["run 1", files["b"]]
    for one, other, third in zip(of_files.runs, named.runs, unnamed.runs, strict=True):
        assert one.metrics == other.metrics == third.metrics and one.vs_first == other.vs_first == third.vs_first
    assert (comparison := named.runs[1].vs_first) and comparison["map"].difference < 0
    assert named.runs[1].values["map"].tolist() == [1, 0.5, 1, 0.5, 1]
    alone = tune_cl.evaluate(qrels, runs["a"])
    assert alone.runs[0].run == "run 1" and alone.runs[0].vs_first is None


def test_later_runs_are_compared_with_the_first(files: dict[str, str]) -> None:
    evaluation = evaluate(files["qrels"], [files["a"], files["b"], files["c"]], list(METRICS))
    document = evaluation.model_dump(mode="json")
    first, worse, same = document["runs"]
    assert first["vs_first"] is None
    assert list(first["metrics"]) == list(worse["vs_first"]) == list(METRICS)
    expected = scipy.stats.ttest_rel([1, 0.5, 1, 0.5, 1], [1.0] * 5)
    test = worse["vs_first"]["map"]
    assert test["difference"] == pytest.approx(-0.2)
    assert (test["t"], test["p"]) == (pytest.approx(expected.statistic), pytest.approx(expected.pvalue))
    assert test["p_adjusted"] == pytest.approx(2 * expected.pvalue), "Holm's correction of two runs"
    assert test["ci95"] == pytest.approx(list(expected.confidence_interval(0.95)))
    assert same["vs_first"]["map"] == {"difference": 0, "t": 0, "p": 1, "p_adjusted": 1, "ci95": [0, 0]}
    assert json.loads(json.dumps(document, allow_nan=False)) == document
    text = evaluate_text(evaluation)
    assert all(word in text for word in ("0.8000", "-0.2000", f"{files['b']} against {files['a']}"))


def test_known_values_of_every_family() -> None:
    """Relevant d1 (grade 2) and d3 (grade 1), ranked d2, d1, d4, d3."""
    run = {"q": {"d2": 4.0, "d1": 3.0, "d4": 2.0, "d3": 1.0}}
    names = ["map", "map@3", "mrr", "mrr@1", "mrr@2", "p@1", "p@2", "recall@2", "recall@4", "rprec", "ndcg", "ndcg@2",
             "accuracy"]  # fmt: skip
    found = reported_values({"q": {"d1": 2, "d3": 1, "d2": 0}}, run, parse_measures(names))
    ideal = 2 + 1 / np.log2(3)
    assert {name: values[0] for name, values in found.items()} == pytest.approx({
        "map": (1 / 2 + 2 / 4) / 2, "map@3": (1 / 2) / 2, "mrr": 1 / 2, "mrr@1": 0, "mrr@2": 1 / 2, "p@1": 0,
        "p@2": 1 / 2, "recall@2": 1 / 2, "recall@4": 1, "rprec": 1 / 2, "accuracy": 0,
        "ndcg": (2 / np.log2(3) + 1 / np.log2(5)) / ideal, "ndcg@2": 2 / np.log2(3) / ideal,
    })  # fmt: skip
    strict = reported_values({"q": {"d1": 2, "d3": 1, "d2": 0}}, run, parse_measures(["map", "recall@2"]), level=2)
    assert (strict["map"][0], strict["recall@2"][0]) == pytest.approx((1 / 2, 1))


def test_names_of_trec_eval_have_the_relevance_level(shared: Path) -> None:
    home = shared / "trec" / "msmarco-dl"
    names = ["bpref", "iprec_at_recall_0.10", "num_ret"]
    [strict] = evaluate(home / "qrels.test.txt", home / "run.test.txt", names, 2).runs
    [loose] = evaluate(home / "qrels.test.txt", home / "run.test.txt", [*names, "IPrec(rel=2)@0.1"]).runs
    assert strict.metrics["iprec_at_recall_0.10"] == loose.metrics["IPrec(rel=2)@0.1"]
    assert strict.metrics["bpref"] < loose.metrics["bpref"]
    assert strict.metrics["num_ret"] == loose.metrics["num_ret"] == loose.values["num_ret"].sum()


Q = {"q1": {"d1": 1, "d2": 0}, "q2": {"d3": 1, "d4": 0}}
R = {"q1": {"d1": 2.0, "d2": 1.0}, "q2": {"d3": 1.0, "d4": 2.0}}


def frame(table: Mapping[str, Mapping[str, float]], value: str) -> pd.DataFrame:
    rows = [(query, document, one) for query, row in table.items() for document, one in row.items()]
    return pd.DataFrame(rows, columns=["qid", "docno", value])


def test_usual_types_are_taken() -> None:
    def each(kind: Callable[[Any], Any], table: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
        return {query: {document: kind(value) for document, value in row.items()} for query, row in table.items()}

    by_number = {int(query[1]): row for query, row in Q.items()}, {int(query[1]): row for query, row in R.items()}
    pairs = [(Q, each(np.float32, R)), (each(float, Q), R), (frame(Q, "label"), frame(R, "score")), by_number]
    for qrels, run in pairs:
        assert evaluate(qrels, run, "map").runs[0].metrics == {"map": 0.75}
    assert list(evaluate(Q, R, None).runs[0].metrics) == list(USUAL)
    assert evaluate(Q, R, [ir_measures.nDCG @ 10]).runs[0].metrics.keys() == {"nDCG@10"}


WRONG: dict[str, tuple[Any, Any, str]] = {
    "a score that is NaN": (Q, {**R, "q1": {"d1": float("nan")}}, "run 1: query 'q1', document 'd1': nan is not"),
    "a score that is a word": (Q, {**R, "q1": {"d1": "high"}}, "run 1: query 'q1', document 'd1': 'high' is not"),
    "half a grade": ({"q1": {"d1": 0.5}}, R, "qrels: query 'q1', document 'd1': 0.5 is not"),
    "no run": (Q, [], "runs: there is none"),
    "a run of other queries": (Q, {"other": {"d1": 1.0}}, "run 1: no query"),
    "a frame without documents": (Q, pd.DataFrame({"qid": ["q1"], "score": [1]}), "run 1: not a run"),
    "one query and two runs": ({"q1": {"d1": 1}}, [R, R], "qrels: one query only"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_named(name: str) -> None:
    qrels, runs, told = WRONG[name]
    with pytest.raises(DataError, match=f"error: {told}"):
        evaluate(qrels, runs, "map")


@pytest.mark.parametrize("name", ["official", "P", "iprec_at_recall"])
def test_a_name_of_several_values_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match=f"'{name}' is [0-9]+ values .*; name one of them"):
        evaluate(Q, R, name)


def test_missing_queries_count_zero_and_are_told(files: dict[str, str]) -> None:
    found = evaluate(files["qrels"], [files["short"]], ["map"])
    [run] = found.runs
    assert (run.run, run.metrics, run.queries_missing) == (files["short"], {"map": pytest.approx(0.6)}, 2)
    assert re.search(r"short\.run .*2 judged queries", evaluate_text(found).replace("\n", ""))


@pytest.mark.parametrize("grade", [-1, -2])
def test_a_query_with_negative_grades_only_counts_zero(grade: int) -> None:
    """pytrec_eval itself crashes or hangs on such queries."""
    qrels, run = {"junk": {"d1": grade}, "good": {"d1": 3}}, {"junk": {"d1": 1.0}, "good": {"d1": 1.0}}
    for name, values in reported_values(qrels, run, parse_measures([*METRICS, "ndcg"])).items():
        assert values.tolist() == [0, 1], name


def test_the_problems_of_all_files_are_told_at_once(files: dict[str, str]) -> None:
    Path(files["a"]).write_text("q0 Q0 d1 1 x tag\n")
    Path(files["b"]).write_text("q9 Q0 d1 1 1.0 tag\n")
    with pytest.raises(DataError) as error:
        evaluate(files["qrels"], [files["a"], files["b"], "none.run"], ["map"])
    assert {problem.location for problem in error.value.problems} == {f"{files['a']}:1", files["b"], "none.run"}
    with pytest.raises(ConfigError) as wrong:
        evaluate(files["qrels"], [files["a"]], ["mapp", "p@0"])
    assert [problem.location for problem in wrong.value.problems] == ["--metrics", "--metrics"]


@pytest.mark.smoke
def test_standard_input_has_a_name(files: dict[str, str], console: Console) -> None:
    console.refused(["-: /dev/stdin"], f"evaluate {files['qrels']} -")
    asked = [sys.executable, "-m", "tune_cl", "evaluate", files["qrels"], "/dev/stdin", "--json"]
    done = subprocess.run(asked, input=Path(files["a"]).read_bytes(), capture_output=True, check=True)
    assert json.loads(done.stdout)["runs"][0]["metrics"]["map"] == 1
