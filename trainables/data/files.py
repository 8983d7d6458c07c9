"""Files of a data set: which splits they hold, and their bytes, decompressed."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import re
import zlib
from codecs import getincrementaldecoder
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO, cast

from trainables.core.errors import DataError, Problem
from trainables.core.files import MOST_TEXT, opened, require_regular, too_long
from trainables.data.columns import SPLITS

COMPRESSED = (".gz", ".bz2", ".xz", ".zst")
ARCHIVES = (".zip", ".tar", ".tgz", ".tar.gz", ".tar.bz2", ".tar.xz")
MAGIC = {b"\x1f\x8b": ".gz", b"BZh": ".bz2", b"\xfd7zXZ\x00": ".xz", b"\x28\xb5\x2f\xfd": ".zst"}
BROKEN = (OSError, EOFError, zlib.error, lzma.LZMAError)  # what reading a file may raise
BEGINNING = 1 << 16  # bytes by which a file is recognised
BOM = b"\xef\xbb\xbf"
SPLIT_NAMES = {
    "train": ("train", "training", "trainingset"),
    "dev": ("dev", "valid", "validation", "val", "vali", "validationset"),
    "test": ("test", "testset"),
}  # by which a file names its split; the first that is there counts
TABLES = ("jsonl", "json", "csv", "tsv", "parquet")  # endings of files with rows of named columns
GIVEN = "tune_cl: given row"  # in Parquet of a table from Python: the column of its rows' numbers; the table's name
DATA = {*TABLES, "arrow", "trec", "run", "qrels", "txt", "svm", "libsvm", "letor"}
OF_IDS = {"queries", "qrels", "run", "corpus", "collection", "scores", "qidpidtriples"}  # in names of other files
SHARD = re.compile(r"(?:[-_.]\d+)(?:-of-\d+)?(?:-[0-9a-f]{8,})?$")


# -- whose split a file is -------------------------------------------------------------------------------------------


def plain_name(path: Path) -> str:
    """The file's name in lower case, without the ending of a compression."""
    name = path.name.lower()
    return name.removesuffix(path.suffix.lower()) if path.suffix.lower() in COMPRESSED else name


def files_in(folder: Path) -> list[Path]:
    """The visible files of a folder, by name; of a file the file itself, and of nothing none."""
    if folder.is_file():
        return [folder]
    return sorted(
        path for path in folder.glob("*") if not (path.is_dir() or path.name.startswith(".")) and path.exists()
    )


def found(folder: Path, *names: str) -> Path | None:
    """The first of the files that is there, plain or compressed, in small or capital letters."""
    there: dict[str, Path] = {}
    for path in reversed(files_in(folder)):
        there[path.name.lower()] = path
    wanted = (f"{name.lower()}{ending}" for name in names for ending in ("", *COMPRESSED))
    return next((there[name] for name in wanted if name in there), None)


def split_files(folder: Path, *patterns: str) -> dict[str, Path]:
    """The file of each split that has one. `patterns` of its name, with {} for the split, the first that fits counts:
    qrels.{}.txt."""
    names = {
        split: [pattern.format(name) for name in of_split for pattern in patterns]
        for split, of_split in SPLIT_NAMES.items()
    }
    return named_files(folder, names)


def named_files(folder: Path, names: Mapping[str, Sequence[str]]) -> dict[str, Path]:
    """The file of each split that has one; of the split's `names` the first that is there counts."""
    paths = {split: found(folder, *each) for split, each in names.items()}
    return {split: path for split, path in paths.items() if path is not None}


