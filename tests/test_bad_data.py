"""Data that cannot be used: a line for each kind of problem, which names file and line; nothing is written. What goes
wrong alike in every form (no rows, bytes that are not UTF-8, broken gzip, HTML) is in test_data_forms.py."""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping
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
from tests.support.loading import load, problems

Files = Mapping[str, str | bytes]
TREC, BEIR, TALK = trec_files(), FORMS["beir"], FORMS["conversation"]
TRIPLES, TABLE, PARQUET, SAVED = (
    FORMS["triples"],
    FORMS["triples as CSV"],
    BINARY_FORMS["triples as Parquet"],
    BINARY_FORMS["datasets"],
)
QUORA = FORMS["quora as published"]


def rows(*lines: str) -> str:
    return "".join(f"{line}\n" for line in lines)


def without(files: Files, *names: str) -> Files:
    return {name: content for name, content in files.items() if name not in names}


def squad(**changed: Any) -> Files:
    question = {"id": "a", "question": "Who ?", "answers": [{"text": "cat", "answer_start": 4}]}
    paragraph = {"context": "The cat sat.", "qas": [question, question | {"id": "b"} | changed]}
    return {"train-v1.1.json": json.dumps({"data": [{"paragraphs": [paragraph]}]})}


def again(files: Files, name: str, row: int, old: str, new: str) -> tuple[Files, list[str]]:
    """The files, one of which repeats a row with another label or text."""
    lines = str(files[name]).splitlines()
    return {**files, name: f"{files[name]}{lines[row - 1].replace(old, new)}\n"}, [f"{name}:{len(lines) + 1}: another"]


