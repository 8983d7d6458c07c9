"""What is special to a form of data: groups, grades, splits, classes, notes, rows that come twice."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.data_folders import (
    FORMS,
    SICK_WHOLE,
    assert_equal,
    beir_files,
    conversation_files,
    insurance_v1_files,
    insurance_v2_files,
    letor_files,
    quora_files,
    quora_whole_files,
    sick_files,
    snli_files,
    squad_files,
    trec_files,
    triple_files,
    wikiqa_files,
    write_folder,
)
from tests.support.loading import candidates, load, problems
from trainables.core.errors import DataError
from trainables.data.columns import RankingData, require_texts_to_rank
from trainables.data.combine import one_split, some_queries
from trainables.data.forms.letor import MAX_FEATURE
from trainables.data.forms.squad import sentence_bounds
from tune_cl.testing.readers import check_data

Files = Mapping[str, str | bytes]


def of(folder: Path, files: Files, **keys: object) -> RankingData:
    return load(write_folder(folder, files), **keys)


def queries(data: RankingData) -> dict[str, list[str]]:
    """Query ids by split."""
    return {name: [data.query_ids[int(row)] for row in split.query] for name, split in data.splits.items()}


def noted(data: RankingData, *words: str) -> bool:
    """Whether one note holds all the words."""
    return any(all(word in note for word in words) for note in data.notes)


def documents(data: RankingData, split: str, query: int) -> set[str]:
    return {name for name, *_ in candidates(data, split, query)}


# What a reader leaves out it says: the form, and words of a note.
NOTES = [
    ("wikiqa", "train: 1 question", "right"),
    ("squad", "train: 1 answer", "offset"),
    ("squad", "train: 1 question", "answer"),
    ("snli", "dev: 1 pair", "gold"),
    ("quora as published", "1 pair", "empty"),
    ("triples", "train:", "negative_1 to negative_2"),
    ("trec", "candidates:", "run"),
    ("trec without runs", "candidates:", "judged"),
]


@pytest.mark.parametrize(("form", "begin", "word"), NOTES)
def test_what_is_left_out_or_chosen_is_noted(form: str, begin: str, word: str, tmp_path: Path) -> None:
    assert noted(of(tmp_path, FORMS[form]), begin, word)


class TestTrec:
    def test_top_k_cuts_a_run_and_not_what_was_judged(self, tmp_path: Path) -> None:
        data = of(tmp_path / "a", trec_files(), top_k=2, candidates="run")
        assert [row[0] for row in candidates(data, "train", 0)] == ["d4", "d2"]
        few = of(tmp_path / "b", trec_files(runs=False), top_k=2).splits["test"]
        assert few.sizes.tolist() == [3, 3]
        assert few.score[0] > 0 and few.score[1:3].tolist() == [0, 0], "first-stage scores by BM25"

    def test_a_number_for_each_split_cuts_each(self, tmp_path: Path) -> None:
        whole = of(tmp_path / "a", trec_files(), candidates="run")
        data = of(tmp_path / "a", trec_files(), top_k={"train": 1, "test": 2}, candidates="run")
        assert {name: split.sizes.max() for name, split in data.splits.items()} == {
            "train": 1, "dev": whole.splits["dev"].sizes.max(), "test": 2,
        }  # fmt: skip
        assert noted(data, "candidates:", "the first 1 (train), 100 (dev), 2 (test) of the given run")
        assert data.digest != whole.digest

    def test_judgments_without_text_count_and_negative_grades_are_not_relevant(self, tmp_path: Path) -> None:
        files = trec_files()
        files["qrels.dev.txt"] = files["qrels.dev.txt"].replace("d3 0", "d3 -2").replace("d1 1", "d1 32767")
        files["qrels.dev.txt"] += "dev-a 0 gone 3\n"
        data = of(tmp_path, files)
        assert data.splits["dev"].judged_grade.tolist() == [32767, 0, 0, 3, 0, 1, 0]
        assert noted(data, "dev: 1 judged document", "outside the collection")

    def test_queries_without_judgments_are_dropped(self, tmp_path: Path) -> None:
        files = trec_files()
        files["queries.test.tsv"] = "test-0\tunjudged\n" + files["queries.test.tsv"]
        data = of(tmp_path, files)
        assert queries(data)["test"] == ["test-a", "test-b"] and noted(data, "test: 1 query", "judgments")
        check_data(data)

    def test_queries_without_candidates_stay_outside_training(self, tmp_path: Path) -> None:
        files = trec_files()
        for split in ("train", "dev"):
            rows = files[f"run.{split}.txt"].splitlines(keepends=True)
            files[f"run.{split}.txt"] = "".join(row for row in rows if not row.startswith(f"{split}-a"))
        data = of(tmp_path, files)
        assert [data.splits[name].sizes.tolist() for name in ("train", "dev")] == [[3], [0, 3]]
        assert data.splits["dev"].judged_grade.tolist() == [1, 0, 0, 0, 1, 0]
        assert noted(data, "train: 1 query", "dropped") and noted(data, "dev: 1 query", "counted 0")

    def test_a_query_of_two_splits_is_noted(self, tmp_path: Path) -> None:
        files = {name: text.replace("test-a", "dev-a") for name, text in trec_files().items()}
        assert noted(of(tmp_path, files), "1 query ids", "split")

    def test_candidates_of_splits_without_a_run_are_the_judged_documents(self, tmp_path: Path) -> None:
        files = trec_files()
        del files["run.dev.txt"]
        data = of(tmp_path, files)
        assert candidates(data, "dev", 0) == [("d1", 1, 1), ("d3", 0, 2), ("d2", 0, 3)]
        assert candidates(data, "test", 0) == [("d4", -1, 1), ("d2", 0, 2), ("d3", 0, 3)]
        assert noted(data, "train, test:", "run") and noted(data, "of dev:", "judged") and not data.retrieved
        assert problems(tmp_path, candidates="run") == ["data.candidates: dev has no run"]


def test_a_title_and_a_text_are_one_document_of_beir(tmp_path: Path) -> None:
    files = beir_files()
    files["corpus.jsonl"] += '{"_id": "d5", "text": "no title"}\n{"_id": "d6", "title": null, "text": "a\\nb"}\n'
    assert list(of(tmp_path, files).documents)[::4] == ["the cat sat", "no title"]
    assert list(of(tmp_path, files).documents)[-1] == "a b"


def test_a_file_of_a_known_folder_is_refused_with_the_folder_s_form(tmp_path: Path) -> None:
    path = write_folder(tmp_path, beir_files()) / "corpus.jsonl"
    with pytest.raises(DataError, match="its folder has the files of: BEIR") as caught:
        load(path)
    assert f"give {path.parent}" in str(caught.value)


class TestConversation:
    def test_turns_and_repeated_responses(self, tmp_path: Path) -> None:
        data = of(tmp_path, conversation_files())
        require_texts_to_rank(data)
        assert data.turns[:2].tolist() == [1, 2] and data.query_utterances(1) == ["hello train", "who ran ?"]
        assert list(data.documents).count("I agree") == 2, "twice in a group; shared by all groups otherwise"
        assert len(data.domains) == 1

    def test_contexts_without_a_right_response(self, tmp_path: Path) -> None:
        files = {name: text.replace("1\thello", "0\thello") for name, text in conversation_files().items()}
        data = of(tmp_path, files)
        assert [len(split) for split in data.splits.values()] == [1, 2, 2]
        assert noted(data, "train: 1 context", "dropped") and noted(data, "dev: 1 context", "kept")

    def test_several_right_responses_and_contexts_that_begin_alike(self, tmp_path: Path) -> None:
        rows = "1\thello\tone\tyes\n0\thello\tone\tno\n1\thello\ttwo\tyes\n0\thello\ttwo\tno\n"
        files = {"train.tsv": rows, "test.tsv": "1\thello\tone\n1\thello\ttwo\n0\thello\tthree\n"}
        data = of(tmp_path, conversation_files() | files)
        assert [data.query_text(row) for row in range(len(data.splits["train"]))] == ["hello one", "hello two"]
        assert sorted(row[1] for row in candidates(data, "test", 0)) == [0, 1, 1], "outside training"

    def test_one_that_mentions_a_query_is_no_table_of_pairs(self, tmp_path: Path) -> None:
        files = {name: text.replace("where is the cat ?", "query") for name, text in conversation_files().items()}
        assert of(tmp_path, files).query_utterances(0) == ["train query"]


class TestLetor:
    def without_vali(self, folder: Path, count: int) -> RankingData:
        files = letor_files() | {"train.txt": "".join(f"1 qid:{n} 1:{n}\n" for n in range(1, count + 1))}
        del files["vali.txt"]
        return of(folder, files)

    def test_a_folder_without_training_rows_is_read(self, tmp_path: Path) -> None:
        files = {name: text for name, text in letor_files().items() if name != "train.txt"}
        assert list(of(tmp_path, files).splits) == ["dev", "test"]

    def test_features_are_dense_and_mapped(self, tmp_path: Path) -> None:
        data = of(tmp_path, letor_files())
        assert data.features is not None and data.features.dtype == np.float32
        np.testing.assert_allclose(data.features[:3], [[0.5, -1e-3, 0, 3], [0.25, 0, 0, 0], [7, 0, 0, 1]])
        assert data.splits["dev"].grade.tolist() == [2, 0, 1]
        assert isinstance(data.features.base, np.memmap)
        with pytest.raises(DataError, match="features"):
            require_texts_to_rank(data)

    def test_without_vali_the_same_fifth_is_dev_in_every_version(self, tmp_path: Path) -> None:
        """If it were drawn anew, dev values of different versions could not be compared."""
        data = self.without_vali(tmp_path / "ten", 10)
        assert queries(data)["dev"] == ["2", "6"] and [*map(len, data.splits.values())] == [8, 2, 2]
        assert data.features is not None
        for split in (data.splits["train"], data.splits["dev"]):
            ids = [float(data.query_ids[row]) for row in split.query]
            assert data.features[split.document, 0].tolist() == ids
        two = queries(self.without_vali(tmp_path / "two", 2))
        assert sorted(two["train"] + two["dev"]) == ["1", "2"] and len(two["dev"]) == 1
        assert "dev" not in self.without_vali(tmp_path / "one", 1).splits

    def test_the_highest_index_and_comments_between_the_rows(self, tmp_path: Path) -> None:
        high = of(tmp_path / "high", letor_files() | {"train.txt": f"1 qid:1 {MAX_FEATURE}:1\n"})
        assert high.features is not None and high.features.shape[1] == MAX_FEATURE
        told = {name: "# a file\n" + text.replace("\n", "\n# a row\n") for name, text in letor_files().items()}
        plain, data = of(tmp_path / "plain", letor_files()), of(tmp_path / "told", told)
        np.testing.assert_array_equal(plain.features, data.features)


class TestInsuranceQA:
    def test_version_1_draws_the_same_training_pools_in_every_version(self, tmp_path: Path) -> None:
        data = of(tmp_path / "a", insurance_v1_files(), top_k=3)
        again = of(tmp_path / "b", insurance_v1_files(), top_k=3, bm25={"k1": 1.0})
        for found in (data, again):
            assert [documents(found, "train", query) for query in (0, 1)] == [{"1", "3", "4"}, {"2", "3", "4"}]
        assert data.query_text(0) == "who sat"
        large = of(tmp_path / "c", insurance_v1_files(), top_k=9)
        assert large.splits["train"].sizes.tolist() == [4, 4], "no larger than there are answers"

    def test_held_out_pools_are_as_given(self, tmp_path: Path) -> None:
        data = of(tmp_path / "1", insurance_v1_files())
        assert sorted(row[:2] for row in candidates(data, "dev", 0)) == [("1", 1), ("3", 0), ("4", 0)]
        assert sorted(data.splits["dev"].judged_grade.tolist()) == [0, 0, 1, 1], "answer 2 is not retrieved"
        data = of(tmp_path / "2", insurance_v2_files())
        assert documents(data, "train", 0) == {"1", "2", "3"}, "the right answer 2 is not in the pool"
        assert documents(data, "test", 0) == {"1", "3"}

    def test_version_2_reads_the_pool_size_that_fits_or_the_largest(self, tmp_path: Path) -> None:
        files = insurance_v2_files()
        large = {name.replace(".100.", ".500."): text.replace("3 1", "3 4") for name, text in files.items()}
        folder = write_folder(tmp_path, large | files)
        pools = [documents(load(folder, top_k=size), "test", 0) for size in (100, 101, 600)]
        assert pools == [{"1", "3"}, {"3", "4"}, {"3", "4"}]


class TestSquad:
    TEXT = "The cat sat. Nobody flew."

    def read(self, folder: Path, answer: dict[str, Any], question: str = "Who ?") -> RankingData:
        """Data of two questions: one about the cat, and one with this answer."""
        cat = {"id": "1", "question": "What ?", "answers": [{"text": "cat", "answer_start": 4}]}
        asked = [cat, {"id": "2", "question": question, "answers": [answer]}]
        tree = {"data": [{"paragraphs": [{"context": self.TEXT, "qas": asked}]}]}
        return of(folder, {"train-v1.1.json": json.dumps(tree)})

    @pytest.mark.parametrize(("text", "start", "right"), [("The", 0, 1), ("Nobody", 13, 2), (" Nobody", 12, 2)])
    def test_an_answer_is_in_the_sentence_in_which_its_first_letter_stands(
        self, text: str, start: int, right: int, tmp_path: Path
    ) -> None:
        data = self.read(tmp_path, {"text": text, "answer_start": start}, " Who\n is   it ? ")
        assert [name for name, grade, _ in candidates(data, "train", 1) if grade] == [f"train-1-1-{right}"]
        assert data.query_text(1) == "Who is it ?"

    def test_sentences_cover_the_text(self, tmp_path: Path) -> None:
        assert list(of(tmp_path, squad_files()).documents)[1] == "Dr. A. Dog ran 2.5 miles!"
        text = ' "One." he said. Two (No. 2)? Three U.S. Navy\nships... Four'
        assert [text[start:end] for start, end in sentence_bounds(text)] == [
            ' "One." he said.', "Two (No. 2)?", "Three U.S. Navy\nships...", "Four",
        ]  # fmt: skip
        assert sentence_bounds(" ") == []

    def test_a_single_file_is_a_test_split_and_other_json_is_none(self, tmp_path: Path) -> None:
        assert list(of(tmp_path / "one", {"mine.json": squad_files()["dev-v1.1.json"]}).splits) == ["test"]
        for number, info in enumerate(('{"source": "somewhere"}', '{"name": "mine", "data": "collected in 2024"}')):
            data = of(tmp_path / str(number), {**trec_files(), "info.json": info})
            assert list(data.splits) == ["train", "dev", "test"]


class TestPairsToClassify:
    def test_classes_and_texts(self, tmp_path: Path) -> None:
        data = of(tmp_path, sick_files())
        assert (data.task, data.classes) == ("classification", ("contradiction", "entailment", "neutral"))
        assert list(data.documents) == ["a dog ran", "nobody"]
        with pytest.raises(DataError, match="classify"):
            require_texts_to_rank(data)

    def test_sick_in_one_file(self, tmp_path: Path) -> None:
        """As its authors publish it: columns in another order, one of which names the split."""
        rows = [row.split("\t") for text in sick_files().values() for row in text.splitlines()[1:]]
        parts = [name for name in ("TRAIN", "TRIAL", "TEST") for _ in range(3)]
        lines = ["\t".join(SICK_WHOLE)]
        for (name, first, second, score, label), part in zip(rows, parts, strict=True):
            lines.append("\t".join([name, first, second, label, score, *["x"] * 6, part]))
        assert_equal(of(tmp_path / "one", {"SICK.txt": "\n".join(lines)}), of(tmp_path / "three", sick_files()))

    def test_snli_takes_the_structured_file_where_both_are_there(self, tmp_path: Path) -> None:
        table = {name: text.replace("a cat", "a table") for name, text in snli_files(structured=False).items()}
        assert "a table" not in list(of(tmp_path, table | snli_files()).utterances)

    def test_quora_with_and_without_splits(self, tmp_path: Path) -> None:
        data = of(tmp_path / "whole", quora_whole_files())
        assert 'what is "a cat" ?' in list(data.utterances)
        held = queries(data)
        assert (held["dev"], held["test"]) == (["4"], ["9"]), "drawn alike in every version"
        head = quora_whole_files()["quora_duplicate_questions.tsv"].splitlines()[0]
        rows = [f"{n}\t1\t2\twho  {n} ?\twhich   {n} ?\t0" for n in range(3)]
        three = of(tmp_path / "three", {"quora_duplicate_questions.tsv": "\n".join([head, *rows])})
        assert [*map(len, three.splits.values())] == [1, 1, 1]
        assert sorted(three.documents) == ["which 0 ?", "which 1 ?", "which 2 ?"]
        one = of(tmp_path / "one", quora_files() | {"dev.tsv": "1\twho ?\twhich ?\t9\n"})
        assert queries(one)["dev"] == ["9"], "one pair is enough where the splits are given"


class TestPairsAndTriples:
    def test_white_space_is_squeezed_and_quoted_fields_may_hold_lines(self, tmp_path: Path) -> None:
        rows = 'anchor,positive,negative,source\n" a\n\n  cat","one, two",three,web\n"a cat",x,"say ""no""",web\n'
        data = of(tmp_path, {"train.csv": rows})
        assert list(data.utterances) == ["a cat"]
        assert list(data.documents) == ["one, two", "three", "x", 'say "no"']
        assert noted(data, "not read: source")

    @pytest.mark.parametrize(("label", "grade"), [("3", 3), ("2.0", 2), ("true", 1), ('"1"', 1)])
    def test_whole_numbers_are_grades(self, label: str, grade: int, tmp_path: Path) -> None:
        head = '{"query": "q", "document": "%s", "label": %s}\n'
        data = of(tmp_path, {"train.jsonl": head % ("a", label) + head % ("b", 0)})
        assert sorted(data.splits["train"].grade.tolist()) == [0, grade]


