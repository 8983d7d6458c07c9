"""From files to tables: lines of columns, CSV, JSON, Parquet and Arrow. What is wrong with a file becomes a problem."""

from __future__ import annotations

import csv as quoted
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from json import JSONDecoder
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from trainables.core.errors import DataError, Problem
from trainables.data.files import (
    BROKEN,
    GIVEN,
    constant_of,
    ending_of,
    first_lines,
    open_bytes,
    open_lines,
    parsed_json,
    unreadable,
    utf8,
    whole_text,
)
from trainables.data.rows import count_of_lines, empty, enumerated, flags, form_of, is_passed_over, located

MAX_LINE = 16 << 20  # bytes; longer than any document of the public collections
BLOCK = 1 << 24  # bytes that are parsed at once
ROWS_OF_JSON = "an array of objects, or one a line: DataFrame.to_json(FILE, orient='records', lines=True)"


def lines_in_parts(
    path: Path,
    columns: Sequence[Sequence[str]],
    separator: str | None,
    problems: list[Problem],
    pipes: bool = False,
    stream: bool = False,
) -> Iterator[pd.DataFrame]:
    """The rows of a file without a header, in one table or, with `stream`, in several (`Reading.table`)."""
    lines = [] if pipes else first_lines(path)
    names = _columns_of(lines, columns, separator)
    form = form_of(names, separator)
    squeeze = separator is None and (pipes or not all(line.count(" ") == len(names) - 1 for line in lines))
    if squeeze and lines and all(line.count("\t") == len(names) - 1 and " " not in line for line in lines):
        squeeze, separator = False, "\t"
    count = 0
    try:
        if lines and lines[0].lstrip().startswith("<"):
            raise DataError(Problem(f"{path}:1", "XML or HTML", f"each row is {form}"))
        for frame, bad in _delimited(path, names, separator or " ", squeeze, pipes, stream):
            if bad:
                line, width = bad[0]
                others = count_of_lines([row[0] for row in bad])
                problems.append(Problem(f"{path}:{line}", f"{width} columns instead of {len(names)}{others}", form))
            count += len(frame) + len(bad)
            yield frame
        if not count:
            problems.append(Problem(str(path), "no rows", f"each row is {form}"))
    except DataError as error:
        problems += error.problems
        yield empty(names)


def rows_of_file(path: Path, problems: list[Problem], kind: str = "", strict: bool = True) -> pd.DataFrame:
    """A file with rows of named columns (`Reading.rows`)."""
    kind, before = kind or ending_of(path), len(problems)
    readers = {"jsonl": _json, "json": _json, "csv": partial(_csv, strict=strict)}
    readers |= {"parquet": _parquet, "arrow": _arrow_stream}
    try:
        frame = readers.get(kind, _tsv)(path, problems)
    except DataError as error:
        problems += error.problems
    except BROKEN as error:
        problems.append(unreadable(path, error))
    except (pa.ArrowException, ValueError, KeyError) as error:
        wrong = f"cannot be read as {kind} ({str(error).splitlines()[0][:200]})"
        problems.append(Problem(str(path), wrong, "give the whole file"))
    else:
        if not len(frame) and len(problems) == before:
            problems.append(Problem(str(path), "no rows behind the header", "give rows"))
        return frame
    return empty([])


def json_values(path: Path, problems: list[Problem]) -> Iterator[tuple[int, Any]]:
    """(line, value) of each value of a file of JSON: one a line, or one array. Lines that are none become problems."""
    if _is_array(path):
        yield from _json_array(path)
        return
    wrong: list[tuple[int, str]] = []
    count = 0
    try:
        with open_lines(path) as file:
            for number, line in _checked_lines(path, file):
                if line.isspace():
                    continue
                count += 1
                try:
                    value = parsed_json(line)
                except ValueError as error:
                    wrong.append((number, str(error) if "twice" in str(error) else "not JSON"))
                    if count == 1:
                        break
                    continue
                yield number, value
    except BROKEN as error:
        raise DataError(unreadable(path, error)) from None
    if wrong:
        line, first = wrong[0]
        problems.append(Problem(f"{path}:{line}", first + count_of_lines([row[0] for row in wrong]), ROWS_OF_JSON))
    if not count:
        raise DataError(Problem(str(path), "no rows", ROWS_OF_JSON))


