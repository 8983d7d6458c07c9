"""Retrieval in a process of its own, and the Java it needs."""

from __future__ import annotations

from array import array
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.data_folders import trec_files, write_folder
from trainables.core.cache import cache_root
from trainables.core.errors import WorkFailed
from trainables.data import candidates, load_data
from trainables.data.candidates import java_home, java_version, retrieve, with_positives
from trainables.data.columns import NO_RANK, UNJUDGED, Rated, TextColumn
from trainables.data.readers import collection
from trainables.data.readers.assembly import Raw, RawSplit, candidate_sources, grades_of, ranks
from trainables.data.readers.collection import Ratings
from trainables.data.readers.rows import MISSING, IdIndex, hash_of
from trainables.data.settings import DataConfig

DOCUMENTS = ["cats sit on mats", "a dog runs \u2028 fast", "birds fly", "the cat and the dog"]
QUERIES = {"train": ["a running dog", "nothing of it"], "dev": ["cat"]}


def fake_java(home: Path, version: str) -> Path:
    (home / "bin").mkdir(parents=True)
    java = home / "bin" / "java"
    java.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2025-01-01' >&2\n")
    java.chmod(0o755)
    return home


@pytest.mark.slow
def test_versions_of_java(tmp_path: Path) -> None:
    assert java_version(fake_java(tmp_path / "17", "17.0.15")) == 17
    assert java_version(fake_java(tmp_path / "8", "1.8.0_392")) == 1
    assert java_version(tmp_path) == 0


@pytest.mark.slow
def test_a_new_enough_java_is_taken_and_an_old_one_is_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path / "new", "21.0.1")))
    assert java_home() == tmp_path / "new"
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path / "old", "17.0.1")))
    carried = java_home()
    assert carried != tmp_path / "old"
    assert java_version(carried) >= candidates.JAVA_NEEDED


@pytest.mark.slow
def test_stemmed_words_are_found_and_index_and_run_are_cached(monkeypatch: pytest.MonkeyPatch) -> None:
    documents = TextColumn.of(DOCUMENTS)
    started: list[tuple[object, ...]] = []
    run_python = candidates._run_python
    monkeypatch.setattr(candidates, "_run_python", lambda *given: started.append(given) or run_python(*given))
    found = retrieve(documents, QUERIES, k1=0.9, b=0.4, top_k=2)
    assert ["--collection" in given for given in started] == [True]
    query, document, score = found["train"]
    assert query.tolist() == [0, 0]
    assert document.tolist() == [1, 3]
    assert score[0] > score[1] > 0
    assert set(found["dev"][1].tolist()) == {0, 3}
    left = [path for kind in ("index", "run") for path in (cache_root() / kind).rglob("*.jsonl")]
    assert not left, "what was handed to the process is gone"
    monkeypatch.setattr(candidates, "_run_python", None)  # the same retrieval again needs no process
    again = retrieve(documents, QUERIES, k1=0.9, b=0.4, top_k=2)
    for split, columns in found.items():
        for new, old in zip(again[split], columns, strict=True):
            np.testing.assert_array_equal(new, old)
    monkeypatch.setattr(candidates, "_run_python", lambda *given: started.append(given) or run_python(*given))
    other = retrieve(documents, QUERIES, k1=2.0, b=0.4, top_k=2)
    assert ["--collection" in given for given in started] == [True, False]
    assert other["train"][2][0] != found["train"][2][0]


