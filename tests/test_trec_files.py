"""TREC files: what is written reads back in the same order, and errors in files are reported line by line."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

from tests.support.trec_cases import Qrels, Run, columns, rankings, write_qrels
from trainables.core.errors import DataError
from trainables.data.columns import TextColumn
from trainables.evaluation.trec_files import read_per_query, read_qrels, read_run, write_per_query, write_run
from tune_cl.api.evaluate import evaluate

same_folder = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


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


@pytest.mark.parametrize("id", ["", "a b", "a\tb", "a\n"])
def test_an_id_with_white_space_does_not_fit(tmp_path: Path, id: str) -> None:
    data, scores = columns({id: {"d1": 1}}, {id: {"d1": 0.5}})
    with pytest.raises(DataError, match=r"run\.txt: .* fit"):
        write_run(tmp_path / "run.txt", data.splits["test"], data, scores, "tag")
    assert not list(tmp_path.iterdir())


def test_what_is_written_otherwise_is_read(tmp_path: Path) -> None:
    """A byte order mark, gzip, blank lines, tabs, line ends of Windows, the largest score."""
    qrels = {"1": {"a": 0, "b": -2}, "文": {"é": 3}}
    write_qrels(tmp_path / "qrels.txt", qrels)
    plain = (tmp_path / "qrels.txt").read_bytes()
    (tmp_path / "marked.txt").write_bytes(b"\xef\xbb\xbf" + plain)
    (tmp_path / "marked.txt.gz").write_bytes(gzip.compress(b"\xef\xbb\xbf" + plain))
    for name in ("qrels.txt", "marked.txt", "marked.txt.gz"):
        assert read_qrels(tmp_path / name) == qrels
    (tmp_path / "run.txt.gz").write_bytes(gzip.compress(b"q\tQ0\td1\t1\t2.5\tx\r\n\r\nq Q0 d2 2 -1e-3 x"))
    assert read_run(tmp_path / "run.txt.gz") == {"q": {"d1": 2.5, "d2": -0.001}}
    (tmp_path / "run.txt").write_text("q Q0 d1 1 3.40282347e+38 x\n")
    assert np.float32(read_run(tmp_path / "run.txt")["q"]["d1"]) == np.finfo(np.float32).max


RUN = [b"q Q0 d1 1 2.5 x", b"q Q0 d2 2 2.5", b"q Q0 d3 3 high x", b"q Q0 d4 4 nan x", b"q Q0 d5 5 -inf x",
       b"q Q0 d1 6 1.5 x", b"q Q0 d8 8 1e39 x", b"p Q0 d1 1 1 x", b"p Q0 d2 1 1_0 x",
       b"q Q0 d9 1 3.4028236e+38 x"]  # fmt: skip
QRELS = [b"q 0 d1 1", b"q 0 d2 0", b"q 0 d3 1.5", b"q 0 d4 99999", b"q 0 d1 0", b"q 0 d5 -99999", b"q 0 d6 1_0"]


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        ("run.txt", b"\n".join(RUN), {
            ":2": "5 columns", ":3": "'high' (6 rows: lines 3, 4, 5, ...)"}),
        ("run.txt", b"q Q0 d1 1 2 x\nq Q0 d1 2 1 x\n", {":2": "'d1' a second"}),
        ("run.txt", b"q Q0 d1 1 2 x\nq Q0 d\xff 2 1 x\n", {":2": "byte 0xff is not UTF-8"}),
        ("qrels.txt", b"\n".join(QRELS), {
            ":3": "'1.5' (4 rows: lines 3, 4, 6, ...)"}),
        ("run.txt", b"\n", {"": "no rows"}),
        ("run.txt", None, {"": "missing file"}),
        ("run.txt.gz", gzip.compress(b"q Q0 d1 1 2.5 x\n" * 9, mtime=0)[:-12], {"": "cut off"}),
        (".", None, {"": "cannot be read"}),
    ],
)  # fmt: skip
def test_wrong_lines_are_told(name: str, content: bytes | None, told: dict[str, str], tmp_path: Path) -> None:
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(DataError) as error:
        (read_qrels if name == "qrels.txt" else read_run)(path)
    assert [problem.location for problem in error.value.problems] == [f"{path}{line}" for line in told]
    assert all(word in problem.wrong for problem, word in zip(error.value.problems, told.values(), strict=True))


def test_per_query_values(tmp_path: Path) -> None:
    values = {"map": np.array([1 / 3, 1.0]), "p@1": np.array([0.0, 1.0])}
    write_per_query(tmp_path / "values.tsv", TextColumn.of(["q1", "q2"]), values)
    assert (tmp_path / "values.tsv").read_text() == "query_id\tmap\tp@1\nq1\t0.3333333333333333\t0.0\nq2\t1.0\t1.0\n"
    ids, values = ["q\x85", "q\u2028", '"q', "文"], np.array([0.5, 1 / 3, 0.0, 1.0])  # other ends of lines
    write_per_query(tmp_path / "values.tsv", ids, {"p@1": 1 - values, "map": values})
    assert read_per_query(tmp_path / "values.tsv", "map") == dict(zip(ids, values, strict=True))


# -- files of other programs ---------------------------------------------------------------------------------------

JUDGED = "q1 0 a 2\nq1 0 b 0\nq2 0 c 1\n"
RANKED = "q1 Q0 b 1 2.0 x\nq1 Q0 a 2 1.0 x\nq2 Q0 c 1 1.0 x\n"
ONE = "q 0 a 1\n"


def mean_ap(folder: Path, qrels: str, run: str, name: str = "run") -> float:
    (folder / "qrels").write_text(qrels)
    (folder / name).write_text(run)
    return evaluate(folder / "qrels", folder / name, ["map"]).runs[0].metrics["map"]


@pytest.mark.parametrize(
    ("qrels", "run", "value"),
    [
        ("query-id\tcorpus-id\tscore\nq1\ta\t2\nq1\tb\t0\nq2\tc\t1\n", RANKED, 0.75),  # BEIR
        (JUDGED, "q1\tb\t1\nq1\ta\t2\nq2\tc\t1\n", 0.75),  # MS MARCO
        (JUDGED, "q1\tb\t0\nq1\ta\t1\nq2\tc\t2\n", 0.75),
        (JUDGED.replace(" 2\n", " 2.0\n"), RANKED, 0.75),
        (ONE, "q b 1\nq a 2\nq c 3\n", 0.5),  # ranks
        (ONE, "q b 0\nq a 1\nq c 2\n", 0.5),  # ranks from 0
        (ONE, "q b 3\nq a 2\nq c 1\n", 0.5),  # they fall: scores
        (ONE, "q b 10\nq a 20\nq c 5\n", 1.0),  # scores
        (ONE, "q a 1.5\nq b 1.25\n", 1.0),
    ],
)
def test_three_columns_are_scores_unless_they_number_the_documents(
    qrels: str, run: str, value: float, tmp_path: Path
) -> None:
    assert mean_ap(tmp_path, qrels, run) == value
