"""Files with a header as rows of named columns: JSONL, CSV, TSV, Parquet, Arrow; none is in memory as a whole."""

from __future__ import annotations

import csv
import json
import shutil
import zlib
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, BinaryIO, Protocol

from trainables.core.errors import Problem, last_line
from trainables.core.files import opened
from trainables.data.readers.rows import MAX_LINE, Lines, open_bytes, unreadable

FORMATS = ("jsonl", "csv", "tsv", "parquet")  # by the ending of a file's name
Row = tuple[int, Sequence[Any]]
_BATCH = 1 << 13  # rows of Parquet and Arrow in memory at once


class Table(Protocol):
    """A file of rows with named columns. What cannot be read becomes a problem, and no row."""

    path: Path

    def names(self) -> list[str] | None:
        """The names of the columns; None if the file cannot be read, which is then a problem."""
        ...

    def rows(self, columns: Sequence[str]) -> Iterator[Row]:
        """(number, values of the columns) of each row; a value that is missing is None."""
        ...

    def problem(self, number: int, wrong: str, right: str) -> None:
        """Notes what is wrong with one row."""
        ...

    def location(self, number: int) -> str:
        """FILE:LINE of a row."""
        ...

    def header_location(self) -> str:
        """Where the names of the columns stand."""
        ...


class JsonTable(Lines):
    """A JSON object a line; the keys of the first are the columns."""

    def __init__(self, path: Path, problems: list[Problem]):
        super().__init__(path, "a JSON object", problems)

    def names(self) -> list[str] | None:
        noted = len(self.problems)
        names = next((list(row) for _, row in self._objects()), None)
        if names:
            del self.problems[noted:]  # `rows` notes them
        return names

    def header_location(self) -> str:
        return self.location(1)

    def rows(self, columns: Sequence[str]) -> Iterator[Row]:
        for number, row in self._objects():
            yield number, [row.get(name) for name in columns]

    def _objects(self) -> Iterator[tuple[int, dict[str, Any]]]:
        for number, line in self:
            try:
                row = json.loads(line)
            except (ValueError, RecursionError):
                row = None
            if isinstance(row, dict):
                yield number, row
            else:
                self.problem(number, "not a JSON object", f"each row is {self.form}")


class TsvTable(Lines):
    """Tabs between fields, without quoting; the first row names the columns."""

    def __init__(self, path: Path, problems: list[Problem]):
        super().__init__(path, "fields with a tab between them, the first row names the columns", problems)

    def names(self) -> list[str] | None:
        return next((fields for _, fields in self._records()), None)

    def header_location(self) -> str:
        return self.location(1)

    def rows(self, columns: Sequence[str]) -> Iterator[Row]:
        records = self._records()
        header = next(records)[1]
        wanted = [header.index(name) for name in columns]
        for number, fields in records:
            if len(fields) == len(header):
                yield number, [fields[index] for index in wanted]
            else:
                self.problem(number, f"{len(fields)} columns instead of {len(header)}", "as many as the header names")

    def _records(self) -> Iterator[tuple[int, list[str]]]:
        for number, line in self:
            yield number, line.split("\t")


class CsvTable(TsvTable):
    """Commas between fields, which may be quoted and then hold commas and line ends; a row counts by its first line."""

    def _records(self) -> Iterator[tuple[int, list[str]]]:
        numbers = [0]

        def lines() -> Iterator[str]:
            for number, line in self:
                numbers.append(number)
                yield f"{line}\n"

        csv.field_size_limit(MAX_LINE)
        records = csv.reader(lines(), strict=True)
        while True:
            numbers = numbers[-1:]
            try:
                fields = next(records)
            except StopIteration:
                return
            except csv.Error as error:
                self.problem(numbers[-1], f"quotation marks or fields that cannot be read ({error})", "close them")
                return
            yield numbers[1], fields


Opened = tuple[list[str], Iterable[Any]]  # names of the columns, batches of rows


class BatchTable:
    """Files of Arrow batches, one after the other. Rows count from 1 through all of them; a location names the file and
    the row in it."""

    def __init__(self, paths: Sequence[Path], problems: list[Problem]):
        self.path, self._paths, self._problems = paths[0], paths, problems
        self._starts = [0]  # rows before each file that has been begun

    def location(self, number: int) -> str:
        index = bisect_left(self._starts, number) - 1
        return f"{self._paths[index]}:{number - self._starts[index]}"

    def problem(self, number: int, wrong: str, right: str) -> None:
        self._problems.append(Problem(self.location(number), wrong, right))

    def header_location(self) -> str:
        return str(self.path)

    def names(self) -> list[str] | None:
        for path in self._paths:
            with self._readable(path), self._opened(path, None) as (names, _):
                return names
        return None

    def rows(self, columns: Sequence[str]) -> Iterator[Row]:
        self._starts, number, noted = [], 0, len(self._problems)
        for path in self._paths:
            self._starts.append(number)
            with self._readable(path), self._opened(path, columns) as (_, batches):
                for batch in batches:
                    for values in zip(*(_values(batch.column(name)) for name in columns), strict=True):
                        number += 1
                        yield number, values
        if not number and len(self._problems) == noted:
            self._problems.append(Problem(str(self.path), "no rows", "give rows"))

    @contextmanager
    def _readable(self, path: Path) -> Iterator[None]:
        """Notes the problem of a file that cannot be read, or not to its end."""
        import pyarrow

        try:
            yield
        except (pyarrow.ArrowException, ValueError, KeyError) as error:
            wrong = f"cannot be read as {self.FORMAT} ({last_line(error)[:200]})"
            self._problems.append(Problem(str(path), wrong, "give the whole file, with the same columns as the others"))
        except (OSError, EOFError, zlib.error) as error:
            self._problems.append(unreadable(path, 1, error))

    FORMAT = "Arrow"

    def _opened(self, path: Path, columns: Sequence[str] | None) -> AbstractContextManager[Opened]:
        raise NotImplementedError


class ArrowTable(BatchTable):
    """Streams of the Arrow IPC format, as the datasets library saves them."""

    @contextmanager
    def _opened(self, path: Path, columns: Sequence[str] | None) -> Iterator[Opened]:
        import pyarrow

        with opened(path) as file, pyarrow.ipc.open_stream(file) as stream:
            yield stream.schema.names, stream


class ParquetTable(BatchTable):
    """Parquet files; with .gz they are unpacked into an unnamed file of `workspace`."""

    FORMAT = "Parquet"

    def __init__(self, paths: Sequence[Path], problems: list[Problem], workspace: Path):
        super().__init__(paths, problems)
        self._workspace = workspace

    @contextmanager
    def _opened(self, path: Path, columns: Sequence[str] | None) -> Iterator[Opened]:
        from pyarrow import parquet

        with self._file(path) as file, parquet.ParquetFile(file) as table:
            names = table.schema_arrow.names
            yield names, () if columns is None else table.iter_batches(_BATCH, columns=list(columns))

    @contextmanager
    def _file(self, path: Path) -> Iterator[BinaryIO]:
        with open_bytes(path) as file:
            if path.suffix != ".gz":
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


def table_of(path: Path, problems: list[Problem], workspace: Path) -> Table:
    """The table in a file, by the ending of its name."""
    kind = path.name.removesuffix(".gz").rpartition(".")[2]
    if kind == "parquet":
        return ParquetTable([path], problems, workspace)
    return {"jsonl": JsonTable, "tsv": TsvTable, "csv": CsvTable}[kind](path, problems)
