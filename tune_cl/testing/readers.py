"""What every reader keeps to, with a small folder of its form."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
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
from tune_cl.testing.promises import alike, promise

DTYPES = {"query": "int32", "offsets": "int64", "document": "int32", "grade": "int16", "rank": "int32",
          "score": "float64", "judged_grade": "int16", "judged_offsets": "int64"}  # fmt: skip
DAMAGES = (b"\xff", b"one\n", b"\t", b"\n", b"nan", b"-1", b"<html>")


def check_data(data: RankingData) -> None:
    """Raises AssertionError unless data keeps to what RankingData promises."""
    queries = np.concatenate([split.query for split in data.splits.values()])
    promise(queries.tolist() == list(range(len(data.query_ids))), "the splits number the queries from 0 on, each once")
    promise(len(data.documents) == len(data.document_ids), "each document has one id")
    sizes = {len(data.domain), len(data.turns), len(data.query_ids)}
    promise(len(sizes) == 1, "each query has a domain and utterances")
    promise(data.utterance_offsets[-1] == len(data.utterances), "the offsets cover the utterances")
    for name, split in data.splits.items():
        types = {field: str(getattr(split, field).dtype) for field in DTYPES}
        promise(types == DTYPES, f"types of columns in {name}: {DTYPES}, and they are {types}")
        rows = {len(split.document), len(split.grade), len(split.rank), len(split.score), split.offsets[-1]}
        promise(len(rows) == 1, f"the columns of {name} have a row for each candidate")
        offsets = {len(split.offsets), len(split.judged_offsets), len(split) + 1}
        promise(len(offsets) == 1, f"the offsets of {name} cover its queries")
        promise(split.judged_offsets[-1] == len(split.judged_grade), f"the offsets of {name} cover its judgments")
        promise((np.diff(split.judged_offsets) > 0).all(), f"each query of {name} is judged")
        inside = (split.document >= 0) & (split.document < len(data.documents))
        promise(inside.all(), f"candidates of {name} are rows of the documents")
        if (split.rank == NO_RANK).all():
            promise(np.isnan(split.score).all(), f"candidates of {name} that no run ranks have no score")
            continue
        for start, stop in zip(split.offsets, split.offsets[1:], strict=False):
            ranks = split.rank[start:stop].tolist()
            promise(ranks == list(range(1, stop - start + 1)), f"candidates of {name} stand by rank, from 1 on")
            promise((np.diff(split.score[start:stop]) <= 0).all(), f"candidates of {name} stand by score")


def damaged(raw: bytes) -> Iterator[bytes]:
    """A file's content, spoilt in several ways."""
    yield b""
    yield raw[: len(raw) // 2]
    for damage in DAMAGES:
        for at in (0, raw.find(b"\n") + 1, len(raw) // 2, len(raw)):
            yield raw[:at] + damage + raw[at:]


def reads_or_says_what_is_wrong(folder: Path, config: DataConfig) -> None:
    """Any bytes give sound data or a DataError with problems, never another error."""
    try:
        with TemporaryDirectory() as workspace:
            reading = Reading(config)
            tables = READERS[reader_for(folder)].read(folder, reading)
            check_data(ranking_data(folder.name, tables, reading, Path(workspace)))
    except DataError as error:
        promise(error.problems, "a DataError names the problems")


def check_reader(reader: str, folder: Path | str) -> None:
    """Checks that a registered reader keeps to what all readers promise. `folder`: small data of its form, with
    training and dev queries. Raises AssertionError saying what does not hold."""
    folder, form = Path(folder), READERS[reader]
    promise(reader_for(folder) == reader, f"'{reader}' recognises the folder, and no other reader does")
    files = form.files_of(folder)
    promise(files and all(path.is_file() for path in files), "`files` gives files that are there")
    promise(files == form.files_of(folder), "`files` gives the same order each time")
    with TemporaryDirectory() as temporary:
        promise(not form.files_of(Path(temporary)), "an empty folder is not recognised")
        data = load_data(DataConfig(source=str(folder)))
        check_data(data)
        promise(data.task == form.task, f"`task` is the data's task, {data.task}")
        copy = shutil.copytree(folder, Path(temporary) / "copy")
        again = load_data(DataConfig(source=str(copy)))
        promise(again.digest == data.digest, "the same files give the same digest")
        promise(list(again.documents) == list(data.documents), "and the same documents")
        for name, split in data.splits.items():
            promise(alike(again.splits[name].grade, split.grade), "and the same grades")
        ranks_texts = data.task == "ranking" and data.features is None
        config = DataConfig(source=str(copy), candidates="qrels" if ranks_texts else "auto")  # nothing is retrieved
        for path in (copy / file.relative_to(folder) for file in files):
            sound = path.read_bytes()
            for content in damaged(sound):
                path.write_bytes(content)
                reads_or_says_what_is_wrong(copy, config)
            path.write_bytes(sound)
