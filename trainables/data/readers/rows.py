"""Lines, rows, numbers and ids of text files. Numbers are read as trec_eval reads them, so 1_0 is none."""

from __future__ import annotations

import bz2
import csv
import gzip
import io
import lzma
import math
import re
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, TypeGuard, cast

from trainables.core.errors import Problem
from trainables.core.files import MOST_TEXT, opened, require_regular, too_long
from trainables.core.prose import counted
from trainables.data.columns import MAX_GRADE

FLOAT32_END = 2.0**128 - 2.0**103  # smallest number that rounds to an infinite float32, as which trec_eval keeps scores
PACKED = (".gz", ".bz2", ".xz", ".zst")  # endings of compressed files
_MAGIC = {
    b"\x1f\x8b": ".gz",
    b"BZh": ".bz2",
    b"\xfd7zXZ\x00": ".xz",
    b"\x28\xb5\x2f\xfd": ".zst",
}  # what they begin with
_INSTEAD = {  # how a file begins that is not data: what it is instead, and what would be right
    b"version https://git-lfs.github.com/spec/": (
        "a Git LFS pointer, not the data itself",
        "git lfs pull gets the file",
    ),
    b"PK\x03\x04": ("a zip file", "unpack it"),
}
BROKEN = (OSError, EOFError, zlib.error, lzma.LZMAError)  # what reading a file may raise
FEW, SHARE = 3, 0.01  # rows of a file whose ids may match nothing: so many, or this share if that is more
BAD_SHARE = 0.2  # rows of a file that may be unusable for what they hold, or one row
_SHOWN = 1000  # unusable rows of a file that become problems
_WHOLE = re.compile(r"[+-]?[0-9]{1,9}")
_WHITE = re.compile(r"[ \t\r\n]+")
_NUMBER = re.compile(r"[-+.eE0-9]+")


class Wrong(Exception):
    """(what is wrong, what would be right) for one row."""


class Unusable(Wrong):
    """A row without something that others have, as published data has it: it is left out."""


class NotTheFile(OSError):
    """(what a file is instead of data, what would be right)."""


def score_of(field: str) -> float:
    """The score; raises Wrong unless it is a number that is finite as a float32."""
    score = _number(field)
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
    """The number that a text writes, as 1, 1.0 or 1e0; None if it is not a whole number."""
    if _WHOLE.fullmatch(field):
        return int(field)
    value = _number(field)
    return int(value) if abs(value) < 1e9 and value.is_integer() else None


def _number(field: str) -> float:
    try:
        return float(field) if _NUMBER.fullmatch(field) else math.nan
    except ValueError:
        return math.nan


_BEGIN = 1 << 16  # bytes by which a file is recognised
MAX_LINE = 16 << 20  # bytes; longer than any document of the public collections
BOM = b"\xef\xbb\xbf"
_UTF16 = (b"\xff\xfe", b"\xfe\xff")
_MARKUP = re.compile(r"\s*<(\?xml|!doctype|!--|[a-z][a-z0-9]*[\s>/])", re.IGNORECASE)


class Source:
    """A file of rows. What cannot be read becomes a problem, and no row."""

    def __init__(self, path: Path, problems: list[Problem]):
        self.path, self.problems = path, problems
        self.count = 0  # rows read so far
        self.classes: Mapping[str, Sequence[str]] = {}  # names of classes, by column

    @property
    def label(self) -> str:
        """What notes call the file."""
        return self.path.name

    def location(self, number: int) -> str:
        """FILE:LINE of a row."""
        return f"{self.path}:{number}"

    def header_location(self) -> str:
        """Where the names of the columns stand."""
        return self.location(1)

    def problem(self, number: int, wrong: str, right: str) -> None:
        """Notes what is wrong with one row."""
        self.problems.append(Problem(self.location(number), wrong, right))

    def value(self, number: int, value_of: Callable[[str], float], text: str) -> float:
        """The number in a field of a row, NaN for a wrong one, which becomes a problem."""
        try:
            return value_of(text)
        except Wrong as wrong:
            self.problem(number, *wrong.args)
            return math.nan

    def file_problem(self, wrong: str, right: str) -> None:
        """Notes what is wrong with the whole file."""
        self.problems.append(Problem(str(self.path), wrong, right))


