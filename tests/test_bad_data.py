"""Data that cannot be used: each problem is one line that names its file and line, and nothing is written.

What goes wrong alike in every form (no rows, bytes that are not UTF-8, broken gzip, HTML) is in test_data_forms.py.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.console import Console
from tests.support.data_folders import (
    BINARY_FORMS,
    COLLECTION,
    FORMS,
    HEADER,
    SICK_WHOLE,
    trec_files,
    triple_rows,
    write_folder,
)
from trainables.data.forms.letor import MAX_FEATURE

Files = dict[str, str | bytes]
Row = tuple[Files, list[str]]  # what is told: `FILE: LINE words; LINE words`, `FILE: words` or `data: words`
TREC, JUDGED, BEIR, TALK = trec_files(), trec_files(runs=False), FORMS["beir"], FORMS["conversation"]
TRIPLES, TABLE, PARQUET, SAVED = (
    FORMS["triples"],
    FORMS["triples as CSV"],
    BINARY_FORMS["triples as Parquet"],
    BINARY_FORMS["datasets"],
)
QRELS = "query-id\tcorpus-id\tscore\n"
QUORA, XS = FORMS["quora as published"], 6 * "x\t"
SCORED = "dev cat\tthe cat sat\t3\ndev cat\ta bird flew\t1\n"


def places(told: list[str]) -> Iterator[str]:
    """`PLACE: WORDS` of each problem."""
    for entry in told:
        file, _, parts = entry.partition(": ")
        if parts[0].isdigit():
            yield from (f"data/{file}:{part.replace(' ', ': ', 1)}" for part in parts.split("; "))
        else:
            yield entry if file == "data" else f"data/{entry}"


def rows(*lines: str) -> str:
    return "".join(f"{line}\n" for line in lines)


def without(files: Files, *names: str) -> Files:
    return {name: content for name, content in files.items() if name not in names}


def question(**changed: Any) -> dict[str, Any]:
    return {"id": "a", "question": "Who ?", "answers": [{"text": "cat", "answer_start": 4}]} | changed


def again(files: Files, name: str, row: int, change: tuple[str, str]) -> Row:
    """The files, one of which repeats a row with another label or text."""
    lines = str(files[name]).splitlines()
    other = lines[row - 1].replace(*change)
    return files | {name: f"{files[name]}{other}\n"}, [f"{name}:{len(lines) + 1}: another {name}:{row}"]


BAD: dict[str, Row] = {
    "no known form": ({"notes.md": "hello"}, ["data: no form"]),
    "a form without a file": ({"queries.jsonl": "{}", "notes.md": "x"}, ["data: nearest BEIR corpus.jsonl"]),
    "many equal problems": (
        TREC | {"qrels.dev.txt": "dev-a 0 d1 x\n" * 9, "qrels.test.txt": "test-a 0 d1 x\n" * 2},
        ["qrels.dev.txt:1: grade 9 lines", "qrels.test.txt:1: grade 2 lines"],
    ),
    "two forms": ({**TREC, **FORMS["wikiqa"]}, ["data: trec wikiqa"]),
    "two forms, one of them BEIR": ({**BEIR, **TREC}, ["data: trec beir"]),
    "two forms, one of them pairs": ({**TABLE, **TREC}, ["data: trec pairs"]),
    "two forms of .tsv": ({**TALK, "dev.tsv": "1\ta\tb\t1\n"}, ["data: conversation quora"]),
    "other JSON": ({"a.json": '{"data": []}', "b.json": '{"data": []}'}, ["data: no form"]),
    "TREC: texts": (
        TREC | {"collection.tsv": "d1\tone\nd1\tagain\nd 3\tspace\nd4\t \n\tno id\nd5\n",
                "queries.dev.tsv": "q\ta\tb\n"},
        ["collection.tsv: 3 white space 2 lines; 6 columns; 2 another collection.tsv:1",
         "queries.dev.tsv: 1 3 columns"]),
    "TREC: judgments and runs": (
        TREC | {"qrels.dev.txt": rows(
                    "dev-a 0 d1 one", "nobody 0 d1 1", "dev-a 0 d2 1.5", "dev-a 0 d2 0", "dev-a 0 d3 32768"),
                "run.dev.txt": rows("dev-a Q0 d9 1 1 x", "dev-a Q0 d1 1 nan x", "dev-z Q0 d1 1 1 x",
                                    "dev-b Q0 d1 1 1_0 x",
                                    "dev-b Q0 d2 1 -4e38 x")},
        ["qrels.dev.txt: 1 one 3 lines 5", "run.dev.txt: 2 nan 3 lines 4 5"]),
    "TREC: ids that are not there": (
        TREC | {"qrels.dev.txt": rows("dev-a 0 d1 1", "nobody 0 d1 1", "nobody 0 d2 1"),
                "run.dev.txt": rows("dev-a Q0 d1 1 2 x", "dev-z Q0 d1 1 2 x", "dev-z Q0 d2 2 1 x")},
        ["qrels.dev.txt: 2 nobody 2 lines 3", "run.dev.txt: 2 dev-z 2 lines 3"]),
    "TREC: no id is there": (
        TREC | {"qrels.dev.txt": rows(*(f"DEV-A 0 d{n} 1" for n in range(9)))},
        ["qrels.dev.txt: 1 none queries.dev.tsv DEV-A dev-a"]),
    "TREC: texts that contradict others": (
        TREC | {"collection.tsv": COLLECTION + "d2\tx\n", "queries.dev.tsv": TREC["queries.dev.tsv"] + "dev-a\tx\n"},
        ["collection.tsv: 5 another collection.tsv:2", "queries.dev.tsv: 3 another queries.dev.tsv:1"]),
    "TREC: grades and scores that contradict others": (
        TREC | {"qrels.dev.txt": TREC["qrels.dev.txt"] + "dev-a 0 d1 0\n",
                "run.dev.txt": TREC["run.dev.txt"] + "dev-a Q0 d3 9 2 y\n"},
        ["qrels.dev.txt: 7 grade dev-a d1 qrels.dev.txt:1", "run.dev.txt: 7 score d3 run.dev.txt:1"]),
    "TREC: XML": (TREC | {"collection.tsv": '<?xml version="1.0"?>\n<DOC>\n'}, ["collection.tsv: 1 XML"]),
    "TREC: no queries": ({"collection.tsv": COLLECTION}, ["data: queries"]),
    "TREC: queries alone": (without(TREC, "qrels.dev.txt"), ["qrels.dev.txt: missing"]),
    "TREC: judgments alone": (without(TREC, "queries.dev.tsv"), ["queries.dev.tsv: missing"]),
    "TREC: a candidate without text, which is a note, and a grade": (
        JUDGED | {"qrels.dev.txt": JUDGED["qrels.dev.txt"] + "dev-a 0 gone 3\ndev-a 0 d1 x\n"},
        ["qrels.dev.txt: 8 'x'"]),
    "TREC: a line of 50 MB": (TREC | {"collection.tsv": f"{COLLECTION}d9\t{50_000_000 * 'x'}"},
                              ["collection.tsv: 5 line bytes"]),
    "TREC: scores of a teacher": (
        TREC | {"scores.train.tsv": rows("train-a\td9\t1", "train-z\td1\t1", "train-a\td1\tnan", "train-a\td1")},
        ["scores.train.tsv: 3 nan; 4 columns"]),
    "BEIR: texts": (
        BEIR | {"corpus.jsonl": BEIR["corpus.jsonl"] + rows(
                    '{"id": "d5", "text": "a"}', '{"_id": "d6", "text": 1}', '{"_id": ', '{"_id": "d 8", "text": "a"}',
                    '{"_id": "d2", "text": "x"}'),
                "queries.jsonl": '{"_id": "dev-a", "text": " "}\n'},
        ["corpus.jsonl: 5 _id; 7 JSON; 8 white space; 9 another corpus.jsonl:2",
         "queries.jsonl: 1 empty"]),
    "BEIR: judgments": (
        BEIR | {"qrels/train.tsv": "train-a\td1\t1\n", "qrels/dev.tsv": QRELS + rows(
                    "dev-a 0 d1 1", "dev-a\td1\thigh", "x\td1\t1", "dev-a\td2\t1", "dev-a\td2\t2")},
        ["qrels/dev.tsv: 2 columns; 3 high"]),
    "BEIR: no queries": (without(BEIR, "queries.jsonl"), ["queries.jsonl: missing"]),
    "BEIR: no judgments": ({name: text for name, text in BEIR.items() if "qrels" not in name},
                           ["data: qrels/SPLIT.tsv"]),
    "pairs: rows": (
        TRIPLES | {"train.jsonl": rows(
                       json.dumps(triple_rows("train")[0]), "not json", "[1]", '{"query": "q", "positive": "p"}',
                       '{"positive": "p", "negative_1": "n"}', '{"query": " ", "positive": "p", "negative_1": "n"}',
                       '{"query": 7, "positive": "p", "negative_1": "n"}',
                       '{"query": "\\ud800", "positive": "p", "negative_1": "n"}',
                       json.dumps(triple_rows("train")[0] | {"positive": ""})),
                   "dev.jsonl": '{"a": 1}\n', "test.jsonl": TRIPLES["test.jsonl"] + '{"query": "a"}\n{'},
        ["train.jsonl: 2 JSON; 3 JSON; 5 query 4 lines", "dev.jsonl: 1 columns a;", "test.jsonl: 5 JSON"]),
    "pairs: tables": (
        TABLE | {"train.csv": "query,positive\n ,b\na,b,c\n", "dev.csv": 'query,positive\na,b\nc,"d\n',
                 "test.csv": "query,positive\n"},
        ["train.csv: 2 empty query; 3 3 columns", "dev.csv: 3 quotation", "test.csv: rows header"]),
    "pairs: rows that contradict others": (
        TRIPLES | {"train.jsonl": TRIPLES["train.jsonl"] + json.dumps(
                       triple_rows("train")[0] | {"positive": "a bird flew", "negative_1": "the cat sat"}),
                   "dev.jsonl": rows(*(f'{{"query": "q", "document": "a", "label": {grade}}}' for grade in (0, 1)))},
        ["train.jsonl: 1 negative positive 3 lines 2 4", "dev.jsonl: 2 grade (1) dev.jsonl:1"]),
    "pairs: two files of a split": (
        {**TABLE, **TRIPLES}, [f"data: {split}.jsonl {split}.csv {split}" for split in ("train", "dev", "test")]),
    "pairs: a line of 50 MB": (TABLE | {"dev.csv": f"query,positive\na,{50_000_000 * 'x'}"}, ["dev.csv: 2 line bytes"]),
    "pairs: scores of a teacher": (
        TABLE | {"scores.dev.tsv": SCORED + rows(
            "cat\tthe cat sat\t1", "dev cat\tno\t1", "dev cat\ta bird flew\tx", "dev cat\tthe cat sat\t4")},
        ["scores.dev.tsv: 3 query 'cat'; 4 document 'no'; 5 'x'"]),
    "Parquet": (
        {"train.parquet": PARQUET["train.parquet"][:-40], "test.parquet": b"",
         "dev.parquet": PARQUET["dev.parquet"].replace(b"a bird flew", b"a bird\xffflew")},
        ["train.parquet: parquet", "dev.parquet: negative_1 UTF-8", "test.parquet: parquet"]),
    "Parquet: broken gzip": ({"train.parquet.gz.raw": gzip.compress(PARQUET["train.parquet"], mtime=0)[:-30]},
                             ["train.parquet.gz: gzip"]),
    "datasets that are not whole": (
        without(SAVED, "test/data-00000-of-00001.arrow") | {
            "train/data-00000-of-00002.arrow": SAVED["train/data-00000-of-00002.arrow"][:300],
            "validation/state.json": b'{"_data_files": [{"filename": "../data.arrow"}]}'},
        ["validation/state.json: Arrow", "train/data-00000-of-00002.arrow: arrow",
         "test/data-00000-of-00001.arrow: missing"]),
    "wikiqa": (
        FORMS["wikiqa"] | {
            "WikiQA-dev.tsv": HEADER + rows(
                "Q1\ta\tD\tT\tS1\tx\t2", "Q1\tb\tD\tT\tS2\ty\t0", "Q1\ta\tD\tT\tS1\tx\t1", "Q2\ta\tD\tT\tS3\t \t1",
                "\ta\tD\tT\tS4\tx\t1", "Q1\ta\tD\tT\tS5\tx\t1", "Q1\ta\tD\tT\tS5\tx\t0", "Q3\ta\tD\tT\tS1\tz\t1"),
            "WikiQA-test.tsv": "a\tb\tc\td\te\tf\tg\n"},
        ["WikiQA-dev.tsv: 2 label '2'; 3 another 'Q1' WikiQA-dev.tsv:2; 5 empty; 6 white space; "
         "8 S5 another WikiQA-dev.tsv:7; 9 another S1 WikiQA-dev.tsv:2", "WikiQA-test.tsv: 1 header"]),
    "conversation": (
        TALK | {"train.tsv": "1\ta\tx\n1\ta\ty\n2\ta\tz\n0\ta\t \n0\ta\t\tb\n0\ta\n"},
        ["train.tsv: 2 right first; 3 label '2'; 4 empty response; 5 empty utterance; 6 columns"]),
    "LETOR": (
        FORMS["letor"] | {
            "train.txt": rows(
                "1 qid:1 1:inf", "1 qid:2 2:1 1:1", "x qid:2 1:1", "1 1:1", "1 qid:3 -1:1", "-2 qid:3 1:1",
                "1 qid:4 1:1 # docid = a", "1 qid:4 1:1 # docid = a", "1", "1 qid:6 1:1 1:2",
                f"1 qid:6 {MAX_FEATURE + 1}:1", "1 qid:6 1:x"),
            "vali.txt": "# nothing\n", "test.txt": "1 qid:9\n0 qid:9\n"},
        ["train.txt: 1 1:inf finite 2 lines 12; 2 1:1 behind 2 lines 10; 3 label 'x' 2 lines 6; 4 query 2 lines 9; "
         "5 -1:1 2 lines 11; 8 4:a second", "vali.txt: rows", "test.txt: features"]),
    "InsuranceQA: answers": (
        FORMS["insurance qa 1"] | {"answers.label.token_idx": "1\tidx_9\n1\tidx_1\n"},
        ["answers.label.token_idx: 1 idx_9 vocabulary; 2 1 second"]),
    "InsuranceQA: questions": (
        FORMS["insurance qa 1"] | {"question.train.token_idx.label": "idx_1\t7\n"},
        ["question.train.token_idx.label: 1 '7'"]),
    "SQuAD": (
        {"train-v1.1.json": json.dumps({"data": [
            {"paragraphs": [{"context": "The cat sat.", "qas": [
                question(), question(), question(id="a b"), {"id": "x", "question": "Who ?"},
                question(id="y", answers=[{"text": "cat", "answer_start": "3"}]), question(id="z", question=" ")]}]},
            {"paragraphs": [{"qas": []}]}, {"title": "T"}]}),
         "dev-v1.1.json": '{"data": 1}'},
        [*(f"train-v1.1.json: {place}: {word}" for place, word in {
            "data[0].paragraphs[0].qas[1]": "second", "data[0].paragraphs[0].qas[2]": "white space",
            "data[0].paragraphs[0].qas[3]": "answers", "data[0].paragraphs[0].qas[4]": "answer_start",
            "data[0].paragraphs[0].qas[5]": "empty question", "data[1].paragraphs[0]": "context",
            "data[2]": "paragraphs"}.items()),
         "dev-v1.1.json: data"]),
    "SQuAD: no list": ({"mine.json": '{"data": 1, "paragraphs": 1}'}, ["mine.json: data"]),
    "SQuAD: cut off": ({"mine.json": '{"data": [\n{"paragraphs": ['}, ["mine.json: 2 JSON"]),
    "SQuAD: no questions": ({"mine.json": '{"data": [{"paragraphs": []}]}'}, ["mine.json: questions"]),
    "SQuAD: no gzip": ({"mine.json.gz.raw": b"plain"}, ["mine.json.gz: gzip"]),
    "SICK": (
        without(FORMS["sick"], "SICK_test_annotated.txt") | {
            "SICK_train.txt": FORMS["sick"]["SICK_train.txt"].replace("NEUTRAL", "MAYBE"),
            "SICK_trial.txt": "<!DOCTYPE html>\n"},
        ["SICK_train.txt: 2 MAYBE", "SICK_trial.txt: 1 HTML"]),
    "SICK in one file": (
        {"SICK.txt": rows("\t".join(SICK_WHOLE), f"1\ta\tb\tNEUTRAL\t1\t{XS}ELSEWHERE",
                          f"2\ta\tc\tMAYBE\t1\t{XS}TRAIN")},
        ["SICK.txt: 2 ELSEWHERE; 3 MAYBE"]),
    "SICK: another label": again(FORMS["sick"], "SICK_train.txt", 2, ("NEUTRAL", "ENTAILMENT")),
    "SNLI: another text": again(FORMS["snli"], "snli_1.0_dev.jsonl", 1, ("a cat", "a cow")),
    "Quora: another text": again(FORMS["quora"], "dev.tsv", 1, ("who sat", "who stood")),
    "Quora as published: another text": again(QUORA, "quora_duplicate_questions.tsv", 2, ("who sat", "who stood")),
    "Quora: too few pairs": (
        {"quora_duplicate_questions.tsv": rows(*QUORA["quora_duplicate_questions.tsv"].splitlines()[:3])},
        ["quora_duplicate_questions.tsv: pairs 2"]),
    "Quora: a pair without a question still needs an id": (
        {"quora_duplicate_questions.tsv": rows(
            QUORA["quora_duplicate_questions.tsv"].splitlines()[0], "a b\t1\t2\twho ?\t\t0")},
        ["quora_duplicate_questions.tsv: 2 white space"]),
}  # fmt: skip
HEADERS = {
    "query,positive,document,label": "positive document",
    "query,query,positive": "two query",
    "query,document": "columns query, document",
    "positive,negative": "columns positive, negative",
}
BAD |= {
    f"pairs: {header}": (TABLE | {"dev.csv": f"{header}\n{',x' * header.count(',')}\n"}, [f"dev.csv:1: {words}"])
    for header, words in HEADERS.items()
}
BAD |= {
    f"pairs: label {label}": (
        {"train.jsonl": f'{{"query": "q", "document": "a", "label": {label}}}\n'},
        ["train.jsonl: 1 label"],
    )
    for label in ("0.5", "-1", "40000", "NaN", "1e999", "null", '"high"', "[1]")
}


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.mark.parametrize("case", BAD)
def test_bad_data_is_told_in_a_line_each(case: str, own_cache: Path, console: Console) -> None:
    files, told = BAD[case]
    folder = write_folder(Path("data"), files)
    for path in folder.glob("*.raw"):
        path.rename(path.with_suffix(""))
    console.refused([*places(told)], "data data --json")
    assert not [path for path in own_cache.rglob("*") if path.is_file()]


@pytest.mark.parametrize(
    ("files", "candidates", "told"),
    [
        (trec_files(runs=False), "run", ["data.candidates: train"]),
        (FORMS["wikiqa"], "run", ["data.candidates: train"]),
        (FORMS["letor"], "qrels", ["data.candidates: auto"]),
    ],
)
def test_candidates_that_the_data_lacks_are_told(
    files: dict[str, str], candidates: str, told: list[str], console: Console
) -> None:
    write_folder(Path("data"), files)
    console.refused(told, f"data data --set data.candidates={candidates}")


@pytest.mark.parametrize(
    ("source", "told"),
    [
        ("none", "data.source: exist"),
        ("file", "data.source: folder"),
        ("..", "..: form"),
        ("../no", "data.source: exist"),
    ],
)
def test_a_source_that_is_no_data(source: str, told: str, console: Console) -> None:
    Path("file").touch()
    console.refused([told], f"data {source}")


def test_a_link_that_leads_nowhere_is_no_file_that_was_not_given(console: Console) -> None:
    folder = write_folder(Path("data"), FORMS["trec"])
    (folder / ".#run.dev.txt").symlink_to("an-editor@host.1")
    console.call("data data")
    (folder / "run.dev.txt").unlink()
    (folder / "run.dev.txt").symlink_to("../runs/bm25.txt")
    console.refused(["data/run.dev.txt: ../runs/bm25.txt"], "data data")
