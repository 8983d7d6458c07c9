"""Data as it comes, in forms like those of the field but made here: read with the right values, or refused in a line
that says what to do."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pytest
from pyarrow import parquet

from tests.support.field import (
    ALL,
    BEIR,
    CORPUS,
    CSV,
    LABELLED,
    QRELS,
    QUERIES,
    ROWS,
    TREC,
    TRIPLES,
    Files,
    Read,
    as_parquet,
    changed,
    check,
    lines,
    no_lucene,
    of_splits,
    same,
    values_of,
    write,
)
from tests.support.loading import load, problems
from tests.support.trec_cases import columns
from trainables.config.keys import TrainingRun
from trainables.core.errors import ConfigError, DataError
from trainables.data import recognised
from trainables.data.columns import UNJUDGED
from trainables.data.words import for_lucene, words
from trainables.evaluation.metrics import Evaluator
from tune_cl.space.space_files import parse_yaml

__all__ = ["no_lucene"]  # a fixture


# {file: rows}; rows are objects (JSON lines), or a text.


def zstd(raw: bytes) -> bytes:
    return pyarrow.Codec("zstd").compress(raw, asbytes=True)


FOUR, EIGHT = same(4, 8, 4), same(2, 6, 2)
LETOR_ROWS = "".join(f"{grade} qid:{q} 1:{grade + 1} 2:0.5\n" for q in range(4) for grade in (2, 0))


def run_of(score: Callable[[int], object], columns: str = "{q} Q0 d{n} {n} {s} x\n") -> dict[str, Any]:
    rows = {
        f"run.{split}.txt": "".join(
            columns.format(q=f"{split}-{q}", n=n, s=score(n)) for q in (1, 2) for n in (1, 2, 3)
        )
        for split in ALL
    }
    return {**TREC, **rows}


WORDS = ["how to mend a kettle", "a kettle is mended with tin", "a bridge is built", "rain falls in spring"]
TEXTS = [f"{text} number {n}" for n in range(30) for text in WORDS]


def bare(third: str) -> str:
    """Rows without a header; `third`: what the third column holds in turn, separated by commas."""
    values = third.split(",")
    return "".join(f"{TEXTS[n]}\t{TEXTS[n + 1]}\t{values[n % len(values)]}\n" for n in range(24))


def classes(names: list[str], labels: tuple[int, int] = (0, 1)) -> dict[str, Any]:
    """A Parquet file with a column of classes, as the datasets library writes it: of each query's two documents the
    first has the first label."""
    rows = [{"query": f"q {n}", "document": f"d {n} {k}", "label": labels[k]} for n in range(4) for k in (0, 1)]
    feature = {"features": {"label": {"names": names, "_type": "ClassLabel"}}}
    table = pyarrow.Table.from_pylist(rows).replace_schema_metadata({"huggingface": json.dumps({"info": feature})})
    sink = pyarrow.BufferOutputStream()
    parquet.write_table(table, sink)
    return {f"{split}.parquet": sink.getvalue().to_pybytes() for split in ALL}


MANY = [{"query": f"q {n}", "positive": f"p {n}", "negative": f"n {n}"} for n in range(40)]


def spoiled(*rows: dict[str, Any]) -> Files:
    """Forty rows, the first of which have other values."""
    return of_splits("jsonl", [*({**MANY[n], **row} for n, row in enumerate(rows)), *MANY[len(rows) :]])


def renamed(name: str, spelled: str) -> dict[str, Any]:
    """The BEIR folder whose corpus has a document `name` and whose judgments call it `spelled`."""
    corpus = [row | ({"_id": name} if row["_id"] == "d1" else {}) for row in CORPUS]
    qrels = {f"qrels__{s}_DOT_tsv": QRELS[f"qrels/{s}.tsv"].replace("\td1\t", f"\t{spelled}\t") for s in ALL}
    return changed(BEIR, corpus_DOT_jsonl=corpus, **qrels)


def topics(name: str, topic: str, head: str = "", foot: str = "") -> dict[str, Any]:
    """The TREC folder with topics in place of its queries; `topic` with {} for id and text."""
    files = {file: text for file, text in TREC.items() if not file.startswith("queries")}
    for split in ALL:
        each = "".join(topic.format(f"{split}-{n}", f"query {word} &amp; more") for n, word in ((1, "one"), (2, "two")))
        files[name.format(split)] = head + each + foot
    return files


CR = {name: text.replace("\n", "\r") for name, text in TREC.items()}
OLD_TOPIC = "<top>\n<num> Number: {}\n<title> Topic: {}\n\n<desc> Description:\nWhat is meant.\n\n</top>\n"
OURS: dict[str, tuple[Files, Read]] = {
    # a column that changes what a row means
    "label beside positive": (of_splits("jsonl", LABELLED), Read(FOUR, "grade from label")),
    "Label in capitals": (of_splits("csv",
        "Query,Positive,Label\n" + "".join(f"q {n},{d} {n},{g}\n" for n in range(4) for d, g in (("a", 1), ("b", 0)))),
        Read(FOUR)),
    "label and score": (of_splits("jsonl", [row | {"score": 0.5 + row["label"] / 4} for row in LABELLED]),
        Read(FOUR, "a teacher's scores from score", teacher=True)),
    "n-tuple with scores": (of_splits("jsonl", [row | {"score": [0.9, 0.25]} for row in TRIPLES]),
        Read(FOUR, "teacher's scores from score", teacher=True)),
    "a margin": (of_splits("jsonl", [row | {"score": 3.5} for row in TRIPLES]), Read(FOUR)),
    # the schema is that of all rows
    "negatives begin late": (of_splits("jsonl", [{"query": "q", "positive": "p"}, *TRIPLES]),
        Read(same(5, 45, 5), grades=(-1, 0, 1))),
    "keys in another order": (of_splits("jsonl", [dict(reversed(row.items())) for row in TRIPLES]), Read(FOUR)),
    "a null in the first row": (of_splits("jsonl", [TRIPLES[0] | {"negative": None}, *TRIPLES]), Read(FOUR)),
    "an array, over lines": (of_splits("json", json.dumps(TRIPLES, indent=2)), Read(FOUR)),
    # whole numbers in other spellings, ids that are numbers
    "labels 1e0": (of_splits("csv", "query,document,label\nq,a,1e0\nq,b,0e0\n"), Read(same(1, 2, 1))),
    "labels +1.00": (of_splits("csv", "query,document,label\nq,a,+1.00\nq,b,0.00\n"), Read(same(1, 2, 1))),
    "qrels of a TREC folder with 1.0": (TREC | {f"qrels.{s}.txt": f"{s}-1 0 d1 1.0\n{s}-2 0 d2 1.0\n" for s in ALL},
        Read(EIGHT, grades=(-1, 1))),
    "ids of queries that are numbers": (
        changed(BEIR, queries_DOT_jsonl=[{"_id": n, "text": f"query {n}"} for n in range(4)],
        **{f"qrels__{s}_DOT_tsv": QRELS[f"qrels/{s}.tsv"].replace(f"{s}-", "") for s in ALL}), Read(FOUR)),
    # lists and other names
    "lists in Parquet": ({f"{s}.parquet": as_parquet([{"query": "q", "pos": ["a", "b"], "neg": ["c"]}]) for s in ALL},
        Read(same(1, 3, 2))),
    "passages with titles": (of_splits("jsonl",
        [{"query": "q", "positive_passages": [{"docid": "1", "title": "T", "text": "a"}],
        "negative_passages": [{"docid": "2", "title": "", "text": "b"}]}]), Read(same(1, 2, 1))),
    "DPR": (of_splits("jsonl", [{"question": "q", "answers": ["x"], "positive_ctxs": [{"title": "t", "text": "a"}],
        "negative_ctxs": [], "hard_negative_ctxs": [{"title": "t", "text": "b"}]}]), Read(same(1, 2, 1))),
    "labeled list of mine_hard_negatives": (
        of_splits("jsonl", [{"anchor": "q", "positive": ["a", "b", "c"], "labels": [1, 0, 0]}]),
        Read(same(1, 3, 1), "grade from labels")),
    "response and rejected_response": (
        of_splits("jsonl", [{"query": "q", "response": "a", "rejected_response": ["b", "c"]}]), Read(same(1, 3, 1))),
    "question, answer, label": (of_splits("jsonl",
        [{"question": "q", "answer": t, "label": g} for t, g in (("a", 1), ("b", 0))]), Read(same(1, 2, 1))),
    # one bad row
    "an empty positive": (of_splits("jsonl", [*TRIPLES, {"query": "q", "positive": "", "negative": "n"}]),
        Read(FOUR, "1 row without a text or label left out")),
    "four rows of one unknown query": (
        TREC | {"qrels.dev.txt": TREC["qrels.dev.txt"] * 5 + "".join(f"nobody 0 d{n} 1\n" for n in range(4))},
        Read(EIGHT, "4 rows of an unknown query left out", grades=(-1, 1))),
    "a run with a document that is not there": (TREC | {"run.dev.txt": TREC["run.dev.txt"] + "dev-1 Q0 gone 4 1 x\n"},
        Read(EIGHT, "1 row with a document outside the collection left out", grades=(-1, 1))),
    "an empty document of a TREC folder": (TREC | {"collection.tsv": TREC["collection.tsv"] + "d99\t\n"},
        Read(EIGHT, "1 document without text", grades=(-1, 1))),
    # names of files
    "val": ({("val" if s == "dev" else s) + ".jsonl": TRIPLES for s in ALL}, Read(FOUR)),
    "qrels/val": ({name.replace("dev.tsv", "val.tsv"): rows for name, rows in BEIR.items()}, Read(FOUR)),
    "valid of a TREC folder": ({name.replace(".dev.", ".valid."): rows for name, rows in TREC.items()},
        Read(EIGHT, grades=(-1, 1))),
    "pieces of JSON lines": ({f"{s}-{n:05}-of-00002.jsonl": TRIPLES[2 * n : 2 * n + 2] for s in ALL for n in (0, 1)},
        Read(FOUR)),
    "folders as the hub converts": ({f"{s}/0000.parquet": as_parquet(TRIPLES) for s in ALL}, Read(FOUR)),
    "data/train.csv": ({f"data/{s}-00000-of-00001.csv": CSV for s in ALL}, Read(FOUR)),
    "xz": ({f"{s}.csv.xz": CSV for s in ALL}, Read(FOUR)),
    "zst": ({f"{s}.jsonl.zst": zstd(lines(TRIPLES)) for s in ALL}, Read(FOUR)),
    "BEIR in bz2": ({f"{name}.bz2" if "jsonl" in name else name: rows for name, rows in BEIR.items()},
        Read(FOUR)),
    "triples.train.small.tsv": ({f"triples.{s}.small.tsv": ROWS for s in ALL}, Read(FOUR)),
    "two names of one split": (changed(BEIR, qrels__validation_DOT_tsv=QRELS["qrels/dev.tsv"]),
        Read(FOUR, "not read, though named like data: qrels/validation.tsv")),
    "a run of another name": (TREC | {"run.test.run": "x"}, Read(EIGHT, "run.test.run", grades=(-1, 1))),
    "train.json beside a TREC folder": (TREC | {"train.json": TRIPLES}, Read(EIGHT, "train.json", grades=(-1, 1))),
    "quadruples without a header": ({f"triples.{s}.small.tsv": ROWS.replace("\n", "\tanother one\n") for s in ALL},
        Read(same(4, 12, 4), "others from negative to negative_2")),
    # without a dev split
    "pairs without dev": (of_splits("jsonl", TRIPLES, "train", "test"),
        Read({"train": (3, 6, 3), "dev": (1, 2, 1), "test": (4, 8, 4)}, "drawn with a fixed seed")),
    "only a test split": (of_splits("jsonl", TRIPLES, "test"), Read(same(4, 8, 4, "test"))),
    "a train split alone": (of_splits("csv", CSV, "train"), Read({"train": (3, 6, 3), "dev": (1, 2, 1)})),
    # LETOR
    "set2": ({f"set2.{name}.txt": LETOR_ROWS for name in ("train", "valid", "test")}, Read(FOUR, grades=(0, 2))),
    "svmlight endings": ({f"{s}.svm": LETOR_ROWS for s in ALL}, Read(FOUR, grades=(0, 2))),
    "LETOR 3": ({f"{s}set.txt": LETOR_ROWS for s in ("training", "validation", "test")}, Read(FOUR, grades=(0, 2))),
    "a feature 0 in one row alone": (
        {f"{s}.txt": LETOR_ROWS + "1 qid:9 0:3\n1 qid:9 2:1\n" for s in ("train", "vali", "test")},
        Read(same(5, 10, 6), grades=(0, 1, 2))),
    "negative and unjudged alone": (
        {f"{s}.txt": LETOR_ROWS + "-1 qid:9 1:3\n-1.0 qid:9 2:1\n" for s in ("train", "vali", "test")},
        Read(FOUR, "1 queries without judgments, dropped", grades=(0, 2))),
    "docno in capitals of its own": (
        {f"{s}.txt": "1 qid:1 1:2 #docno = A-1\n0 qid:1 1:1 # docno=B-2 rank=1\n" for s in ("train", "vali", "test")},
        Read(same(1, 2, 1), document="B-2")),
    # MS MARCO
    "triples of ids": ({k: v for k, v in TREC.items() if not k.startswith(("run", "qrels.train"))} | {
        "qidpidtriples.train.full.2.tsv": "train-1\td1\td5\ntrain-2\td2\td6\n"},
        Read({"train": (2, 4, 2), "dev": (2, 18, 2), "test": (2, 18, 2)}, grades=(-1, 0, 1))),
    "top1000": ({k: v for k, v in TREC.items() if not k.startswith("run")} | {
        f"top1000.{s}.tsv": "".join(f"{s}-{q}\td{n}\tquery\tdocument\n" for q in (1, 2) for n in (1, 2,
        5)) for s in ALL}, Read(EIGHT, grades=(-1, 1))),
    "top1000.dev of a dev set alone": (
        {"collection.tsv": TREC["collection.tsv"], "queries.dev.small.tsv": TREC["queries.dev.tsv"],
        "qrels.dev.small.tsv": TREC["qrels.dev.txt"].replace(" ", "\t"),
        "top1000.dev": "".join(f"dev-{q}\td{n}\tquery one\tdocument {n}\n" for q in (1, 2) for n in (1, 2, 5))},
        Read(same(2, 6, 2, "dev"), grades=(-1, 1))),
    # what a column holds
    "graded rows without a header": (of_splits("tsv", bare("0,1,2")), Read(same(24, 576, 16),
        grades=(UNJUDGED, 0, 1, 2))),
    "one word is not few": (of_splits("jsonl", [row | {"negative": "n"} for row in TRIPLES]), Read(FOUR)),
    "the row number of R": (of_splits("csv", '"",' + CSV.replace("\nq", "\n1,q")), Read(FOUR)),
    "bars": (of_splits("csv", CSV.replace(",", "|")), Read(FOUR)),
    "booleans in capitals": (of_splits("csv", "query,document,label\nq,a,TRUE\nq,b,FALSE\n"), Read(same(1, 2, 1))),
    "objects with grades": (of_splits("jsonl",
        [{"query": "q", "docs": [{"text": "a", "label": 1}, {"text": "b", "label": 0}]}]), Read(same(1, 2, 1))),
    # classes
    "relevant comes first": (classes(["relevant", "not_relevant"], (0, 1)), Read(FOUR)),
    "relevant comes last": (classes(["irrelevant", "relevant"], (1, 0)), Read(FOUR)),
    "classes that are numbers": (classes(["2", "0", "1"]), Read(FOUR, grades=(0, 2))),
    "three classes that rise": (classes(["not relevant", "related", "relevant"], (2, 0)), Read(FOUR, grades=(0, 2))),
    # ids
    "a lost zero": (renamed("007", "7"), Read(FOUR, "leading zeros")),
    "NFD in the corpus": (renamed("cafe\u0301", "caf\u00e9"), Read(FOUR, "Unicode")),
    "ids of two kinds of numbers": (renamed("12", "12.0"), Read(FOUR, "the .0 of a number")),
    "an id that is both": (changed(BEIR, corpus_DOT_jsonl=[*CORPUS, {"_id": "5", "text": "x"}, {"_id": "05",
        "text": "y"}]), Read(FOUR)),
    "a query that lost its zeros": (changed(BEIR, queries_DOT_jsonl=[*BEIR["queries.jsonl"], {"_id": "001",
        "text": "x"}], qrels__dev_DOT_tsv=QRELS["qrels/dev.tsv"].replace("dev-0\t", "1\t")),
        Read(FOUR, "a query's id")),
    # bad rows
    "a missing text": (spoiled({"positive": None}), Read(same(39, 78, 39), "1 row without a text or label")),
    "half a surrogate": (spoiled({"positive": "x \ud83d"}), Read(same(39, 78, 39), "(train.jsonl:1)")),
    "its own negative, three times": (spoiled(*[{"negative": f"p {n}"} for n in range(3)]),
        Read(same(40, 77, 40), "3 negatives that is its row's positive left out")),
    "NaN": (of_splits("jsonl", '{"query": "q", "positive": "p", "negative_1": "n", "negative_2": NaN}\n'),
        Read(same(1, 2, 1))),
    # the file
    "gzip without its ending": (of_splits("jsonl", gzip.compress(lines(TRIPLES))), Read(FOUR)),
    "CR alone": (CR, Read(EIGHT, grades=(UNJUDGED, 1))),
    "CR alone in JSON lines": (of_splits("jsonl", "\r".join(map(json.dumps, TRIPLES)) + "\r"), Read(FOUR)),
    "CR alone, compressed": (of_splits("csv.gz", CSV.replace("\n", "\r")), Read(FOUR)),
    "topics with an attribute": (topics("topics.{}.xml", '<topic number="{}" type="faceted">\n<query>{}</query>\n'
        "<description>What is meant.</description></topic>\n", '<?xml version="1.0"?>\n<webtrack2009>\n',
        "</webtrack2009>\n"), Read(EIGHT, grades=(UNJUDGED, 1))),
    "topics of text alone": (topics("topics.{}.xml", '<topic number="{}">\n{}\n</topic>', "<topics>", "</topics>"),
        Read(EIGHT, grades=(UNJUDGED, 1))),
    "topics of old": (topics("topics.{}.txt", OLD_TOPIC), Read(EIGHT, grades=(UNJUDGED, 1))),
    "topics that are not closed": (topics("topics.{}.txt", OLD_TOPIC.replace("</top>\n", "")), Read(EIGHT,
        grades=(UNJUDGED, 1))),
    "topics by another name": (topics("queries.{}.tsv", "<topic><number>{}</number><title>{}</title></topic>"),
        Read(EIGHT, grades=(UNJUDGED, 1))),
    "one file": ({"data.csv": CSV}, Read({"train": (3, 6, 3), "dev": (1, 2, 1)})),
}  # fmt: skip


@pytest.mark.parametrize("name", OURS)
def test_an_input_of_ours_is_read(name: str, tmp_path: Path) -> None:
    files, right = OURS[name]
    check(load(write(tmp_path, files)), right)


POSITIVE_AND_LABEL = [{"query": "q", "positive": "a", "negative": "b", "label": 1}]
FREE = "erste frage\tgute antwort\tandere antwort\n"
WRONG: dict[str, tuple[Files, str, str]] = {
    "two readings": (of_splits("jsonl", POSITIVE_AND_LABEL), "train.jsonl:1", "could be read as"),
    "two queries": (of_splits("jsonl", [{"query": "q", "question": "r", "answer": "a"}]), "train.jsonl:1",
        "query or from"),
    "a fraction as label": (of_splits("csv", "query,document,label\nq,a,0.7\n"), "train.csv:2", "label '0.7'"),
    "a score for a document": (of_splits("csv", "query,document,score\nq,a,1\n"), "train.csv:1", "teacher's score"),
    "lists of other lengths": (of_splits("jsonl", [{"query": "q", "docs": ["a", "b"], "labels": [1]}]), "train.jsonl:1",
        "2 documents and 1"),
    "scores of other lengths": (of_splits("jsonl",
        [{"query": "q", "pos": ["a"], "neg": ["b"], "pos_scores": [1], "neg_scores": [1, 2]}]), "train.jsonl:1",
        "neg_scores"),
    "many empty documents": (changed(BEIR,
        corpus_DOT_jsonl=[row | ({"text": ""} if n % 4 == 3 else {}) for n, row in enumerate(CORPUS)]),
        "corpus.jsonl:4", "empty text"),
    "more than a few unknown queries": (
        TREC | {"qrels.dev.txt": TREC["qrels.dev.txt"] * 5 + "".join(f"n{n} 0 d1 1\n" for n in range(4))},
        "qrels.dev.txt:11", "unknown query"),
    "equal scores within queries": (run_of(lambda n: "2.5"), "run.train.txt", "equal"),
    "equal scores that differ between queries": (run_of(lambda n: "0"), "run.train.txt", "equal"),
    "UTF-16 lines": (of_splits("jsonl", lines(TRIPLES).decode().encode("utf-16")), "train.jsonl:1", "not UTF-8"),
    "a score behind a triple": ({f"triples.{s}.small.tsv": ROWS.replace("\n", "\t3.5\n") for s in ALL},
        "triples.train.small.tsv:1", "column 4 holds numbers"),
    "ids before a triple": ({f"triples.{s}.small.tsv": "7\t" + ROWS.replace("\nq", "\n7\tq") for s in ALL},
        "triples.train.small.tsv:1", "no header"),
    "an array that is cut off": (of_splits("json", json.dumps(TRIPLES, indent=1)[:-20]), "train.json:17", "JSON"),
    "two sets of Yahoo": ({f"set{k}.train.txt": LETOR_ROWS for k in (1, 2)}, "", "set1.train.txt and set2.train.txt"),
    "broken Zstandard": (of_splits("csv.zst", b"no"), "train.csv.zst", "Zstandard data is broken"),
    "similarities": (of_splits("tsv", bare("3.8,0.0,5.0")), "train.tsv:1", "column 3 holds numbers"),
    "probabilities": (of_splits("tsv", bare(".91,.02")), "train.tsv:1", "column 3 holds numbers"),
    "words": (of_splits("tsv", bare("relevant,irrelevant")), "train.tsv:1", "column 3 holds few short values"),
    "two words": (of_splits("tsv", bare("relevant,not relevant")), "train.tsv:1", "column 3 holds few short values"),
    "percent": (of_splits("tsv", bare(",".join(map(str, range(70, 94))))), "train.tsv:1", "column 3 holds numbers"),
    "a header of no known word": (
        {f"{s}.tsv": FREE + bare("one other text here,some more words").replace("how to", f"{s} to") for s in ALL},
        "train.tsv:1", "erste frage, gute antwort, andere antwort"),
    "ids in place of texts": (of_splits("tsv", "".join(f"q{n}\td{n}\n" for n in range(9))), "train.tsv:1",
        "no form of pairs has the columns q0, d0"),
    "numbers named positive": (of_splits("jsonl", [{"query": f"q {n}", "positive": n / 7} for n in range(9)]),
        "train.jsonl:1", "'positive' holds numbers"),
    "words named document": (of_splits("jsonl",
        [{"query": f"q {n}", "positive": ("yes", "no")[n % 2]} for n in range(30)]), "train.jsonl:1", "holds yes, no"),
    "classes without grades": (classes(["entailment", "neutral", "contradiction"]), "train.parquet:1",
        "are not grades"),
    "judged documents that are not there": (changed(BEIR, corpus_DOT_jsonl=[row | {"_id": f"x{row['_id']}"}
        for row in CORPUS]), "qrels/train.tsv:2", "none of 5 document ids"),
    "topics without numbers": (topics("topics.{}.xml", "<topic><query>{} {}</query></topic>"), "topics.train.xml:1",
        "a topic without a number"),
    "a page in place of topics": (topics("topics.{}.xml", "<html><p>{} {}</p></html>"), "topics.train.xml:1",
        "XML or HTML without topics"),
    "many bad rows": (spoiled(*[{"positive": ""}] * 9), "train.jsonl:1", "empty 'positive'"),
    "tables behind a zip": ({"train.jsonl": b"PK\x03\x04 and more"}, "train.jsonl", "a zip file"),
    "a run of a folder that is not there": (TREC | {f"run.{s}.txt": f"{s}-1 Q0 gone 1 1 x\n" for s in ALL},
        "run.train.txt:1", "not in the collection"),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_an_input_of_ours_is_refused(name: str, tmp_path: Path) -> None:
    files, place, word = WRONG[name]
    found = problems(write(tmp_path, files))[0]
    assert found.startswith(f"{place}: " if place else "") and word in found


class TestAQueryThatIsADocument:
    @staticmethod
    def files(document: str, text: str) -> dict[str, Any]:
        """The first query has a document's id."""
        rows = [row | ({"_id": document} if row["_id"] == "dev-0" else {}) for row in QUERIES]
        corpus = [*CORPUS, {"_id": document, "title": "", "text": text}]
        qrels = QRELS["qrels/dev.tsv"].replace("dev-0\t", f"{document}\t") + f"{document}\t{document}\t0\n"
        return {**BEIR, "queries.jsonl": rows, "corpus.jsonl": corpus, "qrels/dev.tsv": qrels}

    @pytest.mark.parametrize(
        ("document", "text", "kept"),
        [
            ("test-pro-02a", "another text", False),
            ("318", "Query 0 ?", False),
            ("318", "something else", True),
        ],
    )
    def test_is_no_candidate(self, document: str, text: str, kept: bool, tmp_path: Path) -> None:
        folder = write(tmp_path, self.files(document, text))
        data, all_of_it = load(folder), load(folder, identical_ids="keep")
        assert len(data.splits["dev"].document) == 8 + kept and len(all_of_it.splits["dev"].document) == 9
        assert any("identical_ids" in note for note in data.notes) != kept
        assert (data.digest == all_of_it.digest) is False or kept

    @pytest.mark.parametrize(("grade", "kept"), [(1, True), (0, False)])
    def test_stays_a_candidate_where_it_is_judged_relevant(self, grade: int, kept: bool, tmp_path: Path) -> None:
        corpus = [*CORPUS, {"_id": "faq-a", "text": "with tin"}]
        qrels = f"query-id\tcorpus-id\tscore\nfaq-a\tfaq-a\t{grade}\nfaq-a\td1\t1\nfaq-a\td2\t0\n"
        queries = [*BEIR["queries.jsonl"], {"_id": "faq-a", "text": "how is it mended"}]
        files = changed(BEIR, corpus_DOT_jsonl=corpus, queries_DOT_jsonl=queries,
            qrels__dev_DOT_tsv=qrels)  # fmt: skip
        data = load(write(tmp_path, files))
        row = list(data.document_ids).index("faq-a")
        assert (row in data.splits["dev"].document) == kept
        assert (data.own is None) == kept and (kept or row in np.asarray(data.own))


