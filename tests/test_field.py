"""Data as it comes, from the folders of such inputs beside the checkout: what people publish and export is read with
the right values, or refused in a line that says what to do."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.support.field import (
    Read,
    check,
    no_lucene,
    same,
    values_of,
)
from tests.support.loading import load, problems
from trainables.core.errors import DataError
from trainables.data.columns import UNJUDGED
from trainables.evaluation.trec_files import read_qrels

__all__ = ["no_lucene"]  # a fixture


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
        "pairs_neg_is_pos": Read(same(6, 11, 6), "1 negative that is its row's positive left out"),
        "pairs_query_answer_neg": Read(LISTS),
        "pairs_question_answer": Read(same(6, 72, 6), grades=(-1, 1)),
        "pairs_semicolon": Read(PAIRS),
        "pairs_tevatron": Read(LISTS),
        "run_other_name": Read(same(4, 48, 4), "run.test.trec", grades=(-1, 1)),
        "squad2": Read({"train": (8, 24, 8), "dev": (6, 18, 6)}, "questions without an answer dropped"),
    },
    "field_november": {
        "beir_float_ids": Read(TWOS, "a document's id was read as one that it resembles: '1.0' is '1'", document="17"),
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
        "neg_other_row": Read(sized(4, 2, judged=1), "1 negative that another row of the query has as its positive"),
        "neg_other_row_many": Read({"train": (40, 150, 80), "dev": (12, 48, 24), "test": (12, 48, 24)},
            "10 negatives that another row of the query has as its positive left out (train.jsonl:2, "),
        "parquet_types": Read(sized(4, judged=1), "1 row without a text or label left out (train.parquet:8)"),
        "pyserini": Read(TWOS),
        "single_dataset": Read({"train": (36, 144, 36), "dev": (4, 16, 4)}, "dev: 4 of the 40 training queries"),
        "st_triplet_scores": Read(FOURS, "a teacher's scores from positive_score and negative_score", teacher=True),
        "trec_collection_title": Read(FOURS, "the title stands before the text", grades=WITH_UNJUDGED),
        "trec_cr": Read(FOURS, grades=WITH_UNJUDGED),
        "trec_xml_topics": Read(FOURS, grades=WITH_UNJUDGED),
        "trec_half_lost": Read(FOURS, "in 28 of 80 rows a document's id was read as one", grades=WITH_UNJUDGED),
        "trec_lost_zeros": Read(FOURS, "but for leading zeros", grades=WITH_UNJUDGED),
        "trec_nfd": Read(FOURS, "but for Unicode normalisation (NFC and NFD)", grades=WITH_UNJUDGED),
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
        "csv_utf16": ("train.csv:1", "not UTF-8"),
        "pairs_positive_score": ("train.jsonl:1", "teacher's score"),
    },
    "field_november": {
        "json_by_id": ("train.json:1", "not JSON"),
        "json_columns": ("train.json:1", "one object"),
        "json_data_key": ("train.json:1", "one object"),
        "letor_csv": ("train.csv:1", "features and labels in columns"),
        "lfs_jsonl": ("train.jsonl:1", "not JSON"),
        "lfs_parquet": ("train.parquet", "cannot be read as parquet"),
        "lfs_trec": ("collection.tsv:1", "1 columns instead of 2"),
        "nested": ("", "no known form"),
        "st_pair_class": ("train.jsonl:1", "premise, hypothesis, label"),
        "st_pair_score": ("train.jsonl:1", "score is a teacher's score"),
        "tsv_header_spaces": ("train.tsv:1", "search query, relevant passage, other passage"),
        "tsv_prob": ("train.tsv:1", "column 3 holds numbers"),
        "tsv_sts": ("train.tsv:1", "column 3 holds numbers"),
        "zip": ("", "no known form"),
    },
    "round3": {
        "beir_dup_keys": ("corpus.jsonl:75", "key 'text' twice (8 rows: lines 75, 78, 81, ...)"),
        "esci_letters": ("train.csv:1", "esci_label"),
        "letor_group": ("train.txt:1", "no qid"),
    },
}
ELSEWHERE = {  # inputs of other tests
    "field": {"api_none_text", "bert_no_types", "eval"},
    "field_november": {"stars", "difficulty", "eval", "models", "own"},
    "round3": {"eval", "rerank", "yaml"},
}


def inputs(table: Mapping[str, Mapping[str, object]]) -> list[tuple[str, str]]:
    return [(folder, name) for folder, rows in table.items() for name in rows]


@pytest.mark.parametrize(("folder", "name"), inputs(RIGHT))
def test_an_input_from_the_field_is_read(folder: str, name: str, field: Path) -> None:
    check(load(field / folder / name), RIGHT[folder][name])


@pytest.mark.parametrize(("folder", "name"), inputs(REFUSED))
def test_an_input_from_the_field_is_refused(folder: str, name: str, field: Path) -> None:
    place, word = REFUSED[folder][name]
    found = problems(field / folder / name)[0]
    assert found.startswith(f"{place}: " if place else "") and word in found


@pytest.mark.parametrize("folder", RIGHT)
def test_every_row_has_an_input(folder: str, field: Path) -> None:
    """An input beside the known ones needs no test at once."""
    found = {path.name for path in (field / folder).iterdir() if path.is_dir()}
    assert {*RIGHT[folder], *REFUSED[folder], *ELSEWHERE[folder]} <= found


def test_markup_is_taken_off_a_topic(field: Path) -> None:
    data = load(field / "round3" / "topics_markup")
    assert data.query_text(0) == "how to paint a kestrel with H2O and number 0"


def test_letters_are_grades_where_the_column_is_named(field: Path) -> None:
    columns = {"query": "query", "document": "product_title", "label": "esci_label"}
    data = load(field / "round3" / "esci_letters", columns=columns)
    assert sorted(set(data.splits["train"].grade.tolist())) == [0, 2, 3]


@pytest.mark.parametrize(
    ("name", "right"),
    [
        ("nested", "nested/scifact has the files of: BEIR folder"),
        ("zip", "unpack beir.zip"),
        ("json_by_id", "orient='records'"),
        ("tsv_sts", "data.columns"),
        ("tsv_header_spaces", "data.columns"),
        ("letor_csv", "LABEL qid:N INDEX:VALUE"),
    ],
)
def test_a_refusal_says_what_to_do(name: str, right: str, field: Path) -> None:
    with pytest.raises(DataError) as refused:
        load(field / "field_november" / name)
    assert right in refused.value.problems[0].right


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
    assert values_of(folder / qrels, folder / run)["map"] == pytest.approx(RUNS[run], abs=1e-4)
