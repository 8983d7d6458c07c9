"""Forms of data: each has its reader and its meaning, and what is special to it. Rows that are wrong are in
test_bad_data.py, other people's files in test_field.py, all arrays in the goldens."""

from __future__ import annotations

import gzip
import re
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from tests.support.data_folders import (
    BINARY_FORMS,
    FORMS,
    assert_equal,
    trec_files,
    write_folder,
)
from tests.support.loading import candidates, load, problems
from trainables.core.errors import DataError
from trainables.data.columns import SPLITS, RankingData, require_texts_to_rank
from trainables.data.combine import one_split, some_queries
from trainables.data.forms import READERS, reader_for
from trainables.data.forms.squad import sentence_bounds
from tune_cl.testing import check
from tune_cl.testing.readers import check_data

# By form: its reader, the queries of train, dev and test, the documents, and of each training query the documents by
# rank with their grades.
RUN = "train-a d4:-1 d2:0 d3:0 | train-b d4:-1 d2:1 d3:0"  # of equal scores the higher id is first, as in trec_eval
JUDGED = "train-a d1:1 d3:0 d2:0 | train-b d2:1 d3:0 d1:0"
TRIPLES = "train-1 d1:1 d3:0 d4:0 d2:0 | train-2 d4:1 d2:0 d1:0"
PAIRS = "1 s1:2 | 3 s2:1"
HELD = "0 s1:0 | 1 s1:1 | 2 s1:0 | 3 s2:1 | 5 s1:1 | 6 s1:0 | 7 s1:1 | 8 s1:0"  # the same split in every version
MEANING = {
    "trec": ("trec", "2 2 2", 4, RUN),
    "trec without runs": ("trec", "2 2 2", 4, JUDGED),
    "beir": ("beir", "2 2 2", 4, RUN),
    "beir without runs": ("beir", "2 2 2", 4, JUDGED),
    "triples": ("pairs", "2 2 2", 4, TRIPLES),
    "triples as CSV": ("pairs", "2 2 2", 4, TRIPLES),
    "triples as TSV": ("pairs", "2 2 2", 4, TRIPLES),
    "triples as Parquet": ("pairs", "2 2 2", 4, TRIPLES),
    "datasets": ("pairs", "2 2 2", 4, TRIPLES),
    "labelled pairs": ("pairs", "2 2 2", 4, TRIPLES),
    "labelled pairs as TSV": ("pairs", "2 2 2", 4, TRIPLES),
    "wikiqa": ("wikiqa", "2 2 2", 9, "trainQ1 trainS1:1 trainS2:0 | trainQ2 trainS2:1 trainS3:0"),
    "conversation": ("conversation", "2 2 2", 4, "train-1 d2:0 d1:1 | train-2 d4:0 d3:1 d2:0"),
    "letor": ("letor", "2 2 2", 9, "1 1:cat1:2 1:2:0 | 2 2:dog1:1"),
    "insurance qa 1": ("insurance_qa", "2 1 1", 4, "train-1 2:0 1:1 4:0 3:0 | train-2 4:1 3:0 2:1 1:0"),
    "insurance qa 2": ("insurance_qa", "1 1 1", 4, "train-1 2:1 1:1 3:0"),
    "squad": ("squad", "1 1", 6, "train-1 train-1-1-3:0 train-1-1-2:1 train-1-1-1:0"),
    "sick": ("sick", "3 3 3", 2, "1 s1:2 | 2 s1:1 | 3 s2:0"),
    "sick as published": ("sick", "6 3 3", 5, "0 s1:2 | 1 s2:1 | 2 s3:0 | 3 s4:2 | 4 s5:1 | 5 s1:0"),
    "snli": ("snli", "2 2 2", 2, PAIRS),
    "snli as a table": ("snli", "2 2 2", 2, PAIRS),
    "quora": ("quora", "2 2 2", 2, "0 s1:1 | 1 s2:0"),
    "quora as published": ("quora", "8 1 1", 2, HELD),
}
ONE_A_READER = {reader: form for form, (reader, *_) in reversed(MEANING.items())}  # the first of each
SPLITS_OF = {form: SPLITS[: len(sizes.split())] for form, (_, sizes, *_) in MEANING.items()}


