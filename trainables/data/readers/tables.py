"""The row reader under all forms: files with named columns (JSON, CSV, TSV, Parquet, Arrow), in one piece or several;
none is in memory as a whole, but for arrays of JSON."""

from __future__ import annotations

import json
import re
import shutil
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import cached_property
from itertools import islice
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, BinaryIO, TypeVar

from trainables.core.errors import DataError, Problem, last_line
from trainables.data.readers.contents import (
    IDS,
    KNOWN,
    TEXTS,
    TITLE,
    columns_without_header,
    id_of,
    is_header,
    text_of,
)
from trainables.data.readers.rows import (
    BOM,
    BROKEN,
    MAX_LINE,
    PACKED,
    Lines,
    Rows,
    Source,
    Unusable,
    Wrong,
    first_bytes,
    is_text,
    open_bytes,
    open_text,
    read_whole,
    unpacked_name,
    unreadable,
)

T = TypeVar("T")
FORMATS = ("jsonl", "csv", "tsv", "parquet")  # by the ending of a file's name
Row = tuple[int, Sequence[Any]]
_BATCH = 1 << 13  # rows of Parquet and Arrow in memory at once
_SAMPLE = 50  # rows by which a file without a header is known
NAME = re.compile(r"[^\W\d][\w.-]*")
GIVEN = ".given.npz"
_QUOTED = re.compile(r'"[^"]*"')
_SEP = re.compile(r'"?sep=(.)"?')  # Excel's first line, which names the separator


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
        if self._columns is None and (shape := _not_rows(self._whole)):
            self.problem(1, *shape)
            return None
        return looked_at(self.problems, lambda: dict.fromkeys(name for _, row in self._objects() for name in row))

    @cached_property
    def _whole(self) -> dict[str, Any]:
        """The object that the file is instead of one a line or an array of them; empty if it is none."""
        lines = _first_lines(self.path, 2)
        if not lines or not lines[0].lstrip().startswith("{") or (len(lines) > 1 and _object(lines[0])):
            return {}
        try:
            whole = _object(read_whole(self.path, []) or "")
        except DataError:  # longer than what is read at once
            return {}
        return whole if isinstance(whole, dict) else {}

    @cached_property
    def _columns(self) -> list[dict[str, Any]] | None:
        """The rows of a file that is an object of columns; None for any other."""
        return _by_columns(self._whole)

    def rows(self, columns: Sequence[str]) -> Iterator[Row]:
        for number, row in self._objects():
            yield number, [row.get(name) for name in columns]

    def _objects(self) -> Iterator[tuple[int, dict[str, Any]]]:
        for number, row in self._items():
            if isinstance(row, dict):
                yield number, row
            else:
                self.problem(number, f"not {self.form}", f"each row is {self.form}")

    def _items(self) -> Iterator[tuple[int, Any]]:
        if self._columns is not None:
            self.count = len(self._columns)
            return ((1, row) for row in self._columns)
        return self._array() if first_bytes(self.path).lstrip().startswith(b"[") else self._of_lines()

    def _of_lines(self) -> Iterator[tuple[int, Any]]:
        for number, line in self:
            yield number, _object(line)

    def _array(self) -> Iterator[tuple[int, Any]]:
        """The items of an array, by the lines in which they begin."""
        text = read_whole(self.path, self.problems) or "[]"
        decoder, at, line, self.count = json.JSONDecoder(parse_constant=_null), text.index("[") + 1, 1, 0
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


def _object(text: str) -> Any:
    """What a text of JSON says; None if it is none."""
    try:
        return json.loads(text, parse_constant=_null)
    except (ValueError, RecursionError):
        return None


def _null(constant: str) -> float | None:
    """NaN, as pandas writes what is missing, as null."""
    return None if constant == "NaN" else float(constant)


def _by_columns(whole: dict[str, Any]) -> list[dict[str, Any]] | None:
    """The rows of columns as lists of one length, or as values by row number (DataFrame.to_json() writes these); None
    if the object is neither, or may be one row."""
    columns = [*whole.values()]
    if all(isinstance(column, dict) and all(map(str.isdigit, column)) for column in columns):
        places = [[*column] for column in columns]
        columns = [[*column.values()] for column in columns]
    else:
        places = [[len(column)] for column in columns if isinstance(column, list)]
    alike = len(columns) > 1 and len(places) == len(columns) and all(place == places[0] for place in places)
    return [dict(zip(whole, values, strict=True)) for values in zip(*columns, strict=True)] if alike else None