def shards_of_splits(folder: Path, endings: Sequence[str], loosely: bool = True) -> dict[str, list[Path]]:
    """The files with the rows of each split: train.ENDING; else train-00000-of-00002.ENDING in the folder, in data/ or
    in train/; else, `loosely`, names that hold the split's, as triples.train.small.ENDING, or the only such file as
    training data. `folder` may be a file itself."""
    listed = [*files_in(folder), *(files_in(folder / "data") if folder.is_dir() else [])]
    stems = {path: stem_of(path) for path in listed if ending_of(path) in endings}
    whole = {
        split: [path for name in names for path, stem in stems.items() if stem == name and path.parent == folder][:2]
        for split, names in SPLIT_NAMES.items()
    }
    for split, paths in whole.items():
        if len(paths) == 2 and stems[paths[0]] != stems[paths[1]]:
            whole[split] = paths[:1]  # of dev and validation the first counts; of two endings none does
    if any(whole.values()):
        return {split: paths for split, paths in whole.items() if paths}
    shards: dict[str, list[Path]] = {split: [] for split in SPLITS}
    for split, names in SPLIT_NAMES.items():
        shards[split] = [path for path, stem in stems.items() if SHARD.sub("", stem) in names]
        for name in names if folder.is_dir() else ():
            shards[split] += [path for path in files_in(folder / name) if ending_of(path) in endings]
    if any(shards.values()) or not loosely:
        return {split: paths for split, paths in shards.items() if paths}
    named: dict[str, list[Path]] = {split: [] for split in SPLITS}
    for path, stem in stems.items():
        splits = {split for word in words_of(stem) if (split := split_of(word))}
        if len(splits) == 1 and not OF_IDS & set(words_of(stem)):
            named[splits.pop()].append(path)
    if not any(named.values()) and len(stems) == 1 and not OF_IDS & set(words_of(next(iter(stems.values())))):
        named["train"] = list(stems)
    return {split: paths for split, paths in named.items() if paths}


def require_one_file(folder: Path, files: dict[str, list[Path]]) -> None:
    """Raises DataError for several files of a split that are not shards of one."""
    problems = []
    for split, paths in files.items():
        whole = [
            path for path in paths if path.parent.name not in SPLIT_NAMES[split] and not SHARD.search(stem_of(path))
        ]
        if len(paths) > 1 and whole:
            names = " and ".join(path.name for path in paths)
            problems.append(Problem(str(folder), f"{names} are all the {split} split", "keep one file a split"))
    if problems:
        raise DataError(problems)


def stem_of(path: Path) -> str:
    return plain_name(path).rpartition(".")[0]


def ending_of(path: Path) -> str:
    return plain_name(path).rpartition(".")[2]


def words_of(stem: str) -> list[str]:
    return re.findall("[a-z]+", stem.lower())


def split_of(word: str) -> str | None:
    """The split that a word names."""
    return next((split for split, names in SPLIT_NAMES.items() if word in names), None)


def not_read(folder: Path, read: Iterable[Path]) -> list[str]:
    """Files of a folder that look like data and are not among those that are read."""
    done = {path.resolve() for path in read}
    places = [folder, *(folder / name for name in ("data", "qrels", "runs"))]
    others = [path for place in places if place.is_dir() for path in files_in(place) if path.resolve() not in done]
    named = {path: words_of(stem_of(path)) for path in others if ending_of(path) in DATA}
    return [
        str(path.relative_to(folder))
        for path, words in named.items()
        if any(split_of(word) or word in OF_IDS for word in words)
    ]


# -- bytes -----------------------------------------------------------------------------------------------------------


class _Lines(io.RawIOBase):
    """A stream whose lines end in LF alone: CR LF becomes LF, and a CR within a line white space, or LF where `cr`: all
    lines end in CR, as of old Macs and of Excel's "CSV (Macintosh)". Without a byte order mark. `squeeze`: each run of
    spaces and tabs becomes one space, and none is at the ends of a line; `check`: UnicodeDecodeError is raised for what
    is not UTF-8."""

    def __init__(self, stream: BinaryIO, cr: bool, squeeze: bool, check: bool):
        self._stream, self._cr, self._squeeze = stream, cr, squeeze
        self._rest, self._first = b"", True
        self._decoder = getincrementaldecoder("utf-8")() if check else None

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> int:
        while not self._rest:
            block = self._stream.read(len(buffer))
            if self._decoder:
                self._decoder.decode(block, final=not block)
            if not block:
                return 0
            if not self._cr and (block.endswith(b"\r") or self._squeeze):
                rest = self._stream.readline()  # a line end, or the white space around it, is not cut in two
                block += rest
                if self._decoder:
                    self._decoder.decode(rest)
            self._rest = self._plain(block)
        part, self._rest = self._rest[: len(buffer)], self._rest[len(buffer) :]
        buffer[: len(part)] = part
        return len(part)

    def _plain(self, block: bytes) -> bytes:
        if self._first:
            block, self._first = block.removeprefix(BOM), False
        if b"\r" in block:
            block = block.replace(b"\r", b"\n") if self._cr else block.replace(b"\r\n", b"\n").replace(b"\r", b" ")
        if self._squeeze:
            block = re.sub(rb" ?\n ?", b"\n", re.sub(rb"[ \t\v\f]+", b" ", block))
        return block

    def close(self) -> None:
        self._stream.close()
        super().close()


