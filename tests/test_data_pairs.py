"""BEIR folders, pairs and triples, datasets on disk: the same data in every form, repeats, a teacher's scores."""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest

from tests.support.data_folders import (
    FORMS,
    beir_files,
    labelled_files,
    parquet_files,
    saved_dataset_files,
    trec_files,
    triple_files,
    triple_rows,
    wikiqa_files,
    write_folder,
)
from tests.support.loading import candidates, load, problems
from trainables.data.columns import RankingData, Split
from trainables.data.combine import one_split, some_queries
from trainables.data.readers import text_table
from trainables.data.readers.text_table import TextTable
from tune_cl.testing.readers import check_data

Files = Mapping[str, str | bytes]


def trec_of(data: RankingData) -> dict[str, str]:
    """The same data as a TREC folder without runs."""
    rows = zip(data.document_ids, data.documents, strict=True)
    files = {"collection.tsv": "".join(f"{name}\t{text}\n" for name, text in rows)}
    for name, split in data.splits.items():
        queries = [(data.query_ids[row], data.query_text(row)) for row in split.query]
        files[f"queries.{name}.tsv"] = "".join(f"{query}\t{text}\n" for query, text in queries)
        cells = sorted(zip(split.owner, split.given, split.document, split.grade, strict=True))  # pyright: ignore[reportArgumentType]
        files[f"qrels.{name}.txt"] = "".join(
            f"{queries[owner][0]} 0 {data.document_ids[document]} {grade}\n" for owner, _, document, grade in cells
        )
    return files


def assert_equal(one: RankingData, other: RankingData) -> None:
    for column in ("document_ids", "documents", "query_ids", "utterances"):
        assert list(getattr(one, column)) == list(getattr(other, column)), column
    assert list(one.splits) == list(other.splits)
    for name, split in one.splits.items():
        for column in (field.name for field in fields(Split)):
            mine, theirs = getattr(split, column), getattr(other.splits[name], column)
            assert (mine is None) == (theirs is None), column
            if mine is not None:
                np.testing.assert_array_equal(mine, theirs, err_msg=f"{name}.{column}")


TRIPLES: dict[str, Files] = {
    "csv": triple_files("csv"),
    "tsv": triple_files("tsv"),
    "parquet": parquet_files(),
    "datasets": saved_dataset_files(),
    "labels": labelled_files(),
    "labels as TSV": labelled_files("tsv"),
    "gzip": {f"{name}.gz": content for name, content in parquet_files().items()},
    "valid": {name.replace("dev", "valid"): content for name, content in triple_files("csv").items()},
    "validation": {name.replace("dev", "validation"): content for name, content in triple_files("jsonl").items()},
}


class TestTheSameDataInEveryForm:
    @pytest.mark.parametrize("runs", [True, False])
    def test_beir_and_trec(self, runs: bool, tmp_path: Path) -> None:
        trec, beir = trec_files(runs), beir_files(runs)
        assert_equal(load(write_folder(tmp_path / "a", trec)), load(write_folder(tmp_path / "b", beir)))

    @pytest.mark.parametrize("form", TRIPLES)
    def test_triples(self, form: str, tmp_path: Path) -> None:
        data = load(write_folder(tmp_path / "a", triple_files("jsonl")))
        check_data(data)
        assert_equal(data, load(write_folder(tmp_path / "b", TRIPLES[form])))

    def test_triples_and_trec(self, tmp_path: Path) -> None:
        data = load(write_folder(tmp_path / "a", triple_files("jsonl")))
        assert_equal(data, load(write_folder(tmp_path / "b", trec_of(data))))

    def test_what_the_library_itself_saves(self, tmp_path: Path) -> None:
        datasets = pytest.importorskip("datasets")
        parts = {"train": "train", "validation": "dev", "test": "test"}
        whole = {name: datasets.Dataset.from_list(triple_rows(split)) for name, split in parts.items()}
        datasets.DatasetDict(whole).save_to_disk(
            str(tmp_path / "saved"), num_shards={"train": 2, "validation": 1, "test": 1}
        )
        assert_equal(load(write_folder(tmp_path / "a", triple_files("jsonl"))), load(tmp_path / "saved"))


