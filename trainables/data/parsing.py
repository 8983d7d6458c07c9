"""From files to tables: lines of columns, CSV, JSON, Parquet and Arrow. A file that cannot be read is a DataError, a
row that cannot a problem."""

from __future__ import annotations

import csv as quoted
import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv, parquet

from trainables.core.errors import DataError, Problem
from trainables.data.files import (
    BEGINNING,
    BROKEN,
    GIVEN,
    blocks,
    ending_of,
    first_lines,
    lines,
    open_bytes,
    parsed_json,
    read_json,
    unreadable,
)
from trainables.data.rows import arrow, count_of_lines, enumerated, flags, located

ROWS_OF_JSON = "an array of objects, or one a line: DataFrame.to_json(FILE, orient='records', lines=True)"
WORDS = {"qid": "QUERY", "docno": "DOCUMENT", "label": "GRADE", "": "..."}
LONGEST_CELL = 1 << 30  # of CSV


def delimited(
    path: Path, columns: Sequence[Sequence[str]], separator: str | None, problems: list[Problem]
) -> Iterator[pd.DataFrame]:
    """The rows of a file without a header, a table for each block of the file (`Reading.table`)."""
    names, count, bad = columns[0], 0, list[tuple[int, int]]()
    for number, block in blocks(path):
        if number == 1:
            names = _columns_of(path, block, columns, separator)
        frame, wrong = _parsed(block, names, separator or " ")
        if wrong and separator is None:
            frame, wrong = _parsed(_squeezed(block), names, " ")
        rows = np.delete(np.arange(number, number + len(frame) + len(wrong)), [row.number - 1 for row in wrong])
        blank = flags(pc.equal(arrow(frame.iloc[:, 0]), ""))
        if blank.any():
            blank &= (frame == "").all(axis=1).to_numpy()
            frame, rows = frame[~blank], rows[~blank]
        bad += [(number + row.number - 1, row.actual_columns) for row in wrong if row.text.strip()]
        count += len(frame)
        yield located(frame, path, rows)
    form = (" TAB " if separator else " ").join(WORDS.get(name, name.upper().removeprefix("_")) for name in names)
    if not count and not bad:
        raise DataError(Problem(str(path), "no rows", f"each row is {form}"))
    _note_widths(path, bad, len(names), form, problems)


def _note_widths(path: Path, bad: list[tuple[int, int]], width: int, right: str, problems: list[Problem]) -> None:
    """A problem for lines of another width. `bad`: (line, number of its columns)."""
    if bad:
        line, columns = bad[0]
        wrong = f"{columns} columns instead of {width}{count_of_lines([row[0] for row in bad])}"
        problems.append(Problem(f"{path}:{line}", wrong, right))


def _squeezed(block: bytes) -> bytes:
    """The lines with each run of white space as one space, and none at their ends."""
    return re.sub(rb" ?\n ?", b"\n", re.sub(rb"[ \t\v\f]+", b" ", block)).lstrip(b" ")


def _columns_of(path: Path, text: bytes, columns: Sequence[Sequence[str]], separator: str | None) -> Sequence[str]:
    """Of several lists of columns the one that has as many as most of the first lines."""
    sample = [line for line in text[:BEGINNING].split(b"\n") if line.strip()][:50]
    if sample and sample[0].lstrip().startswith(b"<"):
        raise DataError(Problem(f"{path}:1", "XML or HTML", "rows of columns without a header"))
    counts = Counter(len(line.split(separator.encode() if separator else None)) for line in sample)
    usual = counts.most_common(1)[0][0] if counts else 0
    return next((names for names in columns if len(names) == usual), columns[0])


