"""What every reader promises: it alone takes its form, reads the right queries, documents and grades out of it, and
names what is wrong with a file."""

from __future__ import annotations

import gzip
import re
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.support.data_folders import (
    BINARY_FORMS,
    FORMS,
    assert_equal,
    parquet_files,
    triple_files,
    triple_rows,
    write_folder,
)
from tests.support.loading import candidates, load, problems
from trainables.data.columns import SPLITS, RankingData
from trainables.data.forms import READERS, reader_for
from tune_cl.testing import check_reader
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
    "datasets": ("datasets", "2 2 2", 4, TRIPLES),
    "labelled pairs": ("pairs", "2 2 2", 4, TRIPLES),
    "labelled pairs as TSV": ("pairs", "2 2 2", 4, TRIPLES),
    "wikiqa": ("wikiqa", "2 2 2", 9, "trainQ1 trainS1:1 trainS2:0 | trainQ2 trainS2:1 trainS3:0"),
    "conversation": ("conversation", "2 2 2", 4, "train-1 d2:0 d1:1 | train-2 d4:0 d3:1 d2:0"),
    "letor": ("letor", "2 2 2", 9, "1 1:cat1:2 1:2:0 | 2 2:dog1:1"),
    "insurance_qa 1": ("insurance_qa", "2 1 1", 4, "train-1 2:0 1:1 4:0 3:0 | train-2 4:1 3:0 2:1 1:0"),
    "insurance_qa 2": ("insurance_qa", "1 1 1", 4, "train-1 2:1 1:1 3:0"),
    "squad": ("squad", "1 1", 6, "train-1 train-1-1-3:0 train-1-1-2:1 train-1-1-1:0"),
    "sick": ("sick", "3 3 3", 2, "1 s1:2 | 2 s1:1 | 3 s2:0"),
    "snli": ("snli", "2 2 2", 2, PAIRS),
    "snli as a table": ("snli", "2 2 2", 2, PAIRS),
    "quora": ("quora", "2 2 2", 2, "0 s1:1 | 1 s2:0"),
    "quora as published": ("quora", "8 1 1", 2, HELD),
}
# Forms whose files are of the kinds of others': the contract damages each file in many ways, which takes long.
NOT_DAMAGED = ("trec without runs", "beir without runs", "triples as TSV", "labelled pairs", "labelled pairs as TSV")
SPLITS_OF = {form: SPLITS[: len(sizes.split())] for form, (_, sizes, *_) in MEANING.items()}


def meaning(data: RankingData) -> tuple[str, int, str]:
    """Queries of each split, documents, and the candidates of training, as MEANING has them."""
    train = [
        " ".join([data.query_ids[row], *(f"{name}:{grade}" for name, grade, _ in candidates(data, "train", row))])
        for row in range(len(data.splits["train"]))
    ]
    return " ".join(str(len(split)) for split in data.splits.values()), len(data.documents), " | ".join(train)


def test_every_reader_has_a_form() -> None:
    assert MEANING.keys() == (FORMS | BINARY_FORMS).keys() and {reader for reader, *_ in MEANING.values()} == {*READERS}


@pytest.mark.parametrize("form", MEANING)
def test_a_form_has_its_reader_and_keeps_its_meaning(form: str, tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "form", (FORMS | BINARY_FORMS)[form])
    if form not in NOT_DAMAGED:
        check_reader(MEANING[form][0], folder)
    data = load(folder)
    assert reader_for(folder) == MEANING[form][0]
    assert meaning(data) == MEANING[form][1:]
    assert (tuple(data.splits), data.name, len(data.digest)) == (SPLITS_OF[form], "form", 64)


@pytest.mark.parametrize("form", FORMS)
class TestEveryReader:
    def test_other_bytes_or_settings_give_another_digest(self, form: str, tmp_path: Path) -> None:
        digests = {load(write_folder(tmp_path / "a", FORMS[form]), **keys).digest for keys in ({}, {"top_k": 2})}
        changed = {name: re.sub(r"\bcat", "cow", text) for name, text in FORMS[form].items()}
        digests.add(load(write_folder(tmp_path / "b", changed)).digest)
        assert len(digests) == 3

    def test_gzip_crlf_and_byte_order_mark_change_nothing(self, form: str, tmp_path: Path) -> None:
        dressed = {f"{name}.gz": "\ufeff" + text.replace("\n", "\r\n") for name, text in FORMS[form].items()}
        assert_equal(load(write_folder(tmp_path / "a", FORMS[form])), load(write_folder(tmp_path / "b", dressed)))

    def test_wrong_files_are_named(self, form: str, tmp_path: Path) -> None:
        for name, text in FORMS[form].items():
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
                (f"{name}.gz", b"plain"): f"{name}.gz: not a gzip file",
            }
            for number, ((file, content), wrong) in enumerate(cases.items()):
                folder = write_folder(tmp_path / f"{name.replace('/', '-')}-{number}", FORMS[form])
                (folder / name).unlink()
                (folder / file).write_bytes(content)
                assert any(line.startswith(wrong) for line in problems(folder)), (wrong, problems(folder))

    def test_a_missing_split_is_no_error(self, form: str, tmp_path: Path) -> None:
        files = {name: text for name, text in FORMS[form].items() if "test" not in name}
        expected = SPLITS_OF[form] if files == FORMS[form] else ("train", "dev")
        assert tuple(load(write_folder(tmp_path, files)).splits) == expected


# -- the same data in other forms ----------------------------------------------------------------------------------

TWINS: dict[str, tuple[Mapping[str, str | bytes], Mapping[str, str | bytes]]] = {
    "beir": (FORMS["trec"], FORMS["beir"]),
    "beir without runs": (FORMS["trec without runs"], FORMS["beir without runs"]),
    **{form: (FORMS["triples"], (FORMS | BINARY_FORMS)[form]) for form, row in MEANING.items() if row[3] == TRIPLES},
    "Parquet in gzip": (FORMS["triples"], {f"{name}.gz": content for name, content in parquet_files().items()}),
    "valid": (FORMS["triples"], {name.replace("dev", "valid"): text for name, text in triple_files("csv").items()}),
    "validation": (
        FORMS["triples"],
        {name.replace("dev", "validation"): text for name, text in triple_files("jsonl").items()},
    ),
    "snli as a table": (FORMS["snli"], FORMS["snli as a table"]),
}


@pytest.mark.parametrize("form", TWINS)
def test_forms_that_say_the_same_are_the_same_data(form: str, tmp_path: Path) -> None:
    one, other = (load(write_folder(tmp_path / str(place), files)) for place, files in enumerate(TWINS[form]))
    check_data(other)
    assert_equal(one, other)


def test_what_the_datasets_library_itself_saves_is_read(tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets")
    parts = {"train": "train", "validation": "dev", "test": "test"}
    whole = {name: datasets.Dataset.from_list(triple_rows(split)) for name, split in parts.items()}
    shards = {"train": 2, "validation": 1, "test": 1}
    datasets.DatasetDict(whole).save_to_disk(str(tmp_path / "saved"), num_shards=shards)
    assert_equal(load(write_folder(tmp_path / "a", FORMS["triples"])), load(tmp_path / "saved"))