def test_named_columns_are_read_whatever_they_hold(tmp_path: Path) -> None:
    rows = [{"query": f"q {n}", "positive": ("yes", "no")[n % 2], "negative": "no yes"} for n in range(30)]
    names = {"query": "query", "positive": "positive", "negative": "negative"}
    check(load(write(tmp_path, of_splits("jsonl", rows)), columns=names), Read(same(30, 60, 30)))


def test_strict_refuses_ids_that_are_spelled_otherwise(tmp_path: Path) -> None:
    assert "leading zeros" in problems(write(tmp_path, renamed("007", "7")), strict=True)[0]


@pytest.mark.parametrize(
    ("text", "cut"),
    [
        ("水獭住在哪里", ["水獭", "獭住", "住在", "在哪", "哪里"]),
        ("カワウソはどこ?", ["カワ", "ワウ", "ウソ", "ソは", "はど", "どこ"]),
        ("นากอยู่", ["นา", "าก", "กอ", "อยู่"]),
        ("otter 水獭 2", ["otter", "水獭", "2"]),
        ("수달은 어디", ["수달은", "어디"]),
    ],
)
def test_scripts_without_spaces_are_cut_into_bigrams(text: str, cut: list[str]) -> None:
    assert words(text, "script") == cut
    assert words("the otter's 2 holts", "script") == words("the otter's 2 holts") == ["the", "otter", "s", "2", "holts"]
    coded = for_lucene(text, "script").lower().split()
    assert all(word.isascii() for word in coded) or text == "수달은 어디"