def _not_rows(whole: dict[str, Any]) -> tuple[str, str] | None:
    """What one object is that holds rows, by its values; None if it may be the only row."""
    values = [value for value in whole.values() if value]
    array = "an array of objects, or one a line: DataFrame.to_json(FILE, orient='records', lines=True)"
    if values and all(isinstance(value, dict) and "text" not in value for value in values):
        if all(key.isdigit() for value in values for key in value):
            return "columns by row number, as DataFrame.to_json() writes by default", array
        return "an object of objects by their ids", array
    key = next((key for key, value in whole.items() if isinstance(value, list) and value), None)
    if key is not None and KNOWN.isdisjoint(name.lower() for name in whole):
        return f"one object with its rows under '{key}'", f"the rows alone, as {array}"
    if len(values) > 1 and all(isinstance(value, list) for value in values):
        return "columns as lists", array
    return None


def _next(text: str, at: int) -> int:
    """Where the next item of an array, or its end, begins."""
    while at < len(text) and text[at] in " \t\r\n,":
        at += 1
    return at


def named_objects(table: JsonTable, keys: Sequence[str]) -> Iterator[tuple[int, str, str | Unusable]]:
    """(line, id, text) of each object, a document or a query: a title stands before its text; why there is no text in
    place of one. `keys`: what the form has; the first object may have other names in use (IDS, TEXTS) instead."""
    names: list[str] = []
    for number, values in table.rows((*IDS, *TEXTS, TITLE)):
        row = {key: value for key, value in zip((*IDS, *TEXTS, TITLE), values, strict=True) if value is not None}
        if not names:
            found = (
                next((key for key in each if key in row), own) for each, own in ((IDS, keys[0]), (TEXTS, keys[-1]))
            )
            names += found
        name, text = id_of(row.get(names[0])), row.get(names[1])
        if not is_text(name):
            table.problem(number, f"not {table.form}: '{names[0]}' is not a text", "write these keys, each with a text")
            continue
        try:
            yield number, name, text_of(names[1], {TITLE: row.get(TITLE), TEXTS[0]: text})
        except Unusable as unusable:
            yield number, name, unusable
        except Wrong as wrong:
            table.problem(number, f"not {table.form}: {wrong.args[0]}", "write these keys, each with a text")


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
        if not self.needs_header and not names_columns(rows[0]):
            try:
                self._bare, self.columns = True, columns_without_header(rows)
            except Wrong as wrong:
                self.problem(1, *wrong.args)
                return None
        else:
            self.columns = tuple(name.strip() for name in rows[0])
        return list(self.columns)

    def rows(self, columns: Sequence[str]) -> Iterator[Row]:
        wanted = [self.columns.index(name) if name in self.columns else None for name in columns]
        for number, fields in islice(self, 0 if self._bare else 1, None):
            yield number, [None if index is None else fields[index] for index in wanted]


def names_columns(row: Sequence[str]) -> bool:
    """Whether a first row is a header: single words, one of the names in use, or names of several words."""
    return all(map(NAME.fullmatch, row)) or any(name.strip().lower() in KNOWN for name in row) or is_header(row)


class CsvTable(TsvTable):
    """Commas between fields (semicolons, tabs or bars, if the header has more of them), which may be quoted. Excel's
    first line sep=; names the separator."""

    needs_header = True

    def records(self) -> Iterator[tuple[int, list[str]]]:
        first = (_first_lines(self.path, 1) or [""])[0]
        named = _SEP.fullmatch(first.strip())
        header = _QUOTED.sub("", first)
        separator = named[1] if named else max(",;\t|", key=header.count)
        return islice(self.unquoted(separator), bool(named), None)


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
        except (*BROKEN, pyarrow.ArrowException, ValueError, KeyError) as error:
            if isinstance(error, BROKEN) and (type(error) is not OSError or error.strerror):
                self.problems.append(unreadable(self.path, 1, error))
            else:
                wrong = f"cannot be read as {self.FORMAT} ({last_line(error)[:200]})"
                right = "give the whole file, with the same columns as the others"
                self.problems.append(Problem(str(self.path), wrong, right))

    def _opened(self, columns: Sequence[str] | None) -> AbstractContextManager[Opened]:
        raise NotImplementedError


