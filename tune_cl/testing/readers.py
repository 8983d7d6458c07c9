"""What every reader promises, with a small folder of its form."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from trainables.core.errors import DataError
from trainables.data import load_data
from trainables.data.arrays import ranking_data
from trainables.data.columns import NO_RANK, RankingData
from trainables.data.forms import READERS, reader_for
from trainables.data.settings import DataConfig
from trainables.data.tables import Reading

DTYPES = {"query": "int32", "offsets": "int64", "document": "int32", "grade": "int16", "rank": "int32",
          "score": "float64", "judged_grade": "int16", "judged_offsets": "int64"}  # fmt: skip
DAMAGES = (b"\xff", b"one\n", b"\t", b"\n", b"nan", b"-1", b"<html>")


@dataclass(frozen=True)
class Case:
    """A reader, and small data of its form with training and dev queries."""

    name: str
    folder: Path


def reader_case(name: str, folder: Path | str) -> Case:
    return Case(name, Path(folder))


def check_data(data: RankingData) -> None:
    """Raises AssertionError unless data is consistent."""
    queries = np.concatenate([split.query for split in data.splits.values()])
    assert queries.tolist() == list(range(len(data.query_ids))), "the splits number the queries from 0 on, each once"
    assert len(data.documents) == len(data.document_ids), "each document has one id"
    assert len(data.domain) == len(data.turns) == len(data.query_ids), "each query has a domain and utterances"
    assert data.utterance_offsets[-1] == len(data.utterances), "the offsets cover the utterances"
    for split in data.splits.values():
        assert {field: str(getattr(split, field).dtype) for field in DTYPES} == DTYPES
        rows = {len(split.document), len(split.grade), len(split.rank), len(split.score), split.offsets[-1]}
        assert len(rows) == 1, "the columns have a row for each candidate"
        assert len(split.offsets) == len(split.judged_offsets) == len(split) + 1, "the offsets cover the queries"
        assert split.judged_offsets[-1] == len(split.judged_grade), "the offsets cover the judgments"
        assert (np.diff(split.judged_offsets) > 0).all(), "each query is judged"
        assert ((split.document >= 0) & (split.document < len(data.documents))).all(), "candidates are documents"
        if (split.rank == NO_RANK).all():
            assert np.isnan(split.score).all(), "candidates that no run ranks have no score"
            continue
        for start, stop in zip(split.offsets, split.offsets[1:], strict=False):
            ranks = np.arange(1, stop - start + 1)
            assert np.array_equal(split.rank[start:stop], ranks), "candidates stand by rank, from 1 on"
            assert (np.diff(split.score[start:stop]) <= 0).all(), "candidates stand by score"


def recognises_its_folder_alone(case: Case) -> None:
    form = READERS[case.name]
    assert reader_for(case.folder) == case.name, "no other reader recognises the folder"
    files = form.files_of(case.folder)
    assert files and all(path.is_file() for path in files), "`files` names files that are there"
    with TemporaryDirectory() as empty:
        assert not form.files_of(Path(empty)), "an empty folder is not recognised"


def reads_the_same_again(case: Case) -> None:
    data = load_data(DataConfig(source=str(case.folder)))
    check_data(data)
    assert data.task == READERS[case.name].task
    with TemporaryDirectory() as scratch:
        again = load_data(DataConfig(source=str(shutil.copytree(case.folder, Path(scratch, "copy")))))
    assert again.digest == data.digest and list(again.documents) == list(data.documents)
    for name, split in data.splits.items():
        assert np.array_equal(again.splits[name].grade, split.grade)


def reads_or_names_damaged_files(case: Case) -> None:
    """Any bytes give consistent data or a DataError with problems, never another error."""
    data = load_data(DataConfig(source=str(case.folder)))
    ranks_texts = data.task == "ranking" and data.features is None
    candidates = "qrels" if ranks_texts else "auto"  # nothing is retrieved
    with TemporaryDirectory() as scratch:
        folder = shutil.copytree(case.folder, Path(scratch, "data"))
        config = DataConfig(source=str(folder), candidates=candidates)
        for path in READERS[case.name].files_of(folder):
            content = path.read_bytes()
            for damage in damaged(content):
                path.write_bytes(damage)
                try:
                    reading = Reading(config)
                    tables = READERS[reader_for(folder)].read(folder, reading)
                    check_data(ranking_data(folder.name, tables, reading, Path(scratch)))
                except DataError as error:
                    assert error.problems, "a DataError names the problems"
            path.write_bytes(content)


def damaged(content: bytes) -> Iterator[bytes]:
    yield b""
    yield content[: len(content) // 2]
    places = (0, content.find(b"\n") + 1, len(content) // 2, len(content))
    for number, damage in enumerate(DAMAGES):
        at = places[number % len(places)]
        yield content[:at] + damage + content[at:]


READER = (recognises_its_folder_alone, reads_the_same_again, reads_or_names_damaged_files)
