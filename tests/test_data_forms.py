"""What each form of data means: groups, grades, splits, classes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.support.data_folders import (
    conversation_files,
    insurance_v1_files,
    insurance_v2_files,
    letor_files,
    quora_whole_files,
    sick_files,
    snli_files,
    squad_files,
    trec_files,
    write_folder,
)
from tests.support.loading import candidates, load, problems
from trainables.core.errors import DataError
from trainables.data.columns import RankingData, require_texts_to_rank
from trainables.data.readers.sentence_pairs import SICK_WHOLE_COLUMNS
from trainables.data.readers.squad import sentence_bounds


class TestConversation:
    def test_groups_turns_and_repeated_responses(self, tmp_path: Path) -> None:
        data = load(write_folder(tmp_path, conversation_files()))
        assert list(data.query_ids)[:2] == ["train-1", "train-2"]
        assert data.turns[:2].tolist() == [1, 2]
        assert data.query_utterances(1) == ["hello train", "who ran ?"]
        assert data.splits["train"].sizes.tolist() == [2, 3]
        documents = [data.document_ids[i] for i in data.splits["train"].document]
        assert len(set(documents[2:])) == 3, "a response that stands twice in a group is two documents"
        assert list(data.documents).count("I agree") == 2, "shared by all groups otherwise"
        assert len(data.domains) == 1

    def test_contexts_without_a_right_response(self, tmp_path: Path) -> None:
        files = {name: text.replace("1\thello", "0\thello") for name, text in conversation_files().items()}
        data = load(write_folder(tmp_path, files))
        assert [len(split) for split in data.splits.values()] == [1, 2, 2]
        assert "train: 1 context without a right response dropped" in data.notes
        assert "dev: 1 context without a right response kept, to count 0" in data.notes

    def test_several_right_responses_outside_training(self, tmp_path: Path) -> None:
        files = conversation_files()
        files["test.tsv"] = "1\thello\tone\n1\thello\ttwo\n0\thello\tthree\n"
        data = load(write_folder(tmp_path, files))
        assert sorted(row[1] for row in candidates(data, "test", 0)) == [0, 1, 1]

    def test_all_problems_at_once(self, tmp_path: Path) -> None:
        files = conversation_files()
        files["train.tsv"] = "1\ta\tx\n1\ta\ty\n2\ta\tz\n0\ta\t \n0\ta\t\tb\n0\ta\n"
        assert problems(write_folder(tmp_path, files)) == [
            "train.tsv:2: two right responses first",
            "train.tsv:3: label '2'",
            "train.tsv:4: an empty response",
            "train.tsv:5: an empty utterance",
            "train.tsv:6: 2 columns instead of 3 or more",
        ]


class TestLetor:
    def test_features_are_dense_and_mapped(self, tmp_path: Path) -> None:
        data = load(write_folder(tmp_path, letor_files()))
        assert data.features is not None
        assert data.features.dtype == np.float32
        np.testing.assert_allclose(data.features[:3], [[0.5, -1e-3, 0, 3], [0.25, 0, 0, 0], [7, 0, 0, 1]])
        assert list(data.document_ids)[:3] == ["1:cat1", "1:2", "2:dog1"]
        assert data.splits["dev"].grade.tolist() == [2, 0, 1]
        assert isinstance(data.features.base, np.memmap)

    def test_without_vali_a_fixed_part_of_training_is_dev(self, tmp_path: Path) -> None:
        files = letor_files()
        del files["vali.txt"]
        files["train.txt"] = "".join(f"1 qid:{n} 1:{n}\n" for n in range(1, 11))
        data = load(write_folder(tmp_path, files))
        assert [len(split) for split in data.splits.values()] == [8, 2, 2]
        assert data.features is not None
        for split in ("train", "dev"):
            rows = data.splits[split]
            ids = [float(data.query_ids[i]) for i in rows.query]
            assert data.features[rows.document, 0].tolist() == ids

    def test_text_rankers_are_told(self, tmp_path: Path) -> None:
        with pytest.raises(DataError, match="holds features, no texts; use data with texts"):
            require_texts_to_rank(load(write_folder(tmp_path, letor_files())))

    def test_all_problems_at_once(self, tmp_path: Path) -> None:
        rows = ["1 qid:1 1:nan", "1 qid:2 2:1 1:1", "x qid:2 1:1", "1 1:1", "1 qid:3 -1:1", "-2 qid:3 1:1",
                "1 qid:4 1:1 # docid = a", "1 qid:4 1:1 # docid = a", "0 qid:5 1:1", "0 qid:4 1:1", "1"]  # fmt: skip
        files = letor_files() | {"train.txt": "\n".join(rows)}
        assert problems(write_folder(tmp_path, files)) == [
            "train.txt:1: feature '1:nan' is no finite number",
            "train.txt:2: feature 1 behind feature 2",
            "train.txt:3: label 'x'",
            "train.txt:4: '1:1' instead of a query",
            "train.txt:5: feature '-1:1'",
            "train.txt:6: label '-2'",
            "train.txt:8: document '4:a' a second time",
            "train.txt:11: 1 columns instead of 2 or more",
        ]


class TestInsuranceQA:
    def test_version_1_draws_training_pools(self, tmp_path: Path) -> None:
        data = load(write_folder(tmp_path / "a", insurance_v1_files()), top_k=3)
        again = load(write_folder(tmp_path / "b", insurance_v1_files()), top_k=3, bm25={"k1": 1.0})
        assert data.query_text(0) == "who sat"
        assert data.splits["train"].sizes.tolist() == [3, 3]
        assert {row[0] for row in candidates(data, "train", 1)} >= {"2", "4"}
        np.testing.assert_array_equal(np.sort(data.splits["train"].document), np.sort(again.splits["train"].document))

    def test_held_out_pools_are_as_given(self, tmp_path: Path) -> None:
        data = load(write_folder(tmp_path, insurance_v1_files()))
        assert sorted(row[:2] for row in candidates(data, "dev", 0)) == [("1", 1), ("3", 0), ("4", 0)]
        assert sorted(data.splits["dev"].judged_grade.tolist()) == [0, 0, 1, 1], "answer 2 is not retrieved"

    def test_version_2_adds_right_answers_in_training(self, tmp_path: Path) -> None:
        data = load(write_folder(tmp_path, insurance_v2_files()))
        assert sorted(row[:2] for row in candidates(data, "train", 0)) == [("1", 1), ("2", 1), ("3", 0)]
        assert sorted(row[:2] for row in candidates(data, "test", 0)) == [("1", 1), ("3", 0)]

    def test_version_2_reads_the_pool_size_that_fits(self, tmp_path: Path) -> None:
        files = insurance_v2_files()
        large = {name.replace(".100.", ".500."): text.replace("3 1", "3 4") for name, text in files.items()}
        folder = write_folder(tmp_path, large | files)
        assert {row[0] for row in candidates(load(folder, top_k=100), "test", 0)} == {"1", "3"}
        assert {row[0] for row in candidates(load(folder, top_k=101), "test", 0)} == {"3", "4"}

    def test_unknown_words_and_answers(self, tmp_path: Path) -> None:
        files = insurance_v1_files() | {"answers.label.token_idx": "1\tidx_9\n1\tidx_1\n"}
        assert problems(write_folder(tmp_path / "a", files)) == [
            "answers.label.token_idx:1: 'idx_9' is not in the vocabulary",
            "answers.label.token_idx:2: label '1' is empty, holds white space or stands here a second time",
        ]
        files = insurance_v1_files() | {"question.train.token_idx.label": "idx_1\t7\n"}
        assert problems(write_folder(tmp_path / "b", files)) == [
            "question.train.token_idx.label:1: there is no answer '7'",
            "question.train.token_idx.label:1: no right answer",
        ]


class TestSquad:
    def test_sentences_with_an_answer_are_right(self, tmp_path: Path) -> None:
        data = load(write_folder(tmp_path, squad_files()))
        assert list(data.documents)[:3] == ["The cat sat.", "Dr. A. Dog ran 2.5 miles!", "Nobody flew."]
        assert sorted(row[:2] for row in candidates(data, "train", 0)) == [
            ("train-1-1-1", 0), ("train-1-1-2", 1), ("train-1-1-3", 0),
        ]  # fmt: skip
        assert "train: 1 answer not at the given offset left out" in data.notes
        assert "train: 1 question without an answer dropped" in data.notes

    def test_a_single_file_is_a_test_split(self, tmp_path: Path) -> None:
        data = load(write_folder(tmp_path, {"mine.json": squad_files()["dev-v1.1.json"]}))
        assert list(data.splits) == ["test"]

    def test_other_json_beside_another_form_is_passed_over(self, tmp_path: Path) -> None:
        for number, info in enumerate(('{"source": "somewhere"}', '{"name": "mine", "data": "collected in 2024"}')):
            folder = write_folder(tmp_path / str(number), {**trec_files(), "info.json": info})
            assert list(load(folder).splits) == ["train", "dev", "test"]

    def test_sentences_cover_the_text(self) -> None:
        text = ' "One." he said. Two (No. 2)? Three U.S. Navy\nships... Four'
        bounds = sentence_bounds(text)
        assert [text[start:end] for start, end in bounds] == [
            ' "One." he said.', "Two (No. 2)?", "Three U.S. Navy\nships...", "Four",
        ]  # fmt: skip
        assert sentence_bounds(" ") == []

    def test_what_is_not_squad(self, tmp_path: Path) -> None:
        cases = {
            '{"data": 1, "paragraphs": 1}': "not SQuAD 1.1 (no list 'data')",
            '{"data": [{"paragraphs": [': "not JSON",
            '{"data": [{"paragraphs": []}]}': "no questions",
        }
        for number, (text, wrong) in enumerate(cases.items()):
            folder = write_folder(tmp_path / str(number), {"mine.json": text})
            assert wrong in problems(folder)[0]
        broken = tmp_path / "broken"
        broken.mkdir()
        (broken / "mine.json.gz").write_bytes(b"no gzip")
        assert "not a gzip file" in problems(broken)[0]


class TestPairs:
    def test_classes_and_single_candidates(self, tmp_path: Path) -> None:
        data = load(write_folder(tmp_path, sick_files()))
        assert (data.task, data.classes) == ("classification", ("contradiction", "entailment", "neutral"))
        assert data.splits["test"].grade.tolist() == [2, 1, 0]
        assert data.splits["test"].sizes.tolist() == [1, 1, 1]
        assert list(data.documents) == ["a dog ran", "nobody"]
        with pytest.raises(DataError, match="is pairs to classify"):
            require_texts_to_rank(data)

    @pytest.mark.parametrize("structured", [True, False])
    def test_snli_drops_pairs_without_a_gold_label(self, structured: bool, tmp_path: Path) -> None:
        data = load(write_folder(tmp_path, snli_files(structured)))
        assert data.splits["dev"].grade.tolist() == [2, 1]
        assert "dev: 1 pair without a gold label dropped" in data.notes

    def test_quora_as_published(self, tmp_path: Path) -> None:
        data = load(write_folder(tmp_path, quora_whole_files()))
        assert [len(split) for split in data.splits.values()] == [8, 1, 1]
        assert 'what is "a cat" ?' in list(data.utterances)
        assert any("1 pair with an empty question dropped" in note for note in data.notes)

    def test_wrong_labels(self, tmp_path: Path) -> None:
        files = {name: text.replace("NEUTRAL", "MAYBE") for name, text in sick_files().items()}
        assert problems(write_folder(tmp_path, files))[0] == "SICK_train.txt:2: judgment 'MAYBE'"

    def test_sick_in_one_file(self, tmp_path: Path) -> None:
        """As its authors publish it: columns in another order, one of which names the split."""
        rows = [row for text in sick_files().values() for row in text.splitlines()[1:]]
        sets = [name for name in ("TRAIN", "TRIAL", "TEST") for _ in range(3)]
        lines = ["\t".join(SICK_WHOLE_COLUMNS)]
        for (name, first, second, score, label), part in zip((row.split("\t") for row in rows), sets, strict=True):
            lines.append("\t".join([name, first, second, label, score, *["x"] * 6, part]))
        one = load(write_folder(tmp_path / "one", {"SICK.txt": "\n".join(lines)}))
        three = load(write_folder(tmp_path / "three", sick_files()))
        assert list(one.query_ids) == list(three.query_ids) and list(one.documents) == list(three.documents)
        for split, columns in three.splits.items():
            assert one.splits[split].grade.tolist() == columns.grade.tolist()
        (broken := {name: text.replace("NEUTRAL", "MAYBE") for name, text in sick_files().items()}).popitem()
        for name, text in broken.items():
            broken[name] = "\n".join([line for line in text.splitlines() if "ENT" not in line and "CON" not in line])
        assert all("SICK.txt" not in told for told in problems(write_folder(tmp_path / "broken", broken)))
        lines[2] = lines[2].replace("TRAIN", "ELSEWHERE")
        lines[5] = lines[5].replace("ENTAILMENT", "MAYBE")
        wrong = problems(write_folder(tmp_path / "wrong", {"SICK.txt": "\n".join(lines)}))
        assert wrong == ["SICK.txt:3: SemEval_set 'ELSEWHERE'", "SICK.txt:6: judgment 'MAYBE'"]


def test_ranking_data_is_no_problem(tmp_path: Path) -> None:
    data: RankingData = load(write_folder(tmp_path, conversation_files()))
    require_texts_to_rank(data)