class ArrowTable(BatchTable):
    """A stream of the Arrow IPC format, as the datasets library saves it."""

    @contextmanager
    def _opened(self, columns: Sequence[str] | None) -> Iterator[Opened]:
        import pyarrow

        with open_bytes(self.path) as file, pyarrow.ipc.open_stream(file) as stream:
            self.classes = _classes_of(stream.schema)
            yield stream.schema.names, stream


class ParquetTable(BatchTable):
    """A Parquet file; a compressed one is unpacked into an unnamed file of `workspace`."""

    FORMAT = "Parquet"

    def __init__(self, path: Path, problems: list[Problem], workspace: Path):
        super().__init__(path, problems)
        self._workspace = workspace
        self._given = given_rows(path)

    @property
    def label(self) -> str:
        return super().label if self._given is None else self._given[0]

    def header_location(self) -> str:
        return super().header_location() if self._given is None else self._given[0]

    def location(self, number: int) -> str:
        if self._given is None:
            return super().location(number)
        name, rows = self._given
        return f"{name}, row {rows[number - 1]} (from 0)"

    @contextmanager
    def _opened(self, columns: Sequence[str] | None) -> Iterator[Opened]:
        from pyarrow import parquet

        with self._file() as file, parquet.ParquetFile(file) as table:
            names = table.schema_arrow.names
            self.classes = _classes_of(table.schema_arrow)
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


def given_rows(path: Path) -> tuple[str, Any] | None:
    """(name, the number of each row there) of the table of Python that a file was made of (`write_given`)."""
    import numpy as np

    beside = path.with_suffix(GIVEN)
    if not beside.exists():
        return None
    with np.load(beside) as given:
        return str(given["name"]), given["rows"]


def write_given(path: Path, name: str, rows: Any) -> None:
    """Writes beside a Parquet file what its rows are in the table of Python that it was made of, for messages."""
    import numpy as np

    np.savez(path.with_suffix(GIVEN), name=np.array(name), rows=np.asarray(rows))


class Pieces(Source):
    """The pieces of one table, one after the other; rows count from 1 through all of them, and a location names the
    file and the row in it. A column is one of any piece."""

    def __init__(self, tables: Sequence[Table]):
        super().__init__(tables[0].path, tables[0].problems)
        self._tables = tables
        self._starts = [0]  # the number before the first of each piece that has been begun

    @property
    def label(self) -> str:
        return self._tables[0].label

    def location(self, number: int) -> str:
        index = bisect_left(self._starts, number) - 1
        return self._tables[index].location(number - self._starts[index])

    def header_location(self) -> str:
        return self._tables[0].header_location()

    def names(self) -> list[str] | None:
        names = looked_at(
            self.problems, lambda: dict.fromkeys(name for table in self._tables for name in table.names() or ())
        )
        self.classes = {name: classes for table in self._tables for name, classes in table.classes.items()}
        return names

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
classes  the names of the classes of columns that hold their numbers; after `names`
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
    return [line.split("\t") for line in _first_lines(path, _SAMPLE)]


def _first_lines(path: Path, count: int) -> list[str]:
    """So many lines of a file, whole ones; fewer if they are long. None if it cannot be read."""
    try:
        with open_text(path) as file:
            lines, room = [], MAX_LINE
            while len(lines) < count and room > 0 and (line := file.readline(MAX_LINE)):
                room -= len(line)
                lines.append(line.removeprefix(BOM) if not lines else line)
    except BROKEN:
        return []
    return [line.decode(errors="replace").rstrip("\r\n") for line in lines if line.strip()]


def _classes_of(schema: Any) -> dict[str, list[str]]:
    """The names of classes that the datasets library keeps beside the schema, by column."""
    try:
        features = json.loads((schema.metadata or {}).get(b"huggingface", b"{}"))["info"]["features"]
        return {name: found for name, feature in features.items() if (found := class_names(feature))}
    except (ValueError, KeyError, TypeError, AttributeError):
        return {}


def class_names(feature: Any) -> list[str]:
    """The names of a ClassLabel of the datasets library, or of a list of them; none of another kind of column."""
    if isinstance(feature, list):
        return class_names(feature[0]) if feature else []
    if not isinstance(feature, dict):
        return []
    if feature.get("_type") == "ClassLabel":
        return list(map(str, feature.get("names") or ()))
    return class_names(feature.get("feature"))