# -- rows that say the same again ----------------------------------------------------------------------------------

# The form, and the rows that each file has once more; rows that contradict others are in test_bad_data.py.
REPEATED: list[tuple[dict[str, str], dict[str, list[int]]]] = [
    (trec_files(), {"collection.tsv": [2, 2], "queries.dev.tsv": [1, 1], "qrels.dev.txt": [1], "run.dev.txt": [1, 1]}),
    (beir_files(), {"corpus.jsonl": [2], "queries.jsonl": [2], "qrels/dev.tsv": [2]}),
    (wikiqa_files(), {"WikiQA-dev.tsv": [3]}),
    (triple_files("jsonl"), {"train.jsonl": [2, 1]}),
    (sick_files(), {"SICK_train.txt": [2]}),
    (snli_files(), {"snli_1.0_dev.jsonl": [1]}),
    (quora_files(), {"dev.tsv": [1]}),
    (quora_whole_files(), {"quora_duplicate_questions.tsv": [2]}),
]


@pytest.mark.parametrize(("files", "repeats"), REPEATED, ids=lambda value: next(iter(value)))
def test_a_row_that_comes_twice_counts_once(
    files: dict[str, str], repeats: dict[str, list[int]], tmp_path: Path
) -> None:
    changed = dict(files)
    for name, rows in repeats.items():
        lines = files[name].splitlines(keepends=True)
        changed[name] = "".join([*lines, *(lines[row - 1] for row in rows)])
    data = of(tmp_path / "again", changed)
    assert_equal(of(tmp_path / "plain", files), data)
    for name, rows in repeats.items():
        line = len(files[name].splitlines()) + 1
        [note] = [note for note in data.notes if note.startswith(f"{Path(name).name}: {len(rows)} repeated row")]
        told = [
            int(number) for number in note.partition("(")[2].replace(":", " ").strip(")").split() if number.isdigit()
        ]
        assert told == [line, rows[0]], note
        assert str(tmp_path) not in note, "the cache serves other folders too"


