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
MAGIC = {b"\x1f\x8b": ".gz", b"BZh": ".bz2", b"\xfd7zXZ\x00": ".xz", b"\x28\xb5\x2f\xfd": ".zst"}
BROKEN = (OSError, EOFError, zlib.error, lzma.LZMAError)  # what reading a file may raise
BEGINNING = 1 << 16  # bytes by which a file is recognised
BLOCK = 1 << 24  # bytes that are parsed at once
MAX_LINE = 16 << 20  # bytes; longer than any document of the public collections
GIVEN = "tune_cl: given row"  # in Parquet of a table from Python: the column of its rows' numbers; the table's name
BOM = b"\xef\xbb\xbf"
SPLIT_NAMES = {
    "train": ("train", "training", "trainingset"),
    "dev": ("dev", "valid", "validation", "val", "vali", "validationset"),
    "test": ("test", "testset"),
}  # by which a file names its split; the first that is there counts
TABLES = ("jsonl", "json", "csv", "tsv", "parquet")  # endings of files with rows of named columns
DATA = {*TABLES, "arrow", "trec", "run", "qrels", "txt", "svm", "libsvm", "letor"}
OF_IDS = {"queries", "qrels", "run", "corpus", "collection", "scores", "qidpidtriples"}  # in names of other files
SHARD = re.compile(r"(?:[-_.]\d+)(?:-of-\d+)?(?:-[0-9a-f]{8,})?$")


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
    """The visible files of a folder, by name; of a file the file itself, and of nothing none."""
    if folder.is_file():
        return [folder]
    paths = (path for path in folder.glob("*") if not path.name.startswith("."))
    return sorted(path for path in paths if path.exists() and not path.is_dir())


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
    in train/; else, `loosely`, names that hold the split's, as triples.train.small.ENDING, or the only such file as
    training data. `folder` may be a file itself."""
    inner = [folder / name for names in SPLIT_NAMES.values() for name in names if folder.is_dir()]
    outer = [path for parent in (folder, folder / "data") for path in files_in(parent) if ending_of(path) in endings]
    shards = [*outer, *(path for parent in inner for path in files_in(parent) if ending_of(path) in endings)]
    whole = _by_split([path for path in outer if path.parent == folder], lambda path: split_of(stem_of(path)))
    for split, paths in whole.items():
        paths.sort(key=lambda path, names=SPLIT_NAMES[split]: names.index(stem_of(path)))
        whole[split] = [path for path in paths if stem_of(path) == stem_of(paths[0])]
    if whole:
        return whole
    parts = _by_split(
        shards, lambda path: split_of(path.parent.name if path not in outer else SHARD.sub("", stem_of(path)))
    )
    if parts or not loosely:
        return parts
    texts = [path for path in outer if not OF_IDS & set(words_of(stem_of(path)))]
    named = _by_split(texts, _split_in_name)
    return named or ({"train": texts} if len(outer) == len(texts) == 1 else {})


def _split_in_name(path: Path) -> str | None:
    splits = {split for word in words_of(stem_of(path)) if (split := split_of(word))}
    return splits.pop() if len(splits) == 1 else None


def _by_split(paths: Sequence[Path], split_of_path: Callable[[Path], str | None]) -> dict[str, list[Path]]:
    splits = {split: [path for path in paths if split_of_path(path) == split] for split in SPLITS}
    return {split: each for split, each in splits.items() if each}


def require_one_file(folder: Path, files: dict[str, list[Path]]) -> None:
    """Raises DataError for several files of a split that are not shards of one."""
    problems = []
    for split, paths in files.items():
        is_whole = [path.parent.name not in SPLIT_NAMES[split] and not SHARD.search(stem_of(path)) for path in paths]
        if len(paths) > 1 and any(is_whole):
            names = " and ".join(path.name for path in paths)
            problems.append(Problem(str(folder), f"{names} are all the {split} split", "keep one file a split"))
    if problems:
        raise DataError(problems)


def not_read(folder: Path, read: Iterable[Path]) -> list[str]:
    """Files of a folder that look like data and are not among those that are read."""
    done = {path.resolve() for path in read}
    parents = [folder, *(folder / name for name in ("data", "qrels", "runs"))]
    others = [path for parent in parents for path in files_in(parent) if path.resolve() not in done]
    named = {path: words_of(stem_of(path)) for path in others if ending_of(path) in DATA}
    like_data = [path for path, words in named.items() if any(split_of(word) or word in OF_IDS for word in words)]
    return [str(path.relative_to(folder)) for path in like_data]


# -- bytes -----------------------------------------------------------------------------------------------------------


def open_bytes(path: Path) -> BinaryIO:
    """The bytes of a file, decompressed if its name ends as in COMPRESSED or it begins as such a file does. Raises
    DataError for a zip file."""
    start = b""
    if path.is_file():
        with path.open("rb") as file:
            start = file.read(8)
    if start.startswith(b"PK\x03\x04"):
        raise DataError(Problem(str(path), "a zip file", "unpack it"))
    kind = path.suffix.lower()
    if kind not in COMPRESSED:
        kind = next((ending for magic, ending in MAGIC.items() if start.startswith(magic)), "")
    if kind == ".zst":
        import pyarrow  # here: it takes a tenth of a second

        path.open("rb").close()  # pyarrow's errors do not tell a missing file
        return cast(BinaryIO, io.BufferedReader(pyarrow.input_stream(str(path), compression="zstd")))
    openers = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}
    return cast(BinaryIO, openers[kind](path)) if kind else path.open("rb")


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
    a space. Raises DataError for a file that cannot be read, is not UTF-8 or has a line of more than MAX_LINE."""
    number = 1
    try:
        with open_lines(path) as file:
            while block := file.read(BLOCK):
                block += (rest := file.readline(MAX_LINE + 1))
                if len(rest) > MAX_LINE:
                    wrong = f"a line of more than {MAX_LINE:,} bytes"
                    line = number + block.count(b"\n", 0, -1)
                    raise DataError(Problem(f"{path}:{line}", wrong, "end each row with a line end"))
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
    match error:
        case FileNotFoundError():
            right = "/dev/stdin for standard input" if str(path) == "-" else "give the file"
            return Problem(str(path), "missing file", right)
        case gzip.BadGzipFile():
            return Problem(str(path), "not a gzip file", "compress it with gzip, or name it without .gz")
        case OSError() if error.strerror:
            return Problem(str(path), f"cannot be read ({error.strerror})", "give a readable file")
    kind = {".bz2": "bzip2", ".xz": "xz", ".zst": "Zstandard"}.get(path.suffix.lower(), "gzip")
    return Problem(str(path), f"the {kind} data is broken or cut off", "give the whole file")


