"""The description of a data set: counts, what splits share, examples; and growing columns on disk."""

from __future__ import annotations

import json
from array import array
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import trainables.data.readers.rows as ids_module
from tests.support.data_folders import conversation_files, letor_files, sick_files, trec_files, write_folder
from tests.support.loading import load
from trainables.data.columns import TextColumn
from trainables.data.data_cache import ArrayWriter, TextWriter, load_data_folder, save_data
from trainables.data.hygiene import hygiene
from trainables.data.readers.rows import MISSING, IdIndex
from tune_cl.cli import main


def test_counts_of_a_split(tmp_path: Path) -> None:
    files = trec_files()
    files["qrels.dev.txt"] += "dev-a 0 gone 3\n"
    described = hygiene(load(write_folder(tmp_path, files)))["splits"]["dev"]
    assert described == {
        "queries": 2, "candidates": 6, "group_sizes": {"min": 3, "median": 3, "mean": 3, "max": 3},
        "judged_share": pytest.approx(4 / 6), "positives_per_query": 1.5, "queries_without_positive": 0,
        "positives_not_candidates": 2,
    }  # fmt: skip


def test_shared_texts_differ_in_case_and_space_alone(tmp_path: Path) -> None:
    files = trec_files()
    files["queries.dev.tsv"] = "dev-a\tCat\ndev-b\tdog  running\n"
    files["queries.test.tsv"] = "test-a\tcats\ntest-b\tbird\n"
    shared = {tuple(pair["splits"]): pair for pair in hygiene(load(write_folder(tmp_path, files)))["shared"]}
    assert shared["train", "dev"]["queries"] == 2
    assert shared["train", "test"]["queries"] == shared["dev", "test"]["queries"] == 0
    assert shared["train", "dev"]["documents"] == 3


def test_groups_of_unequal_size_and_a_query_without_relevant_documents(tmp_path: Path) -> None:
    rows = [("a", "d1"), ("b", "d2"), *(("c", f"d{number}") for number in (1, 2, 3, 4))]
    files = trec_files() | {
        "queries.dev.tsv": "a\tcat\nb\tdog\nc\tbird\n",
        "run.dev.txt": "".join(
            f"{query} Q0 {document} 1 {9 - number} x\n" for number, (query, document) in enumerate(rows)
        ),
        "qrels.dev.txt": "a 0 d1 1\nb 0 d2 1\nc 0 d3 0\n",
    }
    described = hygiene(load(write_folder(tmp_path, files)))["splits"]["dev"]
    assert described["group_sizes"] == {"min": 1, "median": 1, "mean": 2, "max": 4}
    assert described["positives_per_query"] == pytest.approx(2 / 3) and described["queries_without_positive"] == 1


def test_equal_texts_of_different_documents_are_shared_texts_alone(tmp_path: Path) -> None:
    files = trec_files(runs=False) | {"collection.tsv": "d1\tthe cat\nd2\tthe dog\nd3\tThe  cat\nd4\ta bird\n"}
    for split, (right, wrong) in {"train": ("d1", "d2"), "dev": ("d3", "d4"), "test": ("d4", "d2")}.items():
        files[f"qrels.{split}.txt"] = f"{split}-a 0 {right} 1\n{split}-a 0 {wrong} 0\n"
    shared = {tuple(pair["splits"]): pair for pair in hygiene(load(write_folder(tmp_path, files)))["shared"]}
    assert {name: (pair["documents"], pair["document_texts"]) for name, pair in shared.items()} == {
        ("train", "dev"): (0, 1), ("train", "test"): (1, 1), ("dev", "test"): (1, 1),
    }  # fmt: skip


def test_of_data_without_texts_ids_are_compared(tmp_path: Path) -> None:
    files = letor_files()
    files["vali.txt"] = files["train.txt"]
    shared = {tuple(pair["splits"]): pair for pair in hygiene(load(write_folder(tmp_path, files)))["shared"]}
    assert (shared["train", "dev"]["queries"], shared["train", "test"]["queries"]) == (2, 0)
    assert all(pair["document_texts"] == 0 for pair in shared.values())


def test_classes_that_a_split_lacks_count_none(tmp_path: Path) -> None:
    files = sick_files()
    files["SICK_trial.txt"] = "".join(
        line for line in files["SICK_trial.txt"].splitlines(True) if "NEUTRAL" not in line
    )
    described = hygiene(load(write_folder(tmp_path, files)))["splits"]["dev"]
    assert described["classes"] == {"contradiction": 1, "entailment": 1, "neutral": 0}


@pytest.mark.parametrize("files", [trec_files(), conversation_files(), letor_files(), sick_files()])
def test_the_command_shows_all_that_json_holds(
    files: dict[str, str], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    folder = write_folder(tmp_path / "mine", files)
    assert main(["data", str(folder), "--json"]) == 0
    document = json.loads(capfd.readouterr().out)
    assert set(document["examples"]) == set(document["splits"]) == {"train", "dev", "test"}
    assert all(len(examples) == 2 for examples in document["examples"].values())
    assert main(["data", str(folder)]) == 0
    shown = capfd.readouterr().out
    assert shown.startswith(f"mine: {document['task']}, {document['documents']} documents")
    assert all(example["query"] in shown for examples in document["examples"].values() for example in examples)
    assert all(note in shown for note in document["notes"])
    assert len(shown.splitlines()) < 60


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]))))
def test_a_growing_text_column_holds_what_was_appended(
    tmp_path_factory: pytest.TempPathFactory, texts: list[str]
) -> None:
    writer = TextWriter(tmp_path_factory.mktemp("column"), "documents")
    for text in texts:
        writer.append(text)
    assert list(writer.finish()) == texts


def test_a_growing_array_is_a_npy_file(tmp_path: Path) -> None:
    writer = ArrayWriter(tmp_path / "x.npy", np.int32)
    for start in range(0, 300_000, 100_000):
        writer.append(np.arange(start, start + 100_000))
    writer.finish()
    np.testing.assert_array_equal(np.load(tmp_path / "x.npy"), np.arange(300_000, dtype=np.int32))


def test_columns_written_while_reading_are_not_written_again(tmp_path: Path) -> None:
    data = load(write_folder(tmp_path / "data", letor_files()))
    writer = TextWriter(tmp_path / "entry", "documents")
    for text in data.documents:
        writer.append(text)
    grown = type(data)(**{**vars(data), "documents": writer.finish()})
    before = (tmp_path / "entry" / "documents.offsets.npy").stat().st_mtime_ns
    save_data(grown, tmp_path / "entry")
    assert (tmp_path / "entry" / "documents.offsets.npy").stat().st_mtime_ns == before
    again = load_data_folder(tmp_path / "entry")
    assert again.features is not None and data.features is not None
    np.testing.assert_array_equal(again.features, data.features)
    assert (again.task, again.classes) == (data.task, data.classes)


class TestIdIndex:
    def make(self, names: list[str]) -> IdIndex:
        return IdIndex(TextColumn.of(names), array("Q", map(ids_module.hash_of, names)))

    @given(st.lists(st.text("abc", max_size=3)), st.lists(st.text("abc", max_size=3)))
    def test_rows_and_repeats(self, names: list[str], wanted: list[str]) -> None:
        index = self.make(names)
        assert index.rows(wanted).tolist() == [names.index(name) if name in names else MISSING for name in wanted]
        repeats = [(row, names.index(name)) for row, name in enumerate(names) if names.index(name) != row]
        assert list(index.repeats()) == repeats