def test_their_first_stage_finds_what_is_relevant(tmp_path: Path) -> None:
    texts = [("水獭住在哪里", "水獭住在河边", "红隼在田野上空盘旋"), ("狼吃什么", "狼吃鹿和兔子", "水獭住在河边")]
    rows = [dict(zip(("query", "positive", "negative"), row, strict=True)) for row in texts]
    data = load(write(tmp_path / "auto", of_splits("jsonl", rows)))
    split = data.splits["dev"]
    assert data.words == "script" and (split.score[split.grade == 1] > split.score[split.grade == 0]).all()
    plain = load(write(tmp_path / "spaces", of_splits("jsonl", rows)), words="spaces")
    assert not plain.splits["dev"].score.any() and plain.digest != data.digest
    assert any("share no word with their query" in note for note in plain.notes) and plain.words == "spaces"


def test_columns_have_any_name(tmp_path: Path) -> None:
    rows = [{"frage": "q", "gut": "a", "schlecht_1": "b", "schlecht_2": "c", "positive": "x"}]
    names = {"query": "frage", "positive": "gut", "negative": "schlecht"}
    check(load(write(tmp_path, of_splits("jsonl", rows)), columns=names), Read(same(1, 3, 1)))
    with pytest.raises(DataError, match=r"no column 'guut' \(data.columns\)"):
        load(tmp_path, columns={"query": "frage", "positive": "guut"})


