"""Pairs and triples as sentence-transformers and MS MARCO have them: {train,dev,test}.{jsonl,csv,tsv,parquet}."""

from __future__ import annotations

import zlib
from pathlib import Path

from trainables.core.errors import DataError, Problem
from trainables.data.columns import SPLITS, RankingData, Task
from trainables.data.readers.judgments import scores_file
from trainables.data.readers.pair_columns import looks_like_header
from trainables.data.readers.pair_reading import read_pairs
from trainables.data.readers.pair_tables import FORMATS, table_of
from trainables.data.readers.rows import MAX_LINE, open_bytes, plain_or_gz
from trainables.data.settings import DataConfig

TASK: Task = "ranking"
SPLIT_NAMES = {"train": ("train",), "dev": ("dev", "valid", "validation"), "test": ("test",)}  # in names of files


def recognises(folder: Path) -> bool:
    """By a .jsonl, .csv or .parquet of a split, or by a .tsv with a header, which conversations do not have."""
    given = [path for paths in _files(folder).values() for path in paths]
    return any(".tsv" not in path.suffixes for path in given) or has_header(given)


def has_header(paths: list[Path]) -> bool:
    """Whether one of the files begins with the names of columns of pairs."""
    return any(looks_like_header(_first_fields(path)) for path in paths)


def _first_fields(path: Path) -> list[str]:
    """The fields of a file's first row; none if it cannot be read, about which whoever reads the file complains."""
    try:
        with open_bytes(path) as file:
            return file.readline(MAX_LINE).decode("utf-8-sig").rstrip("\r\n").split("\t")
    except (OSError, EOFError, zlib.error, UnicodeDecodeError):
        return []


def _files(folder: Path) -> dict[str, list[Path]]:
    """The files that are there, by split."""
    names = {split: [f"{name}.{form}" for name in SPLIT_NAMES[split] for form in FORMATS] for split in SPLITS}
    return {split: [path for name in names[split] if (path := plain_or_gz(folder, name)).exists()] for split in SPLITS}


def files(folder: Path) -> list[Path]:
    scores = [scores_file(folder, split) for split in SPLITS]
    return [path for paths in (*_files(folder).values(), scores) for path in paths if path.exists()]


def read(folder: Path, config: DataConfig, workspace: Path) -> RankingData:
    """A row is a query with relevant and other documents, or with one document and its grade; a split's documents for
    a query are those of all its rows. Raises DataError with the problems of all files."""
    given = {split: paths for split, paths in _files(folder).items() if paths}
    if several := {split: paths for split, paths in given.items() if len(paths) > 1}:
        named = {split: " and ".join(path.name for path in paths) for split, paths in several.items()}
        raise DataError(
            Problem(str(folder), f"{names} are all the {split} split", "keep one file a split")
            for split, names in named.items()
        )
    problems: list[Problem] = []
    tables = {split: table_of(paths[0], problems, workspace) for split, paths in given.items()}
    return read_pairs(folder, tables, config, workspace, problems)