# -- lines -------------------------------------------------------------------------------------------------------------

Bad = list[tuple[int, int]]  # (line, number of its columns) of lines with another number of columns


def _columns_of(lines: list[str], columns: Sequence[Sequence[str]], separator: str | None) -> Sequence[str]:
    """Of several lists of columns the one that has as many as most of the first lines."""
    counts = Counter(len(line.split(separator)) for line in lines)
    usual = counts.most_common(1)[0][0] if counts else 0
    return next((names for names in columns if len(names) == usual), columns[0])


def _delimited(
    path: Path, names: Sequence[str], delimiter: str, squeeze: bool, pipes: bool, stream: bool
) -> Iterator[tuple[pd.DataFrame, Bad]]:
    """The rows of a file, in one table or, with `stream`, in several; and the lines with another number of columns.
    Raises DataError for a file that cannot be read, or not to its end."""
    labels = [name or f"_{number}" for number, name in enumerate(names)]
    kept = [name for name in names if not is_passed_over(name)]
    invalid: list[csv.InvalidRow] = []

    def skip(row: csv.InvalidRow) -> str:
        invalid.append(row)
        return "skip"

    def options(threads: bool) -> dict[str, Any]:
        return {
            "read_options": csv.ReadOptions(column_names=labels, use_threads=threads, block_size=BLOCK),
            "parse_options": csv.ParseOptions(
                delimiter=delimiter, quote_char=False, ignore_empty_lines=False, invalid_row_handler=skip
            ),
            "convert_options": csv.ConvertOptions(
                column_types=dict.fromkeys(labels, pa.large_string()),
                include_columns=kept,
                null_values=[],
                strings_can_be_null=False,
                check_utf8=False,  # the lines are checked already
            ),
        }

    try:
        with open_lines(path, pipes, squeeze, check=True) as file:
            if stream:
                yield from _streamed(path, csv.open_csv(file, **options(False)), invalid)
                return
            table = csv.read_csv(file, **options(not pipes))
        if any(row.number is None for row in invalid):  # only one thread knows where a row is
            invalid.clear()
            with open_lines(path, pipes, squeeze or delimiter == " ", check=True) as file:
                table = csv.read_csv(file, **options(False))
    except (pa.ArrowInvalid, UnicodeDecodeError) as error:
        raise _unparsed(path, error, names, delimiter) from None
    except BROKEN as error:
        raise DataError(unreadable(path, error)) from None
    yield _numbered(path, table, invalid, 0)


def _streamed(path: Path, batches: csv.CSVStreamingReader, invalid: list[Any]) -> Iterator[tuple[pd.DataFrame, Bad]]:
    lines = 0
    for batch in batches:
        rows = batch.num_rows
        skipped = 0  # lines of this batch; the parser is ahead of it
        while skipped < len(invalid) and invalid[skipped].number <= lines + rows + skipped + 1:
            skipped += 1
        yield _numbered(path, pa.Table.from_batches([batch]), invalid[:skipped], lines)
        lines += rows + skipped
        del invalid[:skipped]
    if invalid:
        yield _numbered(path, batches.schema.empty_table(), invalid, lines)


def _numbered(path: Path, table: pa.Table, invalid: list[Any], before: int) -> tuple[pd.DataFrame, Bad]:
    """The table with file and line of each row, without blank lines. `before`: lines of the file before these."""
    frame = table.to_pandas()
    lines = np.arange(before + 1, before + 1 + len(frame) + len(invalid), dtype=np.int32)
    if invalid:
        lines = np.delete(lines, [row.number - 1 - before for row in invalid])
    frame = located(frame, path, lines)
    blank = np.ones(len(frame), bool)
    for name in table.column_names:
        blank &= flags(pc.equal(table.column(name), ""))
        if not blank.any():
            break
    bad = [(row.number, row.actual_columns) for row in invalid if row.text.strip()]
    return (frame[~blank] if blank.any() else frame), bad


