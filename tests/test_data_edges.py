"""Readers at their edges: the smallest data, draws under a fixed seed, the last value that is still accepted."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.data_folders import (
    conversation_files,
    insurance_v1_files,
    insurance_v2_files,
    letor_files,
    quora_files,
    quora_whole_files,
    sick_files,
    snli_files,
    wikiqa_files,
    write_folder,
)
from tests.support.loading import candidates, load, problems
from trainables.data.columns import RankingData
from trainables.data.readers.letor import MAX_FEATURE


def queries(data: RankingData) -> dict[str, list[str]]:
    """Query ids by split."""
    return {name: [data.query_ids[int(row)] for row in split.query] for name, split in data.splits.items()}


class TestLetor:
    def without_vali(self, folder: Path, count: int) -> dict[str, list[str]]:
        files = letor_files() | {"train.txt": "".join(f"1 qid:q{n} 1:{n}\n" for n in range(1, count + 1))}
        del files["vali.txt"]
        return queries(load(write_folder(folder, files)))

    def test_the_same_fifth_is_dev_in_every_version(self, tmp_path: Path) -> None:
        """If it were drawn anew, dev values of different versions could not be compared."""
        assert self.without_vali(tmp_path, 10)["dev"] == ["q2", "q6"]

    def test_of_two_queries_one_is_dev_and_of_one_none(self, tmp_path: Path) -> None:
        two = self.without_vali(tmp_path / "two", 2)
        assert sorted(two["train"] + two["dev"]) == ["q1", "q2"] and len(two["dev"]) == 1
        assert "dev" not in self.without_vali(tmp_path / "one", 1)

    def test_a_feature_stands_once_and_has_a_highest_index(self, tmp_path: Path) -> None:
        files = letor_files() | {"train.txt": f"1 qid:1 1:1 1:2\n1 qid:1 {MAX_FEATURE + 1}:1\n"}
        assert problems(write_folder(tmp_path / "wrong", files)) == [
            "train.txt:1: feature 1 behind feature 1",
            f"train.txt:2: feature '{MAX_FEATURE + 1}:1'",
        ]
        data = load(write_folder(tmp_path / "right", letor_files() | {"train.txt": f"1 qid:1 {MAX_FEATURE}:1\n"}))
        assert data.features is not None and data.features.shape[1] == MAX_FEATURE


class TestQuora:
    def whole(self, folder: Path, *rows: str) -> Path:
        head = quora_whole_files()["quora_duplicate_questions.tsv"].splitlines()[0]
        return write_folder(folder, {"quora_duplicate_questions.tsv": "\n".join([head, *rows])})

    def test_the_same_pairs_are_held_out_in_every_version_and_the_file_s_order_stays(self, tmp_path: Path) -> None:
        assert queries(load(write_folder(tmp_path, quora_whole_files()))) == {
            "train": ["0", "1", "2", "3", "5", "6", "7", "8"], "dev": ["4"], "test": ["9"],
        }  # fmt: skip

    def test_three_pairs_are_a_split_each_and_two_are_too_few(self, tmp_path: Path) -> None:
        rows = [f"{n}\t1\t2\twho  {n} ?\twhich \t0".replace("which ", f"which   {n} ?") for n in range(3)]
        data = load(self.whole(tmp_path / "three", *rows))
        assert sorted(map(len, data.splits.values())) == [1, 1, 1]
        assert sorted(data.documents) == ["which 0 ?", "which 1 ?", "which 2 ?"], "spaces as in the first question"
        assert problems(self.whole(tmp_path / "two", *rows[:2])) == [
            "quora_duplicate_questions.tsv: 2 pairs with two questions"
        ]

    def test_a_pair_without_a_question_still_needs_an_id(self, tmp_path: Path) -> None:
        told = problems(self.whole(tmp_path, "a b\t1\t2\twho ?\t\t0"))
        assert told == ["quora_duplicate_questions.tsv:2: id 'a b' is empty or holds white space"]

    def test_one_pair_is_enough_where_the_splits_are_given(self, tmp_path: Path) -> None:
        data = load(write_folder(tmp_path, quora_files() | {"dev.tsv": "1\twho ?\twhich ?\t9\n"}))
        assert queries(data)["dev"] == ["9"]


@pytest.mark.parametrize(
    ("files", "name", "row", "change"),
    [
        (sick_files(), "SICK_train.txt", 2, ("NEUTRAL", "ENTAILMENT")),
        (snli_files(), "snli_1.0_dev.jsonl", 1, ("a cat", "a cow")),
        (quora_files(), "dev.tsv", 1, ("who sat", "who stood")),
        (quora_whole_files(), "quora_duplicate_questions.tsv", 2, ("who sat", "who stood")),
    ],
)
def test_a_pair_that_comes_twice_counts_once_or_contradicts_itself(
    files: dict[str, str], name: str, row: int, change: tuple[str, str], tmp_path: Path
) -> None:
    again, count = files[name].splitlines()[row - 1], len(files[name].splitlines())
    plain = load(write_folder(tmp_path / "plain", files))
    data = load(write_folder(tmp_path / "same", files | {name: f"{files[name]}{again}\n"}))
    assert queries(data) == queries(plain)
    assert f"{name}: 1 repeated row left out (the first: line {count + 1} says what line {row} says)" in data.notes
    other = f"{files[name]}{again.replace(*change)}\n"
    [told] = problems(write_folder(tmp_path / "other", files | {name: other}))
    assert told.startswith(f"{name}:{count + 1}: pair '") and told.endswith(f"another label in {name}:{row}")


def test_snli_takes_the_structured_file_where_both_are_there(tmp_path: Path) -> None:
    table = {name: text.replace("a cat", "a table") for name, text in snli_files(structured=False).items()}
    assert "a table" not in list(load(write_folder(tmp_path, table | snli_files())).utterances)


class TestSquad:
    TEXT = "The cat sat. Nobody flew."

    def read(self, folder: Path, *answers: dict[str, Any], question: str = "Who ?") -> RankingData:
        """Data of two questions: one about the cat, and one with these answers."""
        cat = {"id": "1", "question": "What ?", "answers": [{"text": "cat", "answer_start": 4}]}
        asked = [cat, {"id": "2", "question": question, "answers": list(answers)}]
        tree = {"data": [{"paragraphs": [{"context": self.TEXT, "qas": asked}]}]}
        return load(write_folder(folder, {"train-v1.1.json": json.dumps(tree)}))

    @pytest.mark.parametrize(
        ("text", "start", "right"),
        [("The", 0, 1), ("Nobody", 13, 2), (" Nobody", 12, 2)],
        ids=["first", "next", "space"],
    )
    def test_an_answer_is_in_the_sentence_in_which_its_first_letter_stands(
        self, text: str, start: int, right: int, tmp_path: Path
    ) -> None:
        data = self.read(tmp_path, {"text": text, "answer_start": start})
        assert [name for name, grade, _ in candidates(data, "train", 1) if grade] == [f"train-1-1-{right}"]

    @pytest.mark.parametrize(("text", "start"), [("flew.", -5), ("", 3)], ids=["from the end", "empty"])
    def test_an_answer_that_is_nowhere_is_left_out(self, text: str, start: int, tmp_path: Path) -> None:
        data = self.read(tmp_path, {"text": text, "answer_start": start})
        assert len(data.query_ids) == 1
        assert "train: 1 answer not at the given offset left out" in data.notes

    def test_a_question_is_one_line(self, tmp_path: Path) -> None:
        data = self.read(tmp_path, {"text": "cat", "answer_start": 4}, question=" Who\n is   it ? ")
        assert data.query_text(1) == "Who is it ?"

    def test_two_other_json_files_are_no_squad(self, tmp_path: Path) -> None:
        folder = write_folder(tmp_path, {"a.json": '{"data": []}', "b.json": '{"data": []}'})
        assert problems(folder) == [": no known form of data"]


class TestInsuranceQa:
    def test_the_same_answers_are_drawn_in_every_version(self, tmp_path: Path) -> None:
        data = load(write_folder(tmp_path, insurance_v1_files()), top_k=3)
        assert [{row[0] for row in candidates(data, "train", query)} for query in (0, 1)] == [
            {"1", "3", "4"}, {"2", "3", "4"},
        ]  # fmt: skip

    def test_a_pool_is_no_larger_than_there_are_answers(self, tmp_path: Path) -> None:
        data = load(write_folder(tmp_path, insurance_v1_files()), top_k=9)
        assert data.splits["train"].sizes.tolist() == [4, 4]

    def test_the_largest_pool_is_read_where_none_holds_as_many(self, tmp_path: Path) -> None:
        files = insurance_v2_files()
        large = {name.replace(".100.", ".500."): text.replace("3 1", "3 4") for name, text in files.items()}
        data = load(write_folder(tmp_path, large | files), top_k=600)
        assert {row[0] for row in candidates(data, "test", 0)} == {"3", "4"}


def test_a_sentence_of_wikiqa_has_one_text(tmp_path: Path) -> None:
    files = wikiqa_files()
    files["WikiQA-dev.tsv"] = files["WikiQA-dev.tsv"].replace("devS2\tthe dog ran\t1", "devS2\tthe dog walked\t1")
    told = problems(write_folder(tmp_path, files))
    assert told == ["WikiQA-dev.tsv:4: another text for 'devS2' than in WikiQA-dev.tsv:3"]


def test_contexts_that_begin_alike_are_two(tmp_path: Path) -> None:
    rows = "1\thello\tone\tyes\n0\thello\tone\tno\n1\thello\ttwo\tyes\n0\thello\ttwo\tno\n"
    data = load(write_folder(tmp_path, conversation_files() | {"train.tsv": rows}))
    assert [data.query_text(row) for row in range(2)] == ["hello one", "hello two"]
    assert len(data.splits["train"]) == 2


def test_a_blank_response_is_none(tmp_path: Path) -> None:
    files = conversation_files() | {"valid.tsv": "1\thello\tyes\n0\thello\t \n"}
    assert problems(write_folder(tmp_path, files)) == ["valid.tsv:2: an empty response"]


def test_a_plain_file_is_read_where_a_packed_one_stands_beside_it(tmp_path: Path) -> None:
    files = wikiqa_files()
    folder = write_folder(tmp_path, files | {"WikiQA-dev.tsv.gz": files["WikiQA-test.tsv"]})
    assert queries(load(folder))["dev"] == ["devQ1", "devQ2"]
