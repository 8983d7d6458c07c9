"""Lines, rows, numbers and ids of text files. Numbers are read as trec_eval reads them, so 1_0 is none."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import math
import re
import zlib
from array import array
from collections.abc import Iterator, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import BinaryIO, TypeGuard, cast

import numpy as np

from trainables.core.errors import Problem
from trainables.core.files import MOST_TEXT, opened, require_regular, too_long
from trainables.data.columns import MAX_GRADE, TextColumn

FLOAT32_END = 2.0**128 - 2.0**103  # smallest number that rounds to an infinite float32, as which trec_eval keeps scores
PACKED = (".gz", ".bz2", ".xz", ".zst")  # endings of compressed files
BROKEN = (OSError, EOFError, zlib.error, lzma.LZMAError)  # what reading a file may raise
_WHOLE = re.compile(r"[+-]?[0-9]{1,9}")
_WHITE = re.compile(r"[ \t\r\n]+")
_NUMBER = re.compile(r"[-+.eE0-9]+")


class Wrong(Exception):
    """(what is wrong, what would be right) for one row."""


def score_of(field: str) -> float:
    """The score; raises Wrong unless it is a number that is finite as a float32."""
    try:
        score = float(field) if _NUMBER.fullmatch(field) else math.nan
    except ValueError:
        score = math.nan
    if not abs(score) < FLOAT32_END:
        raise Wrong(f"score '{field}'", "write a finite number in the range of float32")
    return score


def grade_of(field: str, least: float = -math.inf) -> int:
    """The grade; raises Wrong unless it is a whole number from `least` to MAX_GRADE, as 1, 1.0 or 1e0."""
    grade = whole_number(field)
    if grade is None or not least <= grade <= MAX_GRADE:
        raise Wrong(f"grade '{field}'", f"write a whole number up to {MAX_GRADE}")
    return grade


def whole_number(field: str) -> int | None:
    """The number that a text writes, as 1, 1.0 or 1e0; None if it is no whole number."""
    if _WHOLE.fullmatch(field):
        return int(field)
    try:
        value = float(field) if _NUMBER.fullmatch(field) else math.nan
    except ValueError:
        return None
    return int(value) if abs(value) < 1e9 and value.is_integer() else None


MAX_LINE = 16 << 20  # bytes; longer than any document of the public collections
_BOM = b"\xef\xbb\xbf"
_UTF16 = (b"\xff\xfe", b"\xfe\xff")
_MARKUP = re.compile(r"\s*<(\?xml|!doctype|!--|[a-z][a-z0-9]*[\s>/])", re.IGNORECASE)


class Lines:
    """The lines of one file as (line number, text); wrong lines are left out and added to `problems`.

    `form` says what a line should look like. Blank lines are skipped; CRLF and a byte order mark are accepted. A
    file without lines is a problem, and so is XML or HTML.
    """

    def __init__(self, path: Path, form: str, problems: list[Problem]):
        self.path = path
        self.form = form
        self.problems = problems
        self.count = 0  # lines read so far

    def __iter__(self) -> Iterator[tuple[int, str]]:
        empty, noted = True, len(self.problems)
        self.count = 0
        for number, line in self._lines():
            self.count += 1
            if empty and _MARKUP.match(line):
                self.problem(number, "XML or HTML", f"each row is {self.form}")
                return
            empty = False
            yield number, line
        if empty and len(self.problems) == noted:
            self.file_problem("no rows", f"each row is {self.form}")

    def problem(self, number: int, wrong: str, right: str) -> None:
        """Notes what is wrong with one line."""
        self.problems.append(self.at(number, wrong, right))

    def at(self, number: int, wrong: str, right: str) -> Problem:
        """A problem with one line, without noting it."""
        return Problem(self.location(number), wrong, right)

    def location(self, number: int) -> str:
        """FILE:LINE."""
        return f"{self.path}:{number}"

    def file_problem(self, wrong: str, right: str) -> None:
        """Notes what is wrong with the whole file."""
        self.problems.append(Problem(str(self.path), wrong, right))

    def _lines(self) -> Iterator[tuple[int, str]]:
        """Decoded lines that are not blank. If the file becomes unreadable, notes that and ends early."""
        number = 0
        try:
            with open_bytes(self.path) as stream:
                for number, raw in enumerate(iter(lambda: stream.readline(MAX_LINE + 1), b""), 1):
                    if number == 1 and raw.startswith(_UTF16):
                        self.problem(1, "UTF-16", "save the file as UTF-8")
                        return
                    if len(raw) > MAX_LINE:
                        self.problem(number, f"a line of more than {MAX_LINE:,} bytes", "end each row with a line end")
                        return
                    line = self._decoded(number, raw.removeprefix(_BOM) if number == 1 else raw)
                    if line and not line.isspace():
                        yield number, line
        except BROKEN as error:
            self.problems.append(unreadable(self.path, number + 1, error))

    def _decoded(self, number: int, raw: bytes) -> str:
        try:
            return raw.decode().rstrip("\r\n")
        except UnicodeDecodeError as error:
            self.problem(number, f"byte {raw[error.start]:#04x} is not UTF-8", "save the file as UTF-8")
            return ""


class Rows(Lines):
    """The rows of one file as (line number, fields).

    `columns` names the fields of a row; `separator` separates them (None = any white space of ASCII, as in trec_eval).
    `also`: another number of fields that is let through.
    """

    def __init__(
        self, path: Path, columns: tuple[str, ...], separator: str | None, problems: list[Problem], also: int = 0
    ):
        super().__init__(path, {"\t": " TAB ", None: " "}[separator].join(columns), problems)
        self.columns = columns
        self.separator, self.also = separator, also

    def __iter__(self) -> Iterator[tuple[int, list[str]]]:
        for number, line in super().__iter__():
            fields = line.split(self.separator) if self.separator or line.isascii() else split_at_white(line)
            if len(fields) in (len(self.columns), self.also):
                yield number, fields
            else:
                self.problem(number, f"{len(fields)} columns instead of {len(self.columns)}", self.form)


def split_at_white(line: str) -> list[str]:
    """The fields of a line between white space of ASCII."""
    return [field.decode() for field in line.encode().split()]


def unreadable(path: Path, line: int, error: Exception) -> Problem:
    """The problem that a reading error means; `line` is where it occurred."""
    match error:
        case FileNotFoundError():
            right = "/dev/stdin for standard input" if str(path) == "-" else "give the file"
            return Problem(str(path), "missing file", right)
        case gzip.BadGzipFile():
            return Problem(str(path), "not a gzip file", "compress it with gzip, or name it without .gz")
        case OSError() if error.strerror:
            return Problem(str(path), f"cannot be read ({error.strerror})", "give a readable file")
    kind = {".bz2": "bzip2", ".xz": "xz", ".zst": "Zstandard"}.get(path.suffix, "gzip")
    return Problem(f"{path}:{line}", f"the {kind} data is broken or cut off here", "give the whole file")


def read_whole(path: Path, problems: list[Problem], pipes: bool = False) -> str | None:
    """The text of a file, or with `pipes` of what else can be read; if it cannot be, notes a problem and returns
    None."""
    try:
        with open_bytes(path, pipes) as stream:
            raw = stream.read(MOST_TEXT + 1)
    except BROKEN as error:
        problems.append(unreadable(path, 1, error))
        return None
    if len(raw) > MOST_TEXT:
        raise too_long(path, MOST_TEXT)
    if not raw.strip():
        problems.append(Problem(str(path), "no rows", "give a file with content"))
        return None
    try:
        return raw.removeprefix(_BOM).decode()
    except UnicodeDecodeError as error:
        line = raw[: error.start].count(b"\n") + 1
        problems.append(Problem(f"{path}:{line}", f"byte {raw[error.start]:#04x} is not UTF-8", "save it as UTF-8"))
        return None


def open_bytes(path: Path, pipes: bool = False) -> BinaryIO:
    """The bytes of a file, decompressed if its name ends as in PACKED. Raises DataError for a pipe, unless one may be
    given (`pipes`), and for a device or a socket."""
    if path.suffix not in PACKED:
        return opened(path, pipes)
    require_regular(path, pipes)
    match path.suffix:
        case ".gz":
            return cast(BinaryIO, gzip.open(path))
        case ".bz2":
            return cast(BinaryIO, bz2.open(path))
        case ".xz":
            return cast(BinaryIO, lzma.open(path))
    import pyarrow  # here: it takes a tenth of a second

    path.open("rb").close()  # pyarrow's errors do not tell a missing file
    return cast(BinaryIO, io.BufferedReader(pyarrow.input_stream(str(path), compression="zstd")))


def first_bytes(path: Path, count: int = 1 << 16) -> bytes:
    """The beginning of a file, without a byte order mark; nothing if it cannot be read."""
    try:
        with open_bytes(path) as file:
            return file.read(count).removeprefix(_BOM)
    except BROKEN:
        return b""


def unpacked_name(path: Path) -> str:
    """The file's name without the ending of a compression."""
    return path.stem if path.suffix in PACKED else path.name