def _unparsed(path: Path, error: Exception, names: Sequence[str], delimiter: str) -> DataError:
    """What it is that Arrow cannot parse: a byte that is not UTF-8, a line that is too long, or no line at all."""
    form = form_of(names, None if delimiter == " " else delimiter)
    if "straddling" in str(error):
        with open_lines(path) as file:
            number = next((n for n, line in enumerate(iter(lambda: file.readline(), b""), 1) if len(line) >= BLOCK), 1)
        wrong = f"a line of more than {MAX_LINE:,} bytes"
        return DataError(Problem(f"{path}:{number}", wrong, "end each row with a line end"))
    with open_lines(path) as file:
        for number, line in enumerate(file, 1):
            try:
                utf8(path, line, number)
            except DataError as found:
                return found
    if lines := first_lines(path, 1):
        columns = len(lines[0].split(delimiter))
        return DataError(Problem(f"{path}:1", f"{columns} columns instead of {len(names)}", form))
    return DataError(Problem(str(path), "no rows", f"each row is {form}"))


def _json(path: Path, problems: list[Problem]) -> pd.DataFrame:
    rows = list(json_values(path, problems))
    if rows and all(isinstance(value, list) for _, value in rows):  # without names, as embedding-training-data has them
        rows = [(line, {str(number): each for number, each in enumerate(value)}) for line, value in rows]
    wrong = [line for line, value in rows if not isinstance(value, dict)]
    lines = [line for line, value in rows if isinstance(value, dict)]
    values = [value for _, value in rows if isinstance(value, dict)]
    if len(values) == 1 and (all(isinstance(each, dict | list) for each in values[0].values()) or "data" in values[0]):
        raise DataError(Problem(f"{path}:1", "one object, whose keys are no rows", ROWS_OF_JSON))
    if wrong:
        problems.append(Problem(f"{path}:{wrong[0]}", f"not a JSON object (lines {enumerated(wrong)})", ROWS_OF_JSON))
    names = dict.fromkeys(name for value in values for name in value)
    columns = {name: pd.Series([value.get(name) for value in values], dtype=object) for name in names}
    return located(pd.DataFrame(columns), path, lines)


def _is_array(path: Path) -> bool:
    """Whether a file of JSON is one array, not a list a line."""
    lines = first_lines(path, 2)
    if not lines or not lines[0].lstrip().startswith("["):
        return False
    try:
        return not (len(lines) > 1 and isinstance(parsed_json(lines[0]), list))
    except ValueError:
        return True


def _json_array(path: Path) -> Iterator[tuple[int, Any]]:
    """The items of an array, by the lines in which they begin."""
    text = whole_text(path)
    decoder = JSONDecoder(parse_constant=constant_of)
    at, line, count = text.index("[") + 1, 1, 0
    while True:
        start = at
        while start < len(text) and text[start] in " \t\r\n,":
            start += 1
        line += text.count("\n", at, start)
        if start == len(text):
            raise DataError(Problem(f"{path}:{line}", "the array of JSON is cut off here", "give the whole file"))
        if text[start] == "]":
            break
        try:
            value, at = decoder.raw_decode(text, start)
        except (ValueError, RecursionError):
            raise DataError(Problem(f"{path}:{line}", "not JSON", "give the whole file")) from None
        count += 1
        yield line, value
        line += text.count("\n", start, at)
    if not count:
        raise DataError(Problem(str(path), "no rows", "each row is a JSON object"))


def _tsv(path: Path, problems: list[Problem]) -> pd.DataFrame:
    """Tabs between fields, without quoting. Whether the first row is a header, whoever knows names tells."""
    lines = first_lines(path, 1)
    width = lines[0].count("\t") + 1 if lines else 1
    [whole] = lines_in_parts(path, [[str(number) for number in range(width)]], "\t", problems)
    return whole