class TestMeaning:
    def test_documents_of_a_query_are_those_of_all_its_rows(self, tmp_path: Path) -> None:
        data = load(write_folder(tmp_path, triple_files("jsonl")))
        assert list(data.documents) == ["the cat sat", "a bird flew", "a cat and a dog", "the dog ran"]
        assert list(data.query_ids)[:2] == ["train-1", "train-2"] and data.query_text(0) == "train cat"
        assert sorted(row[:2] for row in candidates(data, "train", 0)) == [("d1", 1), ("d2", 0), ("d3", 0), ("d4", 0)]
        assert sorted(row[:2] for row in candidates(data, "train", 1)) == [("d1", 0), ("d2", 0), ("d4", 1)]
        assert (
            "train: query from query, relevant document from positive, others from negative_1 to negative_2"
            in data.notes
        )

    def test_white_space_is_squeezed_and_quoted_fields_may_hold_lines(self, tmp_path: Path) -> None:
        rows = 'anchor,positive,negative,source\n" a\n\n  cat","one, two",three,web\n"a cat",x,"say ""no""",web\n'
        data = load(write_folder(tmp_path, {"train.csv": rows}))
        assert list(data.utterances) == ["a cat"]
        assert list(data.documents) == ["one, two", "three", "x", 'say "no"']
        assert any(note.endswith("; not read: source") for note in data.notes)

    def test_negatives_may_be_fewer_in_some_rows(self, tmp_path: Path) -> None:
        rows = triple_rows("train")
        del rows[0]["negative_2"]
        lines = [json.dumps(row) for row in (*rows[:2], rows[2] | {"negative_2": None})]
        lines[0], lines[1] = lines[1], lines[0]  # the first row names the columns
        data = load(write_folder(tmp_path, {"train.jsonl": "\n".join(lines)}))
        assert [data.splits["train"].sizes.tolist(), len(data.documents)] == [[3, 2], 3]

    @pytest.mark.parametrize(("label", "grade"), [("3", 3), ("2.0", 2), ("true", 1), ('"1"', 1)])
    def test_whole_numbers_are_grades(self, label: str, grade: int, tmp_path: Path) -> None:
        head = '{"query": "q", "document": "%s", "label": %s}\n'
        data = load(write_folder(tmp_path, {"train.jsonl": head % ("a", label) + head % ("b", 0)}))
        assert sorted(data.splits["train"].grade.tolist()) == [0, grade]

    @pytest.mark.parametrize("label", ["0.5", "-1", "40000", "NaN", "1e999", "null", '"high"', "[1]"])
    def test_anything_else_is_no_label(self, label: str, tmp_path: Path) -> None:
        row = f'{{"query": "q", "document": "a", "label": {label}}}\n'
        [wrong] = problems(write_folder(tmp_path, {"train.jsonl": row}))
        assert wrong.startswith("train.jsonl:1: ") and "label" in wrong

    def test_a_title_and_a_text_are_one_document(self, tmp_path: Path) -> None:
        files = beir_files()
        files["corpus.jsonl"] += '{"_id": "d5", "text": "no title"}\n{"_id": "d6", "title": null, "text": "a\\nb"}\n'
        data = load(write_folder(tmp_path, files))
        assert list(data.documents)[-2:] == ["no title", "a b"] and data.documents[0] == "the cat sat"


