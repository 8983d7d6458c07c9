"""Files of a data set: which splits they hold, and their bytes, decompressed."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO, cast

from trainables.core.errors import DataError, Problem
from trainables.data.columns import SPLITS

COMPRESSED = (".gz", ".bz2", ".xz", ".zst")
ARCHIVES = (".zip", ".tar", ".tgz", ".tar.gz", ".tar.bz2", ".tar.xz")
BROKEN = (OSError, EOFError, zlib.error, lzma.LZMAError)  # what reading a file may raise
BEGINNING = 1 << 16  # bytes by which a file is recognised
BLOCK = 1 << 24  # bytes that are parsed at once
GIVEN = "tune_cl: given row"  # in Parquet of a table from Python: the column of its rows' numbers; the table's name
BOM = b"\xef\xbb\xbf"
SPLIT_NAMES = {
    "train": ("train", "training", "trainingset"),
    "dev": ("dev", "valid", "validation", "val", "vali", "validationset"),
    "test": ("test", "testset"),
}  # by which a file names its split; the first that is there counts
TABLES = ("jsonl", "json", "csv", "tsv", "parquet", "arrow")  # endings of files with rows of named columns
DATA = {*TABLES, "trec", "run", "qrels", "txt", "svm", "libsvm", "letor"}
OF_IDS = {"queries", "qrels", "run", "corpus", "collection", "scores", "qidpidtriples"}  # in names of other files
SHARD = re.compile(r"(?:[-_.]\d+)(?:-of-(\d+))?(?:-[0-9a-f]{8,})?$")
CACHE = re.compile(r"cache-[0-9a-f]+")  # what the datasets library leaves beside the files of a data set


# -- whose split a file is -------------------------------------------------------------------------------------------


def plain_name(path: Path) -> str:
    """The file's name in lower case, without the ending of a compression."""
    name = path.name.lower()
    return name.removesuffix(path.suffix.lower()) if path.suffix.lower() in COMPRESSED else name


def stem_of(path: Path) -> str:
    return plain_name(path).rpartition(".")[0]


def ending_of(path: Path) -> str:
    return plain_name(path).rpartition(".")[2]


def words_of(stem: str) -> list[str]:
    return re.findall("[a-z]+", stem.lower())


def split_of(word: str) -> str | None:
    """The split that a word names."""
    return next((split for split, names in SPLIT_NAMES.items() if word in names), None)


def files_in(folder: Path) -> list[Path]:
    """The visible files of a folder, by name; of a file the file itself, and of nothing none. A link that leads nowhere
    is one of them, so that reading it says so."""
    if folder.is_file():
        return [folder]
    return sorted(path for path in folder.glob("*") if not path.name.startswith(".") and not path.is_dir())


def found(folder: Path, *names: str) -> Path | None:
    """The first of the files that is there, plain or compressed, in small or capital letters."""
    files = {path.name.lower(): path for path in reversed(files_in(folder))}
    candidates = (f"{name.lower()}{ending}" for name in names for ending in ("", *COMPRESSED))
    return next((files[name] for name in candidates if name in files), None)


def split_files(folder: Path, *patterns: str) -> dict[str, Path]:
    """The file of each split that has one. `patterns` of its name, with {} for the split, the first that fits counts:
    qrels.{}.txt."""
    return named_files(folder, {split: [pattern.format(name) for name in names for pattern in patterns]
                                for split, names in SPLIT_NAMES.items()})  # fmt: skip


def named_files(folder: Path, names: Mapping[str, Sequence[str]]) -> dict[str, Path]:
    """The file of each split that has one; of the split's `names` the first that is there counts."""
    paths = {split: found(folder, *each) for split, each in names.items()}
    return {split: path for split, path in paths.items() if path is not None}


