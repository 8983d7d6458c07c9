"""Names of files: whose split a file is, in one piece or several, and which files of a folder look like data."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from trainables.data.columns import SPLITS
from trainables.data.readers.rows import plain_or_packed, unpacked_name

SPLIT_NAMES = {
    "train": ("train", "training", "trainingset"),
    "dev": ("dev", "valid", "validation", "val", "vali", "validationset"),
    "test": ("test", "testset"),
}  # by which a file names its split; the first that is there counts
_DATA = {"jsonl", "json", "csv", "tsv", "parquet", "arrow", "trec", "run", "qrels", "txt", "svm", "libsvm", "letor"}
_OF_IDS = {"queries", "qrels", "run", "corpus", "collection", "scores", "qidpidtriples"}  # in names of other files
_SHARD = re.compile(r"(?:[-_.]\d+)(?:-of-\d+)?$")
_WORD = re.compile(r"[a-z]+")
_FOLDERS = ("", "data")  # where the files of splits lie: in the folder itself, or as on the hub


def split_file(folder: Path, split: str, *patterns: str) -> Path:
    """The split's file, plain or compressed, by the first name that is there; where none is, the first name. `{}` in a
    pattern stands for the split."""
    return plain_or_packed(folder, *(pattern.format(name) for name in SPLIT_NAMES[split] for pattern in patterns))


def existing(folder: Path, names: Mapping[str, Sequence[str]]) -> dict[str, Path]:
    """For each split the first of its files that is there, plain or compressed; splits without one are left out."""
    return {split: path for split, each in names.items() if (path := plain_or_packed(folder, *each)).exists()}


def files_of_splits(folder: Path, endings: Sequence[str], loosely: bool = True) -> dict[str, list[list[Path]]]:
    """The files of each split with these endings: train.ENDING, else train-00000-of-00002.ENDING (in the folder, in
    data/ or in train/), else, `loosely`, names that hold the split's, as triples.train.small.ENDING. Pieces of one file
    stand together; several files of a split are for the caller to refuse. `folder` may be a file itself."""
    listed = [path for each in _FOLDERS for path in _files_in(folder / each)]
    named = [(path, stem) for path in listed for stem, ending in [_stem(path, endings)] if ending]
    files: dict[str, list[list[Path]]] = {split: [] for split in SPLITS}
    for kind in (_whole, _pieces, *((_holding, _only) if loosely else ())):
        if not any(files.values()):
            files = {split: kind(folder, named, split, endings) for split in SPLITS}
    return files


def _files_in(folder: Path) -> list[Path]:
    if not folder.is_dir():
        return [folder] if folder.is_file() else []
    return sorted(path for path in folder.iterdir() if path.is_file() and not path.name.startswith("."))


def _stem(path: Path, endings: Sequence[str]) -> tuple[str, str]:
    """(name without ending, ending); the ending is empty if it is none of these."""
    stem, _, ending = unpacked_name(path).rpartition(".")
    return (stem, ending) if ending in endings else (path.name, "")


Stems = Sequence[tuple[Path, str]]


def _whole(folder: Path, named: Stems, split: str, endings: Sequence[str]) -> list[list[Path]]:
    names = SPLIT_NAMES[split]
    by_stem = {(stem, _stem(path, endings)[1]): path for path, stem in reversed(named) if path.parent == folder}
    return [[by_stem[name, ending]] for name in names for ending in endings if (name, ending) in by_stem]


def _pieces(folder: Path, named: Stems, split: str, endings: Sequence[str]) -> list[list[Path]]:
    pieces = [path for path, stem in named if _SHARD.sub("", stem) in SPLIT_NAMES[split]]
    for name in SPLIT_NAMES[split]:
        pieces += [path for path in _files_in(folder / name) if _stem(path, endings)[1]]
    return [pieces] if pieces else []


def _holding(_folder: Path, named: Stems, split: str, _endings: Sequence[str]) -> list[list[Path]]:
    return [[path] for path, stem in named if _split_of_stem(stem) == split and not _OF_IDS & set(_words(stem))]


def _only(_folder: Path, named: Stems, split: str, _endings: Sequence[str]) -> list[list[Path]]:
    """The only such file, whatever it is called, as training data, from which `data.split` may draw the others."""
    of_rows = [[path] for path, stem in named if not _OF_IDS & set(_words(stem))]
    return of_rows if len(named) == 1 and split == "train" else []


def _words(stem: str) -> list[str]:
    return _WORD.findall(stem.lower())


def split_of(word: str) -> str | None:
    """The split that a word names."""
    return next((split for split, names in SPLIT_NAMES.items() if word in names), None)


def _split_of_stem(stem: str) -> str | None:
    """The one split that words of a name name; None if they name none or several."""
    splits = {split for word in _words(stem) if (split := split_of(word))}
    return splits.pop() if len(splits) == 1 else None


def not_read(folder: Path, read: Iterable[Path]) -> list[str]:
    """Files of a folder that look like data and are not among those that are read."""
    done = {path.resolve() for path in read}
    places = [folder, *(folder / name for name in ("data", "qrels", "runs"))]
    return [
        str(path.relative_to(folder))
        for place in places
        for path in _files_in(place)
        if path.resolve() not in done and _looks_like_data(path)
    ]


def is_named_as_table(path: Path) -> bool:
    """Whether a file is named as one with rows of named columns, which may be data by itself."""
    return unpacked_name(path).rpartition(".")[2] in ("jsonl", "json", "csv", "tsv", "parquet")


def _looks_like_data(path: Path) -> bool:
    stem, ending = unpacked_name(path).rpartition(".")[::2]
    return ending in _DATA and any(split_of(word) or word in _OF_IDS for word in _words(stem))
