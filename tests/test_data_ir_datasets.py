"""ir_datasets: the library's own loading code over small local files in its formats."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import ir_datasets
import numpy as np
import pytest
from ir_datasets.datasets.base import Dataset
from ir_datasets.formats import TrecQrels, TrecScoredDocs, TsvDocs, TsvQueries
from ir_datasets.util import LocalDownload

from tests.data_folders import COLLECTION
from tests.test_data_readers import candidates, check
from trainables.config import DataConfig
from trainables.data import load_data
from trainables.data.columns import RankingData
from trainables.data.readers.ir_datasets_source import parse_source
from trainables.errors import DataError, WorkFailed

QRELS = "{0}-a 0 d1 2\n{0}-a 0 d3 -1\n{0}-b 0 d2 1\n{0}-b 0 d4 0\n{0}-b 0 gone 1\n{0}-a 0 d1 2\nlost 0 d1 1\n"
RUN = "{0}-a Q0 d3 0 3 x\n{0}-a Q0 d1 1 2 x\n{0}-b Q0 d2 0 1 x\n{0}-a Q0 gone 2 1 x\n"


@pytest.fixture
def registered(tmp_path: Path) -> Iterator[str]:
    """The dataset tune-cl-test with the parts train, dev/small and test over one collection."""
    name = "tune-cl-test"
    parts = {"train": "train", "dev/small": "dev", "test": "test"}
    documents = TsvDocs(_file(tmp_path, "docs.tsv", COLLECTION + "d5\t \n"), lang="en")
    made: dict[str, Any] = {name: Dataset(documents)}
    for part, split in parts.items():
        queries = TsvQueries(_file(tmp_path, f"{split}.q", f"{split}-a\tcat\n{split}-b\tdog\n{split}-c\tbird\n"))
        qrels = TrecQrels(_file(tmp_path, f"{split}.qrels", QRELS.format(split)), {0: "no", 1: "yes"})
        run = TrecScoredDocs(_file(tmp_path, f"{split}.run", RUN.format(split)))
        made[f"{name}/{part}"] = Dataset(documents, queries, qrels, run)
    for each, dataset in made.items():
        ir_datasets.registry.register(each, dataset)
    yield name
    for each in made:
        del ir_datasets.registry._registered[each]


def _file(folder: Path, name: str, text: str) -> LocalDownload:
    (folder / name).write_text(text, encoding="utf-8")
    return LocalDownload(folder / name)


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A registered test dataset's name alone does not tell the cache its content."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def load(source: str, **keys: object) -> RankingData:
    return load_data(DataConfig.model_validate({"source": f"ir_datasets:{source}", **keys}))


def test_parts_qrels_and_notes(registered: str) -> None:
    data = load(f"{registered}?train=train&dev=dev/small&test=test", candidates="qrels")
    check(data)
    assert list(data.splits) == ["train", "dev", "test"]
    assert list(data.document_ids) == ["d1", "d2", "d3", "d4"]
    assert sorted(row[:2] for row in candidates(data, "dev", 0)) == [("d1", 2), ("d3", 0)]
    assert data.splits["dev"].judged_grade.tolist() == [2, 0, 1, 0, 1]
    assert "1 document without text left out" in data.notes
    assert "dev: 1 repeated judgment left out" in data.notes
    assert "dev: 1 judged query without text left out" in data.notes


def test_scored_documents_are_the_run_when_asked_for(registered: str) -> None:
    data = load(f"{registered}?test=test", candidates="run")
    assert candidates(data, "test", 0) == [("d3", 0, 1), ("d1", 2, 2)]
    np.testing.assert_array_equal(data.splits["test"].score, [3, 2, 1])


def test_usual_parts(registered: str) -> None:
    assert parse_source(f"ir_datasets:{registered}").splits == {
        "train": f"{registered}/train", "test": f"{registered}/test",
    }  # fmt: skip
    assert parse_source(f"ir_datasets:{registered}/test").splits == {"test": f"{registered}/test"}


@pytest.mark.parametrize(
    ("source", "wrong"),
    [
        ("", "names no dataset"),
        ("no-such-thing", "knows no 'no-such-thing'"),
        ("{}?train=other", "knows no 'tune-cl-test/other'"),
        ("{}?eval=train", "does not give each split once"),
        ("{}?", "does not give each split once"),
    ],
)
def test_wrong_sources(source: str, wrong: str, registered: str) -> None:
    with pytest.raises(DataError, match=wrong):
        load(source.format(registered))


def test_broken_files_are_named(registered: str, tmp_path: Path) -> None:
    (tmp_path / "test.qrels").write_text("test-a 0 d1 one\n")
    with pytest.raises(DataError, match=rf"'{registered}/test' of ir_datasets cannot be read"):
        load(f"{registered}?test=test")
    (tmp_path / "docs.tsv").unlink()
    with pytest.raises(WorkFailed, match=f"could not get '{registered}'"):
        load(f"{registered}?test=test")
