"""The second round of inputs as they come: read with the right values, or refused in a line that says what to do. The
first tables need the folder of such inputs beside the checkout; the others are of the same kinds, made here."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow
import pytest
from pyarrow import parquet

from tests.support.field import (
    ALL,
    BEIR,
    CORPUS,
    CSV,
    QRELS,
    ROWS,
    TREC,
    TRIPLES,
    Files,
    Read,
    all_by_row,
    changed,
    check,
    of_splits,
    same,
    write,
)
from tests.support.loading import load, problems
from tests.support.trec_cases import columns
from trainables.config.keys import TrainingRun
from trainables.core.errors import DataError
from trainables.data.columns import UNJUDGED
from trainables.data.readers import assembly
from trainables.evaluation.metrics import Evaluator
from trainables.evaluation.runs import evaluate


@pytest.fixture(autouse=True)
def no_lucene(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(assembly, "retrieve", all_by_row)


@pytest.fixture
def field(shared: Path) -> Path:
    folder = shared.parent / "field_november"
    if not folder.is_dir():
        pytest.skip(f"inputs from the field not found at {folder}")
    return folder


def sized(query: int, relevant: int = 1, judged: int = 0) -> dict[str, tuple[int, int, int]]:
    """(queries, candidates, relevant) of splits of 40, 12 and 12 queries."""
    return {s: (n, n * query - judged, n * relevant) for s, n in (("train", 40), ("dev", 12), ("test", 12))}


TWO, FOUR = sized(2), sized(4)
WITH_UNJUDGED = (UNJUDGED, 0, 1)
RIGHT: dict[str, Read] = {
    "beir_float_ids": Read(TWO, "a document's id was read as one that it resembles: '1.0' is '1'", document="17"),
    "beir_id_spaces": Read(TWO, document="d1"),
    "beir_surrogate": Read(TWO, "1 document without text left out (corpus.jsonl:11)"),
    "csv_bool": Read(sized(3)),
    "csv_comma_in_header": Read(TWO, "not read: source, year"),
    "csv_cr": Read(TWO),
    "csv_index": Read(TWO, "not read: a column without a name"),
    "csv_sep": Read(TWO),
    "gz_noext": Read(TWO),
    "json_columns": Read(TWO),
    "hf_msmarco": Read(FOUR, "documents and their grades from passages"),
    "jsonl_nan_neg": Read({"train": (40, 100, 40), "dev": (12, 30, 12), "test": (12, 30, 12)}),
    "jsonl_number_text": Read(TWO),
    "letor_nan": Read({"train": (20, 240, 104), "dev": (8, 96, 34), "test": (8, 96, 38)}, "features NULL or nan",
        grades=(0, 1, 2)),
    "msmarco_docs": Read(FOUR, "rows DOCUMENT TAB URL TAB TITLE TAB TEXT", grades=WITH_UNJUDGED),
    "neg_other_row": Read(sized(4, 2, judged=1), "1 negative that another row of the query has as its positive"),
    "neg_other_row_many": Read({"train": (40, 150, 80), "dev": (12, 48, 24), "test": (12, 48, 24)},
        "10 negatives that another row of the query has as its positive left out (train.jsonl:2, "),
    "parquet_types": Read(sized(4, judged=1), "1 row without a text or label left out (train.parquet:8)"),
    "pyserini": Read(TWO),
    "single_dataset": Read({"train": (36, 144, 36), "dev": (4, 16, 4)}, "dev: 4 of the 40 training queries"),
    "st_triplet_scores": Read(FOUR, "a teacher's scores from positive_score and negative_score", teacher=True),
    "trec_collection_title": Read(FOUR, "the title stands before the text", grades=WITH_UNJUDGED),
    "trec_cr": Read(FOUR, grades=WITH_UNJUDGED),
    "trec_xml_topics": Read(FOUR, grades=WITH_UNJUDGED),
    "trec_half_lost": Read(FOUR, "in 28 of 80 rows a document's id was read as one", grades=WITH_UNJUDGED),
    "trec_lost_zeros": Read(FOUR, "but for leading zeros", grades=WITH_UNJUDGED),
    "trec_nfd": Read(FOUR, "but for Unicode normalisation (NFC and NFD)", grades=WITH_UNJUDGED),
    "tsv_long_cut": Read(TWO),
    "tsv_two_columns": Read({"train": (40, 2560, 40), "dev": (12, 768, 12), "test": (12, 768, 12)},
        "relevant document from positive", grades=(UNJUDGED, 1)),
    **{f"tsv_triples_{mark}": Read(TWO) for mark in ("ff", "fs", "ls", "nel")},
}  # fmt: skip
REFUSED = {
    "json_by_id": ("train.json:1", "objects by their ids"),
    "json_data_key": ("train.json:1", "under 'data'"),
    "letor_csv": ("train.csv:1", "features and labels in columns"),
    "lfs_jsonl": ("train.jsonl", "Git LFS pointer"),
    "lfs_parquet": ("train.parquet", "Git LFS pointer"),
    "lfs_trec": ("collection.tsv", "Git LFS pointer"),
    "nested": ("", "no known form"),
    "st_pair_class": ("train.jsonl:1", "premise, hypothesis, label"),
    "st_pair_score": ("train.jsonl:1", "score is a teacher's score"),
    "tsv_header_spaces": ("train.tsv:1", "search query, relevant passage, other passage"),
    "tsv_prob": ("train.tsv:1", "column 3 holds numbers"),
    "tsv_sts": ("train.tsv:1", "column 3 holds numbers"),
    "zip": ("", "no known form"),
}


@pytest.mark.parametrize("name", RIGHT)
def test_an_input_from_the_field_is_read(name: str, field: Path) -> None:
    check(load(field / name), RIGHT[name])


@pytest.mark.parametrize("name", REFUSED)
def test_an_input_from_the_field_is_refused(name: str, field: Path) -> None:
    place, word = REFUSED[name]
    found = problems(field / name)[0]
    assert found.startswith(f"{place}: " if place else str(field / name).lstrip("/")) or not place
    assert word in found


@pytest.mark.parametrize(
    ("name", "right"),
    [
        ("nested", "nested/scifact has the files of: BEIR folder"),
        ("zip", "unpack beir.zip"),
        ("json_by_id", "orient='records'"),
        ("lfs_jsonl", "git lfs pull"),
        ("tsv_sts", "data.columns"),
        ("tsv_header_spaces", "data.columns"),
        ("letor_csv", "LABEL qid:N INDEX:VALUE"),
    ],
)
def test_a_refusal_says_what_to_do(name: str, right: str, field: Path) -> None:
    with pytest.raises(DataError) as refused:
        load(field / name)
    assert right in refused.value.problems[0].right


def test_stars_are_told_of(field: Path) -> None:
    assert any("every judged document is relevant (grades 1, 2, 5, none 0)" in n for n in load(field / "stars").notes)


def test_every_input_from_the_field_has_a_test(field: Path) -> None:
    elsewhere = {"stars", "difficulty", "eval", "models", "own"}
    assert {path.name for path in field.iterdir() if path.is_dir()} == {*RIGHT, *REFUSED, *elsewhere}


# -- inputs of our own, of the same kinds ------------------------------------------------------------------------------

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
MANY_READ = same(40, 80, 40)


def spoiled(*rows: dict[str, Any], start: int = 0) -> Files:
    """Forty rows, the first of which have other values."""
    return of_splits("jsonl", [*({**MANY[n], **row} for n, row in enumerate(rows)), *MANY[len(rows) :]])


def renamed(name: str, spelled: str) -> dict[str, Any]:
    """The BEIR folder whose corpus has a document `name` and whose judgments call it `spelled`."""
    corpus = [row | ({"_id": name} if row["_id"] == "d1" else {}) for row in CORPUS]
    qrels = {f"qrels__{s}_DOT_tsv": QRELS[f"qrels/{s}.tsv"].replace("\td1\t", f"\t{spelled}\t") for s in ALL}
    return changed(BEIR, corpus_DOT_jsonl=corpus, **qrels)


JUDGED = same(4, 8, 4)


def topics(name: str, topic: str, head: str = "", foot: str = "") -> dict[str, Any]:
    """The TREC folder with topics in place of its queries; `topic` with {} for id and text."""
    files = {file: text for file, text in TREC.items() if not file.startswith("queries")}
    for split in ALL:
        each = "".join(topic.format(f"{split}-{n}", f"query {word} &amp; more") for n, word in ((1, "one"), (2, "two")))
        files[name.format(split)] = head + each + foot
    return files


CR = {name: text.replace("\n", "\r") for name, text in TREC.items()}
COLUMNS = {name: [row[name] for row in TRIPLES] for name in TRIPLES[0]}
BY_NUMBER = {name: {str(n): value for n, value in enumerate(values)} for name, values in COLUMNS.items()}
TWO_EACH = same(2, 6, 2)
OLD_TOPIC = "<top>\n<num> Number: {}\n<title> Topic: {}\n\n<desc> Description:\nWhat is meant.\n\n</top>\n"
OURS: dict[str, tuple[Files, Read]] = {
    # what a column holds
    "graded rows without a header": (of_splits("tsv", bare("0,1,2")), Read(same(24, 576, 16),
        grades=(UNJUDGED, 0, 1, 2))),
    "one word is not few": (of_splits("jsonl", [row | {"negative": "n"} for row in TRIPLES]), Read(same(4, 8, 4))),
    "the row number of R": (of_splits("csv", '"",' + CSV.replace("\nq", "\n1,q")), Read(same(4, 8, 4))),
    "bars": (of_splits("csv", CSV.replace(",", "|")), Read(same(4, 8, 4))),
    "booleans in capitals": (of_splits("csv", "query,document,label\nq,a,TRUE\nq,b,FALSE\n"), Read(same(1, 2, 1))),
    "objects with grades": (of_splits("jsonl",
        [{"query": "q", "docs": [{"text": "a", "label": 1}, {"text": "b", "label": 0}]}]), Read(same(1, 2, 1))),
    # classes
    "relevant comes first": (classes(["relevant", "not_relevant"], (0, 1)), Read(same(4, 8, 4))),
    "relevant comes last": (classes(["irrelevant", "relevant"], (1, 0)), Read(same(4, 8, 4))),
    "classes that are numbers": (classes(["2", "0", "1"]), Read(same(4, 8, 4), grades=(0, 2))),
    "three classes that rise": (classes(["not relevant", "related", "relevant"], (2, 0)),
        Read(same(4, 8, 4), grades=(0, 2))),
    # ids
    "a lost zero": (renamed("007", "7"), Read(JUDGED, "leading zeros")),
    "NFD in the corpus": (renamed("cafe\u0301", "caf\u00e9"), Read(JUDGED, "Unicode")),
    "ids of two kinds of numbers": (renamed("12", "12.0"), Read(JUDGED, "the .0 of a number")),
    "an id that is both": (changed(BEIR, corpus_DOT_jsonl=[*CORPUS, {"_id": "5", "text": "x"}, {"_id": "05",
        "text": "y"}]), Read(JUDGED)),
    "a query that lost its zeros": (changed(BEIR, queries_DOT_jsonl=[*BEIR["queries.jsonl"], {"_id": "001",
        "text": "x"}], qrels__dev_DOT_tsv=QRELS["qrels/dev.tsv"].replace("dev-0\t", "1\t")),
        Read(JUDGED, "a query's id")),
    # bad rows
    "a missing text": (spoiled({"positive": None}), Read(same(39, 78, 39), "1 row without a text or label")),
    "half a surrogate": (spoiled({"positive": "x \ud83d"}), Read(same(39, 78, 39), "(train.jsonl:1)")),
    "its own negative, three times": (spoiled(*[{"negative": f"p {n}"} for n in range(3)]),
        Read(same(40, 77, 40), "3 negatives that is its row's positive left out")),
    "NaN": (of_splits("jsonl", '{"query": "q", "positive": "p", "negative_1": "n", "negative_2": NaN}\n'),
        Read(same(1, 2, 1))),
    # the file
    "gzip without its ending": (of_splits("jsonl", gzip.compress(
        "".join(json.dumps(row) + "\n" for row in TRIPLES).encode())), Read(same(4, 8, 4))),
    "CR alone": (CR, Read(TWO_EACH, grades=(UNJUDGED, 1))),
    "CR alone in JSON lines": (of_splits("jsonl", "\r".join(map(json.dumps, TRIPLES)) + "\r"), Read(same(4, 8, 4))),
    "CR alone, compressed": (of_splits("csv.gz", CSV.replace("\n", "\r")),
        Read(same(4, 8, 4))),
    "columns as lists": (of_splits("json", json.dumps(COLUMNS)), Read(same(4, 8, 4))),
    "columns by row number": (of_splits("json", json.dumps(BY_NUMBER, indent=1)), Read(same(4, 8, 4))),
    "an array of rows": (of_splits("json", json.dumps(TRIPLES)), Read(same(4, 8, 4))),
    "topics with an attribute": (topics("topics.{}.xml", '<topic number="{}" type="faceted">\n<query>{}</query>\n'
        "<description>What is meant.</description></topic>\n", '<?xml version="1.0"?>\n<webtrack2009>\n',
        "</webtrack2009>\n"), Read(TWO_EACH, grades=(UNJUDGED, 1))),
    "topics of text alone": (topics("topics.{}.xml", '<topic number="{}">\n{}\n</topic>', "<topics>", "</topics>"),
        Read(TWO_EACH, grades=(UNJUDGED, 1))),
    "topics of old": (topics("topics.{}.txt", OLD_TOPIC), Read(TWO_EACH, grades=(UNJUDGED, 1))),
    "topics that are not closed": (topics("topics.{}.txt", OLD_TOPIC.replace("</top>\n", "")), Read(TWO_EACH,
        grades=(UNJUDGED, 1))),
    "topics by another name": (topics("queries.{}.tsv", "<topic><number>{}</number><title>{}</title></topic>"),
        Read(TWO_EACH, grades=(UNJUDGED, 1))),
    "one file": ({"data.csv": CSV}, Read({"train": (3, 6, 3), "dev": (1, 2, 1)})),
}  # fmt: skip


def lines(rows: Any) -> Any:
    """JSON lines as Python writes them: ASCII."""
    return "".join(json.dumps(row) + "\n" for row in rows) if isinstance(rows, list) else rows


@pytest.mark.parametrize("name", OURS)
def test_an_input_of_ours_is_read(name: str, tmp_path: Path) -> None:
    files, right = OURS[name]
    check(load(write(tmp_path, {file: lines(rows) for file, rows in files.items()})), right)


FREE = "".join(f"{a}\t{b}\t{c}\n" for a, b, c in [("erste frage", "gute antwort", "andere antwort")])
WRONG: dict[str, tuple[Files, str, str]] = {
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
    "classes without grades": (classes(["entailment", "neutral", "contradiction"]), "train.parquet:1", "not grades"),
    "judged documents that are not there": (changed(BEIR, corpus_DOT_jsonl=[row | {"_id": f"x{row['_id']}"}
        for row in CORPUS]), "qrels/train.tsv:2", "document 'd0' is not in the collection"),
    "topics without numbers": (topics("topics.{}.xml", "<topic><query>{} {}</query></topic>"), "topics.train.xml:1",
        "a topic without a number"),
    "a page in place of topics": (topics("topics.{}.xml", "<html><p>{} {}</p></html>"), "topics.train.xml:1",
        "XML or HTML without topics"),
    "many bad rows": (spoiled(*[{"positive": ""}] * 9), "train.jsonl:1", "empty 'positive'"),
    "tables behind a zip": ({"train.jsonl": b"PK\x03\x04 and more"}, "train.jsonl", "a zip file"),
    "a run of a folder that is not there": (TREC | {f"run.{s}.txt": f"{s}-1 Q0 gone 1 1 x\n" * 1 for s in ALL},
        "run.train.txt:1", "not in the collection"),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_an_input_of_ours_is_refused(name: str, tmp_path: Path) -> None:
    files, place, word = WRONG[name]
    found = problems(write(tmp_path, files))[0]
    assert found.startswith(f"{place}: ") and word in found


def test_named_columns_are_read_whatever_they_hold(tmp_path: Path) -> None:
    rows = [{"query": f"q {n}", "positive": ("yes", "no")[n % 2], "negative": "no yes"} for n in range(30)]
    names = {"query": "query", "positive": "positive", "negative": "negative"}
    check(load(write(tmp_path, of_splits("jsonl", rows)), columns=names), Read(same(30, 60, 30)))


def test_a_file_is_data_too(tmp_path: Path) -> None:
    path = write(tmp_path, {"some.csv": "query,positive,negative\n" + ROWS.replace("\t", ",") * 1}) / "some.csv"
    data = load(path, split=[0.5, 0.25, 0.25])
    assert {name: len(split) for name, split in data.splits.items()} == {"train": 2, "dev": 1, "test": 1}


def test_strict_refuses_ids_that_are_spelled_otherwise(tmp_path: Path) -> None:
    assert "leading zeros" in problems(write(tmp_path, renamed("007", "7")), strict=True)[0]


class TestAQueryThatIsADocument:
    """FAQ data name a question and its answer alike, and judge the answer relevant."""

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


class TestEvaluate:
    RUNS: ClassVar = {
        "three_int.run": 0.8333,
        "three_rank.run": 1.0,
        "run.json": 0.7361,
        "gzhidden.run": 0.7361,
        "a.run": 0.7361,
    }

    @pytest.mark.parametrize("run", RUNS)
    @pytest.mark.parametrize("qrels", ["qrels", "qrels.json"])
    def test_runs_from_the_field(self, run: str, qrels: str, field: Path) -> None:
        found = evaluate(str(field / "eval" / qrels), [str(field / "eval" / run)], ["map"]).document["runs"][0][
            "metrics"
        ]
        assert found["map"] == pytest.approx(self.RUNS[run], abs=1e-4)

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
        (tmp_path / "qrels").write_text("q 0 a 1\n")
        (tmp_path / "run").write_text(rows)
        assert evaluate(str(tmp_path / "qrels"), [str(tmp_path / "run")], ["map"]).runs[0].metrics["map"] == value

    @pytest.mark.parametrize(
        ("text", "told"),
        [('{"q": {"a": "x"}}', "score 'x'"), ('{"q": ["a"]}', "JSON of another form"), ('{"q": ', "not JSON")],
    )
    def test_json_of_another_form_is_refused(self, text: str, told: str, tmp_path: Path) -> None:
        (tmp_path / "qrels").write_text("q 0 a 1\n")
        (tmp_path / "run.json").write_text(text)
        with pytest.raises(DataError, match=rf"run.json:1: {told}"):
            evaluate(str(tmp_path / "qrels"), [str(tmp_path / "run.json")], ["map"])


class TestMeasures:
    """Any measure of trec_eval or ir_measures, where metrics are named."""

    MEASURES = ("ndcg@5", "mrr@100", "recall@100", "bpref", "infAP", "Judged@2", "judged@2", "set_F")

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
        theirs = evaluate(str(tmp_path / "qrels.json"), [str(tmp_path / "run.json")], [name]).document["runs"][0][
            "metrics"
        ]
        assert evaluator(scores)[name].mean() == pytest.approx(theirs[name], abs=1e-6)
        assert TrainingRun.model_validate({"metric": name}).metric == name

    @pytest.mark.parametrize("name", ["num_ret", "gm_map", "ndgc@5", "p@0", "ndcg@x"])
    def test_a_training_takes_no_other(self, name: str) -> None:
        with pytest.raises(ValueError, match=f"'{name}'"):
            TrainingRun.model_validate({"metric": name})
