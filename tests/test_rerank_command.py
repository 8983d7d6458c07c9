"""`tune-cl rerank`: texts with their own scores, and data that the ranker can read, wherever it is called."""

from __future__ import annotations

import gzip
import os
import shutil
from pathlib import Path

import pytest

from tests.support.builders import tiny_data
from tests.support.console import SMALL_OPTIONS, Console
from tests.support.data_folders import FORMS, trec_files, write_folder
from tests.support.pair_data import pair_folder
from tests.support.trec_folder import write_trec_folder
from tune_cl.cli import DONE, main

TOP = 2


@pytest.fixture(scope="module")
def rankers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with data to rank and pairs to classify, and a ranker for each, whose data was given by a relative path;
    the first one saw the TOP candidates."""
    folder = tmp_path_factory.mktemp("rerank")
    write_trec_folder(tiny_data(queries={"train": 10, "dev": 5, "test": 5}, candidates=5, turns=1), folder / "data")
    pair_folder(folder / "pairs")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for data, options in (("data", ["--set", f"data.top_k={TOP}"]), ("pairs", [])):
            train = ["train", "--data", data, "--ranker", "conv_knrm", *SMALL_OPTIONS, *options]
            assert main([*train, "--test", "--output", f"of-{data}"]) == DONE
    return folder


@pytest.fixture
def rerank(rankers: Path) -> str:
    return f"rerank {rankers}/of-data/ranker"


def texts(content: str | bytes, name: str = "texts.txt") -> str:
    Path(name).write_bytes(content if isinstance(content, bytes) else content.encode())
    return name


# -- texts -----------------------------------------------------------------------------------------------------------


def ranked(console: Console, rerank: str, documents: str) -> dict[str, float]:
    """Scores of the documents of a file, best first."""
    told = console.document(f"{rerank} --query 'w1 w2' --documents {documents}")
    return {row["doc"]: row["score"] for row in told["ranking"]}


def test_a_text_has_the_same_score_beside_others_and_alone(rerank: str, console: Console) -> None:
    given = {"a": "w1 w2 w3", "b": "w6", "c": "w4 w5 w1", "d": "w7 w2"}
    rows = {name: f"{name}\t{text}\n" for name, text in given.items()}
    together = ranked(console, rerank, texts("".join(rows.values())))
    alone = {name: ranked(console, rerank, texts(row))[name] for name, row in rows.items()}
    assert together == pytest.approx(alone, abs=1e-5) and len(set(together.values())) == 4
    assert list(together) == sorted(given, key=lambda name: -together[name])
    assert list(ranked(console, rerank, texts("w1\n" * 4))) == ["1", "2", "3", "4"], "ties in the order of the file"
    shown = console.call(f"{rerank} --query w1 --documents {texts('a' + chr(9) + 'w1 ' * 99)}").out.splitlines()
    assert shown[-1].startswith("a ") and shown[-1].endswith("…"), "its start"


def test_scores_that_are_nan_are_refused(console: Console) -> None:
    from safetensors.torch import load_file, save_file

    from tests.support.zoo import classifier

    classifier("bert")(Path("encoder"))
    tensors = load_file("encoder/model.safetensors")
    tensors["bert.encoder.layer.1.output.dense.bias"][3] = float("nan")
    save_file(tensors, "encoder/model.safetensors", {"format": "pt"})
    console.refused(["encoder: NaN or infinite"], f"rerank encoder --query w1 --documents {texts('w1')}")


def test_documents_are_lines_and_their_ids_stand_once(rerank: str, console: Console) -> None:
    content = "a\tw1\u2028line\r\n\r\n  \nunnamed\rw2\r\nb\tw3\tparts"
    plain = ranked(console, rerank, texts(content))
    assert sorted(plain) == ["4", "a", "b"]
    assert ranked(console, rerank, texts(gzip.compress(content.encode()), "texts.txt.gz")) == plain
    read, write = os.pipe()
    os.write(write, b"w1\nw2\n")
    os.close(write)
    assert len(ranked(console, rerank, f"/dev/fd/{read}")) == 2
    os.close(read)


@pytest.mark.parametrize(
    ("content", "query", "told"),
    [
        (b"a\tone\nb\t\xff\n", "w1", ["texts.txt:2: 0xff"]),
        ("\n  \n", "w1", ["texts.txt: rows"]),
        ("w1\n", "w1 --output answer.txt", ["--output: data"]),
        ("w1\n", "w1 --documents -", ["-: /dev/stdin"]),
    ],
)
def test_what_is_no_document_is_refused(
    content: str | bytes, query: str, told: list[str], rerank: str, console: Console
) -> None:
    console.refused(told, f"{rerank} --documents {texts(content)} --query {query}")


@pytest.mark.parametrize("form", ["trec", "beir", "triples"])
def test_data_of_a_test_split_alone_is_ranked_as_with_others(form: str, rerank: str, console: Console) -> None:
    whole = FORMS[form]
    alone = {name: text for name, text in whole.items() if "train" not in name and "dev" not in name}
    runs = []
    for name, files in (("whole", whole), ("alone", alone)):
        told = console.document(f"{rerank} --data {write_folder(Path(name) / 'data', files)} --output {name}.txt")
        runs.append([row.split() for row in Path(told["run_file"]).read_text().splitlines()])
    with_texts = form == "triples"  # whose documents are numbered by their order in all splits
    assert [row[with_texts * 3 :] for row in runs[0]] == [row[with_texts * 3 :] for row in runs[1]] != []
    if qrels := [name for name in alone if "qrels" in name]:
        [run] = console.document(f"evaluate alone/data/{qrels[0]} alone.txt")["runs"]
        assert run["queries_missing"] == 0 and 0 < run["metrics"]["map"] <= 1


# -- data ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "name"), [("data", "data.conv_knrm.dev.run.txt"), ("pairs", "pairs.conv_knrm.dev.predictions.tsv")]
)
def test_where_no_file_is_named_it_has_the_names_of_data_ranker_and_split(
    data: str, name: str, rankers: Path, console: Console
) -> None:
    shown = console.call(f"rerank {rankers}/of-{data}/ranker --data {rankers}/{data} --split dev").out
    assert name in shown and Path(name).is_file()


def test_a_ranker_knows_its_data_from_any_folder_and_by_any_name(
    rerank: str, rankers: Path, console: Console, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It ranks the candidates that it was trained with, and all candidates of other data."""
    shutil.copytree(rankers / "data", "copy")
    Path("link").symlink_to(rankers / "data")
    monkeypatch.setenv("HOME", str(rankers))
    expected = (rankers / "of-data" / "test.run.txt").read_text()
    for data, own in (("'~/data'", True), (os.path.relpath(rankers / "data"), True), ("./link", True), ("copy", False)):
        console.call(f"{rerank} --data {data} --output run.txt")
        assert (Path("run.txt").read_text() == expected) == own, data
        assert len(Path("run.txt").read_text().splitlines()) == 5 * (TOP if own else 5)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("of-data/ranker --data trec --output trec", "--output: 'trec' folder"),
        ("of-data/ranker --data trec --split dev", "data.source: 'trec' dev"),
        ("of-data/ranker --data letor", "data.source: 'letor' features"),
        ("of-data/ranker --data quora", "--data: 'quora' rank"),
        ("of-pairs/ranker --data quora", "--data: 'quora' contradiction"),
    ],
)
def test_what_cannot_be_ranked_is_refused_before_the_work(
    given: str, told: str, rankers: Path, console: Console
) -> None:
    without_dev = {name: text for name, text in trec_files().items() if ".dev." not in name}
    for name, files in {"letor": FORMS["letor"], "quora": FORMS["quora"], "trec": without_dev}.items():
        write_folder(Path(name), files)
    console.refused([told], f"rerank {rankers}/{given}")