def _csv(path: Path, problems: list[Problem], strict: bool = True) -> pd.DataFrame:
    """Commas between fields (semicolons, tabs or bars, if the header has more of them), which may be quoted, behind a
    header. Excel's first line sep=; names the separator."""
    lines = first_lines(path)
    if lines and lines[0].lstrip().startswith("<"):
        raise DataError(Problem(f"{path}:1", "XML or HTML", "the first row names the columns"))
    header = lines[0] if lines else ""
    bare = header.strip().strip('"')
    named = bare[4] if bare.lower().startswith("sep=") and len(bare) == 5 else None
    unquoted = "".join(header.split('"')[::2])
    delimiter = named or max(",;\t|", key=unquoted.count)
    quoted.field_size_limit(MAX_LINE)
    numbers, rows, names = [], [], None
    with open_lines(path) as file:
        reader = quoted.reader((line for _, line in _checked_lines(path, file)), strict=strict, delimiter=delimiter)
        before = 0
        try:
            for fields in reader:
                number, before = before + 1, reader.line_num
                if not any(field.strip() for field in fields) and len(fields) < 2:
                    continue
                if names is None and named and number == 1:
                    continue
                if names is None:
                    names = [name.strip() for name in fields]
                elif len(fields) == len(names):
                    numbers.append(number)
                    rows.append(fields)
                else:
                    wrong = f"{len(fields)} columns instead of {len(names)}"
                    problems.append(Problem(f"{path}:{number}", wrong, "as many as the header names"))
        except quoted.Error as error:
            wrong = f"quotation marks or fields that cannot be read ({error})"
            raise DataError(Problem(f"{path}:{before + 1}", wrong, "close them")) from None
    if names is None:
        raise DataError(Problem(str(path), "no rows", "the first row names the columns"))
    frame = pd.DataFrame(rows, columns=pd.Index(names, dtype=object), dtype=object)
    return located(frame, path, numbers)


def _checked_lines(path: Path, file: Any) -> Iterator[tuple[int, str]]:
    """(number, text) of each line. Raises DataError for one that is too long or not UTF-8."""
    for number, line in enumerate(iter(lambda: file.readline(MAX_LINE + 1), b""), 1):
        if len(line) > MAX_LINE:
            wrong = f"a line of more than {MAX_LINE:,} bytes"
            raise DataError(Problem(f"{path}:{number}", wrong, "end each row with a line end"))
        yield number, utf8(path, line, number)


def _parquet(path: Path, problems: list[Problem]) -> pd.DataFrame:
    from pyarrow import parquet

    with open_bytes(path) as file:
        table = parquet.read_table(pa.BufferReader(file.read()))
    return _of_arrow(path, table)


def _arrow_stream(path: Path, problems: list[Problem]) -> pd.DataFrame:
    """A stream of the Arrow IPC format, as the datasets library saves it."""
    with open_bytes(path) as file, pa.ipc.open_stream(file) as stream:
        return _of_arrow(path, stream.read_all())


def _of_arrow(path: Path, table: pa.Table) -> pd.DataFrame:
    """Rows of Arrow as Python's values. `attrs["classes"]`: the names of classes, by column."""
    columns = {}
    for name, column in zip(table.column_names, table.columns, strict=True):
        try:
            columns[name] = pd.Series(column.to_pylist(), dtype=object)
        except UnicodeDecodeError:
            raise DataError(Problem(str(path), f"'{name}' is not UTF-8", "save the texts as UTF-8")) from None
    given = (table.schema.metadata or {}).get(GIVEN.encode())
    lines = columns.pop(GIVEN) if given else np.arange(1, table.num_rows + 1)
    frame = located(pd.DataFrame(columns), Path(given.decode()) if given else path, lines)
    frame.attrs["classes"] = _classes_of(table.schema)
    return frame


def _classes_of(schema: pa.Schema) -> dict[str, list[str]]:
    """The names of classes that the datasets library keeps beside the schema, by column."""
    try:
        features = parsed_json((schema.metadata or {}).get(b"huggingface", b"{}").decode())["info"]["features"]
        return {name: found for name, feature in features.items() if (found := class_names(feature))}
    except (ValueError, KeyError, TypeError, AttributeError):
        return {}


def class_names(feature: Any) -> list[str]:
    """The names of a ClassLabel of the datasets library, or of a list of them; none of another kind of column."""
    if isinstance(feature, list):
        return class_names(feature[0]) if feature else []
    if not isinstance(feature, Mapping):
        return []
    if feature.get("_type") == "ClassLabel":
        return list(map(str, feature.get("names") or ()))
    return class_names(feature.get("feature"))
