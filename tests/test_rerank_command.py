"""`tune-cl rerank`: one task at a time, texts with their own scores, and data that the ranker can read."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.support.builders import tiny_data
from tests.support.cli_calls import SMALL_OPTIONS, document, errors
from tests.support.data_folders import letor_files, quora_files, trec_files, write_folder
from tests.support.pair_data import pair_folder
from tests.support.trec_folder import write_trec_folder
from trainables.rankers.word_vectors import WordRanker
from tune_cl.cli import DONE, main

TOP = 2


@pytest.fixture(scope="module")
def rankers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with data to rank and pairs to classify, and a ranker for each; the first one saw the TOP candidates."""
    folder = tmp_path_factory.mktemp("rerank")
    made = tiny_data(queries={"train": 10, "dev": 5, "test": 5}, candidates=5, turns=1)
    few = ["--set", f"data.top_k={TOP}", *SMALL_OPTIONS]
    for data, options in ((write_trec_folder(made, folder / "data"), few), (pair_folder(folder / "pairs"), [])):
        train = ["train", "--data", str(data), "--ranker", "conv_knrm", *SMALL_OPTIONS, *options]
        assert main([*train, "--output", str(folder / f"of-{data.name}")]) == DONE
    return folder


def texts_in(folder: Path, *lines: str) -> str:
    path = folder / "texts.txt"
    path.write_text("".join(f"{line}\n" for line in lines))
    return str(path)


def ranks(run: Path) -> list[str]:
    return [line.rsplit(" ", 1)[0] for line in run.read_text().splitlines()]


@pytest.mark.parametrize(
    "given",
    [["--query", "q"], ["--data", "x", "--documents", "f"], ["--data", "x", "--query", "q", "--documents", "f"]],
)
def test_data_or_texts_are_ranked_and_not_both(given: list[str], capfd: pytest.CaptureFixture[str]) -> None:
    (line,) = errors(capfd, "rerank", "no-ranker", *given)
    assert line.startswith("error: rerank: needs one task; either --data DATA, or --query TEXT with --documents FILE")


def test_a_text_has_no_split(capfd: pytest.CaptureFixture[str]) -> None:
    """Found out before the ranker and the file are read."""
    (line,) = errors(capfd, "rerank", "no-ranker", "--query", "w1", "--documents", "none.txt", "--split", "test")
    assert line == "error: --split: is for data; a text has no splits; --data DATA, or no --split"


# -- texts -----------------------------------------------------------------------------------------------------------