def shards_of_splits(folder: Path, endings: Sequence[str], loosely: bool = True) -> dict[str, list[Path]]:
    """The files with the rows of each split: train.ENDING; else train-00000-of-00002.ENDING in the folder, in data/ or
    in train/; else, `loosely`, names that hold the split's, as triples.train.small.ENDING, or the only such file, or
    its shards, as training data. `folder` may be a file itself."""
    splits = [folder / name for names in SPLIT_NAMES.values() for name in names if folder.is_dir()]
    paths = [path for each in (folder, folder / "data", *splits) for path in files_in(each)]
    paths = [path for path in paths if ending_of(path) in endings and not CACHE.fullmatch(stem_of(path))]
    outer = [path for path in paths if path.parent not in splits]
    named = _by_split([path for path in outer if path.parent == folder], stem_of)
    named = named or _by_split(paths, lambda path: _whole_name(path) if path in outer else path.parent.name)
    if named or not loosely:
        return named
    texts = [path for path in outer if not OF_IDS & set(words_of(stem_of(path)))]
    alone = len(outer) == len(texts) and len({*map(_whole_name, texts)}) == 1
    return _by_split(texts, _split_in_name) or ({"train": texts} if alone else {})


def _whole_name(path: Path) -> str:
    """The name of the file of which this may be a shard."""
    return SHARD.sub("", stem_of(path))


def _split_in_name(path: Path) -> str:
    """The only split that is a word of the file's name."""
    splits = {split for word in words_of(stem_of(path)) if (split := split_of(word))}
    return splits.pop() if len(splits) == 1 else ""


def _by_split(paths: Sequence[Path], word_of: Callable[[Path], str]) -> dict[str, list[Path]]:
    splits = {split: [path for path in paths if split_of(word_of(path)) == split] for split in SPLITS}
    return {split: each for split, each in splits.items() if each}


def require_one_file(folder: Path, files: dict[str, list[Path]]) -> None:
    """Raises DataError for several files of a split that are not shards of one, or not all of them."""
    problems = []
    for split, paths in files.items():
        shards = [SHARD.search(stem_of(path)) for path in paths]
        counts = {int(shard[1]) for shard in shards if shard and shard[1]}
        is_whole = [path.parent.name not in SPLIT_NAMES[split] and not shard
                    for path, shard in zip(paths, shards, strict=True)]  # fmt: skip
        if len(paths) > 1 and any(is_whole):
            names = " and ".join(path.name for path in paths)
            problems.append(Problem(str(folder), f"{names} are all the {split} split", "keep one file a split"))
        elif counts and counts != {len(paths)}:
            wrong = f"{len(paths)} of {max(counts)} shards of the {split} split"
            problems.append(Problem(str(folder), wrong, "give the whole split"))
    if problems:
        raise DataError(problems)


def not_read(folder: Path, read: Iterable[Path]) -> list[str]:
    """Files of a folder that look like data and are not among those that are read."""
    parents = [folder, *(folder / name for name in ("data", "qrels", "runs"))]
    others = {path for parent in parents for path in files_in(parent) if ending_of(path) in DATA} - {*read}
    named = {path: words_of(stem_of(path)) for path in sorted(others)}
    like_data = [path for path, words in named.items() if any(split_of(word) or word in OF_IDS for word in words)]
    return [str(path.relative_to(folder)) for path in like_data]


# -- bytes -----------------------------------------------------------------------------------------------------------


def _zstandard(path: Path) -> BinaryIO:
    import pyarrow  # here: it takes a tenth of a second

    return cast(BinaryIO, io.BufferedReader(pyarrow.input_stream(str(path), compression="zstd")))


def _zip(path: Path) -> BinaryIO:
    raise DataError(Problem(str(path), "a zip file", "unpack it"))


OPENERS: Mapping[bytes, Callable[[Path], Any]] = {
    b"\x1f\x8b": gzip.open, b"BZh": bz2.open, b"\xfd7zXZ\x00": lzma.open, b"\x28\xb5\x2f\xfd": _zstandard,
    b"PK\x03\x04": _zip,
}  # fmt: skip


def open_bytes(path: Path) -> BinaryIO:
    """The bytes of a file, decompressed if it begins as a compressed file does, whatever its name is. Raises DataError
    for a zip file."""
    file = path.open("rb")
    start = file.peek(8)
    opener = next((opener for magic, opener in OPENERS.items() if start.startswith(magic)), None)
    if opener is None:
        return file
    file.close()
    return opener(path)


