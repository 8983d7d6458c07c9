"""Data as it comes: inputs in the shape in which people publish and export them are read with the right values, or
refused at the right place. The first tables need the folder of such inputs beside the checkout; the others are inputs
of the same kinds, made here."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pytest

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
    all_by_row,
    as_parquet,
    changed,
    check,
    lines,
    of_splits,
    same,
    write,
)
from tests.support.loading import load, problems
from trainables.core.errors import ConfigError, DataError
from trainables.data import recognised
from trainables.data.readers import assembly
from trainables.data.words import for_lucene, words
from trainables.evaluation.runs import evaluate
from tune_cl.space.space_files import parse_yaml


@pytest.fixture
def field(shared: Path) -> Path:
    folder = shared.parent / "field"
    if not folder.is_dir():
        pytest.skip(f"inputs from the field not found at {folder}")
    return folder


@pytest.fixture(autouse=True)
def no_lucene(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(assembly, "retrieve", all_by_row)


JUDGED, PAIRS, LISTS, LETOR = same(4, 12, 4), same(6, 12, 6), same(6, 18, 6), same(8, 40, 16)
RIGHT: dict[str, Read] = {
    "beir_empty_doc": Read(JUDGED, "1 document without text left out"),
    "beir_float_scores": Read(JUDGED),
    "beir_int_ids": Read(JUDGED, document="4"),
    "beir_missing_doc": Read(JUDGED, "1 judged document outside the collection, counted among the judged"),
    "beir_missing_query": Read(JUDGED, "1 row of an unknown query left out"),
    "beir_no_dev": Read({"train": (3, 9, 3), "dev": (1, 3, 1), "test": (4, 12, 4)}, "drawn with a fixed seed"),
    "beir_validation": Read(JUDGED),
    "csv_bz2": Read(PAIRS),
    "distance_run": Read(same(4, 24, 4), "SCORE rises with RANK", grades=(-1, 1)),
    "hf_shards": Read(PAIRS),
    "hf_shards_flat": Read(PAIRS),
    "label_float_csv": Read(same(4, 8, 4)),
    "label_float_tsv": Read(same(4, 8, 4)),
    "label_str_json": Read(same(4, 8, 4)),
    "letor_docno": Read(LETOR, grades=(0, 1, 2), document="DOC-200-0"),
    "letor_floatlabel": Read(LETOR, grades=(0, 1, 2)),
    "letor_istella": Read(LETOR, "8 features beyond the range of float32", grades=(0, 1, 2)),
    "letor_null": Read(LETOR, "8 features NULL", grades=(0, 1, 2), document="200:GX3"),
    "letor_scattered": Read(LETOR, "stand apart", grades=(0, 1, 2)),
    "letor_semi": Read(LETOR, "8 rows of label -1, not judged", grades=(-1, 0, 1, 2)),
    "letor_yahoo": Read(LETOR, grades=(0, 1, 2)),
    "letor_zero_based": Read(LETOR, grades=(0, 1, 2)),
    "msmarco_folder": Read(
        same(6, 72, 6, "train", "dev"), "not read, though named like data: queries.dev.tsv", grades=(-1, 1)
    ),
    "pairs_flagembedding": Read(LISTS),
    "pairs_flagembedding_scores": Read(LISTS, "a teacher's scores from pos_scores and neg_scores", teacher=True),
    "pairs_headerless": Read(PAIRS),
    "pairs_headerless_grade": Read(PAIRS, grades=(0, 4)),
    "pairs_json_ext": Read(PAIRS),
    "pairs_labeled_list": Read(LISTS, "grade from labels"),
    "pairs_mteb_lists": Read(LISTS),
    "pairs_neg_is_pos": Read(same(6, 11, 6), "1 negative that is its row's positive left out"),
    "pairs_query_answer_neg": Read(LISTS),
    "pairs_question_answer": Read(same(6, 72, 6), grades=(-1, 1)),
    "pairs_semicolon": Read(PAIRS),
    "pairs_tevatron": Read(LISTS),
    "run_other_name": Read(same(4, 48, 4), "run.test.trec", grades=(-1, 1)),
    "squad2": Read({"train": (8, 24, 8), "dev": (6, 18, 6)}, "questions without an answer dropped"),
}
REFUSED = {
    "const_run": ("run.train.txt", "equal"),
    "csv_utf16": ("train.csv:1", "UTF-16"),
    "pairs_positive_score": ("train.jsonl:1", "teacher's score"),
}


@pytest.mark.parametrize("name", RIGHT)
def test_an_input_from_the_field_is_read(name: str, field: Path) -> None:
    check(load(field / name), RIGHT[name])


@pytest.mark.parametrize("name", REFUSED)
def test_an_input_from_the_field_is_refused(name: str, field: Path) -> None:
    place, word = REFUSED[name]
    assert all(place.rpartition(".")[0] and word in each for each in problems(field / name)[:1])
    assert problems(field / name)[0].startswith(place)


def test_every_input_from_the_field_has_a_test(field: Path) -> None:
    elsewhere = {"api_none_text", "bert_no_types", "eval"}
    assert {path.name for path in field.iterdir() if path.is_dir()} == {*RIGHT, *REFUSED, *elsewhere}


def test_types_of_a_tokenizer_that_has_none(field: Path) -> None:
    import torch
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    import tune_cl

    folder, query = str(field / "bert_no_types" / "model"), "where does the otter live"
    documents = ["The otter lives along rivers and lakes.", "A kestrel hovers.", "Otters eat fish; they live in holts."]
    inputs = AutoTokenizer.from_pretrained(folder)([query] * 3, documents, padding=True, return_tensors="pt")
    with torch.no_grad():
        logits = AutoModelForSequenceClassification.from_pretrained(folder).eval()(**inputs).logits[:, 0]
    scores = tune_cl.load_ranker(folder).predict([(query, document) for document in documents])
    np.testing.assert_allclose(scores, logits.sigmoid().numpy(), atol=1e-4)


# Inputs of our own, of the same kinds. {file: rows}; rows are objects (JSON lines), or a text.


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
        **{f"qrels__{s}_DOT_tsv": QRELS[f"qrels/{s}.tsv"].replace(f"{s}-", "") for s in ALL}), Read(same(4, 8, 4))),
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
    "an empty query of BEIR": (changed(BEIR, queries_DOT_jsonl=[*QUERIES, {"_id": "x", "text": " "}]),
        Read(same(4, 8, 4), "1 query without text left out")),
    "four rows of one unknown query": (
        TREC | {"qrels.dev.txt": TREC["qrels.dev.txt"] * 5 + "".join(f"nobody 0 d{n} 1\n" for n in range(4))},
        Read(EIGHT, "4 rows of an unknown query left out", grades=(-1, 1))),
    "a run with a document that is not there": (TREC | {"run.dev.txt": TREC["run.dev.txt"] + "dev-1 Q0 gone 4 1 x\n"},
        Read(EIGHT, "1 row with a document outside the collection left out", grades=(-1, 1))),
    "an empty document of a TREC folder": (TREC | {"collection.tsv": TREC["collection.tsv"] + "d99\t\n"},
        Read(EIGHT, "1 document without text", grades=(-1, 1))),
    # names of files
    "val": ({("val" if s == "dev" else s) + ".jsonl": TRIPLES for s in ALL}, Read(FOUR)),
    "qrels/val": ({name.replace("dev.tsv", "val.tsv"): rows for name, rows in BEIR.items()}, Read(same(4, 8, 4))),
    "valid of a TREC folder": ({name.replace(".dev.", ".valid."): rows for name, rows in TREC.items()},
        Read(EIGHT, grades=(-1, 1))),
    "pieces of JSON lines": ({f"{s}-{n:05}-of-00002.jsonl": TRIPLES[2 * n : 2 * n + 2] for s in ALL for n in (0, 1)},
        Read(FOUR)),
    "folders as the hub converts": ({f"{s}/0000.parquet": as_parquet(TRIPLES) for s in ALL}, Read(FOUR)),
    "data/train.csv": ({f"data/{s}-00000-of-00001.csv": CSV for s in ALL}, Read(FOUR)),
    "xz": ({f"{s}.csv.xz": CSV for s in ALL}, Read(FOUR)),
    "zst": ({f"{s}.jsonl.zst": zstd(lines(TRIPLES)) for s in ALL}, Read(FOUR)),
    "BEIR in bz2": ({f"{name}.bz2" if "jsonl" in name else name: rows for name, rows in BEIR.items()},
        Read(same(4, 8, 4))),
    "triples.train.small.tsv": ({f"triples.{s}.small.tsv": ROWS for s in ALL}, Read(FOUR)),
    "two names of one split": (changed(BEIR, qrels__validation_DOT_tsv=QRELS["qrels/dev.tsv"]),
        Read(same(4, 8, 4), "not read, though named like data: qrels/validation.tsv")),
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
}  # fmt: skip


@pytest.mark.parametrize("name", OURS)
def test_an_input_of_ours_is_read(name: str, tmp_path: Path) -> None:
    files, right = OURS[name]
    check(load(write(tmp_path, files)), right)


POSITIVE_AND_LABEL = [{"query": "q", "positive": "a", "negative": "b", "label": 1}]
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
    "UTF-16 lines": (of_splits("jsonl", lines(TRIPLES).decode().encode("utf-16")), "train.jsonl:1", "UTF-16"),
    "a score behind a triple": ({f"triples.{s}.small.tsv": ROWS.replace("\n", "\t3.5\n") for s in ALL},
        "triples.train.small.tsv:1", "column 4 holds numbers"),
    "ids before a triple": ({f"triples.{s}.small.tsv": "7\t" + ROWS.replace("\nq", "\n7\tq") for s in ALL},
        "triples.train.small.tsv:1", "no header"),
    "an array that is cut off": (of_splits("json", json.dumps(TRIPLES, indent=1)[:-20]), "train.json:1", "JSON"),
    "two sets of Yahoo": ({f"set{k}.train.txt": LETOR_ROWS for k in (1, 2)}, "", "set1.train.txt and set2.train.txt"),
    "broken Zstandard": (of_splits("csv.zst", b"no"), "train.csv.zst:1", "Zstandard data is broken"),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_an_input_of_ours_is_refused(name: str, tmp_path: Path) -> None:
    files, place, word = WRONG[name]
    found = problems(write(tmp_path, files))[0]
    assert found.startswith(place) and word in found


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


@pytest.mark.parametrize(
    "texts",
    [
        [("水獭住在哪里", "水獭住在河边", "红隼在田野上空盘旋"), ("狼吃什么", "狼吃鹿和兔子", "水獭住在河边")],
        [
            ("カワウソはどこに住む", "カワウソは川に住む", "タカは空を飛ぶ"),
            ("オオカミは何を食べる", "オオカミは鹿を食べる", "タカは空を飛ぶ"),
        ],
        [("นากอยู่ที่ไหน", "นากอยู่ริมแม่น้ำ", "เหยี่ยวบินบนฟ้า"), ("หมาป่ากินอะไร", "หมาป่ากินกวาง", "เหยี่ยวบินบนฟ้า")],
    ],
)
def test_their_first_stage_finds_what_is_relevant(texts: list[tuple[str, str, str]], tmp_path: Path) -> None:
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


@pytest.mark.parametrize(
    "name", ["an empty positive", "an empty query of BEIR", "a run with a document that is not there"]
)
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

    def values(self, folder: Path, qrels: str, run: str, *metrics: str) -> dict[str, float]:
        (folder / "qrels").write_text(qrels)
        (folder / "run").write_text(run)
        return evaluate(str(folder / "qrels"), [str(folder / "run")], list(metrics or ("map",))).document["runs"][0][
            "metrics"
        ]

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

    @pytest.mark.parametrize("name", ["bpref", "infAP", "IPrec@0.1", "num_ret", "SetP"])
    def test_what_ir_measures_knows(self, name: str, tmp_path: Path) -> None:
        pytest.importorskip("ir_measures")
        assert list(self.values(tmp_path, self.QRELS, self.RUN, name, "map")) == [name, "map"]

    def test_utf_16_is_told_as_such(self, tmp_path: Path) -> None:
        (tmp_path / "qrels").write_text(self.QRELS)
        (tmp_path / "run").write_bytes(self.RUN.encode("utf-16"))
        with pytest.raises(DataError, match="run:1: UTF-16"):
            evaluate(str(tmp_path / "qrels"), [str(tmp_path / "run")], ["map"])


class TestTablesFromPython:
    @staticmethod
    def frame() -> Any:
        pandas = pytest.importorskip("pandas")
        return pandas.DataFrame([row | {"split": s} for s in ("train", "validation", "test") for row in TRIPLES])

    @pytest.mark.parametrize("kind", ["frame", "mapping", "DatasetDict"])
    def test_are_read_as_a_folder_is(self, kind: str, tmp_path: Path) -> None:
        import tune_cl

        frame = self.frame()
        parts = {split: part.drop(columns="split") for split, part in frame.groupby("split")}
        given: Any = {"frame": frame, "mapping": parts}.get(kind)
        if kind == "DatasetDict":
            datasets = pytest.importorskip("datasets")
            given = datasets.DatasetDict(
                {s: datasets.Dataset.from_pandas(p, preserve_index=False) for s, p in parts.items()}
            )
        expected = tune_cl.instances(write(tmp_path, of_splits("jsonl", TRIPLES)), "dev")
        assert tune_cl.instances(given, "dev").equals(expected)

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