def test_a_text_has_the_same_score_beside_others_and_alone(
    rankers: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    texts = {"a": "w1 w2 w3", "b": "w6", "c": "w4 w5 w1", "d": "w7 w2"}

    def scores(*names: str) -> dict[str, float]:
        documents = texts_in(tmp_path, *(f"{name}\t{texts[name]}" for name in names))
        asked = ["rerank", str(rankers / "of-data" / "ranker"), "--query", "w1 w2", "--documents", documents]
        return {row["doc"]: row["score"] for row in document(capfd, *asked)["ranking"]}

    together = scores(*texts)
    assert together == pytest.approx({name: scores(name)[name] for name in texts}, abs=1e-5)
    assert list(together) == sorted(texts, key=lambda name: -together[name]) and len(set(together.values())) == 4


def test_equal_texts_stay_in_the_order_of_the_file(
    rankers: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    asked = [
        "rerank",
        str(rankers / "of-data" / "ranker"),
        "--query",
        "w1",
        "--documents",
        texts_in(tmp_path, *["w1"] * 4),
    ]
    assert [row["doc"] for row in document(capfd, *asked)["ranking"]] == ["1", "2", "3", "4"]


def test_documents_may_come_from_standard_input(rankers: Path, capfd: pytest.CaptureFixture[str]) -> None:
    asked = ["rerank", str(rankers / "of-data" / "ranker"), "--query", "w1", "--documents"]
    assert errors(capfd, *asked, "-") == ["error: -: missing file; /dev/stdin for standard input"]
    read, write = os.pipe()
    os.write(write, b"w1\nw2\n")
    os.close(write)
    assert len(document(capfd, *asked, f"/dev/fd/{read}")["ranking"]) == 2
    os.close(read)


def test_blank_lines_are_no_documents(rankers: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    asked = ["rerank", str(rankers / "of-data" / "ranker"), "--query", "w1", "--documents"]
    found = document(capfd, *asked, texts_in(tmp_path, "w1", "", "  ", "w2"))
    assert sorted(row["doc"] for row in found["ranking"]) == ["1", "4"]
    for blank, told in (
        ("  ", "no rows; give a file with content"),
        ("\u3000", "has no documents; one document a line"),
    ):
        (line,) = errors(capfd, *asked, texts_in(tmp_path, "", blank))
        assert line == f"error: {tmp_path / 'texts.txt'}: {told}"


def test_what_is_no_document_or_no_query_is_refused(
    rankers: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    asked = ["rerank", str(rankers / "of-data" / "ranker"), "--documents"]
    wrong = texts_in(tmp_path, "a\tw1", "\tw2", "b\t ", "a\tw3")
    assert errors(capfd, *asked, wrong, "--query", "w1") == [
        f"error: {wrong}:2: no id before the tab; id, tab, text, or a text alone",
        f"error: {wrong}:3: document 'b' has no text; a text after the tab",
        f"error: {wrong}:4: document 'a' is also in line 1; every id once",
    ]
    (line,) = errors(capfd, *asked, texts_in(tmp_path, "w1"), "--query", " ")
    assert line == "error: --query: is empty; the words to rank documents for"


def test_a_class_is_shown_with_its_probability(
    rankers: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    documents = texts_in(tmp_path, "a\tperhaps w1", "nothing w2")
    asked = ["rerank", str(rankers / "of-pairs" / "ranker"), "--query", "w1 w3", "--documents", documents]
    found: list[dict[str, Any]] = document(capfd, *asked)["predictions"]
    assert [sum(row["probabilities"].values()) for row in found] == pytest.approx([1, 1])
    assert main(asked) == DONE
    rows = [line.split() for line in capfd.readouterr().out.splitlines()[2:]]
    assert rows == [[row["doc"], row["class"], f"{row['probabilities'][row['class']]:.4f}"] for row in found]


# -- data ------------------------------------------------------------------------------------------------------------


def test_where_no_file_is_named_it_has_the_split_s_name(
    rankers: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for data, name in (("data", "rerank.dev.run.txt"), ("pairs", "rerank.dev.predictions.tsv")):
        asked = ["rerank", str(rankers / f"of-{data}" / "ranker"), "--data", str(rankers / data), "--split", "dev"]
        assert main(asked) == DONE
        assert capfd.readouterr().out == f"written to {name}\n" and Path(name).is_file()


def test_only_texts_that_are_scored_are_tokenised(
    rankers: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    read: list[str] = []
    encode = WordRanker.encode

    def counted(self: WordRanker, files: Any, settings: Any, texts: Any) -> Any:
        read.extend(texts)
        return encode(self, files, settings, texts)

    monkeypatch.setattr(WordRanker, "encode", counted)
    asked = ["rerank", str(rankers / "of-data" / "ranker"), "--data", str(rankers / "data")]
    document(capfd, *asked, "--output", str(tmp_path / "run.txt"))
    assert len(read) == len(set(read)) == 5 + 5 * TOP  # the test split's queries and candidates


def test_other_data_has_all_of_its_candidates(
    rankers: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """The keys that the ranker was trained with hold only for its own data, which may be given by way of ~."""
    shutil.copytree(rankers / "data", tmp_path / "copy")
    monkeypatch.setenv("HOME", str(rankers))
    counts = []
    for data in ("~/data", str(tmp_path / "copy")):
        asked = ["rerank", str(rankers / "of-data" / "ranker"), "--data", data, "--output", str(tmp_path / "run.txt")]
        document(capfd, *asked)
        counts.append(len(ranks(tmp_path / "run.txt")))
    assert counts == [5 * TOP, 5 * 5]


def test_a_broken_ranker_is_told_by_its_folder(
    rankers: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    def told(broken: str) -> str:
        asked = [str(tmp_path / broken), "--query", "q", "--documents", texts_in(tmp_path, "a")]
        (line,) = errors(capfd, "rerank", *asked)
        assert line.startswith(f"error: {tmp_path / broken}: cannot be read: ")
        return line

    ranker = rankers / "of-data" / "ranker"
    for broken in ("without-vocabulary", "other-weights"):
        shutil.copytree(ranker, tmp_path / broken)
    (tmp_path / "without-vocabulary" / "text" / "vocabulary.txt").unlink()
    assert "vocabulary.txt" in told("without-vocabulary")
    shutil.copy(rankers / "of-pairs" / "ranker" / "model.safetensors", tmp_path / "other-weights")
    assert "model.safetensors is not as it was written" in told("other-weights")
    shutil.copy(rankers / "of-pairs" / "ranker" / "checksums.json", tmp_path / "other-weights")
    assert "size mismatch" in told("other-weights")


def test_what_cannot_be_ranked_is_refused_before_the_work(
    rankers: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    folders = {"letor": letor_files(), "quora": quora_files(), "trec": trec_files()}
    folders["trec"] = {name: text for name, text in folders["trec"].items() if ".dev." not in name}
    for name, files in folders.items():
        write_folder(tmp_path / name, files)

    def told(ranker: str, data: str, *options: str) -> str:
        (line,) = errors(capfd, "rerank", str(rankers / ranker / "ranker"), "--data", str(tmp_path / data), *options)
        return line

    taken = told("of-data", "trec", "--output", str(tmp_path))
    assert taken == f"error: --output: '{tmp_path}' is a folder; the path of a file"
    assert told("of-data", "trec", "--split", "dev") == "error: --split: 'trec' has no dev split; one of train, test"
    assert told("of-data", "letor").startswith("error: data.source: 'letor' holds features, no texts; ")
    classes = "error: --data: 'quora' is pairs to classify (different, duplicate), and the ranker learned to "
    assert told("of-data", "quora") == f"{classes}rank documents; data with documents to rank"
    learned = "classify pairs (contradiction, entailment, neutral)"
    assert told("of-pairs", "quora") == f"{classes}{learned}; data with these classes"