def open_lines(path: Path) -> BinaryIO:
    """The bytes of a text file without a byte order mark. Where all lines end in CR, as in Excel's "CSV (Macintosh)",
    they end in LF."""
    file = io.BufferedReader(cast(io.RawIOBase, open_bytes(path)), BEGINNING)
    start = file.peek()
    if start.startswith(BOM):
        file.read(len(BOM))
    if b"\r" in start and b"\n" not in start:
        with file:
            return io.BytesIO(file.read().replace(b"\r\n", b"\n").replace(b"\r", b"\n"))
    return file


def blocks(path: Path) -> Iterator[tuple[int, bytes]]:
    """(number of its first line, bytes) of a text file in parts of whole lines, which end in LF; a CR within a line is
    a space. Raises DataError for a file that cannot be read or is not UTF-8."""
    number = 1
    try:
        with open_lines(path) as file:
            while block := file.read(BLOCK):
                block += file.readline()
                if b"\r" in block:
                    block = block.replace(b"\r\n", b"\n").replace(b"\r", b" ")
                utf8(path, block, number)
                yield number, block
                number += block.count(b"\n")
    except BROKEN as error:
        raise DataError(unreadable(path, error)) from None


def lines(path: Path) -> Iterator[tuple[int, str]]:
    """(number, text) of each line, with its end. Raises DataError as `blocks` does."""
    for first, block in blocks(path):
        yield from enumerate(io.StringIO(block.decode(), newline="\n"), first)


def beginning(path: Path) -> bytes:
    """The first bytes of a text file; nothing if it cannot be read, about which whoever reads it complains."""
    try:
        with open_lines(path) as file:
            return file.read(BEGINNING).replace(b"\r\n", b"\n").replace(b"\r", b" ")
    except (*BROKEN, DataError):
        return b""


def first_lines(path: Path, count: int = 50) -> list[str]:
    """The first lines that are not blank, at most `count`, without the last one if the beginning cuts it."""
    start = beginning(path)
    parts = start.split(b"\n")
    if len(start) >= BEGINNING - start.count(b"\n") and len(parts) > 1:
        parts.pop()
    return [line.decode(errors="replace") for line in parts if line.strip()][:count]


def unreadable(path: Path, error: Exception) -> Problem:
    """The problem that a reading error means."""
    if isinstance(error, FileNotFoundError):
        wrong = "a link that leads nowhere" if path.is_symlink() else "missing file"
        return Problem(str(path), wrong, "/dev/stdin for standard input" if str(path) == "-" else "give the file")
    if isinstance(error, OSError) and error.strerror:
        return Problem(str(path), f"cannot be read ({error.strerror})", "give a readable file")
    return Problem(str(path), "the compressed data is broken or cut off", "give the whole file")


def whole_text(path: Path) -> str:
    """The text of a file. Raises DataError if it cannot be read, is empty or not UTF-8."""
    text = "".join(utf8(path, block, number) for number, block in blocks(path))
    if not text.strip(" \t\n"):
        raise DataError(Problem(str(path), "no rows", "give a file with content"))
    return text


def utf8(path: Path, raw: bytes, first_line: int = 1) -> str:
    """The text of these bytes of a file. Raises DataError naming the line of the first that is not UTF-8."""
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        line = first_line + raw[: error.start].count(b"\n")
        wrong = f"byte {raw[error.start]:#04x} is not UTF-8"
        raise DataError(Problem(f"{path}:{line}", wrong, "save the file as UTF-8")) from None


# -- JSON --------------------------------------------------------------------------------------------------------------


def read_json(path: Path) -> Any:
    """What a file of JSON says. Raises DataError if it is not JSON."""
    try:
        return parsed_json(whole_text(path))
    except json.JSONDecodeError as error:
        raise DataError(Problem(f"{path}:{error.lineno}", f"not JSON ({error.msg})", "give the whole file")) from None
    except ValueError as error:
        raise DataError(Problem(f"{path}:1", str(error), "each key once")) from None


def parsed_json(text: str) -> Any:
    """What a text of JSON says; NaN, as pandas writes what is missing, as null. Raises ValueError for an object with a
    key twice, its kind JSONDecodeError for a text that is not JSON."""
    try:
        return DECODER.decode(text)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for name, value in pairs:
        if name in values:
            raise ValueError(f"key '{name}' twice")
        values[name] = value
    return values


DECODER = json.JSONDecoder(
    object_pairs_hook=_object, parse_constant=lambda constant: None if constant == "NaN" else float(constant)
)