class Lines(Source):
    """The lines of one file as (line number, text); wrong lines are left out and added to `problems`.

    `form` says what a line should look like. Blank lines are skipped; CRLF and a byte order mark are accepted. A
    file without lines is a problem, and so is XML or HTML.
    """

    pipes = False  # whether it may be a pipe

    def __init__(self, path: Path, form: str, problems: list[Problem]):
        super().__init__(path, problems)
        self.form = form

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

    def _lines(self) -> Iterator[tuple[int, str]]:
        """Decoded lines that are not blank. If the file becomes unreadable, notes that and ends early."""
        number = 0
        try:
            with open_text(self.path, self.pipes) as stream:
                for number, raw in enumerate(iter(lambda: stream.readline(MAX_LINE + 1), b""), 1):
                    if number == 1 and raw.startswith(_UTF16):
                        self.problem(1, "UTF-16", "save the file as UTF-8")
                        return
                    if len(raw) > MAX_LINE:
                        self.problem(number, f"a line of more than {MAX_LINE:,} bytes", "end each row with a line end")
                        return
                    line = self._decoded(number, raw.removeprefix(BOM) if number == 1 else raw)
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
    `also`: another number of fields that is let through. `header`: what the first row is called, which has the names of
    the columns.
    """

    def __init__(
        self,
        path: Path,
        columns: tuple[str, ...],
        separator: str | None,
        problems: list[Problem],
        also: int = 0,
        header: str = "",
    ):
        super().__init__(path, {"\t": " TAB ", None: " "}[separator].join(columns), problems)
        self.columns, self.header = columns, header
        self.separator, self.also = separator, also
        self.advice = self.form  # for a row with another number of fields

    def __iter__(self) -> Iterator[tuple[int, list[str]]]:
        header = self.header
        for number, fields in self.records():
            if len(fields) not in (len(self.columns), self.also):
                self.problem(number, f"{len(fields)} columns instead of {len(self.columns)}", self.advice)
            elif not header:
                yield number, fields
            else:
                if tuple(fields) != self.columns:
                    self.problem(number, f"not the {header}", self.form)
                header = ""

    def records(self) -> Iterator[tuple[int, list[str]]]:
        """(line, fields) of each row, however many these are."""
        for number, line in super().__iter__():
            yield number, line.split(self.separator) if self.separator or line.isascii() else split_at_white(line)

    def unquoted(self, separator: str, strict: bool = True) -> Iterator[tuple[int, list[str]]]:
        """(line, fields) of each row where fields may be quoted and then hold separators and line ends; a row counts by
        its first line."""
        numbers = [0]

        def lines() -> Iterator[str]:
            for number, line in super(Rows, self).__iter__():
                numbers.append(number)
                yield f"{line}\n"

        csv.field_size_limit(MAX_LINE)
        records = csv.reader(lines(), strict=strict, delimiter=separator)
        while True:
            try:
                fields = next(records)
            except StopIteration:
                return
            except csv.Error as error:
                self.problem(numbers[-1], f"quotation marks or fields that cannot be read ({error})", "close them")
                return
            yield numbers[1], fields
            numbers = numbers[-1:]


def split_at_white(line: str) -> list[str]:
    """The fields of a line between white space of ASCII."""
    return [field.decode() for field in line.encode().split()]


def unreadable(path: Path, line: int, error: Exception) -> Problem:
    """The problem that a reading error means; `line` is where it occurred."""
    match error:
        case NotTheFile():
            return Problem(str(path), *error.args)
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
        with open_text(path, pipes) as stream:
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
        return raw.removeprefix(BOM).decode()
    except UnicodeDecodeError as error:
        line = raw[: error.start].count(b"\n") + 1
        problems.append(Problem(f"{path}:{line}", f"byte {raw[error.start]:#04x} is not UTF-8", "save it as UTF-8"))
        return None


def open_bytes(path: Path, pipes: bool = False) -> BinaryIO:
    """The bytes of a file, decompressed if its name ends as in PACKED or it begins as such a file does. Raises
    NotTheFile for what only stands for the data or holds it, DataError for a pipe, unless one may be given (`pipes`),
    and for a device or a socket."""
    require_regular(path, pipes)
    begin = b""
    if path.is_file():
        with path.open("rb") as file:
            begin = file.read(64)
    for first, instead in _INSTEAD.items():
        if begin.startswith(first):
            raise NotTheFile(*instead)
    begins_as = next((ending for magic, ending in _MAGIC.items() if begin.startswith(magic)), "")
    match path.suffix if path.suffix in PACKED else begins_as:
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


class _Lines(io.RawIOBase):
    """A stream whose line ends are CR alone, with LF in their place."""

    def __init__(self, stream: BinaryIO):
        self._stream = stream

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> int:
        part = self._stream.read(len(buffer)).replace(b"\r", b"\n")
        buffer[: len(part)] = part
        return len(part)

    def close(self) -> None:
        self._stream.close()
        super().close()


def open_text(path: Path, pipes: bool = False) -> BinaryIO:
    """`open_bytes` of a text file. Line ends that are CR alone, as of old Macs and of Excel's "CSV (Macintosh)", become
    LF; it has such if its beginning has no LF."""
    begin = b""
    if path.is_file():
        with suppress(*BROKEN), open_bytes(path, pipes) as file:  # who reads on finds the place of the damage
            begin = file.read(_BEGIN)
    stream = open_bytes(path, pipes)
    return cast(BinaryIO, io.BufferedReader(_Lines(stream))) if b"\r" in begin and b"\n" not in begin else stream


def first_bytes(path: Path, count: int = _BEGIN) -> bytes:
    """The beginning of a file, without a byte order mark; nothing if it cannot be read."""
    try:
        with open_text(path) as file:
            return file.read(count).removeprefix(BOM)
    except BROKEN:
        return b""


def unpacked_name(path: Path) -> str:
    """The file's name without the ending of a compression."""
    return path.stem if path.suffix in PACKED else path.name


