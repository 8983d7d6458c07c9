"""Arguments from Python: each kind of documents, pairs and data is read as what it is, or refused in a line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow
import pytest

import tune_cl
from trainables.core.errors import DataError
from trainables.data import load_data
from trainables.data.forms.frames import as_source
from trainables.data.settings import DataConfig
from tune_cl.api.arguments import documents_of, pairs_of

TEXTS = ["the otter swims", "a kestrel hovers"]
DOCUMENTS: dict[str, tuple[Any, list[Any]]] = {
    "a list": (TEXTS, [0, 1]),
    "an iterator": (iter(TEXTS), [0, 1]),
    "an array": (np.array(TEXTS), [0, 1]),
    "a series": (pd.Series(TEXTS, index=[7, 8]), [0, 1]),
    "ids to texts": (dict(zip("ab", TEXTS, strict=True)), ["a", "b"]),
    "a frame with ids": (pd.DataFrame({"id": ["x", "y"], "document": TEXTS}), ["x", "y"]),
    "a frame": (pd.DataFrame({"document": TEXTS, "score": [1, 2]}), [0, 1]),
    "a table": (pyarrow.table({"docno": ["x", "y"], "text": TEXTS}), ["x", "y"]),
    "mappings": ([{"_id": "x", "text": TEXTS[0]}, {"_id": "y", "text": TEXTS[1]}], ["x", "y"]),
    "none": ([], []),
}
NO_DOCUMENTS: dict[str, tuple[Any, str]] = {
    "a text": ("the otter", "documents: one text"),
    "a set": (set(TEXTS), "documents: a set"),
    "a number": (3, "documents: 3 is not a list"),
    "a missing text": ([TEXTS[0], None], r"documents\[1\]: None is not a text"),
    "a frame without texts": (pd.DataFrame({"a": TEXTS}), "documents: no column document among a"),
    "a frame with a missing text": (pd.DataFrame({"document": [TEXTS[0], None]}), "documents, row 1: .* is not a text"),
    "a mapping of lists": ({"a": TEXTS}, r"documents\['a'\]: .* is not a text"),
}
PAIR = ("where do otters swim", TEXTS[0])
PAIRS: dict[str, tuple[Any, int]] = {
    "pairs": ([PAIR, PAIR], 2),
    "one pair": (PAIR, 1),
    "lists": ([list(PAIR)], 1),
    "an array": (np.array([PAIR, PAIR]), 2),
    "an iterator": (zip([PAIR[0]], [PAIR[1]], strict=True), 1),
    "a frame": (pd.DataFrame([PAIR], columns=["query", "document"]), 1),
    "mappings": ([{"query": PAIR[0], "document": PAIR[1]}], 1),
    "a mapping": ({"query": PAIR[0], "document": PAIR[1]}, 1),
    "a mapping of lists": ({"query": [PAIR[0]] * 2, "passage": [PAIR[1]] * 2}, 2),
    "none": ([], 0),
}
NO_PAIRS: dict[str, tuple[Any, str]] = {
    "texts": (["ab", "cd"], r"pairs\[0\]: 'ab' is not a pair"),
    "a text": ("ab", "pairs: a str"),
    "three sides": ([PAIR, (*PAIR, "x")], r"pairs\[1\]: .* is not a pair"),
    "a missing text": ([(PAIR[0], None)], r"pairs\[0\]: None is not a text"),
    "two lists": (([PAIR[0]] * 2, TEXTS), "pairs: two lists"),
    "columns of two lengths": ({"query": [PAIR[0]], "document": TEXTS}, "1 queries and 2 documents"),
    "a frame without queries": (pd.DataFrame({"document": TEXTS}), "pairs: no column query"),
}


@pytest.mark.parametrize("name", DOCUMENTS)
def test_documents_are_read_under_their_ids(name: str) -> None:
    given, names = DOCUMENTS[name]
    documents = documents_of(given)
    assert list(documents.names) == names and documents.texts == TEXTS[: len(names)]


@pytest.mark.parametrize("name", NO_DOCUMENTS)
def test_what_is_no_documents_is_refused(name: str) -> None:
    given, told = NO_DOCUMENTS[name]
    with pytest.raises(DataError, match=f"error: {told}"):
        documents_of(given)


@pytest.mark.parametrize("name", PAIRS)
def test_pairs_are_read(name: str) -> None:
    given, count = PAIRS[name]
    assert pairs_of(given) == [PAIR] * count


@pytest.mark.parametrize("name", NO_PAIRS)
def test_what_is_no_pairs_is_refused(name: str) -> None:
    given, told = NO_PAIRS[name]
    with pytest.raises(DataError, match=f"error: {told}|{told}"):
        pairs_of(given)


ROWS = [{"query": f"q {n}", "positive": f"p {n}", "negative": f"n {n}"} for n in range(12)]
SOURCES: dict[str, Any] = {
    "mappings": ROWS,
    "a generator": (row for row in ROWS),
    "columns": {name: [row[name] for row in ROWS] for name in ROWS[0]},
    "a table of Arrow": pyarrow.Table.from_pylist(ROWS),
    "splits of mappings": {"train": ROWS},
    "splits of frames": {"train": pd.DataFrame(ROWS)},
}


@pytest.mark.parametrize("name", SOURCES)
def test_data_are_read_as_a_frame_is(name: str) -> None:
    expected = tune_cl.instances(pd.DataFrame(ROWS))
    assert tune_cl.instances(SOURCES[name]).equals(expected)


def test_classes_of_a_dataset_say_what_is_relevant() -> None:
    datasets = pytest.importorskip("datasets")
    label = datasets.ClassLabel(names=["relevant", "not_relevant"])
    features = datasets.Features(
        {"query": datasets.Value("string"), "document": datasets.Value("string"), "label": label}
    )
    rows = {"query": ["q", "q"], "document": ["a", "b"], "label": [0, 1]}
    data = load_data(DataConfig(source=str(as_source(datasets.Dataset.from_dict(rows, features=features)))))
    split = data.splits["train"]
    grades = dict(zip([data.documents[row] for row in split.document], split.grade.tolist(), strict=True))
    assert grades == {"a": 1, "b": 0}


class TestRowsOfAFrame:
    @staticmethod
    def frame() -> pd.DataFrame:
        return pd.DataFrame([row | {"split": ("train", "dev")[n % 2]} for n, row in enumerate(ROWS)])

    def test_one_without_a_text_is_left_out_and_named(self) -> None:
        frame = self.frame()
        frame.loc[7, "positive"] = None
        notes = load_data(DataConfig(source=str(as_source(frame)))).notes
        assert "data: 1 row without a text or label left out (data, row 7 (from 0))" in notes

    def test_one_that_comes_twice_is_named(self) -> None:
        notes = load_data(DataConfig(source=str(as_source(pd.concat([self.frame(), self.frame()]))))).notes
        told = [note for note in notes if "repeated row" in note]
        assert told and all(note.startswith("data") and ".parquet" not in note for note in told)

    def test_a_wrong_one_is_named(self) -> None:
        frame = self.frame().rename(columns={"positive": "document", "negative": "other"}).assign(label=1.0)
        frame.loc[5, "label"] = 0.5
        with pytest.raises(DataError, match=r"^error: data, row 5 \(from 0\): label '0.5'"):
            tune_cl.instances(frame)


def test_rerank_reads_objects_of_json_and_csv(tmp_path: Path) -> None:
    from tune_cl.api.rerank import read_documents

    path = tmp_path / "docs.jsonl"
    path.write_text('{"_id": "d1", "text": "paint a bridge"}\n{"id": 2, "contents": "sell a violin"}\n')
    assert read_documents(path) == {"d1": "paint a bridge", "2": "sell a violin"}
    path.write_text('{"_id": "d1"}\n')
    with pytest.raises(DataError, match=r"docs.jsonl:1: .* without a text"):
        read_documents(path)
    table = tmp_path / "docs.csv"
    table.write_text('id,text\nd1,"paint, a bridge"\n2,sell a violin\n')
    assert read_documents(table) == {"d1": "paint, a bridge", "2": "sell a violin"}
    table.write_text("id,words\nd1,paint\n")
    with pytest.raises(DataError, match=r"docs.csv: no column document"):
        read_documents(table)


def test_a_call_leaves_loggers_and_random_states_as_they_were() -> None:
    import logging
    import random

    from tune_cl.api.session import working

    logging.getLogger("mlflow").setLevel(logging.INFO)
    states = random.getstate(), np.random.get_state()[1].tolist()
    with working(progress=False):
        assert logging.getLogger("mlflow").level == logging.WARNING
        random.random()
        np.random.seed(1)
        logging.getLogger("mlflow").setLevel(logging.ERROR)
    assert logging.getLogger("mlflow").level == logging.INFO
    assert (random.getstate(), np.random.get_state()[1].tolist()) == states