@pytest.mark.parametrize("changed", [{"k1": 1.2}, {"b": 0.7}, {"top_k": 3}, {"queries": {"dev": ["c"]}}])
def test_each_setting_of_a_retrieval_has_a_run_of_its_own(
    changed: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    keys: list[str] = []
    monkeypatch.setattr(candidates, "cached", lambda kind, key, build: keys.append(key) or Path())
    monkeypatch.setattr(candidates, "_read_run", lambda path: None)
    settings: dict[str, Any] = {"queries": {"dev": ["b"]}, "k1": 0.9, "b": 0.4, "top_k": 2}
    for given in (settings, settings, settings | changed):
        retrieve(TextColumn.of(["a"]), **given)
    assert keys[0] == keys[1] != keys[2]


@pytest.mark.slow
def test_progress_of_many_queries_is_shown(capfd: pytest.CaptureFixture[str]) -> None:
    long = " ".join(f"word{number}" for number in range(1500)) + " cat"  # more words than Lucene allows by default
    found = retrieve(TextColumn.of(DOCUMENTS), {"dev": [long] + ["cat"] * 1000}, k1=0.9, b=0.4, top_k=1)
    assert len(found["dev"][0]) == 1001
    lines = capfd.readouterr().err.splitlines()
    assert lines[-2:] == ["searched 1,000 of 1,001 queries", "searched 1,001 of 1,001 queries"]


@pytest.mark.slow
def test_a_failed_process_names_its_log(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(candidates, "java_home", lambda: tmp_path)
    with pytest.raises(WorkFailed, match="BM25 retrieval") as caught:
        retrieve(TextColumn.of(["only here"]), {"dev": ["here"]}, k1=0.9, b=0.4, top_k=1)
    log = Path(str(caught.value).rpartition("log: ")[2])
    assert log.parent == cache_root() / "logs"
    assert "Error" in log.read_text()


def test_a_folder_whose_qrels_name_only_relevant_documents_is_searched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = trec_files(runs=False)
    for split in ("train", "dev", "test"):
        files[f"qrels.{split}.txt"] = f"{split}-a 0 d1 1\n{split}-b 0 d2 1\n"
    asked = []

    def search(documents: TextColumn, queries: dict[str, list[str]], k1: float, b: float, top_k: int, cut: str) -> dict:
        asked.append((len(documents), queries.get("dev"), k1, b, top_k))
        rows = (np.array([0, 0, 1]), np.array([3, 0, 1]), np.array([1.0, 2.0, 1.0]))
        return dict.fromkeys(queries, rows)

    monkeypatch.setattr("trainables.data.readers.assembly.retrieve", search)
    config = DataConfig.model_validate({"source": str(write_folder(tmp_path, files)), "top_k": 7, "bm25": {"k1": 1.2}})
    data = load_data(config)
    assert asked == [(4, ["cat", "dog running"], 1.2, 0.4, 7)]
    split = data.splits["dev"]
    assert split.document.tolist() == [0, 3, 1]
    assert split.grade.tolist() == [1, -1, 1]
    assert split.rank.tolist() == [1, 2, 1]
    assert any("retrieved by BM25 (k1 1.2, b 0.4)" in note for note in data.notes) and data.retrieved
    given = write_folder(tmp_path / "given", files | {"run.dev.txt": "dev-a Q0 d1 1 2 x\ndev-b Q0 d2 1 2 x\n"})
    assert not load_data(DataConfig(source=str(given))).retrieved, "one split has a run"


@pytest.mark.parametrize(("rejected", "source"), [(9, "qrels"), (8, "bm25")])
def test_judgments_are_candidates_where_nine_queries_of_ten_name_a_wrong_document(rejected: int, source: str) -> None:
    qrels = Rated.of([(query, 0, 1) for query in range(10)] + [(query, 1, 0) for query in range(rejected)])
    split = RawSplit([f"q{query}" for query in range(10)], [("text",)] * 10, qrels)
    raw = Raw("made", TextColumn.of(["a", "b"]), TextColumn.of(["one", "two"]), {"dev": split})
    assert candidate_sources(raw, DataConfig(source="any")) == {"dev": source}


def test_a_judgment_without_text_is_of_no_other_document() -> None:
    """Its row is -1: one before query 1's first document is query 0's last."""
    assert grades_of(Rated.of([(1, MISSING, 3)]), np.array([0, 1]), np.array([3, 0]), 4).tolist() == [UNJUDGED] * 2
    beside = Rated.of([(1, MISSING, 3), (1, 0, 2)])
    assert grades_of(beside, np.array([0, 1]), np.array([3, 0]), 4).tolist() == [UNJUDGED, 2]


def test_scores_that_float32_cannot_tell_apart_are_a_tie() -> None:
    """As in trec_eval: the higher document id comes first."""
    rows, rank = ranks(np.zeros(3, np.int64), np.array([1.0 + 1e-9, 1.0, 2.0]), np.array([0, 1, 2]))
    assert rows.tolist() == [2, 1, 0] and rank.tolist() == [1, 2, 3]


def test_relevant_documents_that_the_run_lacks_are_dropped_or_kept(tmp_path: Path) -> None:
    source = str(write_folder(tmp_path, trec_files()))  # the runs lack d1, which is relevant to `a`
    dropped = load_data(DataConfig(source=source))
    kept = load_data(DataConfig(source=source, unretrieved_positives="keep"))
    assert dropped.splits["train"].document.tolist() == [3, 1, 2, 3, 1, 2]
    train = kept.splits["train"]
    assert train.document.tolist() == [3, 1, 2, 0, 3, 1, 2]
    assert train.rank.tolist() == [1, 2, 3, NO_RANK, 1, 2, 3]
    assert train.grade.tolist() == [-1, 0, 0, 1, -1, 1, 0]
    assert np.isnan(train.score).tolist() == [False, False, False, True, False, False, False]
    for name in ("dev", "test"):
        np.testing.assert_array_equal(kept.splits[name].document, dropped.splits[name].document)


def test_judged_documents_without_text_are_not_added() -> None:
    qrels = Rated.of([(0, -1, 1), (0, 5, 2), (1, 5, 0)])
    columns = with_positives(qrels, np.array([1]), np.array([5]), np.array([1]), np.array([0.5]))
    assert [column.tolist() for column in columns[:3]] == [[0, 1], [5, 5], [NO_RANK, 1]]


def test_a_relevant_document_is_taken_for_no_other_of_the_run() -> None:
    """Document 0 of query 1 must not be taken for document 1 of query 0, which the run has."""
    columns = with_positives(Rated.of([(1, 0, 1)]), np.array([0]), np.array([1]), np.array([1]), np.array([0.5]))
    assert [column.tolist() for column in columns[:3]] == [[0, 1], [1, 0], [1, NO_RANK]]


def test_a_long_run_keeps_its_order() -> None:
    query, document = np.repeat([0, 1], 50), np.tile(np.arange(50)[::-1], 2)
    rank = np.tile(np.arange(1, 51), 2)
    columns = with_positives(Rated.of([(0, 60, 1)]), query, document, rank, 1.0 / rank)
    assert columns[2].tolist() == [*range(1, 51), NO_RANK, *range(1, 51)]


# -- ratings by document id --------------------------------------------------------------------------------------


def ratings(*rows: tuple[int, int, str]) -> Ratings:
    """Rows (line, query, document id) beside a collection of a, b and c."""
    names = ["a", "b", "c"]
    gathered = Ratings(IdIndex(TextColumn.of(names), array("Q", map(hash_of, names))))
    for line, query, document in rows:
        gathered.add(line, query, document, 1.0)
    return gathered


def repeated(gathered: Ratings) -> list[tuple[int, int]]:
    """(line, first line) of each repeat."""
    later, first = gathered.repeats()
    return [(gathered.line(row), gathered.line(one)) for row, one in zip(later, first, strict=True)]


def test_one_document_of_two_queries_is_no_repeat() -> None:
    assert repeated(ratings((1, 0, "a"), (2, 1, "a"), (3, 2, "a"))) == []
    thrice = ratings((1, 0, "a"), (2, 1, "b"), (3, 0, "a"), (4, 1, "a"), (5, 0, "a"))
    assert repeated(thrice) == [(3, 1), (5, 1)], "each with the first"


def test_documents_are_looked_up_a_block_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collection, "_BATCH", 2)
    gathered = ratings((11, 0, "a"), (12, 0, "x"), (13, 1, "c"), (14, 1, "y"), (15, 2, "z"))
    assert gathered.finish().document.tolist() == [0, MISSING, 2, MISSING, MISSING]
    assert gathered.missing == [(12, "x"), (14, "y"), (15, "z")]