def plain_or_packed(folder: Path, *names: str) -> Path:
    """The first of the files that is there, plain or compressed; where none is, the first."""
    paths = (folder / f"{name}{packed}" for name in names for packed in ("", *PACKED))
    return next((path for path in paths if path.exists()), folder / names[0])


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


class LeftOut:
    """Collects the rows of one file that cannot be used for one reason. A few are left out with a note, as published
    collections have them. With `strict` (`data.strict`), if they are too many, or if more is wrong with the file, they
    are problems.

    noun, why   in the note: 2 documents without text
    share, few  too many are more than this share of the rows and than so many
    """

    def __init__(self, source: Source, noun: str, why: str, strict: bool, share: float = BAD_SHARE, few: int = 1):
        self.source, self.noun, self.why, self.strict = source, noun, why, strict
        self.share, self.few = share, few
        self._keys: set[object] = set()
        self._rows = 0
        self._noted: list[Problem] = []  # among the file's problems, until `close` takes them off

    def add(self, number: int, wrong: str, right: str, key: object = None) -> None:
        """Adds a row. `key`: rows with the same one count once among the too many."""
        self._keys.add(number if key is None else key)
        self._rows += 1
        if len(self._noted) < _SHOWN:
            self._noted.append(Problem(self.source.location(number), wrong, right))
            self.source.problems.append(self._noted[-1])

    def close(self, notes: list[str]) -> None:
        """Adds the note in place of the problems, if the rows may be left out; to be called at the end of the file."""
        count, rows = len(self._keys), max(self.source.count, 1)
        if not count or self.strict or count > max(self.few, self.share * rows) or 2 * self._rows >= rows:
            return
        noted = set(map(id, self._noted))
        others = [problem for problem in self.source.problems if id(problem) not in noted]
        if any(problem.location.startswith(str(self.source.path)) for problem in others):
            return
        self.source.problems[:] = others
        places = [Path(problem.location).name for problem in self._noted[:FEW]]
        more = ", ..." if self._rows > FEW else ""
        left_out = f"{counted(self._rows, self.noun)} {self.why} left out"
        notes.append(f"{self.source.label}: {left_out} ({', '.join(places)}{more})")


@dataclass
class Repeats:
    """Collects the repeated rows of one file.

    lines  the file; contradictions become its problems
    notes  where `note` says how many rows counted once, and where the first of them stands
    """

    lines: Source
    notes: list[str]
    same: list[tuple[int, int]] = field(default_factory=list)

    def add(self, number: int, first: int, contradiction: str | None) -> None:
        """Adds a row that repeats the row `first`. `contradiction`: what is wrong with it, ending in a word that the
        location of the first row may follow; None: it says the same."""
        if contradiction is None:
            self.same.append((number, first))
        else:
            self.lines.problem(number, f"{contradiction} {self.lines.path}:{first}", "keep the row that is right")

    def note(self) -> None:
        """Adds the note on the rows that say the same, if there are any."""
        if self.same:
            number, first = self.same[0]
            self.notes.append(
                repeat_note(self.lines.label, len(self.same), f"line {number} says what line {first} says")
            )


def repeat_note(label: str, count: int, first: str) -> str:
    """The note on rows of a file, which notes call `label`, that count once. `first`: where the first of them and the
    one it repeats stand."""
    rows = "row" if count == 1 else "rows"
    return f"{label}: {count:,} repeated {rows} left out (the first: {first})"