def of(folder: Path, files: Mapping[str, str | bytes], **keys: object) -> RankingData:
    return load(write_folder(folder, files), **keys)


def meaning(data: RankingData) -> tuple[str, int, str]:
    """Queries of each split, documents, and the candidates of training, as MEANING has them."""
    train = [
        " ".join([data.query_ids[row], *(f"{name}:{grade}" for name, grade, _ in candidates(data, "train", row))])
        for row in range(len(data.splits["train"]))
    ]
    return " ".join(str(len(split)) for split in data.splits.values()), len(data.documents), " | ".join(train)


def queries(data: RankingData) -> dict[str, list[str]]:
    """Query ids by split."""
    return {name: [data.query_ids[int(row)] for row in split.query] for name, split in data.splits.items()}


def documents(data: RankingData, split: str, query: int) -> set[str]:
    return {name for name, *_ in candidates(data, split, query)}


def noted(data: RankingData, *words: str) -> bool:
    """Whether one note holds all the words."""
    return any(all(word in note for word in words) for note in data.notes)


def test_every_reader_has_a_form() -> None:
    assert MEANING.keys() == (FORMS | BINARY_FORMS).keys() and ONE_A_READER.keys() == {*READERS}


@pytest.mark.parametrize("form", MEANING)
def test_a_form_has_its_reader_and_its_meaning(form: str, tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "form", (FORMS | BINARY_FORMS)[form])
    data = load(folder)
    check_data(data)
    assert (reader_for(folder), *meaning(data)) == MEANING[form]
    assert (tuple(data.splits), data.name, len(data.digest)) == (SPLITS_OF[form], "form", 64)


@pytest.mark.parametrize("reader", ONE_A_READER)
def test_a_reader_keeps_to_what_readers_promise(reader: str, tmp_path: Path) -> None:
    check("reader", reader, folder=write_folder(tmp_path, (FORMS | BINARY_FORMS)[ONE_A_READER[reader]]))


