"""ir_datasets: the library's own loading code over small local files in its formats."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import ir_datasets
import pytest
from ir_datasets.datasets.base import Dataset
from ir_datasets.formats import TrecQrels, TrecScoredDocs, TsvDocPairs, TsvDocs, TsvQueries
from ir_datasets.util import LocalDownload

from tests.support.data_folders import COLLECTION
from tests.support.loading import candidates
from trainables.core.errors import DataError, WorkFailed
from trainables.data import load_data
from trainables.data.columns import RankingData
from trainables.data.forms.ir_datasets_source import parse_source
from trainables.data.settings import DataConfig
from tune_cl.testing.readers import check_data

QRELS = "{0}-a 0 d1 2\n{0}-a 0 d3 -1\n{0}-b 0 d2 1\n{0}-b 0 d4 0\n{0}-b 0 gone 1\n{0}-a 0 d1 2\nlost 0 d1 1\n"
RUN = "{0}-a Q0 d3 0 3 x\n{0}-a Q0 d1 1 2 x\n{0}-b Q0 d2 0 1 x\n{0}-a Q0 gone 2 1 x\n"
Register = Callable[[str, Dataset], None]


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A registered test dataset's name alone does not tell the cache its content."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def register() -> Iterator[Register]:
    """Makes a dataset known to the library until the end of the test."""
    names: list[str] = []

    def make(name: str, dataset: Dataset) -> None:
        ir_datasets.registry.register(name, dataset)
        names.append(name)

    yield make
    for name in names:
        del ir_datasets.registry._registered[name]


class Parts:
    """Parts of datasets over small files."""

    def __init__(self, folder: Path):
        self.folder = folder

    def file(self, name: str, text: str) -> LocalDownload:
        (self.folder / name).write_text(text, encoding="utf-8")
        return LocalDownload(self.folder / name)

    def docs(self, text: str = COLLECTION) -> TsvDocs:
        return TsvDocs(self.file("docs.tsv", text), lang="en")

    def queries(self, text: str = "a\tcat\n", name: str = "q") -> TsvQueries:
        return TsvQueries(self.file(name, text))

    def qrels(self, text: str = "a 0 d1 1\na 0 d2 0\n", name: str = "qrels") -> TrecQrels:
        return TrecQrels(self.file(name, text), {0: "no", 1: "yes"})

    def run(self, text: str, name: str = "run") -> TrecScoredDocs:
        return TrecScoredDocs(self.file(name, text))


@pytest.fixture
def parts(tmp_path: Path) -> Parts:
    return Parts(tmp_path)


@pytest.fixture
def registered(parts: Parts, register: Register) -> str:
    """The dataset tune-cl-test with the parts train, dev/small and test over one collection."""
    documents = parts.docs(COLLECTION + "d5\t \n")
    register("tune-cl-test", Dataset(documents))
    for part, split in {"train": "train", "dev/small": "dev", "test": "test"}.items():
        queries = parts.queries(f"{split}-a\tcat\n{split}-b\tdog\n{split}-c\tbird\n", f"{split}.q")
        qrels, run = parts.qrels(QRELS.format(split), f"{split}.qrels"), parts.run(RUN.format(split), f"{split}.run")
        register(f"tune-cl-test/{part}", Dataset(documents, queries, qrels, run))
    return "tune-cl-test"


def load(source: str, **keys: object) -> RankingData:
    return load_data(DataConfig.model_validate({"source": f"ir_datasets:{source}", **keys}))


def test_parts_qrels_runs_and_notes(registered: str) -> None:
    data = load(f"{registered}?train=train&dev=dev/small&test=test", candidates="qrels")
    check_data(data)
    assert (list(data.splits), list(data.document_ids)) == (["train", "dev", "test"], ["d1", "d2", "d3", "d4"])
    assert sorted(row[:2] for row in candidates(data, "dev", 0)) == [("d1", 2), ("d3", 0)]
    assert data.splits["dev"].judged_grade.tolist() == [2, 0, 1, 0, 1]
    for note in ("1 document without text", "dev: 1 judged query"):
        assert any(note in one for one in data.notes)
    ranked = load(f"{registered}?test=test", candidates="run")
    assert candidates(ranked, "test", 0) == [("d3", 0, 1), ("d1", 2, 2)]
    assert ranked.splits["test"].score.tolist() == [3, 2, 1]


def test_document_pairs_are_training_judgments_after_those_of_the_qrels(register: Register, parts: Parts) -> None:
    """As in msmarco-passage/train/triples-small, whose qrels name relevant documents alone."""
    pairs = TsvDocPairs(parts.file("pairs", "a\td1\td2\na\td1\td3\na\td4\td1\nb\td1\td2\n"))
    documents, relevant = parts.docs(), parts.qrels("a 0 d1 1\n", "relevant")
    register("paired", Dataset(documents))
    register("paired/train/triples-small", Dataset(documents, parts.queries(), relevant, pairs))
    register("paired/test", Dataset(documents, parts.queries(), parts.qrels()))
    data = load("paired?train=train/triples-small&test=test")
    assert sorted(row[:2] for row in candidates(data, "train", 0)) == [("d1", 1), ("d2", 0), ("d3", 0), ("d4", 1)]
    assert not any("repeated" in note for note in data.notes)


def test_usual_parts_are_those_that_are_judged_and_the_first_of_each_split(
    registered: str, register: Register, parts: Parts
) -> None:
    assert parse_source(f"ir_datasets:{registered}")[1] == {
        "train": "tune-cl-test/train",
        "test": "tune-cl-test/test",
    }
    assert parse_source(f"ir_datasets:{registered}/test")[1] == {"test": "tune-cl-test/test"}
    docs, queries, qrels = parts.docs(), parts.queries(), parts.qrels()
    whole = Dataset(docs, queries, qrels)
    kinds = {"train": Dataset(docs, qrels), "dev": Dataset(docs, queries), "validation": whole, "valid": whole}
    for name, dataset in kinds.items():
        register(f"usual/{name}", dataset)
    assert parse_source("ir_datasets:usual")[1] == {"dev": "usual/validation"}
    assert parse_source("ir_datasets:/x/?dev=/a/b/&test=c") == ("x", {"dev": "x/a/b", "test": "x/c"})


@pytest.mark.parametrize(
    ("source", "word"),
    [
        ("", "no dataset"),
        ("no-such-thing", "no-such-thing"),
        ("{}?train=other", "'tune-cl-test/other'"),
        *(("{}" + query, "each split once") for query in (
            "?eval=train", "?", "?train=train&dev=", "?train=train&train=test")),
    ],
)  # fmt: skip
def test_wrong_sources(source: str, word: str, registered: str) -> None:
    with pytest.raises(DataError, match=f"data.source: .*{word}"):
        load(source.format(registered))


DOCUMENTS = {
    "d1\tone\nd 2\ttwo\n": "bad:2: id 'd 2'",
    "d1\tone\nd2\ttwo\nd1\tthree\n": "bad:3: another text for id 'd1'",
    "d1\t \nd2\t\n": "'d1' has an empty text",
}


@pytest.mark.parametrize("text", DOCUMENTS)
def test_documents_that_cannot_be_used(text: str, register: Register, parts: Parts) -> None:
    register("bad", Dataset(parts.docs(text), parts.queries(), parts.qrels()))
    with pytest.raises(DataError, match=DOCUMENTS[text]):
        load("bad")


def test_broken_files_are_named(registered: str, tmp_path: Path) -> None:
    documents = (tmp_path / "docs.tsv").read_bytes()
    (tmp_path / "docs.tsv").unlink()
    with pytest.raises(WorkFailed, match=f"'{registered}'"):
        load(f"{registered}?test=test")
    (tmp_path / "docs.tsv").write_bytes(documents)
    (tmp_path / "test.qrels").write_text("test-a 0 d1 one\n")
    with pytest.raises(WorkFailed, match=f"'{registered}/test'"):
        load(f"{registered}?test=test")


@pytest.mark.parametrize("run", ["a Q0 d1 0 1 x\na Q0 d2 0 1 x\n", "a Q0 d1 0 1 x\na Q0 d2 0 nan x\n", None])
def test_a_run_that_ranks_nothing_is_refused_where_it_is_asked_for(
    run: str | None, register: Register, parts: Parts
) -> None:
    register("runs", Dataset(parts.docs(), parts.queries(), parts.qrels(), parts.run(run) if run else None))
    with pytest.raises(DataError, match="data.candidates: .*test" + (".* scores that rank" if run else " has no run")):
        load("runs", candidates="run")
    assert len(candidates(load("runs", candidates="qrels"), "test", 0)) == 2
