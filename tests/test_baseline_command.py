"""`tune-cl baseline`: each setting's document and run file, and what is noted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.builders import tiny_data
from tests.support.cli_calls import document as document_of
from tests.support.data_folders import trec_files, write_folder
from tests.support.trec_folder import write_trec_folder
from trainables.data.columns import TextColumn
from trainables.rankers import ranker_settings
from tune_cl.cli import DONE, main
from tune_cl.cli.commands import baseline as command
from tune_cl.cli.commands.baseline import render

Capture = pytest.CaptureFixture[str]
SMALL = ["--set", "ranker.vector_size=8"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    data = tiny_data(queries={"train": 12, "dev": 12, "test": 12}, candidates=5, turns=1)
    return write_trec_folder(data, tmp_path_factory.mktemp("trec"))


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def document(capfd: Capture, folder: Path, *arguments: str) -> dict[str, Any]:
    return document_of(capfd, "baseline", str(folder), *arguments)


@pytest.mark.parametrize(
    ("options", "setting", "points"),
    [([], "default", None), (["--tune"], "tuned", 66), (["--optimize-on-test"], "optimized_on_test", 66)],
)
def test_the_document_of_each_setting(
    options: list[str], setting: str, points: int | None, folder: Path, capfd: Capture
) -> None:
    found = document(capfd, folder, "sdm", *options)
    assert found["run_file"] == f"sdm.{setting}.test.run.txt"
    assert (found["setting"], found["split"], found["ranked"], found["queries"]) == (setting, "test", "candidates", 12)
    assert found["params"].keys() == {"tw", "ow", "uw", "k1", "b"}
    assert (found["chosen"] or {}).get("points") == points
    [run] = document_of(capfd, "evaluate", str(folder / "qrels.test.txt"), found["run_file"])["runs"]
    assert found["metrics"] == pytest.approx(run["metrics"] | {"accuracy": run["metrics"]["p@1"]})
    if setting == "optimized_on_test":
        assert found["chosen"]["value"] == pytest.approx(found["metrics"]["map"])
    assert f"{found['metrics']['map']:.4f}" in render(found) and found["run_file"] in render(found)


def test_what_is_best_on_dev_can_be_seen_there(folder: Path, here: Path, capfd: Capture) -> None:
    found = document(capfd, folder, "bm25", "--tune", "--split", "dev")
    assert found["metrics"]["map"] == pytest.approx(found["chosen"]["value"])
    assert [path.name for path in here.iterdir()] == ["bm25.tuned.dev.run.txt"]
    assert main(["baseline", str(folder), "bm25", "--tune", "--split", "dev"]) == DONE
    assert any("note: --tune" in line and "bound" in line for line in capfd.readouterr().err.splitlines())


def test_embedding_takes_the_vectors_that_ranker_embedding_has_and_nothing_to_tune(
    folder: Path, capfd: Capture
) -> None:
    untrained = ranker_settings({"name": "embedding"}).model_dump()
    assert untrained["word2vec"] == "skipgram"  # cbow vectors of a small collection lie close together
    plain = document(capfd, folder, "embedding")
    assert plain["params"] == {key: untrained[key] for key in ("vectors", "vector_size", "word2vec")}
    taken = document(capfd, folder, "embedding", "--set", "ranker.name=conv_knrm")["params"]
    assert taken["word2vec"] == "cbow"
    assert document(capfd, folder, "embedding", "--tune") | {"seconds": 0} == plain | {"seconds": 0}
    assert main(["baseline", str(folder), "embedding", "--tune"]) == DONE
    assert "note: nothing to tune" in capfd.readouterr().err


def test_retrieval_ranks_documents_that_are_no_candidates(here: Path, capfd: Capture) -> None:
    files = trec_files() | {"run.test.txt": "test-a Q0 d2 1 1 x\ntest-b Q0 d1 1 1 x\n"}
    folder = write_folder(here / "data", files)
    options = ["bm25", "--output", "run.txt", "--set", "data.top_k=2"]
    assert document(capfd, folder, *options)["metrics"]["map"] == 0
    found = document(capfd, folder, *options, "--retrieve")
    assert (found["ranked"], found["metrics"]["mrr@10"]) == ("collection", 0.5)
    assert [line.split()[2] for line in Path("run.txt").read_text().splitlines()] == ["d4", "d1", "d4", "d2"]


@pytest.mark.parametrize("more", [[], ["--retrieve"], ["--set", "data.candidates=qrels"]])
def test_a_collection_is_searched_where_a_judged_document_has_no_text(
    more: list[str], here: Path, capfd: Capture
) -> None:
    """Such a judgment is also accepted beside the run that the data has, which every other command reads."""
    files = trec_files()
    files["qrels.test.txt"] += "test-a 0 gone 1\n"
    assert document(capfd, write_folder(here / "data", files), "bm25", *more)["queries"] == 2


def test_where_candidates_were_retrieved_the_collection_is_ranked(
    here: Path, monkeypatch: pytest.MonkeyPatch, capfd: Capture
) -> None:
    def search(documents: TextColumn, queries: dict[str, list[str]], *_: object) -> dict:
        return dict.fromkeys(queries, (np.array([0, 1]), np.array([1, 0]), np.array([1.0, 2.0])))

    monkeypatch.setattr("trainables.data.readers.assembly.retrieve", search)
    folder = write_folder(here / "data", trec_files())
    for name, ranked in (("bm25", "collection"), ("embedding", "candidates")):
        assert document(capfd, folder, name, "--set", "data.candidates=bm25", *SMALL)["ranked"] == ranked


def idle_keys(capfd: Capture) -> list[str]:
    told = [line for line in capfd.readouterr().err.splitlines() if "without effect" in line]
    return [key for line in told for key in line.rpartition(": ")[2].split(", ")]


@pytest.mark.parametrize(
    ("asked", "idle"),
    [
        ("bm25 --set training.lr=3 --set data.bm25.k1=1 --set metric=p@1", ["training.lr", "metric"]),
        ("bm25 --set metric=p@1 --tune", []),
        ("bm25 --set ranker.name=knrm --set evaluation.relevance_level=1", ["ranker.name"]),
        ("embedding --set ranker.vector_size=8 --set seed=1", ["seed"]),
        *((line.partition("data/")[2].partition(" ")[2], []) for line in (command.__doc__ or "").splitlines()[1:3]),
    ],
)
def test_keys_that_a_baseline_does_not_read_are_told(asked: str, idle: list[str], folder: Path, capfd: Capture) -> None:
    """Also of the examples of its help, which set nothing without effect."""
    assert main(["baseline", str(folder), *asked.split()]) == DONE
    assert idle_keys(capfd) == idle