ARTICLES = "train-v1.1.json: data.0.paragraphs.0.qas.1"
BAD: dict[str, tuple[Files, list[str]]] = {
    "no known form": ({"notes.md": "hello"}, [": no known form"]),
    "two forms": ({**TREC, **FORMS["wikiqa"]}, [": could be trec or wikiqa"]),
    "two forms of .tsv": ({**TALK, "dev.tsv": "1\ta\tb\t1\n"}, [": could be conversation or quora"]),
    "a collection": (
        TREC | {"collection.tsv": "d1\tone\nd1\tagain\nd 3\tspace\nd4\t \n\tno id\nd5\n"},
        ["collection.tsv:3: id 'd 3' is empty or holds white space (2 rows", "collection.tsv:6: 1 columns instead of 2",
         "collection.tsv:2: another text for id 'd1' than in"]),
    "judgments and a run": (
        TREC | {"qrels.dev.txt": rows("dev-a 0 d1 one", "dev-a 0 d2 1.5", "dev-a 0 d3 32768", "dev-a 0 d2 0"),
                "run.dev.txt": rows("dev-a Q0 d1 1 nan x", "dev-b Q0 d1 1 1_0 x", "dev-b Q0 d2 1 -4e38 x", "dev-b Q0")},
        ["qrels.dev.txt:1: grade 'one' (3 rows: lines 1, 2, 3)", "run.dev.txt:1: score 'nan' (3 rows",
         "run.dev.txt:4: 2 columns instead of 6"]),
    "ids that are not there": (
        TREC | {"qrels.dev.txt": rows("dev-a 0 d1 1", "nobody 0 d1 1", "nobody 0 d2 1"),
                "run.dev.txt": rows("dev-a Q0 d1 1 2 x", "dev-z Q0 d1 1 2 x", "dev-z Q0 d2 2 1 x")},
        ["qrels.dev.txt:2: unknown query 'nobody' (2 rows", "run.dev.txt:2: unknown query 'dev-z'"]),
    "no id is there": (
        TREC | {"qrels.dev.txt": rows(*(f"DEV-A 0 d{n} 1" for n in range(9)))},
        ["qrels.dev.txt:1: unknown query 'DEV-A' (9 rows"]),
    "rows that contradict others": (
        TREC | {"queries.dev.tsv": TREC["queries.dev.tsv"] + "dev-a\tx\n"}, ["queries.dev.tsv:3: another text"]),
    "grades and scores that contradict others": (
        TREC | {"qrels.dev.txt": TREC["qrels.dev.txt"] + "dev-a 0 d1 0\n",
                "run.dev.txt": TREC["run.dev.txt"] + "dev-a Q0 d3 9 2 y\n"},
        ["qrels.dev.txt:7: another grade for query 'dev-a' and document 'd1'", "run.dev.txt:7: another score"]),
    "no queries": ({"collection.tsv": COLLECTION}, [": no queries"]),
    "queries alone": (without(TREC, "qrels.dev.txt"), ["qrels.dev.txt: missing"]),
    "judgments alone": (without(TREC, "queries.dev.tsv"), ["queries.dev.tsv: missing"]),
    "scores of a teacher": (
        TREC | {"scores.train.tsv": rows("train-a\td1\tnan", "train-a\td1")},
        ["scores.train.tsv:1: score 'nan'", "scores.train.tsv:2: 2 columns"]),
    "a corpus": (
        BEIR | {"corpus.jsonl": BEIR["corpus.jsonl"] + rows(
            '{"id": "d5", "text": "a"}', '{"_id": ', '{"_id": "d 8", "text": "a"}', '{"_id": "d2", "text": "x"}')},
        ["corpus.jsonl:5: '_id' is not a text", "corpus.jsonl:6: not JSON", "corpus.jsonl:7: id 'd 8'",
         "corpus.jsonl:8: another text"]),
    "BEIR's judgments": (
        BEIR | {"qrels/dev.tsv": "query-id\tcorpus-id\tscore\n" + rows("dev-a 0 d1 1", "dev-a\td1\thigh")},
        ["qrels/dev.tsv:2: 4 columns", "qrels/dev.tsv:3: grade 'high'"]),
    "BEIR without queries": (without(BEIR, "queries.jsonl"), ["queries.jsonl: missing"]),
    "rows of pairs": (
        TRIPLES | {"train.jsonl": rows(
            json.dumps(triple_rows("train")[0]), "not json", "[1]", '{"positive": "p", "negative_1": "n"}')},
        ["train.jsonl:2: not JSON", "train.jsonl:3: not a JSON object"]),
    "rows without texts": (
        TRIPLES | {"train.jsonl": rows(*(json.dumps(triple_rows("train")[0] | {"query": " "}) for _ in range(4)))},
        ["train.jsonl:1: an empty 'query' (4 rows"]),
    "CSV": (TABLE | {"dev.csv": 'query,positive\na,b,c\nc,"d\n'}, ["dev.csv:3: quotation marks"]),
    "pairs that contradict others": (
        {"dev.jsonl": rows(*(f'{{"query": "q", "document": "a", "label": {grade}}}' for grade in (0, 1)))},
        ["dev.jsonl:2: another grade (1) for a query and document than in"]),
    "two files of a split": ({**TABLE, **TRIPLES},
                            [f": {split}.csv and {split}.jsonl are all" for split in ("train", "dev", "test")]),
    "scores by texts": (
        TABLE | {"scores.dev.tsv": rows("cat\tthe cat sat\t1", "dev cat\tno\t1", "dev cat\ta bird flew\t2")},
        ["scores.dev.tsv:1: no query 'cat'", "scores.dev.tsv:2: no document 'no'"]),
    "Parquet": ({"train.parquet": PARQUET["train.parquet"][:-40]}, ["train.parquet: cannot be read as parquet"]),
    "Parquet's gzip": ({"train.parquet.gz.raw": gzip.compress(PARQUET["train.parquet"], mtime=0)[:-30]},
                       ["train.parquet.gz: the compressed data is broken"]),
    "datasets without a shard": (without(SAVED, "train/data-00001-of-00002.arrow"), [": 1 of 2 shards of the train"]),
    "WikiQA": (
        FORMS["wikiqa"] | {"WikiQA-dev.tsv": HEADER + rows(
            "Q1\ta\tD\tT\tS1\tx\t2", "Q1\tb\tD\tT\tS2\ty\t0", "Q1\ta\tD\tT\tS1\tx\t1", "\ta\tD\tT\tS4\tx\t1",
            "Q1\tb\tD\tT\tS5\tx\t1", "Q1\tb\tD\tT\tS5\tx\t0")},
        ["WikiQA-dev.tsv:2: label '2'", "WikiQA-dev.tsv:5: id ''", "WikiQA-dev.tsv:4: another question of 'Q1'",
         "WikiQA-dev.tsv:7: another label of 'Q1' with 'S5'"]),
    "a conversation": (
        TALK | {"train.tsv": "1\ta\tx\n0\ta\ty\n2\ta\tz\n0\ta\t \n0\ta\t\tb\n0\ta\n"},
        ["train.tsv:3: label '2'", "train.tsv:4: an empty text", "train.tsv:5: an empty utt",
         "train.tsv:6: fewer than 3 columns"]),
    "LETOR": (FORMS["letor"] | {"train.txt": rows("x qid:2 1:1", "1 1:1", "-2 qid:3 1:1")},
              ["train.txt:1: label 'x' (2 rows: lines 1, 3)", "train.txt:2: no qid"]),
    "LETOR twice": (FORMS["letor"] | {"train.txt": rows(*["1 qid:4 1:1 # docid = a"] * 2)},
                    ["train.txt:2: document '4:a' a second time"]),
    "InsuranceQA: answers": (
        FORMS["insurance qa 1"] | {"answers.label.token_idx": "1\tidx_9\n1\tidx_1\n"},
        ["answers.label.token_idx:1: 'idx_9' is not in the", "answers.label.token_idx:2: label '1' a second time"]),
    "InsuranceQA: questions": (FORMS["insurance qa 1"] | {"question.train.token_idx.label": "idx_1\t7\n"},
                               ["question.train.token_idx.label:1: there is no answer '7'"]),
    "SQuAD: an id twice": (squad(id="a"), ["train-v1.1.json:2: question 'a' a second time"]),
    "SQuAD: no answers": (squad(answers=1), [f"{ARTICLES}.answers: not SQuAD 1.1"]),
    "SQuAD: a start of words": (squad(answers=[{"text": "cat", "answer_start": "3"}]), [f"{ARTICLES}.answers.0"]),
    "SQuAD: no list": ({"mine.json": '{"data": 1, "paragraphs": 1}'}, ["mine.json: data: not SQuAD 1.1"]),
    "SQuAD: cut off": ({"mine.json": '{"data": [\n{"paragraphs": ['}, ["mine.json:2: not JSON"]),
    "SICK": (
        FORMS["sick"] | {"SICK_train.txt": FORMS["sick"]["SICK_train.txt"].replace("NEUTRAL", "MAYBE")},
        ["SICK_train.txt:2: label 'MAYBE'"]),
    "SICK in one file": (
        {"SICK.txt": rows("\t".join(SICK_WHOLE), "1\ta\tb\tNEUTRAL\t1\t" + 6 * "x\t" + "ELSEWHERE")},
        ["SICK.txt:2: SemEval_set 'ELSEWHERE'", "SICK.txt: no pairs"]),
    "SICK: another label": again(FORMS["sick"], "SICK_train.txt", 2, "NEUTRAL", "ENTAILMENT"),
    "SNLI: another text": again(FORMS["snli"], "snli_1.0_dev.jsonl", 1, "a cat", "a cow"),
    "Quora: another text": again(FORMS["quora"], "dev.tsv", 1, "who sat", "who stood"),
    "Quora as published: another text": again(QUORA, "quora_duplicate_questions.tsv", 2, "who sat", "who stood"),
    "Quora: too few pairs": (
        {"quora_duplicate_questions.tsv": rows(*QUORA["quora_duplicate_questions.tsv"].splitlines()[:3])},
        ["quora_duplicate_questions.tsv: 2 pairs"]),
}  # fmt: skip
HEADERS = {
    "query,positive,document,label": "the columns query, positive, document, label could be read as",
    "query,query,positive": "two columns 'query'",
    "query,document": "no form of pairs has the columns query, document",
}
BAD |= {
    header: (TABLE | {"dev.csv": f"{header}\n{',x' * header.count(',')}\n"}, [f"dev.csv:1: {words}"])
    for header, words in HEADERS.items()
}
BAD |= {
    f"LETOR's {features}": (
        FORMS["letor"] | {"train.txt": rows("1 qid:1 1:1", "1 qid:1 2:1", f"1 qid:2 {features}", "1 qid:3 1:x")},
        [f"train.txt:3: features that cannot be read ({wrong}"])
    for features, wrong in {"1:inf": "a value that is not finite", "2:1 1:1": "Feature indices", "1:1 1:2": "Feature",
                            "70000:1": "an index that is too large", "-1:1": "", "1:x": ""}.items()
}  # fmt: skip
BAD |= {
    f"label {label}": ({"train.jsonl": f'{{"query": "q", "document": "a", "label": {label}}}\n'}, ["train.jsonl:1: "])
    for label in ("0.5", "-1", "40000", "NaN", "1e999", "null", '"high"', "[1]")
}


