"""TREC files: what is written reads back in the same order, and errors in files are reported line by line."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

from tests.support.trec_cases import Qrels, Run, columns, rankings, write_qrels
from trainables.core.errors import DataError, WorkFailed
from trainables.data.columns import TextColumn
from trainables.evaluation import trec_files as trec
from trainables.evaluation.metrics import METRICS, Evaluator, parse_metrics
from trainables.evaluation.per_query import evaluator_of, write_evaluated
from trainables.evaluation.trec_files import read_per_query, read_qrels, read_run, write_per_query, write_run
from tune_cl.cli.commands.evaluate import per_query

same_folder = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


def problems(path: Path, content: bytes, read=read_run) -> list[tuple[str, str]]:
    """For each problem of a file with this content: its place without the folder, and what is wrong."""
    path.write_bytes(content)
    with pytest.raises(DataError) as error:
        read(path)
    return [(problem.location.replace(str(path), path.name), problem.wrong) for problem in error.value.problems]


@same_folder
@given(rankings())
def test_a_written_run_is_judged_as_the_scores_were(tmp_path: Path, case: tuple[Qrels, Run]) -> None:
    qrels, run = case
    data, scores = columns(qrels, run)
    split = data.splits["test"]
    if not len(scores):
        return
    write_run(tmp_path / "run.txt", split, data, scores, "tag")
    judged = per_query(qrels, read_run(tmp_path / "run.txt"), parse_metrics(METRICS))
    for name, values in Evaluator(split, data.document_ids)(scores).items():
        assert values == pytest.approx(judged[name], abs=1e-12), name


@same_folder
@given(rankings())
def test_a_written_run_keeps_every_float32(tmp_path: Path, case: tuple[Qrels, Run]) -> None:
    qrels, run = case
    data, scores = columns(qrels, run)
    if not len(scores):
        return
    write_run(tmp_path / "run.txt", data.splits["test"], data, scores, "tag")
    back = read_run(tmp_path / "run.txt")
    for query, documents in back.items():
        assert {id: np.float32(score) for id, score in documents.items()} == {
            id: np.float32(score) for id, score in run[query].items()
        }
    assert back.keys() == {query for query, documents in run.items() if documents}


@pytest.mark.parametrize("name", ["rows.txt", "rows.txt.gz"])
def test_a_byte_order_mark_is_no_part_of_the_first_query(tmp_path: Path, name: str) -> None:
    write = gzip.compress if name.endswith(".gz") else bytes
    (tmp_path / name).write_bytes(write("\ufeffq1 0 d1 1\nq1 0 d2 0\n".encode()))
    assert read_qrels(tmp_path / name) == {"q1": {"d1": 1, "d2": 0}}


def test_run_columns(tmp_path: Path) -> None:
    run = {"q0": {"d1": 0.5, "d10": 2.0, "d2": 2.0}, "q1": {"é": 0.1}}
    data, scores = columns({"q0": {"d1": 1}, "q1": {"d2": 1}}, run)
    write_run(tmp_path / "new" / "run.txt", data.splits["test"], data, scores, "knrm")
    assert (tmp_path / "new" / "run.txt").read_text(encoding="utf-8") == (
        "q0 Q0 d2 1 2 knrm\nq0 Q0 d10 2 2 knrm\nq0 Q0 d1 3 0.5 knrm\nq1 Q0 é 1 0.100000001 knrm\n"
    )
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["run.txt"]


def test_the_files_of_trials_share_one_order_of_ties(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is slow to find, and the search waits for a trial's files."""
    run = {"q0": {"d1": 2.0, "d10": 2.0, "d2": 2.0}, "q1": {"d2": 0.1, "é": 0.1}}
    data, scores = columns({"q0": {"d1": 1}, "q1": {"d2": 1}}, run)
    judge = evaluator_of(data, data.splits["test"], 1)
    monkeypatch.setattr(trec, "TrecOrder", lambda *_: pytest.fail("the order was made again"))
    values = write_evaluated(tmp_path / "shared", "test", data, scores, "knrm", judge)
    monkeypatch.undo()
    write_run(tmp_path / "test.run.txt", data.splits["test"], data, scores, "knrm")
    fresh = evaluator_of(data, data.splits["test"], 1)(scores)
    write_per_query(tmp_path / "test.per_query.tsv", ["q0", "q1"], fresh)
    assert values.keys() == fresh.keys()
    for name in ("test.run.txt", "test.per_query.tsv"):
        assert (tmp_path / "shared" / name).read_bytes() == (tmp_path / name).read_bytes()


def test_a_run_that_cannot_be_written_leaves_the_old_one(tmp_path: Path) -> None:
    data, scores = columns({"q": {"d1": 1}}, {"q": {"d1": 1.0}})
    path = tmp_path / "run.txt"
    path.write_text("old")
    with pytest.raises(DataError, match="'two words' does not fit"):
        write_run(path, data.splits["test"], data, scores, "two words")
    with pytest.raises(WorkFailed):
        write_run(path, data.splits["test"], data, scores * np.nan, "tag")
    path.with_name("folder").mkdir()
    with pytest.raises(OSError, match="folder"):
        write_run(path.with_name("folder"), data.splits["test"], data, scores, "tag")
    assert path.read_text() == "old"
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["folder", "run.txt"]


