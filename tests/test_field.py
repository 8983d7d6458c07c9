"""Data as it comes: what people publish and export is read with the right values, or refused in a line that says what
to do. Folders of such inputs beside the checkout, and smaller ones that are made here."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pyarrow
import pytest
from pyarrow import parquet

import tune_cl
from tests.support.loading import load, problems
from trainables.core.errors import DataError
from trainables.data import assembly
from trainables.data.columns import UNJUDGED, RankingData, Rated, TextColumn
from trainables.data.words import for_lucene, words
from trainables.evaluation.trec_files import read_qrels
from tune_cl.api.evaluate import evaluate

Files = Mapping[str, Any]
ALL = ("train", "dev", "test")


@dataclass(frozen=True)
class Read:
    """What is right: (queries, candidates, relevant candidates) of each split; words of a note; the grades; ids."""

    counts: Mapping[str, tuple[int, int, int]]
    note: str = ""
    grades: tuple[int, ...] = (0, 1)
    document: str = ""
    teacher: bool = False


def same(queries: int, candidates: int, relevant: int, *splits: str) -> dict[str, tuple[int, int, int]]:
    return dict.fromkeys(splits or ALL, (queries, candidates, relevant))


def check(data: RankingData, right: Read) -> None:
    counts = {
        name: (len(split), len(split.document), int((split.grade > 0).sum())) for name, split in data.splits.items()
    }
    assert counts == dict(right.counts)
    assert {grade for split in data.splits.values() for grade in split.grade.tolist()} == set(right.grades)
    assert right.note in "\n".join(data.notes)
    if right.document:
        assert right.document in list(data.document_ids)
    assert any(split.teacher is not None for split in data.splits.values()) == right.teacher


def lines(rows: Any) -> bytes:
    if isinstance(rows, bytes):
        return rows
    text = rows if isinstance(rows, str) else "".join(json.dumps(row) + "\n" for row in rows)
    return text.encode()


def write(folder: Path, files: Files) -> Path:
    pack: dict[str, Callable[[bytes], bytes]] = {".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress}
    for name, rows in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(pack.get(path.suffix, bytes)(lines(rows)))
    return folder


def as_parquet(rows: list[dict[str, Any]], metadata: dict[str, str] | None = None) -> bytes:
    sink = io.BytesIO()
    parquet.write_table(pyarrow.Table.from_pylist(rows).replace_schema_metadata(metadata), sink)
    return sink.getvalue()


def of_splits(ending: str, rows: Any, *splits: str) -> dict[str, Any]:
    return {f"{split}.{ending}": rows for split in splits or ALL}


TRIPLES = [{"query": f"q {n}", "positive": f"p {n}", "negative": f"n {n}"} for n in range(4)]
LABELLED = [
    {"anchor": f"q {n}", "positive": text, "label": label}
    for n in range(4)
    for text, label in (("a", 1), (f"b {n}", 0))
]
ROWS = "".join(f"{row['query']}\t{row['positive']}\t{row['negative']}\n" for row in TRIPLES)
CSV = "query,positive,negative\n" + ROWS.replace("\t", ",")
CORPUS = [{"_id": f"d{n}", "text": f"document {n}"} for n in range(400)]
QUERIES = [{"_id": f"{split}-{n}", "text": f"query {n}"} for split in ALL for n in range(4)]
QRELS = {
    f"qrels/{split}.tsv": "query-id\tcorpus-id\tscore\n"
    + "".join(f"{split}-{n}\td{n + k}\t{int(not k)}\n" for n in range(4) for k in (0, 1))
    for split in ALL
}
BEIR = {"corpus.jsonl": CORPUS, "queries.jsonl": QUERIES, **QRELS}
TREC = {"collection.tsv": "".join(f"d{n}\tdocument {n}\n" for n in range(9))} | {
    name: text
    for split in ALL
    for name, text in (
        (f"queries.{split}.tsv", f"{split}-1\tquery one\n{split}-2\tquery two\n"),
        (f"qrels.{split}.txt", f"{split}-1 0 d1 1\n{split}-2 0 d2 1\n"),
        (f"run.{split}.txt", "".join(f"{split}-{q} Q0 d{n} {n} {9 - n} x\n" for q in (1, 2) for n in (1, 2, 3))),
    )
}


def changed(files: Files, **other: Any) -> dict[str, Any]:
    return {**files, **{name.replace("__", "/").replace("_DOT_", "."): rows for name, rows in other.items()}}


def all_by_row(
    documents: TextColumn, queries: Mapping[str, list[str]], k1: float, b: float, top_k: int, cut: str
) -> dict[str, Rated]:
    """In place of BM25, which would start Java: each query's candidates are all documents, by row."""
    ranked = np.arange(min(top_k, len(documents)))
    return {
        split: Rated(
            np.repeat(np.arange(len(rows)), len(ranked)), np.tile(ranked, len(rows)), -np.tile(ranked, len(rows)) * 1.0
        )
        for split, rows in queries.items()
    }