class TestRepeats:
    """The same again counts once, with a note; something else is an error with both places."""

    @pytest.mark.parametrize(
        ("name", "row", "other", "wrong"),
        [
            ("collection.tsv", "d2\tthe dog ran", "d2\tx",
             "collection.tsv:5: another text for id 'd2' than in collection.tsv:2"),
            ("queries.dev.tsv", "dev-a\tcat", "dev-a\tx",
             "queries.dev.tsv:3: another text for id 'dev-a' than in queries.dev.tsv:1"),
            ("qrels.dev.txt", "dev-a 0 d1 1", "dev-a 0 d1 0",
             "qrels.dev.txt:7: grade 0 for a query and document that have grade 1 in qrels.dev.txt:1"),
            ("run.dev.txt", "dev-a Q0 d3 9 1 y", "dev-a Q0 d3 9 2 y",
             "run.dev.txt:7: score 2 for a query and document that have score 1 in run.dev.txt:1"),
        ],
    )  # fmt: skip
    def test_of_trec(self, name: str, row: str, other: str, wrong: str, tmp_path: Path) -> None:
        files = trec_files()
        plain = load(write_folder(tmp_path / "plain", files))
        line = len(files[name].splitlines()) + 1
        first = int(wrong.rpartition(":")[2])
        data = load(write_folder(tmp_path / "same", files | {name: f"{files[name]}{row}\n{row}\n"}))
        assert_equal(plain, data)
        says = f"{name}: 2 repeated rows left out (the first: line {line} says what line {first} says)"
        assert says in data.notes
        assert problems(write_folder(tmp_path / "other", files | {name: f"{files[name]}{other}\n"})) == [wrong]

    def test_of_wikiqa(self, tmp_path: Path) -> None:
        files = wikiqa_files()
        row = files["WikiQA-dev.tsv"].splitlines()[2]
        data = load(write_folder(tmp_path / "same", files | {"WikiQA-dev.tsv": f"{files['WikiQA-dev.tsv']}{row}\n"}))
        assert_equal(load(write_folder(tmp_path / "plain", files)), data)
        assert "WikiQA-dev.tsv: 1 repeated row left out (the first: line 7 says what line 3 says)" in data.notes
        other = f"{row.removesuffix('0')}1\n"
        assert problems(
            write_folder(tmp_path / "other", files | {"WikiQA-dev.tsv": files["WikiQA-dev.tsv"] + other})
        ) == [
            "WikiQA-dev.tsv:7: label 1 for 'devQ1' with sentence 'devS2', which has another label in WikiQA-dev.tsv:3"
        ]

    def test_of_beir(self, tmp_path: Path) -> None:
        files = beir_files()
        for name in ("corpus.jsonl", "queries.jsonl", "qrels/dev.tsv"):
            files[name] += files[name].splitlines()[1] + "\n"
        data = load(write_folder(tmp_path / "same", files))
        assert_equal(load(write_folder(tmp_path / "plain", beir_files())), data)
        assert sum("1 repeated row left out" in note for note in data.notes) == 3
        files["qrels/dev.tsv"] += "dev-b\td1\t2\n"
        assert problems(write_folder(tmp_path / "other", files)) == [
            "qrels/dev.tsv:9: grade 2 for a query and document that have grade 0 in qrels/dev.tsv:5"
        ]

    def test_of_triples(self, tmp_path: Path) -> None:
        files = triple_files("jsonl")
        lines = files["train.jsonl"].splitlines(keepends=True)
        data = load(write_folder(tmp_path / "same", files | {"train.jsonl": "".join([*lines, lines[1], lines[0]])}))
        assert_equal(load(write_folder(tmp_path / "plain", files)), data)
        [note] = [note for note in data.notes if "repeated" in note]
        first = "train.jsonl:4 repeats train.jsonl:2"
        assert note == f"train.jsonl: 2 repeated rows left out (the first: {first})", (
            "the cache serves other folders too"
        )
        turned = json.dumps(
            {"query": "train cat", "positive": "a bird flew", "negative_1": "the cat sat", "negative_2": "new"}
        )
        assert problems(write_folder(tmp_path / "other", files | {"train.jsonl": "".join([*lines, turned])})) == [
            "train.jsonl:4: grade 1 for a query and document that have grade 0 in train.jsonl:1",
            "train.jsonl:4: grade 0 for a query and document that have grade 1 in train.jsonl:1",
        ]

    def test_of_rows_in_two_arrow_files(self, tmp_path: Path) -> None:
        files = saved_dataset_files()
        name = "train/data-00001-of-00002.arrow"
        first = files["train/data-00000-of-00002.arrow"]
        swapped = first.replace(b"a bird flew", b"-" * 11).replace(b"the cat sat", b"a bird flew")
        swapped = swapped.replace(b"-" * 11, b"the cat sat")
        wrong = problems(write_folder(tmp_path, files | {name: swapped}))
        assert (
            f"{name}:1: grade 0 for a query and document that have grade 1 in train/data-00000-of-00002.arrow:1"
            in wrong
        )