def _parsed(block: bytes, names: Sequence[str], delimiter: str) -> tuple[pd.DataFrame, list[csv.InvalidRow]]:
    """The columns of whole lines that have a name without _ before it, and the lines of another width."""
    labels = [name or f"_{number}" for number, name in enumerate(names)]
    invalid: list[csv.InvalidRow] = []

    def skip(row: csv.InvalidRow) -> str:
        invalid.append(row)
        return "skip"

    block = block if block.endswith(b"\n") else block + b"\n"
    table = csv.read_csv(
        pa.BufferReader(block + b"\n"),  # without a row that is right, even a blank one, it would be an error
        csv.ReadOptions(column_names=labels, use_threads=False, block_size=len(block) + 2),
        csv.ParseOptions(delimiter=delimiter, quote_char=False, ignore_empty_lines=False, invalid_row_handler=skip),
        csv.ConvertOptions(
            column_types=dict.fromkeys(labels, pa.large_string()),
            include_columns=[label for label in labels if not label.startswith("_")],
            null_values=[],
            strings_can_be_null=False,
            check_utf8=False,  # the lines are checked already
        ),
    )
    return table.slice(0, len(table) - 1).to_pandas(), invalid


# -- rows of named columns ---------------------------------------------------------------------------------------------


def rows_of_file(path: Path, problems: list[Problem], kind: str = "", strict: bool = True) -> pd.DataFrame:
    """A file with rows of named columns (`Reading.rows`)."""
    kind, before = kind or ending_of(path), len(problems)
    try:
        if kind in ("json", "jsonl"):
            frame = _json(path, problems)
        elif kind == "csv":
            frame = _csv(path, problems, strict)
        elif kind in ("parquet", "arrow"):
            frame = _of_arrow(path, kind)
        else:  # tabs between fields, without quoting; whether the first row is a header, whoever knows names tells
            width = next(iter(first_lines(path, 1)), "").count("\t") + 1
            columns = [str(number) for number in range(width)]
            frame = pd.concat(list(delimited(path, [columns], "\t", problems)), ignore_index=True)
    except BROKEN as error:
        raise DataError(unreadable(path, error)) from None
    except (pa.ArrowException, ValueError, KeyError) as error:
        wrong = f"cannot be read as {kind} ({str(error).splitlines()[0][:200]})"
        raise DataError(Problem(str(path), wrong, "give the whole file")) from None
    if not len(frame) and len(problems) == before:
        problems.append(Problem(str(path), "no rows behind the header", "give rows"))
    return frame


def json_values(path: Path, problems: list[Problem]) -> Iterator[tuple[int, Any]]:
    """(line, value) of each value of a file of JSON lines, (number from 1, value) of an array's. Lines that are not
    JSON become problems."""
    if _is_array(path):
        values = read_json(path)
        if not values:
            raise DataError(Problem(str(path), "no rows", ROWS_OF_JSON))
        yield from enumerate(values, 1)
        return
    wrong: list[tuple[int, str]] = []
    count = 0
    for number, line in lines(path):
        if line.isspace():
            continue
        count += 1
        try:
            value = parsed_json(line)
        except ValueError as error:
            wrong.append((number, "not JSON" if isinstance(error, json.JSONDecodeError) else str(error)))
            if count == 1:
                break
            continue
        yield number, value
    if wrong:
        said = wrong[0][1] + count_of_lines([number for number, _ in wrong])
        problems.append(Problem(f"{path}:{wrong[0][0]}", said, ROWS_OF_JSON))
    if not count:
        raise DataError(Problem(str(path), "no rows", ROWS_OF_JSON))


def _is_array(path: Path) -> bool:
    """Whether a file of JSON is one array, not a list a line."""
    start = first_lines(path, 2)
    if not start or not start[0].lstrip().startswith("["):
        return False
    try:
        return not (len(start) > 1 and isinstance(parsed_json(start[0]), list))
    except ValueError:
        return True


