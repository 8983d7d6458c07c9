"""`tune-cl baseline`: each setting's document and run file, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.builders import tiny_data
from tests.support.data_folders import trec_files, write_folder
from tests.support.trec_folder import write_trec_folder
from trainables.baselines import load_baseline
from trainables.data.columns import TextColumn
from trainables.rankers import ranker_settings
from tune_cl.cli import BAD_INPUT, DONE, main, parser_of
from tune_cl.cli.commands import baseline as command
from tune_cl.experiment.load import parse_overrides

BASE = tiny_data()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    data = tiny_data(queries={"train": 12, "dev": 12, "test": 12}, candidates=5, turns=1)
    return write_trec_folder(data, tmp_path_factory.mktemp("trec"))


def document(capfd: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    assert main(["baseline", *arguments, "--json"]) == DONE
    return json.loads(capfd.readouterr().out)


@pytest.mark.parametrize(
    ("options", "setting", "points"),
    [([], "default", None), (["--tune"], "tuned", 66), (["--optimize-on-test"], "optimized_on_test", 66)],
)
def test_the_document_of_each_setting(
    folder: Path,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    options: list[str],
    setting: str,
    points: int | None,
) -> None:
    run = tmp_path / "out.txt"
    found = document(capfd, str(folder), "sdm", "--output", str(run), *options)
    assert found["run_file"] == str(run)
    assert (found["setting"], found["split"], found["ranked"], found["queries"]) == (setting, "test", "candidates", 12)
    assert found["params"].keys() == {"tw", "ow", "uw", "k1", "b"}
    assert (found["chosen"] or {}).get("points") == points
    assert main(["evaluate", str(folder / "qrels.test.txt"), str(run), "--json"]) == DONE
    evaluated = json.loads(capfd.readouterr().out)["runs"][0]["metrics"]
    assert found["metrics"] == pytest.approx(evaluated | {"accuracy": evaluated["p@1"]})
    if setting == "optimized_on_test":
        assert found["chosen"]["value"] == pytest.approx(found["metrics"]["map"])


def test_the_default_run_file_names_baseline_setting_and_split(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["baseline", str(folder), "embedding", "--split", "dev", "--set", "ranker.vector_size=8"]) == DONE
    assert [path.name for path in tmp_path.iterdir()] == ["embedding.default.dev.run.txt"]
    assert "vector_size 8" in capfd.readouterr().out


def test_embedding_takes_the_vectors_that_ranker_embedding_has(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    untrained = ranker_settings({"name": "embedding"}).model_dump()
    assert untrained["word2vec"] == "skipgram"  # cbow vectors of a small collection lie close together
    assert document(capfd, str(folder), "embedding")["params"] == {
        key: untrained[key] for key in ("vectors", "vector_size", "word2vec")
    }
    taken = document(capfd, str(folder), "embedding", "--set", "ranker.name=conv_knrm")["params"]
    assert taken["word2vec"] == "cbow"


def test_retrieval_ranks_documents_that_are_no_candidates(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    files = trec_files() | {"run.test.txt": "test-a Q0 d2 1 1 x\ntest-b Q0 d1 1 1 x\n"}
    folder, run = write_folder(tmp_path / "data", files), tmp_path / "run.txt"
    options = (str(folder), "bm25", "--output", str(run), "--set", "data.top_k=2")
    assert document(capfd, *options)["metrics"]["map"] == 0
    found = document(capfd, *options, "--retrieve")
    assert (found["ranked"], found["metrics"]["mrr@10"]) == ("collection", 0.5)
    assert [line.split()[2] for line in run.read_text().splitlines()] == ["d4", "d1", "d4", "d2"]


def test_where_candidates_were_retrieved_the_collection_is_ranked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def search(documents: TextColumn, queries: dict[str, list[str]], k1: float, b: float, top_k: int) -> dict:
        return dict.fromkeys(queries, (np.array([0, 1]), np.array([1, 0]), np.array([1.0, 2.0])))

    monkeypatch.setattr("trainables.data.readers.assembly.retrieve", search)
    folder, run = write_folder(tmp_path / "data", trec_files()), tmp_path / "run.txt"
    options = (str(folder), "--output", str(run), "--set", "data.candidates=bm25", "--set", "ranker.vector_size=8")
    assert document(capfd, options[0], "bm25", *options[1:])["ranked"] == "collection"
    assert document(capfd, options[0], "embedding", *options[1:])["ranked"] == "candidates"


@pytest.mark.parametrize(
    ("options", "line"),
    [
        (["nothing"], "error: BASELINE: unknown value 'nothing'; known: bm25, embedding, sdm"),
        (
            ["embedding", "--optimize-on-test"],
            "error: --optimize-on-test: embedding has no parameters to tune; leave --optimize-on-test out",
        ),
        (["embedding", "--retrieve"], "error: --retrieve: embedding ranks candidates only; leave --retrieve out"),
        (["sdm", "--optimize-on-test", "--split", "dev"], "error: --optimize-on-test: reports test, not dev;"),
        (["bm25", "--tune", "--optimize-on-test"], "error: --optimize-on-test: not allowed with argument --tune;"),
        (["bm25", "--set", "data.bm25.b=2"], "error: data.bm25.b: 2 is above 1;"),
    ],
)
def test_wrong_options_are_told_and_nothing_is_written(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str],
    options: list[str], line: str,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    assert main(["baseline", str(folder), *options]) == BAD_INPUT
    shown = capfd.readouterr()
    assert shown.out == "" and shown.err.startswith(line)
    assert list(tmp_path.iterdir()) == []


def test_what_is_best_on_dev_can_be_seen_there(folder: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    output = ["--output", str(tmp_path / "run.txt"), "--json"]
    assert main(["baseline", str(folder), "bm25", "--tune", "--split", "dev", *output]) == DONE
    shown = capfd.readouterr()
    found = json.loads(shown.out)
    assert found["metrics"]["map"] == pytest.approx(found["chosen"]["value"])
    assert "note: --tune used dev itself: its dev values are a bound, not a fair baseline" in shown.err


def test_a_missing_split_is_told(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    files = {name: text for name, text in trec_files().items() if ".dev." not in name}
    assert main(["baseline", str(write_folder(tmp_path, files)), "bm25", "--tune"]) == BAD_INPUT
    assert "has no dev split" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("asked", "idle"),
    [
        (["bm25", "--set", "training.lr=3", "--set", "data.bm25.k1=1", "--set", "metric=p@1"], "training.lr, metric"),
        (["bm25", "--set", "metric=p@1", "--tune"], None),
        (["bm25", "--set", "ranker.name=knrm", "--set", "evaluation.relevance_level=1"], "ranker.name"),
        (["embedding", "--set", "ranker.vector_size=8", "--set", "seed=1"], "seed"),
    ],
)
def test_keys_that_a_baseline_does_not_read_are_told(
    asked: list[str], idle: str | None, folder: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(["baseline", str(folder), *asked, "--output", str(tmp_path / "run.txt")]) == DONE
    told = [line for line in capfd.readouterr().err.splitlines() if "without effect" in line]
    assert told == ([f"note: without effect on this baseline: {idle}"] if idle else [])


def test_the_examples_of_its_help_set_nothing_without_effect() -> None:
    lines = [line.split() for line in (command.__doc__ or "").splitlines() if line.strip().startswith("tune-cl")]
    assert len(lines) == 2
    for line in lines:
        options = parser_of("baseline", command).parse_args(line[2:])
        kind = load_baseline(options.baseline)
        read = command._read(kind, command._setting(options, kind))
        assert all(key.startswith(read) for key in parse_overrides(options.overrides))