def test_splits_are_drawn_by_query(tmp_path: Path) -> None:
    rows = [{"query": f"q {n}", "positive": f"p {n}", "negative": "n"} for n in range(20)]
    data = load(write(tmp_path, of_splits("jsonl", rows, "train")), split=[0.8, 0.1, 0.1])
    assert {name: len(split) for name, split in data.splits.items()} == {"train": 16, "dev": 2, "test": 2}
    again = load(tmp_path, split=[0.8, 0.1, 0.1])
    assert again.digest == data.digest and (again.splits["dev"].query == data.splits["dev"].query).all()
    assert list(load(tmp_path, split=[0, 0, 1]).splits) == ["test"]


@pytest.mark.parametrize("name", ["an empty positive", "a run with a document that is not there"])
def test_strict_refuses_what_is_left_out(name: str, tmp_path: Path) -> None:
    assert problems(write(tmp_path, OURS[name][0]), strict=True)


def test_what_is_read_is_said(tmp_path: Path) -> None:
    folder = write(tmp_path, {f"data/{s}-0000{n}-of-00002.parquet": as_parquet(TRIPLES) for s in ALL for n in (0, 1)})
    name, _, files = recognised(str(folder))
    assert name == "pairs" and len(files) == 6


class TestYaml:
    @pytest.mark.parametrize(
        ("text", "value"),
        [
            ("1e-3", 0.001),
            ("yes", "yes"),
            ("off", "off"),
            ("true", True),
            ("0o17", 15),
            ("1_000", "1_000"),
            ("2001-12-14", "2001-12-14"),
            ("'010'", "010"),
            ("[1, 2.5]", [1, 2.5]),
            (".inf", float("inf")),
            ("0", 0),
        ],
    )
    def test_scalars_are_those_of_1_2(self, text: str, value: Any) -> None:
        assert parse_yaml(text, "--set KEY") == value and type(parse_yaml(text, "--set KEY")) is type(value)

    @pytest.mark.parametrize(
        ("text", "right"),
        [
            ("1:30", "90"),
            ("010", "10"),
            ("-007", "-7"),
            ("01.5", "1.5"),
            ("key: 1:30:00", "5400"),
            ("[1, 08]", "8"),
        ],
    )
    def test_what_1_1_reads_otherwise_is_refused(self, text: str, right: str) -> None:
        with pytest.raises(ConfigError, match=rf"error: file:1: .* base .*; {right}\b"):
            parse_yaml(text, "file")