def plain_or_packed(folder: Path, *names: str) -> Path:
    """The first of the files that is there, plain or compressed; where none is, the first."""
    paths = (folder / f"{name}{packed}" for name in names for packed in ("", *PACKED))
    return next((path for path in paths if path.exists()), folder / names[0])


def text_of_number(value: object) -> object:
    """A whole number as its digits; any other value as it is. Ids are numbers in some files."""
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


def is_text(value: object) -> TypeGuard[str]:
    """Whether a value read from JSON is a text that UTF-8 can hold (half a surrogate pair cannot be written)."""
    if not isinstance(value, str):
        return False
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def one_line(text: str) -> str:
    """The text with each run of spaces, tabs and line ends as one space, and none at either end."""
    if "\n" in text or "  " in text or "\t" in text or "\r" in text:
        text = _WHITE.sub(" ", text)
    return text.strip(" ")


def usable_id(name: str) -> bool:
    """Whether the id fits a TREC file: not empty, no white space of ASCII."""
    return name.split() == [name] or split_at_white(name) == [name]


MISSING = -1


def hash_of(name: str) -> int:
    """A 64-bit hash of an id."""
    return int.from_bytes(blake2b(name.encode(), digest_size=8).digest(), "little")


class IdIndex:
    """Finds ids by their sorted 64-bit hashes: 16 bytes per id, whatever its length. Of ten million ids, two have the
    same hash with a probability of 1 in 300,000.

    hashes  `hash_of` of each id, in the order of `ids`
    """

    def __init__(self, ids: TextColumn, hashes: array):
        self._ids = ids
        unsorted = np.array(hashes, np.uint64)
        self._order = np.argsort(unsorted, kind="stable")
        self._sorted = unsorted[self._order]

    def __len__(self) -> int:
        return len(self._ids)

    def rows(self, names: Sequence[str]) -> np.ndarray:
        """Row of each of N ids (the first of equal ones), MISSING if there is none; int64 [N]."""
        wanted = np.fromiter(map(hash_of, names), np.uint64, len(names))
        index = np.searchsorted(self._sorted, wanted)
        inside = np.flatnonzero(index < len(self))
        rows = np.full(len(names), MISSING, np.int64)
        hits = inside[self._sorted[index[inside]] == wanted[inside]]
        rows[hits] = self._order[index[hits]]
        return rows

    def repeats(self) -> list[tuple[int, int]]:
        """(row, first row with the same id) of each row that repeats an id, by row."""
        later = np.flatnonzero(self._sorted[1:] == self._sorted[:-1]) + 1
        first = np.searchsorted(self._sorted, self._sorted[later])
        return sorted(zip(self._order[later].tolist(), self._order[first].tolist(), strict=True))
