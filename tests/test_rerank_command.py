"""`tune-cl rerank`: texts with their own scores, and data that the ranker can read, wherever it is called."""

from __future__ import annotations

import gzip
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.support.builders import tiny_data
from tests.support.cli_calls import SMALL_OPTIONS, assert_refused, document
from tests.support.data_folders import FORMS, letor_files, quora_files, trec_files, write_folder
from tests.support.pair_data import pair_folder
from tests.support.trec_folder import write_trec_folder
from trainables.rankers.word_vectors import WordRanker
from tune_cl.cli import DONE, main

Capture = pytest.CaptureFixture[str]
TOP = 2


@pytest.fixture(scope="module")
def rankers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with data to rank and pairs to classify, and a ranker for each, whose data was given by a relative path;
    the first one saw the TOP candidates."""
    folder = tmp_path_factory.mktemp("rerank")
    made = tiny_data(queries={"train": 10, "dev": 5, "test": 5}, candidates=5, turns=1)
    few = ["--set", f"data.top_k={TOP}"]
    write_trec_folder(made, folder / "data")
    pair_folder(folder / "pairs")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for data, options in (("data", few), ("pairs", [])):
            train = ["train", "--data", data, "--ranker", "conv_knrm", *SMALL_OPTIONS, *options]
            assert main([*train, "--output", f"of-{data}"]) == DONE
    return folder


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    return tmp_path / "here"


def asked(ranker: Path | str, *options: str) -> list[str]:
    return ["rerank", str(ranker), *options]


def texts(content: str | bytes, name: str = "texts.txt") -> str:
    Path(name).write_bytes(content if isinstance(content, bytes) else content.encode())
    return name


def ranked(capfd: Capture, rankers: Path, documents: str, query: str = "w1 w2") -> dict[str, float]:
    """Scores of the documents of a file, best first."""
    command = asked(rankers / "of-data" / "ranker", "--query", query, "--documents", documents)
    return {row["doc"]: row["score"] for row in document(capfd, *command)["ranking"]}


# -- texts -----------------------------------------------------------------------------------------------------------


def test_a_text_has_the_same_score_beside_others_and_alone(rankers: Path, capfd: Capture) -> None:
    given = {"a": "w1 w2 w3", "b": "w6", "c": "w4 w5 w1", "d": "w7 w2"}
    rows = {name: f"{name}\t{text}\n" for name, text in given.items()}
    together = ranked(capfd, rankers, texts("".join(rows.values())))
    alone = {name: ranked(capfd, rankers, texts(row))[name] for name, row in rows.items()}
    assert together == pytest.approx(alone, abs=1e-5) and len(set(together.values())) == 4
    assert list(together) == sorted(given, key=lambda name: -together[name])
    assert list(ranked(capfd, rankers, texts("w1\n" * 4))) == ["1", "2", "3", "4"], "ties in the order of the file"


def test_documents_are_lines_and_their_ids_stand_once(rankers: Path, capfd: Capture) -> None:
    content = "a\tw1\u2028line\r\n\r\n  \nunnamed\rw2\r\nb\tw3\tparts"
    plain = ranked(capfd, rankers, texts(content))
    assert sorted(plain) == ["4", "a", "b"]
    assert ranked(capfd, rankers, texts(gzip.compress(content.encode()), "texts.txt.gz")) == plain
    read, write = os.pipe()
    os.write(write, b"w1\nw2\n")
    os.close(write)
    assert len(ranked(capfd, rankers, f"/dev/fd/{read}")) == 2
    os.close(read)


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("a\tw1\n\tw2\nb\t \na\tw3\n", ["texts.txt:2: id", "texts.txt:3: 'b' text", "texts.txt:4: 'a' line 1"]),
        (b"a\tone\nb\t\xff\n", ["texts.txt:2: 0xff"]),
        ("\n  \n", ["texts.txt: rows"]),
        ("\n\u3000\n", ["texts.txt: documents"]),
    ],
)
def test_what_is_no_document_is_refused(content: str | bytes, told: list[str], rankers: Path, capfd: Capture) -> None:
    command = asked(rankers / "of-data" / "ranker", "--query", "w1", "--documents", texts(content))
    assert_refused(capfd, command, told)


def test_what_is_no_query_or_no_file_is_refused(rankers: Path, capfd: Capture) -> None:
    command = asked(rankers / "of-data" / "ranker", "--documents", texts("w1\n"))
    assert_refused(capfd, [*command, "--query", " "], ["--query: empty"])
    assert_refused(capfd, [*command, "--query", "w1", "--output", "answer.txt"], ["--output: data"])
    assert_refused(capfd, [*command[:-1], "-", "--query", "w1"], ["-: /dev/stdin"])


@pytest.mark.parametrize("form", ["trec", "beir", "triples"])
def test_data_of_a_test_split_alone_is_ranked_as_with_others(form: str, rankers: Path, capfd: Capture) -> None:
    whole = FORMS[form]
    alone = {name: text for name, text in whole.items() if "train" not in name and "dev" not in name}
    runs = []
    for name, files in (("whole", whole), ("alone", alone)):
        folder = write_folder(Path(name) / "data", files)
        found = document(
            capfd, *asked(rankers / "of-data" / "ranker", "--data", str(folder), "--output", f"{name}.txt")
        )
        runs.append([row.split() for row in Path(found["run_file"]).read_text().splitlines()])
    with_texts = form == "triples"  # whose documents are numbered by their order in all splits
    assert [row[with_texts * 3 :] for row in runs[0]] == [row[with_texts * 3 :] for row in runs[1]] != []
    if qrels := [name for name in alone if "qrels" in name]:
        [run] = document(capfd, "evaluate", str(Path("alone/data") / qrels[0]), "alone.txt")["runs"]
        assert run["queries_missing"] == 0 and 0 < run["metrics"]["map"] <= 1


def test_a_class_is_shown_with_its_probability(rankers: Path, capfd: Capture) -> None:
    command = asked(
        rankers / "of-pairs" / "ranker", "--query", "w1 w3", "--documents", texts("a\tperhaps w1\nnothing w2")
    )
    found: list[dict[str, Any]] = document(capfd, *command)["predictions"]
    assert [sum(row["probabilities"].values()) for row in found] == pytest.approx([1, 1])
    assert main(command) == DONE
    rows = [line.split() for line in capfd.readouterr().out.splitlines()[2:]]
    assert rows == [[row["doc"], row["class"], f"{row['probabilities'][row['class']]:.4f}"] for row in found]


# -- data ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("data", "name"), [("data", "rerank.dev.run.txt"), ("pairs", "rerank.dev.predictions.tsv")])
def test_where_no_file_is_named_it_has_the_split_s_name(data: str, name: str, rankers: Path, capfd: Capture) -> None:
    assert main(asked(rankers / f"of-{data}" / "ranker", "--data", str(rankers / data), "--split", "dev")) == DONE
    assert name in capfd.readouterr().out and Path(name).is_file()


def test_only_texts_that_are_scored_are_tokenised(
    rankers: Path, monkeypatch: pytest.MonkeyPatch, capfd: Capture
) -> None:
    read: list[str] = []
    encode = WordRanker.encode

    def counted(self: WordRanker, files: Any, settings: Any, texts: Any) -> Any:
        read.extend(texts)
        return encode(self, files, settings, texts)

    monkeypatch.setattr(WordRanker, "encode", counted)
    document(capfd, *asked(rankers / "of-data" / "ranker", "--data", str(rankers / "data")))
    assert len(read) == len(set(read)) == 5 + 5 * TOP  # the test split's queries and candidates


def test_a_ranker_knows_its_data_from_any_folder_and_by_any_name(
    rankers: Path, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It ranks the candidates that it was trained with, and all candidates of other data."""
    shutil.copytree(rankers / "data", here / "copy")
    (here / "link").symlink_to(rankers / "data")
    monkeypatch.setenv("HOME", str(rankers))
    relative = os.path.relpath(rankers / "data")
    expected = (rankers / "of-data" / "test.run.txt").read_text()
    for data, own in (("~/data", True), (relative, True), ("./link", True), ("copy", False)):
        assert main(asked(rankers / "of-data" / "ranker", "--data", data, "--output", "run.txt")) == DONE
        assert (Path("run.txt").read_text() == expected) == own, data
        assert len(Path("run.txt").read_text().splitlines()) == 5 * (TOP if own else 5)


