"""Arguments from Python: texts, pairs and data are read as what they are, or refused in a line."""

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
from tune_cl.api.rankers import pairs_of, texts_by_name
from tune_cl.api.rerank import read_documents

TEXTS = ["the otter swims", "a kestrel hovers"]
PAIR = ("where do otters swim", TEXTS[0])


@pytest.mark.parametrize("documents", [TEXTS, iter(TEXTS), np.array(TEXTS), pd.Series(TEXTS, index=[7, 8])])
def test_documents_are_named_by_position_or_id(documents: Any) -> None:
    assert texts_by_name(documents) == dict(enumerate(TEXTS))
    assert texts_by_name({"b": TEXTS[1], "a": TEXTS[0]}) == {"b": TEXTS[1], "a": TEXTS[0]}


@pytest.mark.parametrize("documents", ["the otter", 3, pd.DataFrame({"document": TEXTS})])
def test_what_is_not_documents_is_refused(documents: Any) -> None:
    with pytest.raises(DataError, match="error: documents: "):
        texts_by_name(documents)


@pytest.mark.parametrize("pairs", [[PAIR], [list(PAIR)], np.array([PAIR]), zip(*zip(PAIR, strict=True), strict=True)])
def test_pairs_are_read(pairs: Any) -> None:
    assert pairs_of(pairs) == [PAIR]


@pytest.mark.parametrize("wrong", ["ab", (*PAIR, "x"), (PAIR[0], None), 3])
def test_what_is_not_a_pair_of_texts_is_refused(wrong: Any) -> None:
    with pytest.raises(DataError, match=r"error: pairs\[1\]: .* is not a pair of texts"):
        pairs_of([PAIR, wrong])


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


def test_a_row_of_a_frame_is_named() -> None:
    frame = pd.DataFrame([row | {"split": ("train", "dev")[n % 2]} for n, row in enumerate(ROWS)])
    frame.loc[7, "positive"] = None
    notes = load_data(DataConfig(source=str(as_source(frame)))).notes
    assert "data: 1 row without a text or label left out (data, row 7 (from 0))" in notes
    frame = frame.rename(columns={"positive": "document", "negative": "other"}).assign(label=1.0)
    frame.loc[5, "label"] = 0.5
    with pytest.raises(DataError, match=r"^error: data, row 5 \(from 0\): label '0.5'"):
        tune_cl.instances(frame)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("docs.txt", "d1\tpaint, a bridge\nsell a violin\n"),
        ("docs.csv", 'id,text\nd1,"paint, a bridge"\n2,sell a violin\n'),
        ("docs.jsonl", '{"_id": "d1", "text": "paint, a bridge"}\n{"_id": "2", "text": "sell a violin"}\n'),
    ],
)
def test_documents_of_a_file(name: str, content: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_text(content)
    assert read_documents(path) == {"d1": "paint, a bridge", "2": "sell a violin"}
    path.write_text(content.replace("text", "words").replace("2", "d1").replace("sell", "d1\tsell"))
    with pytest.raises(DataError, match=name):
        read_documents(path)