def open_bytes(path: Path, pipes: bool = False) -> BinaryIO:
    """The bytes of a file, decompressed if its name ends as in COMPRESSED or it begins as such a file does. Raises
    DataError for a pipe, unless one may be given (`pipes`), for a device or a socket, and for a zip file."""
    require_regular(path, pipes)
    start = b""
    if path.is_file():
        with path.open("rb") as file:
            start = file.read(8)
    if start.startswith(b"PK\x03\x04"):
        raise DataError(Problem(str(path), "a zip file", "unpack it"))
    kind = path.suffix.lower()
    if kind not in COMPRESSED:
        kind = next((ending for magic, ending in MAGIC.items() if start.startswith(magic)), "")
    match kind:
        case ".gz":
            return cast(BinaryIO, gzip.open(path))
        case ".bz2":
            return cast(BinaryIO, bz2.open(path))
        case ".xz":
            return cast(BinaryIO, lzma.open(path))
        case ".zst":
            import pyarrow  # here: it takes a tenth of a second

            path.open("rb").close()  # pyarrow's errors do not tell a missing file
            return cast(BinaryIO, io.BufferedReader(pyarrow.input_stream(str(path), compression="zstd")))
    return opened(path, pipes)


def open_lines(path: Path, pipes: bool = False, squeeze: bool = False, check: bool = False) -> BinaryIO:
    """The lines of a text file, each ending in LF, without a byte order mark (`_Lines`)."""
    start = b""
    if path.is_file():
        with suppress(*BROKEN), open_bytes(path) as file:  # whoever reads on finds the place of the damage
            start = file.read(BEGINNING)
    cr = b"\r" in start and b"\n" not in start
    return cast(BinaryIO, io.BufferedReader(_Lines(open_bytes(path, pipes), cr, squeeze, check), BEGINNING))


def beginning(path: Path) -> bytes:
    """The first bytes of a text file; nothing if it cannot be read, about which whoever reads it complains."""
    try:
        with open_lines(path) as file:
            return file.read(BEGINNING)
    except (*BROKEN, DataError):
        return b""


def first_lines(path: Path, count: int = 50) -> list[str]:
    """The first lines that are not blank, at most `count`, without the last one if the beginning cuts it."""
    start = beginning(path)
    lines = start.split(b"\n")
    if len(start) == BEGINNING and len(lines) > 1:
        lines.pop()
    return [line.decode(errors="replace") for line in lines if line.strip()][:count]


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


def whole_text(path: Path, pipes: bool = False) -> str:
    """The text of a file of at most MOST_TEXT bytes. Raises DataError if it cannot be read, is empty or not UTF-8."""
    try:
        with open_lines(path, pipes) as stream:
            raw = stream.read(MOST_TEXT + 1)
    except BROKEN as error:
        raise DataError(unreadable(path, error)) from None
    if len(raw) > MOST_TEXT:
        raise too_long(path, MOST_TEXT)
    if not raw.strip():
        raise DataError(Problem(str(path), "no rows", "give a file with content"))
    return utf8(path, raw)


def utf8(path: Path, raw: bytes, first_line: int = 1) -> str:
    """The text of these bytes of a file. Raises DataError naming the line of the first that is not UTF-8."""
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        line = first_line + raw[: error.start].count(b"\n")
        wrong = f"byte {raw[error.start]:#04x} is not UTF-8"
        raise DataError(Problem(f"{path}:{line}", wrong, "save the file as UTF-8")) from None


def parsed_json(text: str) -> Any:
    """What a text of JSON says; NaN, as pandas writes what is missing, as null. Raises ValueError for a text that is
    not JSON, and for an object with a key twice."""
    try:
        return json.loads(text, object_pairs_hook=_object, parse_constant=constant_of)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"key '{next(name for name in names if names.count(name) > 1)}' twice")
    return values


def constant_of(constant: str) -> float | None:
    """The value of a constant of JSON that is no number: NaN is null."""
    return None if constant == "NaN" else float(constant)
