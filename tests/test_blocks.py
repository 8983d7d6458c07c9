"""Runs that pyarrow parses as a whole: the same as row by row, and only where every row is plain."""

from __future__ import annotations

import gzip
from array import array
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainables.core.errors import DataError, Problem
from trainables.data.readers import judgments
from trainables.data.readers.blocks import plain_run
from trainables.data.readers.collection import IdIndex, hash_of
from trainables.evaluation import trec_files

DOCUMENTS = ["d1", "d2", "7", "é", "doc-3"]
QUERIES = {"q1": 0, "q2": 1, "5": 2}
PLAIN = b"q1 Q0 d1 1 2.5 bm25\nq2 Q0 7 1 -1e-3 bm25\nq2 Q0 d2 2 3 bm25\n"
ROWS = st.lists(
    st.tuples(
        st.sampled_from([*QUERIES, "q3", "05"]),
        st.sampled_from([*DOCUMENTS, "d9", "07"]),
        st.integers(0, 9),
        st.floats(-1e6, 1e6, width=32),
    ),
    min_size=1,
    max_size=60,
)


def read(folder: Path) -> tuple[list[list[float]], list[str], list[Problem]]:
    """What is read of a run: its ratings, the notes and the problems."""
    notes, problems = list[str](), list[Problem]()
    index = IdIndex(DOCUMENTS, array("Q", map(hash_of, DOCUMENTS)))
    rated = judgments.JudgmentReader(folder, "auto", index, problems, notes).run("test", QUERIES)
    assert rated is not None
    return [column.tolist() for column in (rated.query, rated.document, rated.value)], notes, problems


def scores_of(folder: Path) -> dict[str, list[tuple[str, float]]] | list[Problem]:
    """What `tune-cl evaluate` reads of it, in order, or what is wrong with it."""
    try:
        return {query: [*scores.items()] for query, scores in trec_files.read_run(folder / "run.test.txt").items()}
    except DataError as error:
        return list(error.problems)


@given(rows=ROWS, separator=st.sampled_from([" ", "\t"]), end=st.sampled_from(["\n", "\r\n"]))
def test_a_plain_run_is_read_as_row_by_row(
    rows: list[tuple[str, str, int, float]], separator: str, end: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Unknown queries and documents, other spellings, repeats and contradictions among them."""
    folder = tmp_path_factory.mktemp("run")
    fields = ([query, "Q0", document, str(rank), repr(score), "x"] for query, document, rank, score in rows)
    (folder / "run.test.txt").write_bytes("".join(separator.join(row) + end for row in fields).encode())
    found = plain_run(folder / "run.test.txt")
    assert found is not None and found.value.tolist() == [score for *_, score in rows]
    whole, by_query = read(folder), scores_of(folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(judgments, "plain_run", lambda path: None)
        patch.setattr(trec_files, "plain_run", lambda path: None)
        assert read(folder) == whole and scores_of(folder) == by_query


@pytest.mark.parametrize("content", [PLAIN, b"\xef\xbb\xbf" + PLAIN, PLAIN[:-1], PLAIN.replace(b"\n", b"\r")])
def test_a_run_as_programs_write_it_is_plain(content: bytes, tmp_path: Path) -> None:
    for path, stored in ((tmp_path / "run.txt", content), (tmp_path / "run.txt.gz", gzip.compress(content))):
        path.write_bytes(stored)
        run = plain_run(path)
        assert run is not None and (run.queries, run.documents) == (["q1", "q2"], ["d1", "7", "d2"])
        assert np.array_equal(run.line, [1, 2, 3]) and np.array_equal(run.rank, [1, 1, 2])


@pytest.mark.parametrize(
    "content",
    [
        b"",
        PLAIN + b"\n" + PLAIN,
        PLAIN.replace(b"7 1", b"7  1"),
        PLAIN.replace(b" 7 ", b"  "),
        PLAIN.replace(b"q2", b" q2"),
        PLAIN.replace(b"bm25\nq2 Q0 d2", b"bm25 \nq2 Q0 d2"),
        PLAIN.replace(b"-1e-3", b"nan"),
        PLAIN.replace(b"-1e-3", b"inf"),
        PLAIN.replace(b"-1e-3", b"1e39"),
        PLAIN.replace(b"-1e-3", b"1_0"),
        PLAIN.replace(b"-1e-3", b"high"),
        PLAIN.replace(b"7", b"\xff"),
        PLAIN.replace(b"7", b"a\x0bb"),
        PLAIN + b"q1 d9 4\n",
        b"q1 d1 2.5\n",
        b"query Q0 document rank score tag\n" + PLAIN,
        PLAIN.decode().encode("utf-16"),
    ],
)
def test_any_other_file_is_left_to_the_rows(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "run.txt").write_bytes(content)
    assert plain_run(tmp_path / "run.txt") is None