def test_a_broken_ranker_is_told_by_its_folder(rankers: Path, here: Path, capfd: Capture) -> None:
    for broken in ("without-vocabulary", "other-weights", "sealed-anew"):
        shutil.copytree(rankers / "of-data" / "ranker", here / broken)
    (here / "without-vocabulary" / "text" / "vocabulary.txt").unlink()
    for broken in ("other-weights", "sealed-anew"):
        shutil.copy(rankers / "of-pairs" / "ranker" / "model.safetensors", here / broken)
    shutil.copy(rankers / "of-pairs" / "ranker" / "checksums.json", here / "sealed-anew")
    words = {"without-vocabulary": "vocabulary.txt", "other-weights": "model.safetensors", "sealed-anew": "size"}
    for broken, word in words.items():
        command = asked(here / broken, "--query", "q", "--documents", texts("a\n"))
        assert_refused(capfd, command, [f"{here / broken}: {word}"])


@pytest.mark.parametrize(
    ("ranker", "data", "options", "told"),
    [
        ("of-data", "trec", ["--output", "trec"], "--output: 'trec' folder"),
        ("of-data", "trec", ["--split", "dev"], "--split: 'trec' dev train, test"),
        ("of-data", "letor", [], "data.source: 'letor' features"),
        ("of-data", "quora", [], "--data: 'quora' duplicate rank"),
        ("of-pairs", "quora", [], "--data: 'quora' duplicate contradiction"),
    ],
)
def test_what_cannot_be_ranked_is_refused_before_the_work(
    ranker: str, data: str, options: list[str], told: str, rankers: Path, capfd: Capture
) -> None:
    without_dev = {name: text for name, text in trec_files().items() if ".dev." not in name}
    write_folder(Path(data), {"letor": letor_files(), "quora": quora_files(), "trec": without_dev}[data])
    assert_refused(capfd, asked(rankers / ranker / "ranker", "--data", data, *options), [told])