@pytest.fixture(autouse=True)
def no_lucene(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(assembly, "retrieve", all_by_row)


@pytest.fixture
def field(shared: Path) -> Path:
    if not (shared.parent / "field_november").is_dir():
        pytest.skip(f"inputs from the field not found in {shared.parent}")
    return shared.parent


def sized(query: int, relevant: int = 1, judged: int = 0) -> dict[str, tuple[int, int, int]]:
    """(queries, candidates, relevant) of splits of 40, 12 and 12 queries."""
    return {s: (n, n * query - judged, n * relevant) for s, n in (("train", 40), ("dev", 12), ("test", 12))}


JUDGED, PAIRS, LISTS, LETOR = same(4, 12, 4), same(6, 12, 6), same(6, 18, 6), same(8, 40, 16)
TWOS, FOURS = sized(2), sized(4)
THREES = {"train": (24, 72, 24), "dev": (8, 24, 8), "test": (8, 24, 8)}
GRADED = {"train": (30, 240, 218), "dev": (10, 80, 68), "test": (10, 80, 74)}
WITH_UNJUDGED = (UNJUDGED, 0, 1)
RIGHT: dict[str, dict[str, Read]] = {
    "field": {
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
        "pairs_neg_is_pos": Read(same(6, 11, 6), "1 negative equal to a positive of the query left out"),
        "pairs_query_answer_neg": Read(LISTS),
        "pairs_question_answer": Read(same(6, 72, 6), grades=(-1, 1)),
        "pairs_semicolon": Read(PAIRS),
        "pairs_tevatron": Read(LISTS),
        "run_other_name": Read(same(4, 48, 4), "run.test.trec", grades=(-1, 1)),
        "squad2": Read({"train": (8, 24, 8), "dev": (6, 18, 6)}, "questions without an answer dropped"),
    },
    "field_november": {
        "beir_id_spaces": Read(TWOS, document="d1"),
        "beir_surrogate": Read(TWOS, "1 document without text left out (corpus.jsonl:11)"),
        "csv_bool": Read(sized(3)),
        "csv_comma_in_header": Read(TWOS, "not read: source, year"),
        "csv_cr": Read(TWOS),
        "csv_index": Read(TWOS, "not read: a column without a name"),
        "csv_sep": Read(TWOS),
        "gz_noext": Read(TWOS),
        "hf_msmarco": Read(FOURS, "documents and their grades from passages"),
        "jsonl_nan_neg": Read({"train": (40, 100, 40), "dev": (12, 30, 12), "test": (12, 30, 12)}),
        "jsonl_number_text": Read(TWOS),
        "letor_nan": Read({"train": (20, 240, 104), "dev": (8, 96, 34), "test": (8, 96, 38)}, "features NULL or nan",
            grades=(0, 1, 2)),
        "msmarco_docs": Read(FOURS, "rows DOCUMENT TAB URL TAB TITLE TAB TEXT", grades=WITH_UNJUDGED),
        "neg_other_row": Read(sized(4, 2, judged=1), "1 negative equal to a positive of the query"),
        "neg_other_row_many": Read({"train": (40, 150, 80), "dev": (12, 48, 24), "test": (12, 48, 24)},
            "10 negatives equal to a positive of the query left out (train.jsonl:2, "),
        "parquet_types": Read(sized(4, judged=1), "1 row without a text or label left out (train.parquet:8)"),
        "pyserini": Read(TWOS),
        "single_dataset": Read({"train": (36, 144, 36), "dev": (4, 16, 4)}, "dev: 4 of the 40 training queries"),
        "st_triplet_scores": Read(FOURS, "a teacher's scores from positive_score and negative_score", teacher=True),
        "trec_collection_title": Read(FOURS, "the title stands before the text", grades=WITH_UNJUDGED),
        "trec_cr": Read(FOURS, grades=WITH_UNJUDGED),
        "trec_xml_topics": Read(FOURS, grades=WITH_UNJUDGED),
        "trec_nfd": Read(FOURS, grades=WITH_UNJUDGED),
        "tsv_long_cut": Read(TWOS),
        "tsv_two_columns": Read({"train": (40, 2560, 40), "dev": (12, 768, 12), "test": (12, 768, 12)},
            "relevant document from positive", grades=(UNJUDGED, 1)),
        **{f"tsv_triples_{mark}": Read(TWOS) for mark in ("ff", "fs", "ls", "nel")},
    },
    "round3": {
        **dict.fromkeys(("topics_markup", "topics_clef", "topics_colon", "beir_head_trec", "beir_head_underscore",
            "csv_upper", "ms_v2"), Read(THREES)),
        "jsonl_arrays": Read({"train": (24, 48, 24), "dev": (8, 16, 8), "test": (8, 16, 8)}),
        "letor_one": Read(GRADED, grades=(0, 1, 2, 3, 4)),
        "letor_one_nolast": Read(GRADED, grades=(0, 1, 2, 3, 4)),
    },
}  # fmt: skip
REFUSED = {
    "field": {
        "const_run": ("run.train.txt", "equal"),
        "pairs_positive_score": ("train.jsonl:1", "teacher's score"),
    },
    "field_november": {
        "json_by_id": ("train.json:1", "orient='records'"),
        "beir_float_ids": (
            "qrels/train.tsv:2",
            "unknown query '1.0' (80 rows: lines 2, 3, 4, ...); a query of the split, such as '1'",
        ),
        "letor_csv": ("train.csv:1", "LABEL qid:N INDEX:VALUE"),
        "nested": ("", "nested/scifact has the files of: BEIR folder"),
        "trec_lost_zeros": ("qrels.train.txt:1", "such as '0000000'"),
        "st_pair_class": ("train.jsonl:1", "premise, hypothesis, label"),
        "st_pair_score": ("train.jsonl:1", "score is a teacher's score"),
        "tsv_header_spaces": ("train.tsv:1", "data.columns"),
        "tsv_prob": ("train.tsv:1", "column 3 holds numbers"),
        "tsv_sts": ("train.tsv:1", "data.columns"),
        "zip": ("", "unpack beir.zip"),
    },
    "round3": {
        "beir_dup_keys": ("corpus.jsonl:75", "key 'text' twice (8 rows: lines 75, 78, 81, ...)"),
        "esci_letters": ("train.csv:1", "esci_label"),
        "letor_group": ("train.txt:1", "no qid"),
    },
}


def inputs(table: Mapping[str, Mapping[str, object]]) -> list[tuple[str, str]]:
    return [(folder, name) for folder, rows in table.items() for name in rows]


@pytest.mark.parametrize(("folder", "name"), inputs(RIGHT))
def test_an_input_from_the_field_is_read(folder: str, name: str, field: Path) -> None:
    check(load(field / folder / name), RIGHT[folder][name])


def is_refused(folder: Path, place: str, word: str) -> None:
    with pytest.raises(DataError) as refused:
        load(folder)
    first = refused.value.problems[0]
    assert str(first.location) == str(folder / place) and word in f"{first.wrong}; {first.right}"


@pytest.mark.parametrize(("folder", "name"), inputs(REFUSED))
def test_an_input_from_the_field_is_refused(folder: str, name: str, field: Path) -> None:
    is_refused(field / folder / name, *REFUSED[folder][name])


def test_markup_is_taken_off_a_topic(field: Path) -> None:
    data = load(field / "round3" / "topics_markup")
    assert data.query_text(0) == "how to paint a kestrel with H2O and number 0"


def test_letters_are_grades_where_the_column_is_named(field: Path) -> None:
    columns = {"query": "query", "document": "product_title", "label": "esci_label"}
    data = load(field / "round3" / "esci_letters", columns=columns)
    assert sorted(set(data.splits["train"].grade.tolist())) == [0, 2, 3]


def test_stars_are_told_of(field: Path) -> None:
    notes = load(field / "field_november" / "stars").notes
    assert any("every judged document is relevant (grades 1, 2, 5, none 0)" in note for note in notes)


@pytest.mark.parametrize("name", ["qrels.jsonl", "qrels.csv", "qrels.tsv", "qrels.beir.csv"])
def test_judgments_of_other_forms_are_read(name: str, field: Path) -> None:
    folder = field / "round3" / "eval"
    assert read_qrels(folder / name) == {"q1": {"d1": 2}, "q2": {"d4": 1}}


def test_judgments_with_a_key_twice_or_an_id_with_a_space_are_refused(field: Path) -> None:
    folder = field / "round3" / "eval"
    for name, word in (("dup.qrels.json", "key 'q1' twice"), ("qrels.beir.space", "'doc one' is empty or holds")):
        with pytest.raises(DataError, match=word):
            read_qrels(folder / name)


RUNS = {"three_int.run": 0.8333, "three_rank.run": 1.0, "run.json": 0.7361, "gzhidden.run": 0.7361, "a.run": 0.7361}


@pytest.mark.parametrize("run", RUNS)
@pytest.mark.parametrize("qrels", ["qrels", "qrels.json"])
def test_a_run_from_the_field_has_its_value(run: str, qrels: str, field: Path) -> None:
    folder = field / "field_november" / "eval"
    assert evaluate(folder / qrels, folder / run, ["map"]).runs[0].metrics["map"] == pytest.approx(RUNS[run], abs=1e-4)


# -- made here ------------------------------------------------------------------------------------------------------

FOUR, EIGHT = same(4, 8, 4), same(2, 6, 2)
LETOR_ROWS = "".join(f"{grade} qid:{q} 1:{grade + 1} 2:0.5\n" for q in range(4) for grade in (2, 0))


TEXTS = [f"how to mend a kettle or a bridge of tin, number {n}" for n in range(30)]


def bare(third: str) -> str:
    """Rows without a header; `third`: what the third column holds in turn, separated by commas."""
    values = third.split(",")
    return "".join(f"{TEXTS[n]}\t{TEXTS[n + 1]}\t{values[n % len(values)]}\n" for n in range(24))


def classes(names: list[str], labels: tuple[int, int] = (0, 1)) -> dict[str, Any]:
    """A Parquet file with a column of classes, as the datasets library writes it: of each query's two documents the
    first has the first label."""
    rows = [{"query": f"q {n}", "document": f"d {n} {k}", "label": labels[k]} for n in range(4) for k in (0, 1)]
    feature = {"features": {"label": {"names": names, "_type": "ClassLabel"}}}
    return of_splits("parquet", as_parquet(rows, {"huggingface": json.dumps({"info": feature})}))


def topics(name: str, topic: str, head: str = "", foot: str = "") -> dict[str, Any]:
    """The TREC folder with topics in place of its queries; `topic` with {} for id and text."""
    files = {file: text for file, text in TREC.items() if not file.startswith("queries")}
    for split in ALL:
        each = "".join(topic.format(f"{split}-{n}", f"query {word} &amp; more") for n, word in ((1, "one"), (2, "two")))
        files[name.format(split)] = head + each + foot
    return files


OLD_TOPIC = "<top>\n<num> Number: {}\n<title> Topic: {}\n\n<desc> Description:\nWhat is meant.\n\n</top>\n"
OURS: dict[str, tuple[Files, Read]] = {
    # a column that changes what a row means
    "label beside positive": (of_splits("jsonl", LABELLED), Read(FOUR, "grade from label")),
    # the schema is that of all rows
    "negatives begin late": (of_splits("jsonl", [{"query": "q", "positive": "p"}, *TRIPLES]),
        Read(same(5, 45, 5), grades=(-1, 0, 1))),
    # whole numbers in other spellings, ids that are numbers
    "qrels of a TREC folder with 1.0": (TREC | {f"qrels.{s}.txt": f"{s}-1 0 d1 1.0\n{s}-2 0 d2 1.0\n" for s in ALL},
        Read(EIGHT, grades=(-1, 1))),
    # lists and other names
    "passages with titles": (of_splits("jsonl",
        [{"query": "q", "positive_passages": [{"docid": "1", "title": "T", "text": "a"}],
        "negative_passages": [{"docid": "2", "title": "", "text": "b"}]}]), Read(same(1, 2, 1))),
    # one bad row
    "four rows of one unknown query": (
        TREC | {"qrels.dev.txt": TREC["qrels.dev.txt"] * 10 + "".join(f"nobody 0 d{n} 1\n" for n in range(4))},
        Read(EIGHT, "4 rows of an unknown query left out", grades=(-1, 1))),
    "a run with a document that is not there": (TREC | {"run.dev.txt": TREC["run.dev.txt"] + "dev-1 Q0 gone 4 1 x\n"},
        Read(EIGHT, "1 row with a document outside the collection left out", grades=(-1, 1))),
    # names of files
    "xz": ({f"{s}.csv.xz": CSV for s in ALL}, Read(FOUR)),
    "zst": ({f"{s}.jsonl.zst": pyarrow.Codec("zstd").compress(lines(TRIPLES), asbytes=True) for s in ALL}, Read(FOUR)),
    # without a dev split
    "pairs without dev": (of_splits("jsonl", TRIPLES, "train", "test"),
        Read({"train": (3, 6, 3), "dev": (1, 2, 1), "test": (4, 8, 4)}, "drawn with a fixed seed")),
    # LETOR
    "a feature 0 in one row alone": (
        {f"{s}.txt": LETOR_ROWS + "1 qid:9 0:3\n1 qid:9 2:1\n" for s in ("train", "vali", "test")},
        Read(same(5, 10, 6), grades=(0, 1, 2))),
    # what a column holds
    "objects with grades": (of_splits("jsonl",
        [{"query": "q", "docs": [{"text": "a", "label": 1}, {"text": "b", "label": 0}]}]), Read(same(1, 2, 1))),
    # classes
    "relevant comes last": (classes(["irrelevant", "relevant"], (1, 0)), Read(FOUR)),
    "classes that are numbers": (classes(["2", "0", "1"]), Read(FOUR, grades=(0, 2))),
    # bad rows
    "half a surrogate": (of_splits("jsonl", [TRIPLES[0] | {"positive": "x \ud83d"}, *TRIPLES]),
        Read(FOUR, "(train.jsonl:1)")),
    # the file
    "CR alone in JSON lines": (of_splits("jsonl", "\r".join(map(json.dumps, TRIPLES)) + "\r"), Read(FOUR)),
    "topics with an attribute": (topics("topics.{}.xml", '<topic number="{}" type="faceted">\n<query>{}</query>\n'
        "<description>What is meant.</description></topic>\n", '<?xml version="1.0"?>\n<webtrack2009>\n',
        "</webtrack2009>\n"), Read(EIGHT, grades=(UNJUDGED, 1))),
    "topics of old": (topics("topics.{}.txt", OLD_TOPIC), Read(EIGHT, grades=(UNJUDGED, 1))),
    "one file": ({"data.csv": CSV}, Read({"train": (3, 6, 3), "dev": (1, 2, 1)})),
}  # fmt: skip


@pytest.mark.parametrize("name", OURS)
def test_an_input_of_ours_is_read(name: str, tmp_path: Path) -> None:
    files, right = OURS[name]
    check(load(write(tmp_path, files)), right)


POSITIVE_AND_LABEL = [{"query": "q", "positive": "a", "negative": "b", "label": 1}]
WRONG: dict[str, tuple[Files, str, str]] = {
    "two readings": (of_splits("jsonl", POSITIVE_AND_LABEL), "train.jsonl:1", "could be read as"),
    "many empty documents": (changed(BEIR,
        corpus_DOT_jsonl=[row | ({"text": ""} if n % 4 == 3 else {}) for n, row in enumerate(CORPUS)]),
        "corpus.jsonl:4", "empty text"),
    "more than a few unknown queries": (
        TREC | {"qrels.dev.txt": TREC["qrels.dev.txt"] * 5 + "".join(f"n{n} 0 d1 1\n" for n in range(4))},
        "qrels.dev.txt:11", "unknown query"),
    "an array that is cut off": (of_splits("json", json.dumps(TRIPLES, indent=1)[:-20]), "train.json:20", "not JSON"),
    "words": (of_splits("tsv", bare("relevant,irrelevant")), "train.tsv:1", "column 3 holds few values"),
    "ids in place of texts": (of_splits("tsv", "".join(f"q{n}\td{n}\n" for n in range(9))), "train.tsv:1",
        "no form of pairs has the columns q0, d0"),
    "classes without grades": (classes(["entailment", "neutral", "contradiction"]), "train.parquet:1",
        "are not grades"),
    "judged documents that are not there": (changed(BEIR, corpus_DOT_jsonl=[row | {"_id": f"x{row['_id']}"}
        for row in CORPUS]), "qrels/train.tsv:2", "is not in the collection"),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_an_input_of_ours_is_refused(name: str, tmp_path: Path) -> None:
    files, place, word = WRONG[name]
    is_refused(write(tmp_path, files), place, word)


@pytest.mark.parametrize(
    ("document", "text", "grade", "kept"),
    [
        ("test-pro-02a", "another text", 0, False),
        ("test-pro-02a", "another text", 1, True),
        ("318", "Query 0 ?", 0, False),
        ("318", "something else", 0, True),
    ],
)
def test_a_query_that_is_a_document_is_its_candidate_only_where_it_is_relevant(
    document: str, text: str, grade: int, kept: bool, tmp_path: Path
) -> None:
    """The id is one of words, or the texts are equal too."""
    rows = [row | ({"_id": document} if row["_id"] == "dev-0" else {}) for row in QUERIES]
    corpus = [*CORPUS, {"_id": document, "title": "", "text": text}]
    qrels = QRELS["qrels/dev.tsv"].replace("dev-0\t", f"{document}\t") + f"{document}\t{document}\t{grade}\n"
    files = {**BEIR, "queries.jsonl": rows, "corpus.jsonl": corpus, "qrels/dev.tsv": qrels}
    data, all_of_it = load(write(tmp_path, files)), load(tmp_path, identical_ids="keep")
    row = list(data.document_ids).index(document)
    assert (row in data.splits["dev"].document) == kept and row in all_of_it.splits["dev"].document
    assert (data.own is None) == kept and (kept or row in np.asarray(data.own))
    assert any("identical_ids" in note for note in data.notes) != kept and (kept or data.digest != all_of_it.digest)


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
    assert plain.words == "spaces"


def test_columns_have_any_name(tmp_path: Path) -> None:
    """And named columns are read whatever they hold."""
    rows = [{"frage": "q", "gut": ("yes", "no")[n % 2], "schlecht_1": "no yes", "positive": "x"} for n in range(30)]
    names = {"query": "frage", "positive": "gut", "negative": "schlecht"}
    check(load(write(tmp_path, of_splits("jsonl", rows)), columns=names), Read(dict.fromkeys(ALL, (1, 3, 2))))
    with pytest.raises(DataError, match=r"no column 'guut' \(data.columns\)"):
        load(tmp_path, columns={"query": "frage", "positive": "guut"})


def test_splits_are_drawn_by_query(tmp_path: Path) -> None:
    rows = [{"query": f"q {n}", "positive": f"p {n}", "negative": "n"} for n in range(20)]
    data = load(write(tmp_path, of_splits("jsonl", rows, "train")), split=[0.8, 0.1, 0.1])
    assert {name: len(split) for name, split in data.splits.items()} == {"train": 16, "dev": 2, "test": 2}
    again = load(tmp_path, split=[0.8, 0.1, 0.1])
    assert again.digest == data.digest and (again.splits["dev"].query == data.splits["dev"].query).all()
    assert list(load(tmp_path, split=[0, 0, 1]).splits) == ["test"]


@pytest.mark.parametrize("name", ["half a surrogate", "a run with a document that is not there"])
def test_strict_refuses_what_is_left_out(name: str, tmp_path: Path) -> None:
    assert problems(write(tmp_path, OURS[name][0]), strict=True)


class TestTablesFromPython:
    @staticmethod
    def frame() -> pandas.DataFrame:
        return pandas.DataFrame([row | {"split": s} for s in ("train", "validation", "test") for row in TRIPLES])

    def test_are_read_as_a_folder_is(self, tmp_path: Path) -> None:
        expected = tune_cl.instances(write(tmp_path, of_splits("jsonl", TRIPLES)), "dev")
        assert tune_cl.instances(self.frame(), "dev").equals(expected)

    def test_a_value_that_is_none_is_refused(self) -> None:
        for wrong in (3, self.frame().assign(split="holdout"), {"train": [1]}):
            with pytest.raises(DataError, match="error: data: "):
                tune_cl.instances(wrong)
