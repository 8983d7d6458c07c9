"""The row reader under all forms: files with named columns (JSON, CSV, TSV, Parquet, Arrow), in one piece or several;
none is in memory as a whole, but for arrays of JSON."""

from __future__ import annotations

import json
import re
import shutil
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from itertools import islice
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, BinaryIO, TypeVar

from trainables.core.errors import Problem, last_line
from trainables.core.files import opened
from trainables.data.readers.rows import (
    BROKEN,
    PACKED,
    Lines,
    Rows,
    Source,
    first_bytes,
    open_bytes,
    read_whole,
    unpacked_name,
    unreadable,
    whole_number,
)

T = TypeVar("T")
FORMATS = ("jsonl", "csv", "tsv", "parquet")  # by the ending of a file's name
Row = tuple[int, Sequence[Any]]
_BATCH = 1 << 13  # rows of Parquet and Arrow in memory at once
_SAMPLE = 50  # rows by which a file without a header is known
NAME = re.compile(r"[^\W\d][\w.-]*")
TRIPLE, GRADED = ("query", "positive", "negative"), ("query", "document", "label")  # columns where no header names them


def looked_at(problems: list[Problem], look: Callable[[], Iterable[T]]) -> list[T] | None:
    """What a first look at a table finds; None for nothing. If there is anything, the problems that it notes are
    dropped: `rows` notes them."""
    noted = len(problems)
    entries = list(look())
    if entries:
        del problems[noted:]
    return entries or None


class JsonTable(Lines):
    """A JSON object a line, or one array of objects; the columns are the keys of all of them. `keys`: what the objects
    should have."""

    def __init__(self, path: Path, problems: list[Problem], keys: Sequence[str] = ()):
        super().__init__(path, "a JSON object" + (f" with {', '.join(keys)}" if keys else ""), problems)

    def names(self) -> list[str] | None:
        return looked_at(self.problems, lambda: dict.fromkeys(name for _, row in self._objects() for name in row))

    def rows(self, columns: Sequence[str]) -> Iterator[Row]:
        for number, row in self._objects():
            yield number, [row.get(name) for name in columns]

    def _objects(self) -> Iterator[tuple[int, dict[str, Any]]]:
        for number, row in self._array() if first_bytes(self.path).lstrip().startswith(b"[") else self._of_lines():
            if isinstance(row, dict):
                yield number, row
            else:
                self.problem(number, f"not {self.form}", f"each row is {self.form}")

    def _of_lines(self) -> Iterator[tuple[int, Any]]:
        for number, line in self:
            try:
                row = json.loads(line)
            except (ValueError, RecursionError):
                row = None
            yield number, row

    def _array(self) -> Iterator[tuple[int, Any]]:
        """The items of an array, by the lines in which they begin."""
        text = read_whole(self.path, self.problems) or "[]"
        decoder, at, line, self.count = json.JSONDecoder(), text.index("[") + 1, 1, 0
        while (start := _next(text, at)) < len(text) and text[start] != "]":
            line += text.count("\n", at, start)
            try:
                row, at = decoder.raw_decode(text, start)
            except (ValueError, RecursionError):
                self.problem(line, "not JSON", "give the whole file")
                return
            self.count += 1
            yield line, row
            line += text.count("\n", start, at)
        if start == len(text):
            self.problem(line, "the array is cut off here", "give the whole file")


def _next(text: str, at: int) -> int:
    """Where the next item of an array, or its end, begins."""
    while at < len(text) and text[at] in " \t\r\n,":
        at += 1
    return at


class TsvTable(Rows):
    """Tabs between fields, without quoting; the first row names the columns. Without such a row, they are those of a
    triple with one negative or more, or of a pair with its grade. `header`: columns that the first row must have."""

    needs_header = False

    def __init__(self, path: Path, problems: list[Problem], header: tuple[str, ...] = ()):
        super().__init__(path, header, "\t", problems)
        self.form = self.form or "fields with a tab between them, the first row names the columns"
        self.advice = "as many as the header names"
        self.needs_header |= bool(header)
        self._bare = False  # without a header

    def names(self) -> list[str] | None:
        rows = looked_at(self.problems, lambda: (fields for _, fields in islice(self.records(), _SAMPLE)))
        if not rows:
            return None
        bare = None if self.needs_header else columns_without_header(rows)
        self._bare, self.columns = bare is not None, bare or tuple(name.strip() for name in rows[0])
        return list(self.columns)

    def rows(self, columns: Sequence[str]) -> Iterator[Row]:
        wanted = [self.columns.index(name) if name in self.columns else None for name in columns]
        for number, fields in islice(self, 0 if self._bare else 1, None):
            yield number, [None if index is None else fields[index] for index in wanted]


def columns_without_header(rows: Sequence[Sequence[str]]) -> tuple[str, ...] | None:
    """The columns of rows that begin with a text, without a header; None if these are other rows. Conversations and
    Quora's pairs begin with a label; a header is made of names. A fourth field may be an id or a score: only texts of
    several words are documents."""
    count = len(rows[0])
    if count < 3 or any(len(row) != count or row[0] in ("0", "1") for row in rows):
        return None
    if not all(" " in text for text in (rows[0][:2] if count == 3 else rows[0])):
        return None
    graded = count == 3 and all(whole_number(row[2]) is not None for row in rows)
    return GRADED if graded else (*TRIPLE, *(f"{TRIPLE[-1]}_{number}" for number in range(2, count - 1)))