def test_qrels_round_trip(tmp_path: Path) -> None:
    qrels = {"1": {"a": 0, "b": -2}, "文": {"é": 3}}
    write_qrels(tmp_path / "qrels.txt", qrels)
    assert read_qrels(tmp_path / "qrels.txt") == qrels


@pytest.mark.parametrize("id", ["", "a b", "a\tb", "a\n"])
def test_an_id_with_white_space_does_not_fit(tmp_path: Path, id: str) -> None:
    data, scores = columns({id: {"d1": 1}}, {id: {"d1": 0.5}})
    with pytest.raises(DataError, match=r"run\.txt: .* does not fit"):
        write_run(tmp_path / "run.txt", data.splits["test"], data, scores, "tag")
    assert not list(tmp_path.iterdir())


def test_reads_gzip_blank_lines_tabs_and_windows_line_ends(tmp_path: Path) -> None:
    path = tmp_path / "run.txt.gz"
    path.write_bytes(gzip.compress(b"q\tQ0\td1\t1\t2.5\tx\r\n\r\nq Q0 d2 2 -1e-3 x"))
    assert read_run(path) == {"q": {"d1": 2.5, "d2": -0.001}}


def test_every_wrong_line_of_a_run_is_told(tmp_path: Path) -> None:
    lines = [
        b"q Q0 d1 1 2.5 x", b"q Q0 d2 2 2.5", b"q Q0 d3 3 high x", b"q Q0 d4 4 nan x", b"q Q0 d5 5 -inf x",
        b"q Q0 d1 6 1.5 x", b"q Q0 d\xff 7 1.5 x", b"q Q0 d8 8 1e39 x", b"p Q0 d1 1 1 x", b"p Q0 d2 1 1_0 x",
    ]  # fmt: skip
    assert problems(tmp_path / "run.txt", b"\n".join(lines)) == [
        ("run.txt:2", "5 columns instead of 6"),
        ("run.txt:3", "score 'high'"),
        ("run.txt:4", "score 'nan'"),
        ("run.txt:5", "score '-inf'"),
        ("run.txt:6", "document 'd1' a second time for query 'q'"),
        ("run.txt:7", "not UTF-8"),
        ("run.txt:8", "score '1e39'"),
        ("run.txt:10", "score '1_0'"),
    ]


def test_the_largest_float32_is_a_score(tmp_path: Path) -> None:
    (tmp_path / "run.txt").write_text("q Q0 d1 1 3.40282347e+38 x\n")
    assert np.float32(read_run(tmp_path / "run.txt")["q"]["d1"]) == np.finfo(np.float32).max
    assert problems(tmp_path / "run.txt", b"q Q0 d1 1 3.4028236e+38 x\n") == [("run.txt:1", "score '3.4028236e+38'")]


def test_every_wrong_line_of_qrels_is_told(tmp_path: Path) -> None:
    lines = [b"q 0 d1 1", b"q 0 d2", b"q 0 d3 1.5", b"q 0 d4 99999", b"q 0 d1 0", b"q 0 d5 -99999", b"q 0 d6 1_0"]
    assert problems(tmp_path / "qrels.txt", b"\n".join(lines), read_qrels) == [
        ("qrels.txt:2", "3 columns instead of 4"),
        ("qrels.txt:3", "grade '1.5'"),
        ("qrels.txt:4", "grade '99999'"),
        ("qrels.txt:5", "document 'd1' a second time for query 'q'"),
        ("qrels.txt:6", "grade '-99999'"),
        ("qrels.txt:7", "grade '1_0'"),
    ]


def test_files_that_hold_nothing_readable(tmp_path: Path) -> None:
    assert problems(tmp_path / "run.txt", b"\n") == [("run.txt", "no rows")]
    [(place, wrong)] = problems(tmp_path / "run.txt.gz", b"not gzip at all")
    assert place == "run.txt.gz" and wrong.startswith("cannot be read")
    [(place, wrong)] = problems(tmp_path / "cut.txt.gz", gzip.compress(b"q Q0 d1 1 2.5 x\n" * 9)[:-12])
    assert place == "cut.txt.gz" and wrong.startswith("cannot be read")
    with pytest.raises(DataError, match=r"none\.txt: no such file"):
        read_run(tmp_path / "none.txt")
    with pytest.raises(DataError, match="cannot be read"):
        read_run(tmp_path)


def test_values_of_queries_whose_ids_hold_other_line_ends(tmp_path: Path) -> None:
    ids, values = ["q\x85", "q\u2028", '"q', "文"], np.array([0.5, 1 / 3, 0.0, 1.0])
    write_per_query(tmp_path / "values.tsv", ids, {"p@1": 1 - values, "map": values})
    assert read_per_query(tmp_path / "values.tsv", "map") == dict(zip(ids, values, strict=True))


def test_per_query_values(tmp_path: Path) -> None:
    values = {"map": np.array([1 / 3, 1.0]), "p@1": np.array([0.0, 1.0])}
    write_per_query(tmp_path / "values.tsv", TextColumn.of(["q1", "q2"]), values)
    assert (tmp_path / "values.tsv").read_text() == "query_id\tmap\tp@1\nq1\t0.3333333333333333\t0.0\nq2\t1.0\t1.0\n"