def whole_text(path: Path) -> str:
    """The text of a file. Raises DataError if it cannot be read, is empty or not UTF-8."""
    try:
        with open_lines(path) as file:
            raw = file.read()
    except BROKEN as error:
        raise DataError(unreadable(path, error)) from None
    if not raw.strip():
        raise DataError(Problem(str(path), "no rows", "give a file with content"))
    return utf8(path, raw.replace(b"\r\n", b"\n").replace(b"\r", b" "))


def utf8(path: Path, raw: bytes, first_line: int = 1) -> str:
    """The text of these bytes of a file. Raises DataError naming the line of the first that is not UTF-8."""
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        line = first_line + raw[: error.start].count(b"\n")
        wrong = f"byte {raw[error.start]:#04x} is not UTF-8"
        raise DataError(Problem(f"{path}:{line}", wrong, "save the file as UTF-8")) from None


class RepeatedKey(ValueError):
    """An object of JSON has a key twice."""


def json_wrong(error: Exception) -> str:
    """What is wrong with a text that is not read as JSON."""
    return str(error) if isinstance(error, RepeatedKey) else "not JSON"


def parsed_json(text: str) -> Any:
    """What a text of JSON says; NaN, as pandas writes what is missing, as null. Raises ValueError for a text that is
    not JSON, and for an object with a key twice."""
    try:
        return DECODER.decode(text)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) < len(pairs):
        names = [name for name, _ in pairs]
        raise RepeatedKey(f"key '{next(name for name in names if names.count(name) > 1)}' twice")
    return values


DECODER = json.JSONDecoder(
    object_pairs_hook=_object, parse_constant=lambda constant: None if constant == "NaN" else float(constant)
)