@pytest.mark.parametrize("case", BAD)
def test_bad_data_is_told_in_a_line_each(case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    files, expected = BAD[case]
    folder = write_folder(tmp_path / "data", files)
    for path in folder.glob("*.raw"):
        path.rename(path.with_suffix(""))
    found = problems(folder)
    assert len(found) == len(expected), found
    assert all(any(line.startswith(begin) for line in found) for begin in expected), found
    assert not [path for path in (tmp_path / "cache").rglob("*") if path.is_file() and path.suffix != ".lock"]


@pytest.mark.parametrize(
    ("files", "candidates", "wrong"),
    [
        (trec_files(runs=False), "run", "data.candidates: train has no run"),
        (FORMS["letor"], "qrels", "data.candidates: LETOR's rows are the candidates"),
    ],
)
def test_candidates_that_the_data_lacks_are_told(files: Files, candidates: str, wrong: str, tmp_path: Path) -> None:
    assert problems(write_folder(tmp_path, files), candidates=candidates) == [wrong]


@pytest.mark.parametrize(
    ("source", "wrong"),
    [
        ("none", "data.source: exist"),
        ("file", "data.source: folder"),
        ("../no", "data.source: exist"),
    ],
)
def test_a_source_that_is_no_data(source: str, wrong: str, console: Console) -> None:
    Path("file").touch()
    console.refused([wrong], f"data {source}")


def test_a_link_that_leads_nowhere_is_no_file_that_was_not_given(tmp_path: Path) -> None:
    folder = write_folder(tmp_path, FORMS["trec"])
    (folder / ".#run.dev.txt").symlink_to("an-editor@host.1")
    load(folder)
    (folder / "run.dev.txt").unlink()
    (folder / "run.dev.txt").symlink_to("../runs/bm25.txt")
    assert problems(folder) == ["run.dev.txt: a link that leads nowhere"]