class CsvTable(TsvTable):
    """Commas between fields (semicolons or tabs, if the header has no comma), which may be quoted."""

    needs_header = True

    def records(self) -> Iterator[tuple[int, list[str]]]:
        return self.unquoted(",;\t")


Opened = tuple[list[str], Iterable[Any]]  # names of the columns, batches of rows


class BatchTable(Source):
    """A file of Arrow batches; rows count from 1."""

    FORMAT = "Arrow"

    def header_location(self) -> str:
        return str(self.path)

    def names(self) -> list[str] | None:
        with self._readable(), self._opened(None) as (names, _):
            return names
        return None

    def rows(self, columns: Sequence[str]) -> Iterator[Row]:
        self.count = 0
        with self._readable(), self._opened(columns) as (_, batches):
            for batch in batches:
                for values in zip(*(_values(batch.column(name)) for name in columns), strict=True):
                    self.count += 1
                    yield self.count, values

    @contextmanager
    def _readable(self) -> Iterator[None]:
        """Notes the problem of a file that cannot be read, or not to its end."""
        import pyarrow

        try:
            yield
        except (pyarrow.ArrowException, ValueError, KeyError) as error:
            wrong = f"cannot be read as {self.FORMAT} ({last_line(error)[:200]})"
            right = "give the whole file, with the same columns as the others"
            self.problems.append(Problem(str(self.path), wrong, right))
        except BROKEN as error:
            self.problems.append(unreadable(self.path, 1, error))

    def _opened(self, columns: Sequence[str] | None) -> AbstractContextManager[Opened]:
        raise NotImplementedError


class ArrowTable(BatchTable):
    """A stream of the Arrow IPC format, as the datasets library saves it."""

    @contextmanager
    def _opened(self, columns: Sequence[str] | None) -> Iterator[Opened]:
        import pyarrow

        with opened(self.path) as file, pyarrow.ipc.open_stream(file) as stream:
            yield stream.schema.names, stream


class ParquetTable(BatchTable):
    """A Parquet file; a compressed one is unpacked into an unnamed file of `workspace`."""

    FORMAT = "Parquet"

    def __init__(self, path: Path, problems: list[Problem], workspace: Path):
        super().__init__(path, problems)
        self._workspace = workspace

    @contextmanager
    def _opened(self, columns: Sequence[str] | None) -> Iterator[Opened]:
        from pyarrow import parquet

        with self._file() as file, parquet.ParquetFile(file) as table:
            names = table.schema_arrow.names
            yield names, () if columns is None else table.iter_batches(_BATCH, columns=list(columns))

    @contextmanager
    def _file(self) -> Iterator[BinaryIO]:
        with open_bytes(self.path) as file:
            if self.path.suffix not in PACKED:
                yield file
                return
            self._workspace.mkdir(parents=True, exist_ok=True)
            with TemporaryFile(dir=self._workspace) as unpacked:
                shutil.copyfileobj(file, unpacked)
                unpacked.seek(0)
                yield unpacked


def _values(column: Any) -> list[Any]:
    """The values of an Arrow array; one that should be text and is not UTF-8 as bytes."""
    try:
        return column.to_pylist()
    except UnicodeDecodeError:
        return [_text_or_bytes(value) for value in column]


def _text_or_bytes(value: Any) -> Any:
    try:
        return value.as_py()
    except UnicodeDecodeError:
        return value.as_buffer().to_pybytes()


class Pieces(Source):
    """The pieces of one table, one after the other; rows count from 1 through all of them, and a location names the
    file and the row in it. A column is one of any piece."""

    def __init__(self, tables: Sequence[Table]):
        super().__init__(tables[0].path, tables[0].problems)
        self._tables = tables
        self._starts = [0]  # the number before the first of each piece that has been begun

    def location(self, number: int) -> str:
        index = bisect_left(self._starts, number) - 1
        return self._tables[index].location(number - self._starts[index])

    def header_location(self) -> str:
        return self._tables[0].header_location()

    def names(self) -> list[str] | None:
        return looked_at(
            self.problems, lambda: dict.fromkeys(name for table in self._tables for name in table.names() or ())
        )

    def rows(self, columns: Sequence[str]) -> Iterator[Row]:
        self._starts, self.count, last = [], 0, 0
        for table in self._tables:
            start = last
            self._starts.append(start)
            for number, values in table.rows(columns):
                last = start + number
                yield last, values
            self.count += table.count


Table = JsonTable | TsvTable | BatchTable | Pieces
"""A file of rows with named columns.

names    the names of the columns; None if the file cannot be read, which is then a problem
rows     (number, values of the columns) of each row; a value that is missing is None; to be called after `names`
"""


def table_of(path: Path, problems: list[Problem], workspace: Path) -> Table:
    """The table in a file, by the ending of its name."""
    kind = unpacked_name(path).rpartition(".")[2]
    if kind == "parquet":
        return ParquetTable(path, problems, workspace)
    kinds: dict[str, type[JsonTable | TsvTable]] = {"jsonl": JsonTable, "json": JsonTable, "csv": CsvTable}
    return kinds.get(kind, TsvTable)(path, problems)


def joined(tables: Sequence[Table]) -> Table:
    """One table of all of them."""
    return tables[0] if len(tables) == 1 else Pieces(tables)


def first_rows(path: Path) -> list[list[str]]:
    """The fields of a TSV file's first rows; none if it cannot be read, about which whoever reads it complains."""
    return [line.split("\t") for line in first_bytes(path).decode(errors="replace").splitlines()[:_SAMPLE]]