class TestTeacherScores:
    SCORES = "train-a\td3\t0.5\ntrain-a\td4\t-2\ntrain-b\td2\t1e-3\ntrain-a\td1\t7\n"

    @pytest.mark.parametrize("form", ["trec", "beir"])
    @pytest.mark.parametrize("head", ["", "query\tdocument\tscore\n"])
    def test_are_a_column_of_the_candidates(self, form: str, head: str, tmp_path: Path) -> None:
        files = {"trec": trec_files, "beir": beir_files}[form]() | {"scores.train.tsv": head + self.SCORES}
        data = load(write_folder(tmp_path, files))
        found = dict(zip([row[0] for row in candidates(data, "train", 0)], data.splits["train"].teacher, strict=False))  # pyright: ignore[reportArgumentType]
        assert found == {"d4": -2, "d3": 0.5, "d2": pytest.approx(np.nan, nan_ok=True)}
        assert data.splits["train"].teacher.dtype == np.float32 and data.splits["dev"].teacher is None  # pyright: ignore[reportOptionalMemberAccess]
        assert "train: a teacher's scores for 3 of 6 candidates" in data.notes
        assert load(write_folder(tmp_path / "without", trec_files())).splits["train"].teacher is None

    @pytest.mark.parametrize("files", [triple_files("csv"), saved_dataset_files()])
    def test_of_pairs_name_texts(self, files: Files, tmp_path: Path) -> None:
        scores = "dev cat\tthe cat sat\t3\ndev cat\ta bird flew\t1\ndev cat\tthe cat sat\t3\n"
        data = load(write_folder(tmp_path / "right", {**files, "scores.dev.tsv": scores}))
        teacher = data.splits["dev"].teacher
        assert teacher is not None and sorted(teacher[~np.isnan(teacher)].tolist()) == [1, 3]
        wrong = "cat\tthe cat sat\t1\ndev cat\tno\t1\ndev cat\ta bird flew\tx\ndev cat\tthe cat sat\t4\n"
        assert problems(write_folder(tmp_path / "wrong", {**files, "scores.dev.tsv": scores + wrong})) == [
            "scores.dev.tsv:4: no query 'cat' in the pairs",
            "scores.dev.tsv:5: no document 'no' in the pairs",
            "scores.dev.tsv:6: score 'x'",
            "scores.dev.tsv:7: score 4 for a query and document that have score 3 in scores.dev.tsv:1",
        ]

    def test_of_ids_that_are_wrong(self, tmp_path: Path) -> None:
        scores = "train-a\td9\t1\ntrain-z\td1\t1\ntrain-a\td1\tnan\ntrain-a\td1\n"
        assert problems(write_folder(tmp_path, trec_files() | {"scores.train.tsv": scores})) == [
            "scores.train.tsv:2: unknown query 'train-z'",
            "scores.train.tsv:3: score 'nan'",
            "scores.train.tsv:4: 2 columns instead of 3",
            "scores.train.tsv:1: document 'd9' is not in the collection",
        ]

    def test_stay_with_their_candidates_in_parts_of_splits(self, tmp_path: Path) -> None:
        data = load(write_folder(tmp_path, trec_files() | {"scores.train.tsv": self.SCORES}))
        train, dev = data.splits["train"], data.splits["dev"]
        second = some_queries(train, np.array([1]))
        np.testing.assert_array_equal(second.teacher, train.teacher[3:])  # pyright: ignore[reportOptionalSubscript]
        both = one_split([train, dev]).teacher
        assert both is not None and np.isnan(both[6:]).all()
        np.testing.assert_array_equal(both[:6], train.teacher)