# -- a teacher's scores --------------------------------------------------------------------------------------------


class TestTeacherScores:
    SCORES = "train-a\td3\t0.5\ntrain-a\td4\t-2\ntrain-b\td2\t1e-3\ntrain-a\td1\t7\n"

    @pytest.mark.parametrize("files", [trec_files(), beir_files()])
    @pytest.mark.parametrize("head", ["", "query\tdocument\tscore\n"])
    def test_are_a_column_of_the_candidates(self, files: dict[str, str], head: str, tmp_path: Path) -> None:
        data = of(tmp_path, files | {"scores.train.tsv": head + self.SCORES})
        train, dev = data.splits["train"], data.splits["dev"]
        assert train.teacher is not None and train.teacher.dtype == np.float32 and dev.teacher is None
        np.testing.assert_allclose(train.teacher, [-2, np.nan, 0.5, np.nan, 1e-3, np.nan])  # d4, d2, d3, d4, d2, d3
        assert noted(data, "train:", "teacher", "3 of 6")
        np.testing.assert_array_equal(some_queries(train, np.array([1])).teacher, train.teacher[3:])
        both = one_split([train, dev]).teacher
        assert both is not None and np.isnan(both[6:]).all()
        np.testing.assert_array_equal(both[:6], train.teacher)

    def test_of_pairs_name_texts(self, tmp_path: Path) -> None:
        scores = "dev cat\tthe cat sat\t3\ndev cat\ta bird flew\t1\ndev cat\tthe cat sat\t3\n"
        teacher = of(tmp_path, triple_files("csv") | {"scores.dev.tsv": scores}).splits["dev"].teacher
        assert teacher is not None and sorted(teacher[~np.isnan(teacher)].tolist()) == [1, 3]