def _json(path: Path, problems: list[Problem]) -> pd.DataFrame:
    rows = list(json_values(path, problems))
    if rows and all(isinstance(value, list) for _, value in rows):  # without names, as embedding-training-data has them
        rows = [(line, {str(number): each for number, each in enumerate(value)}) for line, value in rows]
    objects = [(line, value) for line, value in rows if isinstance(value, dict)]
    if wrong := [line for line, value in rows if not isinstance(value, dict)]:
        problems.append(Problem(f"{path}:{wrong[0]}", f"not a JSON object (lines {enumerated(wrong)})", ROWS_OF_JSON))
    names = dict.fromkeys(name for _, value in objects for name in value)
    columns = {name: pd.Series([value.get(name) for _, value in objects], dtype=object) for name in names}
    return located(pd.DataFrame(columns), path, [line for line, _ in objects])


def _csv(path: Path, problems: list[Problem], strict: bool) -> pd.DataFrame:
    """Commas between fields (semicolons, tabs or bars, if the header has more of them), which may be quoted, behind a
    header. Excel's first line sep=; names the separator."""
    header = next(iter(first_lines(path, 1)), "")
    if header.lstrip().startswith("<"):
        raise DataError(Problem(f"{path}:1", "XML or HTML", "the first row names the columns"))
    named = re.fullmatch(r'"?sep=(.)"?', header.strip(), re.IGNORECASE)
    delimiter = named[1] if named else max(",;\t|", key="".join(header.split('"')[::2]).count)
    quoted.field_size_limit(LONGEST_CELL)
    reader = quoted.reader((line for _, line in lines(path)), strict=strict, delimiter=delimiter)
    numbers, rows, bad, last = list[int](), list[list[str]](), list[tuple[int, int]](), 0
    try:
        for fields in reader:
            number, last = last + 1, reader.line_num
            is_blank = len(fields) < 2 and not any(map(str.strip, fields))
            if is_blank or (named and number == 1):
                continue
            if rows and len(fields) != len(rows[0]):
                bad.append((number, len(fields)))
            else:
                numbers.append(number)
                rows.append(fields)
    except quoted.Error as error:
        wrong = f"quotation marks or fields that cannot be read ({error})"
        raise DataError(Problem(f"{path}:{last + 1}", wrong, "close them")) from None
    if not rows:
        raise DataError(Problem(str(path), "no rows", "the first row names the columns"))
    names = [name.strip() for name in rows[0]]
    _note_widths(path, bad, len(names), "as many as the header names", problems)
    frame = pd.DataFrame(rows[1:], columns=pd.Index(names, dtype=object), dtype=object)
    return located(frame, path, numbers[1:])


def _of_arrow(path: Path, kind: str) -> pd.DataFrame:
    """Rows of Parquet, or of a stream of Arrow's IPC format, as the datasets library saves it, as Python's values.
    `attrs["classes"]`: the names of classes, by column."""
    with open_bytes(path) as file:
        read = parquet.read_table if kind == "parquet" else lambda content: pa.ipc.open_stream(content).read_all()
        table = read(pa.BufferReader(file.read()))
    columns: dict[str, Any] = {}
    for name, column in zip(table.column_names, table.columns, strict=True):
        try:
            columns[name] = pd.Series(column.to_pylist(), dtype=object)
        except UnicodeDecodeError:
            raise DataError(Problem(str(path), f"'{name}' is not UTF-8", "save the texts as UTF-8")) from None
    given = (table.schema.metadata or {}).get(GIVEN.encode())
    rows = columns.pop(GIVEN) if given else None
    frame = located(pd.DataFrame(columns), given.decode() if given else path, rows)
    frame.attrs["classes"] = _classes_of(table.schema)
    return frame


def _classes_of(schema: pa.Schema) -> dict[str, list[str]]:
    """The names of classes that the datasets library keeps beside the schema, by column."""
    try:
        features = parsed_json((schema.metadata or {}).get(b"huggingface", b"{}").decode())["info"]["features"]
        return {name: list(map(str, feature["names"])) for name, feature in features.items()
                if feature.get("_type") == "ClassLabel"}  # fmt: skip
    except (ValueError, KeyError, TypeError, AttributeError):
        return {}