@pytest.mark.parametrize("form", FORMS)
class TestEveryForm:
    def test_other_bytes_or_settings_give_another_digest(self, form: str, tmp_path: Path) -> None:
        digests = {load(write_folder(tmp_path / "a", FORMS[form]), **keys).digest for keys in ({}, {"top_k": 2})}
        changed = {name: re.sub(r"\bcat", "cow", text) for name, text in FORMS[form].items()}
        digests.add(of(tmp_path / "b", changed).digest)
        assert len(digests) == 3

    def test_gzip_crlf_and_byte_order_mark_change_nothing(self, form: str, tmp_path: Path) -> None:
        dressed = {f"{name}.gz": "\ufeff" + text.replace("\n", "\r\n") for name, text in FORMS[form].items()}
        assert_equal(of(tmp_path / "a", FORMS[form]), of(tmp_path / "b", dressed))

    def test_wrong_files_are_named(self, form: str, tmp_path: Path) -> None:
        """One file of each kind."""
        for name, text in FORMS[form].items():
            if "test" in name or ("train" in name and form != "insurance qa 1"):
                continue
            raw = text.encode()
            first = raw.find(b"\n") + 1
            line = 1 + bool(first)
            packed = gzip.compress(raw)
            cases = {
                (name, b""): f"{name}: no rows",
                (name, raw[:first] + b"\xff" + raw[first:]): f"{name}:{line}: byte 0xff",
                (name, raw[:first] + b"one\n" + raw[first:]): f"{name}:{line}: ",
                (name, b"<html><body>\n" + raw): f"{name}:1: ",
                (f"{name}.gz", packed[: len(packed) // 2]): f"{name}.gz:",
            }
            for number, ((file, content), wrong) in enumerate(cases.items()):
                folder = write_folder(tmp_path / f"{name.replace('/', '-')}-{number}", FORMS[form])
                (folder / name).unlink()
                (folder / file).write_bytes(content)
                assert any(line.startswith(wrong) for line in problems(folder)), (wrong, problems(folder))

    def test_a_missing_split_is_no_error(self, form: str, tmp_path: Path) -> None:
        files = {name: text for name, text in FORMS[form].items() if "test" not in name}
        expected = SPLITS_OF[form] if files == FORMS[form] else ("train", "dev")
        assert tuple(of(tmp_path, files).splits) == expected


# What a reader leaves out it says: the form, and words of a note.
NOTES = [
    ("wikiqa", "train: 1 question", "right"),
    ("squad", "train: 1 answer", "offset"),
    ("squad", "train: 1 question", "answer"),
    ("snli", "1 pair", "gold"),
    ("quora as published", "1 pair", "sentence"),
    ("triples", "train:", "negative_1 to negative_2"),
    ("trec", "candidates of train, dev, test:", "run"),
    ("trec without runs", "candidates of train, dev, test:", "judged"),
]


@pytest.mark.parametrize(("form", "begin", "word"), NOTES)
def test_what_is_left_out_or_chosen_is_noted(form: str, begin: str, word: str, tmp_path: Path) -> None:
    assert noted(of(tmp_path, FORMS[form]), begin, word)


# Rows that each file of a form has once more.
REPEATED: dict[str, dict[str, list[int]]] = {
    "trec": {"collection.tsv": [2, 2], "queries.dev.tsv": [1, 1], "qrels.dev.txt": [1], "run.dev.txt": [1, 1]},
    "beir": {"corpus.jsonl": [2], "queries.jsonl": [2], "qrels/dev.tsv": [2]},
    "wikiqa": {"WikiQA-dev.tsv": [3]},
    "quora as published": {"quora_duplicate_questions.tsv": [2]},
}


@pytest.mark.parametrize("form", REPEATED)
def test_a_row_that_comes_twice_counts_once(form: str, tmp_path: Path) -> None:
    files = dict(FORMS[form])
    for name, rows in REPEATED[form].items():
        lines = files[name].splitlines(keepends=True)
        files[name] = "".join([*lines, *(lines[row - 1] for row in rows)])
    data = of(tmp_path / "again", files)
    assert_equal(of(tmp_path / "plain", FORMS[form]), data)
    for name, rows in REPEATED[form].items():
        [note] = [note for note in data.notes if note.startswith(f"{Path(name).name}: {len(rows)} repeated row")]
        line = len(FORMS[form][name].splitlines()) + 1
        assert [*map(int, re.findall(r":(\d+)\b", note))] == [line, rows[0]], note
        assert str(tmp_path) not in note, "the cache serves other folders too"


class TestTrec:
    def test_top_k_cuts_a_run_and_not_what_was_judged(self, tmp_path: Path) -> None:
        data = of(tmp_path / "a", trec_files(), top_k=2, candidates="run")
        assert [row[0] for row in candidates(data, "train", 0)] == ["d4", "d2"]
        few = of(tmp_path / "b", trec_files(runs=False), top_k=2).splits["test"]
        assert few.sizes.tolist() == [3, 3]
        assert few.score[0] > 0 and few.score[1:3].tolist() == [0, 0], "first-stage scores by BM25"
        each = load(tmp_path / "a", top_k={"train": 1, "test": 2}, candidates="run")
        assert [int(split.sizes.max()) for split in each.splits.values()] == [1, 3, 2]

    def test_judgments_without_text_count_and_negative_grades_are_not_relevant(self, tmp_path: Path) -> None:
        files = trec_files()
        files["qrels.dev.txt"] = files["qrels.dev.txt"].replace("d3 0", "d3 -2").replace("d1 1", "d1 32767")
        files["qrels.dev.txt"] += "dev-a 0 gone 3\n"
        data = of(tmp_path, files)
        assert data.splits["dev"].judged_grade.tolist() == [32767, 0, 0, 3, 0, 1, 0]
        assert noted(data, "dev: 1 judged document", "outside the collection")

    def test_queries_without_judgments_or_candidates(self, tmp_path: Path) -> None:
        """Without judgments they are dropped; without candidates they stay outside training."""
        files = trec_files()
        files["queries.test.tsv"] = "test-0\tunjudged\n" + files["queries.test.tsv"]
        for name in ("run.train.txt", "run.dev.txt"):
            files[name] = "".join(row for row in files[name].splitlines(keepends=True) if "-a " not in row)
        data = of(tmp_path, files)
        check_data(data)
        assert queries(data)["test"] == ["test-a", "test-b"] and noted(data, "test: 1 query", "judgments")
        assert [data.splits[name].sizes.tolist() for name in ("train", "dev")] == [[3], [0, 3]]
        assert noted(data, "train: 1 query", "dropped") and noted(data, "dev: 1 query", "counted 0")


def test_a_file_of_a_folder_is_refused_with_the_folder_s_form(tmp_path: Path) -> None:
    path = write_folder(tmp_path, FORMS["beir"]) / "corpus.jsonl"
    with pytest.raises(DataError, match=f"{path.parent} has the files of: BEIR"):
        load(path)


def test_turns_and_repeated_responses_of_conversations(tmp_path: Path) -> None:
    data = of(tmp_path / "a", FORMS["conversation"])
    assert data.turns[:2].tolist() == [1, 2] and data.query_utterances(1) == ["hello train", "who ran ?"]
    assert list(data.documents).count("I agree") == 2, "twice in a group; shared by all groups otherwise"
    files = {name: text.replace("1\thello", "0\thello") for name, text in FORMS["conversation"].items()}
    bare = of(tmp_path / "b", files)
    assert [len(split) for split in bare.splits.values()] == [1, 2, 2], "training needs a right response"
    assert noted(bare, "train: 1 context", "dropped") and noted(bare, "dev: 1 context", "kept")


class TestLetor:
    def without_vali(self, folder: Path, count: int) -> RankingData:
        files = FORMS["letor"] | {"train.txt": "".join(f"1 qid:{n} 1:{n}\n" for n in range(1, count + 1))}
        del files["vali.txt"]
        return of(folder, files)

    def test_features_are_dense_and_mapped(self, tmp_path: Path) -> None:
        data = of(tmp_path, FORMS["letor"])
        assert data.features is not None and data.features.dtype == np.float32
        np.testing.assert_allclose(data.features[:3], [[0.5, -1e-3, 0, 3], [0.25, 0, 0, 0], [7, 0, 0, 1]])
        assert isinstance(data.features.base, np.memmap)

    def test_without_vali_the_same_fifth_is_dev_in_every_version(self, tmp_path: Path) -> None:
        """If it were drawn anew, dev values of different versions could not be compared."""
        data = self.without_vali(tmp_path / "ten", 10)
        assert queries(data)["dev"] == ["2", "6"] and [*map(len, data.splits.values())] == [8, 2, 2]
        assert data.features is not None
        for split in (data.splits["train"], data.splits["dev"]):
            ids = [float(data.query_ids[row]) for row in split.query]
            assert data.features[split.document, 0].tolist() == ids
        assert "dev" not in self.without_vali(tmp_path / "one", 1).splits


class TestInsuranceQA:
    def test_version_1_draws_the_same_training_pools_in_every_version(self, tmp_path: Path) -> None:
        data = of(tmp_path, FORMS["insurance qa 1"], top_k=3)
        for found in (data, load(tmp_path, top_k=3, bm25={"k1": 1.0})):
            assert [documents(found, "train", query) for query in (0, 1)] == [{"1", "3", "4"}, {"2", "3", "4"}]
        assert sorted(data.splits["dev"].judged_grade.tolist()) == [0, 0, 1, 1], "answer 2 is not retrieved"

    def test_version_2_reads_the_pool_size_that_fits_or_the_largest(self, tmp_path: Path) -> None:
        files = FORMS["insurance qa 2"]
        large = {name.replace(".100.", ".500."): text.replace("3 1", "3 4") for name, text in files.items()}
        folder = write_folder(tmp_path, large | files)
        pools = [documents(load(folder, top_k=size), "test", 0) for size in (100, 101, 600)]
        assert pools == [{"1", "3"}, {"3", "4"}, {"3", "4"}]


class TestSquad:
    def test_sentences_cover_the_text(self, tmp_path: Path) -> None:
        assert list(of(tmp_path, FORMS["squad"]).documents)[1] == "Dr. A. Dog ran 2.5 miles!"
        text = ' "One." he said. Two (No. 2)? Three U.S. Navy\nships... Four'
        found = [text[start:end] for start, end in sentence_bounds(text)]
        assert found == [' "One." he said.', "Two (No. 2)?", "Three U.S. Navy\nships...", "Four"]
        assert sentence_bounds(" ") == []

    def test_a_single_file_is_a_test_split_and_other_json_is_none(self, tmp_path: Path) -> None:
        assert list(of(tmp_path / "one", {"mine.json": FORMS["squad"]["dev-v1.1.json"]}).splits) == ["test"]
        data = of(tmp_path / "trec", {**trec_files(), "info.json": '{"name": "mine", "data": "collected in 2024"}'})
        assert list(data.splits) == ["train", "dev", "test"]


def test_pairs_to_classify(tmp_path: Path) -> None:
    data = of(tmp_path / "sick", FORMS["sick"])
    assert (data.task, data.classes) == ("classification", ("contradiction", "entailment", "neutral"))
    with pytest.raises(DataError, match="classify"):
        require_texts_to_rank(data)
    held = queries(of(tmp_path / "quora", FORMS["quora as published"]))
    assert (held["dev"], held["test"]) == (["4"], ["9"]), "drawn alike in every version"


def test_white_space_of_pairs_is_squeezed_and_quoted_fields_may_hold_lines(tmp_path: Path) -> None:
    rows = 'anchor,positive,negative,source\n" a\n\n  cat","one, two",three,web\n"a cat",x,"say ""no""",web\n'
    data = of(tmp_path, {"train.csv": rows})
    assert list(data.utterances) == ["a cat"] and noted(data, "not read: source")
    assert list(data.documents) == ["one, two", "three", "x", 'say "no"']


class TestTeacherScores:
    SCORES = "train-a\td3\t0.5\ntrain-a\td4\t-2\ntrain-b\td2\t1e-3\ntrain-a\td1\t7\n"

    @pytest.mark.parametrize("head", ["", "query\tdocument\tscore\n"])
    def test_are_a_column_of_the_candidates(self, head: str, tmp_path: Path) -> None:
        data = of(tmp_path, trec_files() | {"scores.train.tsv": head + self.SCORES})
        train, dev = data.splits["train"], data.splits["dev"]
        assert train.teacher is not None and train.teacher.dtype == np.float32 and dev.teacher is None
        np.testing.assert_allclose(train.teacher, [-2, np.nan, 0.5, np.nan, 1e-3, np.nan])  # d4, d2, d3, d4, d2, d3
        assert noted(data, "train:", "teacher", "3 of 6")
        np.testing.assert_array_equal(some_queries(train, np.array([1])).teacher, train.teacher[3:])
        np.testing.assert_array_equal(one_split([train, dev]).teacher, [*train.teacher, *[np.nan] * 6])

    def test_of_pairs_name_texts(self, tmp_path: Path) -> None:
        scores = "dev cat\tthe cat sat\t3\ndev cat\ta bird flew\t1\ndev cat\tthe cat sat\t3\n"
        teacher = of(tmp_path, FORMS["triples as CSV"] | {"scores.dev.tsv": scores}).splits["dev"].teacher
        assert teacher is not None and sorted(teacher[~np.isnan(teacher)].tolist()) == [1, 3]
