"""What every reader promises, and what each says about wrong files."""

from __future__ import annotations

import gzip
import re
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.data_folders import BINARY_FORMS, COLLECTION, FORMS, HEADER, trec_files, wikiqa_files, write_folder
from tests.support.loading import candidates, configured, load, problems
from trainables.core.errors import DataError
from trainables.data.columns import SPLITS
from trainables.data.readers import READERS, reader_for
from tune_cl.testing import check_reader
from tune_cl.testing.readers import check_data


def splits_of(form: str) -> list[str]:
    return ["train", "dev"] if form == "squad" else list(SPLITS)


def test_every_reader_has_a_form(tmp_path: Path) -> None:
    found = {reader_for(write_folder(tmp_path / form, files)) for form, files in (FORMS | BINARY_FORMS).items()}
    assert found == set(READERS)


@pytest.mark.parametrize("form", FORMS)
class TestEveryReader:
    def test_data_keeps_its_promises(self, form: str, tmp_path: Path) -> None:
        data = load(write_folder(tmp_path / "form", FORMS[form]))
        assert list(data.splits) == splits_of(form)
        assert data.name == "form"
        assert len(data.digest) == 64
        check_data(data)

    def test_it_keeps_the_contract(self, form: str, tmp_path: Path) -> None:
        folder = write_folder(tmp_path / "form", FORMS[form])
        check_reader(reader_for(folder), folder)

    def test_the_same_files_give_the_same_data(self, form: str, tmp_path: Path) -> None:
        one, two = (load(write_folder(tmp_path / name, FORMS[form])) for name in ("one", "two"))
        assert one.digest == two.digest
        assert [one.name, two.name] == ["one", "two"]

    def test_other_bytes_or_settings_give_another_digest(self, form: str, tmp_path: Path) -> None:
        digests = {load(write_folder(tmp_path / "a", FORMS[form]), **keys).digest for keys in ({}, {"top_k": 2})}
        changed = {name: re.sub(r"\bcat", "cow", text) for name, text in FORMS[form].items()}
        digests.add(load(write_folder(tmp_path / "b", changed)).digest)
        assert len(digests) == 3

    def test_gzip_crlf_and_byte_order_mark_change_nothing(self, form: str, tmp_path: Path) -> None:
        plain = load(write_folder(tmp_path / "plain", FORMS[form]))
        dressed = {f"{name}.gz": "\ufeff" + text.replace("\n", "\r\n") for name, text in FORMS[form].items()}
        other = load(write_folder(tmp_path / "dressed", dressed))
        assert list(other.documents) == list(plain.documents)
        assert list(other.query_ids) == list(plain.query_ids)
        for name, split in plain.splits.items():
            np.testing.assert_array_equal(other.splits[name].document, split.document)
            np.testing.assert_array_equal(other.splits[name].grade, split.grade)

    def test_wrong_files_are_named(self, form: str, tmp_path: Path) -> None:
        for name, text in FORMS[form].items():
            raw = text.encode()
            first = raw.find(b"\n") + 1
            line = 1 + bool(first)
            packed = gzip.compress(raw)
            cases = {
                (name, b""): f"{name}: no rows",
                (name, raw[:first] + b"\xff" + raw[first:]): f"{name}:{line}: byte 0xff is not UTF-8",
                (name, raw[:first] + b"one\n" + raw[first:]): f"{name}:{line}: ",
                (name, b"<html><body>\n" + raw): f"{name}:1: ",
                (f"{name}.gz", packed[: len(packed) // 2]): f"{name}.gz:",
                (f"{name}.gz", b"plain"): f"{name}.gz: not a gzip file",
            }
            for number, ((file, content), wrong) in enumerate(cases.items()):
                folder = write_folder(tmp_path / f"{name.replace('/', '-')}-{number}", FORMS[form])
                (folder / name).unlink()
                (folder / file).write_bytes(content)
                assert any(line.startswith(wrong) for line in problems(folder)), (wrong, problems(folder))

    def test_a_missing_split_is_no_error(self, form: str, tmp_path: Path) -> None:
        files = {name: text for name, text in FORMS[form].items() if "test" not in name}
        expected = splits_of(form) if files == FORMS[form] else ["train", "dev"]
        assert list(load(write_folder(tmp_path, files)).splits) == expected

    @settings(deadline=None, max_examples=60)
    @given(data=st.data())
    def test_any_bytes_give_data_or_a_data_error(self, form: str, data: st.DataObject) -> None:
        files: dict[str, str | bytes] = dict(FORMS[form])
        name = data.draw(st.sampled_from(sorted(files)))
        raw = str(files[name]).encode()
        start = data.draw(st.integers(0, len(raw)))
        stop = data.draw(st.integers(start, min(len(raw), start + 40)))
        odd = st.one_of(
            st.binary(max_size=8), st.sampled_from([b"\t", b"\n", b" ", b"-1", b"nan", b"1e999", b"\xef\xbb\xbf"])
        )
        files[name] = raw[:start] + data.draw(odd) + raw[stop:]
        with TemporaryDirectory() as temporary:
            folder = write_folder(Path(temporary), files)
            try:
                reader = reader_for(folder)
                auto = reader in ("letor", "sick", "snli", "quora")
                candidates = "auto" if auto else "run" if "run.dev.txt" in files else "qrels"
                config = configured(folder, candidates=candidates)
                check_data(READERS[reader].read(folder, config, folder / "workspace"))
            except DataError as error:
                assert error.problems


def test_sources_that_are_no_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    wrongs = {"none": "does not exist", "file": "is not a folder", ".": "no known form of data"}
    for name, wrong in wrongs.items():
        with pytest.raises(DataError, match=wrong):
            load(tmp_path / name)


def test_a_folder_in_two_forms_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="could be trec or wikiqa"):
        load(write_folder(tmp_path, trec_files() | wikiqa_files()))


class TestTrec:
    def test_candidates_of_a_run(self, tmp_path: Path) -> None:
        data = load(write_folder(tmp_path, trec_files()))
        # Among equal scores the higher document id comes first, as in trec_eval.
        assert candidates(data, "dev", 0) == [("d4", -1, 1), ("d2", 0, 2), ("d3", 0, 3)]
        assert candidates(data, "dev", 1) == [("d4", -1, 1), ("d2", 1, 2), ("d3", 0, 3)]
        assert data.splits["dev"].judged_grade.tolist() == [1, 0, 0, 0, 1, 0]

    def test_top_k_cuts_a_run(self, tmp_path: Path) -> None:
        data = load(write_folder(tmp_path, trec_files()), top_k=2)
        assert [row[0] for row in candidates(data, "train", 0)] == ["d4", "d2"]

    def test_a_run_that_is_asked_for_must_be_there(self, tmp_path: Path) -> None:
        data = load(write_folder(tmp_path / "with", trec_files()), candidates="run")
        assert candidates(data, "dev", 0) == [("d4", -1, 1), ("d2", 0, 2), ("d3", 0, 3)]
        assert problems(write_folder(tmp_path / "without", trec_files(runs=False)), candidates="run") == [
            f"run.{split}.txt: missing file" for split in SPLITS
        ]

    def test_without_a_run_the_judged_documents_are_ranked_by_bm25(self, tmp_path: Path) -> None:
        data = load(write_folder(tmp_path, trec_files(runs=False)))
        assert candidates(data, "test", 0) == [("d1", 1, 1), ("d3", 0, 2), ("d2", 0, 3)]
        assert data.splits["test"].score[0] > 0
        assert data.splits["test"].score[1:3].tolist() == [0, 0]
        few = load(write_folder(tmp_path, trec_files(runs=False)), top_k=2)
        assert few.splits["test"].sizes.tolist() == [3, 3], "top_k is of a run; what was judged is no run"

    def test_all_problems_of_the_texts_at_once(self, tmp_path: Path) -> None:
        files = trec_files() | {"collection.tsv": "d1\tone\nd1\tagain\nd 3\tspace\nd4\t \n\tno id\nd5\n"}
        files["queries.dev.tsv"] = "q\ta\tb\n"
        assert problems(write_folder(tmp_path, files)) == [
            "collection.tsv:3: id 'd 3' is empty or holds white space",
            "collection.tsv:4: 'd4' has an empty text",
            "collection.tsv:5: id '' is empty or holds white space",
            "collection.tsv:6: 1 columns instead of 2",
            "collection.tsv:2: another text for id 'd1' than in collection.tsv:1",
            "queries.dev.tsv:1: 3 columns instead of 2",
        ]

    def test_all_problems_of_qrels_and_runs_at_once(self, tmp_path: Path) -> None:
        files = trec_files()
        files["qrels.dev.txt"] = "dev-a 0 d1 one\nnobody 0 d1 1\ndev-a 0 d2 1.5\ndev-a 0 d2 0\ndev-a 0 d3 40000\n"
        files["run.dev.txt"] = "dev-a Q0 d9 1 1 x\ndev-a Q0 d1 1 nan x\ndev-z Q0 d1 1 1 x\ndev-b Q0 d1 1 1_0 x\n"
        assert problems(write_folder(tmp_path, files)) == [
            "qrels.dev.txt:1: grade 'one'",
            "qrels.dev.txt:2: unknown query 'nobody'",
            "qrels.dev.txt:3: grade '1.5'",
            "qrels.dev.txt:5: grade '40000'",
            "run.dev.txt:2: score 'nan'",
            "run.dev.txt:3: unknown query 'dev-z'",
            "run.dev.txt:4: score '1_0'",
            "run.dev.txt:1: document 'd9' is not in the collection",
        ]

    @pytest.mark.parametrize("missing", ["qrels.dev.txt", "queries.dev.tsv"])
    def test_a_missing_file_of_a_split(self, missing: str, tmp_path: Path) -> None:
        folder = write_folder(tmp_path, trec_files())
        (folder / missing).unlink()
        assert problems(folder) == [f"{missing}: missing file"]

    def test_no_split_at_all(self, tmp_path: Path) -> None:
        assert problems(write_folder(tmp_path, {"collection.tsv": COLLECTION})) == [": no queries"]

    def test_a_judged_document_without_text_counts_beside_a_run(self, tmp_path: Path) -> None:
        files = trec_files()
        files["qrels.dev.txt"] += "dev-a 0 gone 3\n"
        data = load(write_folder(tmp_path, files))
        assert data.splits["dev"].judged_grade.tolist() == [1, 0, 0, 3, 0, 1, 0]
        assert any(note.startswith("dev: 1 judged document without text") for note in data.notes)

    def test_a_judged_document_without_text_is_wrong_as_a_candidate(self, tmp_path: Path) -> None:
        files = trec_files(runs=False)
        files["qrels.dev.txt"] += "dev-a 0 gone 3\ndev-a 0 d1 x\n"
        assert problems(write_folder(tmp_path, files)) == [
            "qrels.dev.txt:8: grade 'x'",
            "qrels.dev.txt:7: document 'gone' is not in the collection",
        ]

    def test_queries_without_judgments_are_dropped(self, tmp_path: Path) -> None:
        files = trec_files()
        files["queries.test.tsv"] = "test-0\tunjudged\n" + files["queries.test.tsv"]
        data = load(write_folder(tmp_path, files))
        assert [data.query_ids[i] for i in data.splits["test"].query] == ["test-a", "test-b"]
        assert "test: 1 query without judgments dropped" in data.notes
        check_data(data)

    def test_queries_without_candidates_stay_outside_training(self, tmp_path: Path) -> None:
        files = trec_files()
        for split in ("train", "dev"):
            rows = files[f"run.{split}.txt"].splitlines(keepends=True)
            files[f"run.{split}.txt"] = "".join(row for row in rows if not row.startswith(f"{split}-a"))
        data = load(write_folder(tmp_path, files))
        assert data.splits["train"].sizes.tolist() == [3]
        assert data.splits["dev"].sizes.tolist() == [0, 3]
        assert data.splits["dev"].judged_grade.tolist() == [1, 0, 0, 0, 1, 0]
        assert "train: 1 query without candidates dropped" in data.notes
        assert any(note.startswith("dev: 1 query without candidates, counted 0") for note in data.notes)

    def test_a_query_of_two_splits_is_noted(self, tmp_path: Path) -> None:
        files = {name: text.replace("test-a", "dev-a") for name, text in trec_files().items()}
        assert "1 query ids stand in more than one split" in load(write_folder(tmp_path, files)).notes

    def test_negative_grades_are_not_relevant(self, tmp_path: Path) -> None:
        files = trec_files()
        files["qrels.dev.txt"] = files["qrels.dev.txt"].replace("d3 0", "d3 -2")
        assert load(write_folder(tmp_path, files)).splits["dev"].judged_grade.tolist() == [1, 0, 0, 0, 1, 0]

    def test_grades_and_scores_have_a_range(self, tmp_path: Path) -> None:
        files = trec_files()
        files["qrels.dev.txt"] = files["qrels.dev.txt"].replace("d1 1", "d1 32767")
        assert load(write_folder(tmp_path / "right", files)).splits["dev"].judged_grade.max() == 32767
        files["qrels.dev.txt"] = files["qrels.dev.txt"].replace("32767", "32768")
        files["run.dev.txt"] = files["run.dev.txt"].replace(" 1 x", " -4e38 x", 1)
        assert problems(write_folder(tmp_path / "wrong", files)) == [
            "qrels.dev.txt:1: grade '32768'",
            "run.dev.txt:1: score '-4e38'",
        ]


class TestWikiQA:
    def test_questions_without_a_right_sentence_are_dropped(self, tmp_path: Path) -> None:
        data = load(write_folder(tmp_path, wikiqa_files()))
        assert list(data.query_ids)[:2] == ["trainQ1", "trainQ2"]
        assert len(data.query_ids) == 6
        assert "train: 1 question without a right sentence dropped" in data.notes
        assert "trainS4" not in list(data.document_ids)

    def test_a_sentence_may_serve_two_questions(self, tmp_path: Path) -> None:
        data = load(write_folder(tmp_path, wikiqa_files()))
        assert sorted(candidates(data, "dev", 0)) == [("devS1", 1, 1), ("devS2", 0, 2)]
        assert ("devS2", 1, 1) in candidates(data, "dev", 1)
        assert list(data.document_ids).count("devS2") == 1

    def test_all_problems_at_once(self, tmp_path: Path) -> None:
        rows = ["Q1\ta\tD\tT\tS1\tx\t2", "Q1\tb\tD\tT\tS2\ty\t0", "Q1\ta\tD\tT\tS1\tx\t1", "Q2\ta\tD\tT\tS3\t \t1",
                "\ta\tD\tT\tS4\tx\t1"]  # fmt: skip
        files = wikiqa_files() | {
            "WikiQA-dev.tsv": HEADER + "\n".join(rows),
            "WikiQA-test.tsv": "a\tb\tc\td\te\tf\tg\n",
        }
        assert problems(write_folder(tmp_path, files)) == [
            "WikiQA-dev.tsv:2: label '2'",
            "WikiQA-dev.tsv:3: another text for 'Q1' than in WikiQA-dev.tsv:2",
            "WikiQA-dev.tsv:5: an empty question or sentence",
            "WikiQA-dev.tsv:6: id '' or 'S4' is empty or holds white space",
            "WikiQA-test.tsv:1: not the WikiQA header",
        ]

    def test_it_has_no_run(self, tmp_path: Path) -> None:
        assert problems(write_folder(tmp_path, wikiqa_files()), candidates="run") == [
            "data.candidates: train has no run"
        ]