class TestBadPairs:
    def test_all_problems_at_once(self, tmp_path: Path) -> None:
        good = json.dumps(triple_rows("train")[0])
        bad = [
            "not json", "[1]", '{"query": "q", "positive": "p"}', '{"positive": "p", "negative_1": "n"}',
            '{"query": " ", "positive": "p", "negative_1": "n"}', '{"query": 7, "positive": "p", "negative_1": "n"}',
            '{"query": "\\ud800", "positive": "p", "negative_1": "n"}', good.replace("the cat sat", ""),
        ]  # fmt: skip
        files = triple_files("jsonl") | {"train.jsonl": "\n".join([good, *bad]), "dev.jsonl": '{"a": 1}\n'}
        assert problems(write_folder(tmp_path, files)) == [
            "train.jsonl:2: not a JSON object",
            "train.jsonl:3: not a JSON object",
            "train.jsonl:5: no 'query'",
            "train.jsonl:6: an empty 'query'",
            "train.jsonl:7: 'query' is no text",
            "train.jsonl:8: 'query' is no text",
            "train.jsonl:9: an empty 'positive'",
            "dev.jsonl:1: no form of pairs has the columns a",
        ]

    @pytest.mark.parametrize(
        ("header", "wrong"),
        [
            ("query,positive,document,label", "the columns query, positive, document, label could be read as"),
            ("query,query,positive", "two columns 'query'"),
            ("query,document", "no form of pairs has the columns query, document"),
            ("positive,negative", "no form of pairs has the columns positive, negative"),
        ],
    )
    def test_columns_that_fit_no_form_or_two(self, header: str, wrong: str, tmp_path: Path) -> None:
        [found] = problems(write_folder(tmp_path, triple_files("csv") | {"dev.csv": f"{header}\n1,2,3,4\n"}))
        assert found.startswith(f"dev.csv:1: {wrong}")

    def test_two_files_of_a_split(self, tmp_path: Path) -> None:
        folder = write_folder(tmp_path, triple_files("csv") | triple_files("jsonl"))
        assert len(problems(folder)) == 3
        assert problems(folder)[0] == ": train.jsonl and train.csv are all the train split"

    def test_parquet_that_is_none_or_cut_off_or_no_text(self, tmp_path: Path) -> None:
        whole = parquet_files()["train.parquet"]
        broken = parquet_files() | {
            "train.parquet": whole[:-40],
            "dev.parquet": whole.replace(b"a bird flew", b"a bird\xffflew"),
        }
        broken["test.parquet"] = b""
        found = problems(write_folder(tmp_path, broken))
        assert [one.partition(" (")[0] for one in found] == [
            "train.parquet: cannot be read as Parquet",
            "dev.parquet:1: 'negative_1' is not UTF-8",
            "dev.parquet:2: 'negative_2' is not UTF-8",
            "dev.parquet:3: 'negative_2' is not UTF-8",
            "test.parquet: cannot be read as Parquet",
        ]
        packed = {"train.parquet.gz": gzip.compress(whole)[:-30]}
        [wrong] = problems_of_raw(tmp_path / "packed", packed)
        assert "the gzip data is broken or cut off here" in wrong

    def test_datasets_that_are_not_whole(self, tmp_path: Path) -> None:
        files = saved_dataset_files()
        del files["test/data-00000-of-00001.arrow"]
        files["train/data-00000-of-00002.arrow"] = files["train/data-00000-of-00002.arrow"][:300]
        files["validation/state.json"] = b'{"_data_files": [{"filename": "../data.arrow"}]}'
        found = problems(write_folder(tmp_path / "a", files))
        assert found[0] == "validation/state.json: names no Arrow files beside it"
        assert any(one.startswith("train/data-00000-of-00002.arrow: cannot be read as Arrow") for one in found)
        assert found[-1] == "test/data-00000-of-00001.arrow: missing file"
        single = {
            name.removeprefix("train/"): raw for name, raw in saved_dataset_files().items() if name.startswith("train/")
        }
        assert problems(write_folder(tmp_path / "b", single)) == [": no folder train, validation or test"]

    def test_a_conversation_that_mentions_a_query_is_no_table(self, tmp_path: Path) -> None:
        files = {name: text.replace("where is the cat ?", "query") for name, text in FORMS["conversation"].items()}
        assert load(write_folder(tmp_path, files)).query_utterances(0) == ["train query"]


def problems_of_raw(folder: Path, files: Mapping[str, bytes]) -> list[str]:
    folder.mkdir()
    for name, raw in files.items():
        (folder / name).write_bytes(raw)
    return problems(folder)


class TestTextTable:
    def test_numbers_texts_as_a_dictionary_does(self) -> None:
        rng, words, added = random.Random(0), [], []
        table = TextTable(added.extend)
        expected: dict[str, int] = {}
        for _ in range(60):
            batch = [f"text {rng.randrange(5000)}" for _ in range(rng.randrange(300))]
            rows = [expected.setdefault(text, len(expected)) for text in batch]
            assert table.rows(batch).tolist() == rows
            words += batch
        assert [text.decode() for text in added] == list(expected) and len(table) == len(expected)
        assert table.find(["text 1", "unknown"]).tolist() == [expected["text 1"], -1]

    def test_tells_texts_apart_whose_hashes_begin_alike(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Where the first half of the hash is the same, slots collide; the second half tells."""
        keys = text_table._keys_of
        monkeypatch.setattr(text_table, "_keys_of", lambda texts: keys(texts) * np.array([0, 1], np.uint64))
        table = TextTable(lambda _: None)
        texts = [f"text {number}" for number in range(300)]
        assert table.rows([*texts, *texts]).tolist() == [*range(300), *range(300)]
        assert table.find(texts[::-1]).tolist() == list(range(300))[::-1]