class TestEvaluate:
    QRELS, RUN = "q1 0 a 2\nq1 0 b 0\nq2 0 c 1\n", "q1 Q0 b 1 2.0 x\nq1 Q0 a 2 1.0 x\nq2 Q0 c 1 1.0 x\n"

    def values(self, folder: Path, qrels: str, run: str, *metrics: str) -> Mapping[str, float]:
        (folder / "qrels").write_text(qrels)
        (folder / "run").write_text(run)
        return values_of(folder / "qrels", folder / "run", *metrics)

    @pytest.mark.parametrize(
        ("qrels", "run"),
        [
            ("query-id\tcorpus-id\tscore\nq1\ta\t2\nq1\tb\t0\nq2\tc\t1\n", RUN),
            (QRELS, "q1\tb\t1\nq1\ta\t2\nq2\tc\t1\n"),
            (QRELS, "q1\tb\t0\nq1\ta\t1\nq2\tc\t2\n"),
            (QRELS.replace(" 2\n", " 2.0\n"), RUN),
        ],
    )
    def test_files_of_beir_and_ms_marco(self, qrels: str, run: str, tmp_path: Path) -> None:
        assert self.values(tmp_path, qrels, run) == {"map": 0.75}

    @pytest.mark.parametrize(
        ("name", "value"),
        [
            ("ndcg_cut_10", 0.8155),
            ("recip_rank", 0.75),
            ("Success@1", 0.5),
            ("P.1", 0.5),
            ("P_1", 0.5),
            ("recall_2", 1.0),
            ("map_cut_1", 0.5),
            ("Accuracy@1", 0.5),
            ("Precision@1", 0.5),
            ("success.2", 1.0),
            ("success@2", 1.0),
        ],
    )
    def test_names_of_others(self, name: str, value: float, tmp_path: Path) -> None:
        assert self.values(tmp_path, self.QRELS, self.RUN, name)[name] == pytest.approx(value, abs=1e-4)

    def test_a_file_that_is_not_utf_8_is_told_as_such(self, tmp_path: Path) -> None:
        (tmp_path / "qrels").write_text(self.QRELS)
        (tmp_path / "run").write_bytes(self.RUN.encode("utf-16"))
        with pytest.raises(DataError, match="run:1: byte 0xff is not UTF-8"):
            values_of(tmp_path / "qrels", tmp_path / "run")

    @pytest.mark.parametrize(
        ("rows", "value"),
        [
            ("q b 1\nq a 2\nq c 3\n", 0.5),  # ranks
            ("q b 0\nq a 1\nq c 2\n", 0.5),  # ranks from 0
            ("q b 3\nq a 2\nq c 1\n", 0.5),  # they fall: scores
            ("q b 10\nq a 20\nq c 5\n", 1.0),  # scores
            ("q a 1.5\nq b 1.25\n", 1.0),
        ],
    )
    def test_three_columns_are_scores_unless_they_number_the_documents(
        self, rows: str, value: float, tmp_path: Path
    ) -> None:
        assert self.values(tmp_path, "q 0 a 1\n", rows)["map"] == value

    @pytest.mark.parametrize(
        ("text", "told"),
        [('{"q": {"a": "x"}}', "score 'x'"), ('{"q": ["a"]}', "JSON of another form"), ('{"q": ', "not JSON")],
    )
    def test_json_of_another_form_is_refused(self, text: str, told: str, tmp_path: Path) -> None:
        (tmp_path / "qrels").write_text("q 0 a 1\n")
        (tmp_path / "run.json").write_text(text)
        with pytest.raises(DataError, match=rf"run.json:1: {told}"):
            values_of(tmp_path / "qrels", tmp_path / "run.json")


class TestMeasures:
    """Any measure of trec_eval or ir_measures, where metrics are named."""

    @pytest.mark.parametrize(
        "name", ["ndcg@5", "mrr@100", "recall@100", "bpref", "infAP", "Judged@2", "judged@2", "set_F"]
    )
    def test_the_library_and_the_command_agree(self, name: str, tmp_path: Path) -> None:
        qrels = {"1": {"d1": 2, "d2": 0, "D3": 1}, "2": {"d1": 1, "d10": 0}}
        run = {"1": {"d2": 3.0, "d1": 2.0, "_9": 1.5, "D3": 1.0}, "2": {"d10": 2.0, "d1": 1.0}}
        data, scores = columns(qrels, run)
        evaluator = Evaluator(data.splits["test"], data.document_ids, metric=name)
        (tmp_path / "qrels.json").write_text(json.dumps(qrels))
        (tmp_path / "run.json").write_text(json.dumps(run))
        theirs = values_of(tmp_path / "qrels.json", tmp_path / "run.json", name)
        assert evaluator(scores)[name].mean() == pytest.approx(theirs[name], abs=1e-6)
        assert TrainingRun.model_validate({"metric": name}).metric == name

    @pytest.mark.parametrize("name", ["num_ret", "gm_map", "ndgc@5", "p@0", "ndcg@x"])
    def test_a_training_takes_no_other(self, name: str) -> None:
        with pytest.raises(ValueError, match=f"'{name}'"):
            TrainingRun.model_validate({"metric": name})


class TestTablesFromPython:
    @staticmethod
    def frame() -> Any:
        pandas = pytest.importorskip("pandas")
        return pandas.DataFrame([row | {"split": s} for s in ("train", "validation", "test") for row in TRIPLES])

    def test_are_read_as_a_folder_is(self, tmp_path: Path) -> None:
        import tune_cl

        expected = tune_cl.instances(write(tmp_path, of_splits("jsonl", TRIPLES)), "dev")
        assert tune_cl.instances(self.frame(), "dev").equals(expected)

    def test_a_value_that_is_none_is_refused(self) -> None:
        import tune_cl

        for wrong in (3, self.frame().assign(split="holdout"), {"train": [1]}):
            with pytest.raises(DataError, match="error: data: "):
                tune_cl.instances(wrong)

    def test_columns_of_no_form_are_refused_once_for_all_splits(self) -> None:
        import tune_cl

        with pytest.raises(DataError, match=r"name yours: data\.columns") as refused:
            tune_cl.instances(self.frame().rename(columns=lambda name: name if name == "split" else f"{name}_"))
        assert len(refused.value.problems) == 1
