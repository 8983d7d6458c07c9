"""Data as tables: what every form of data is read into, and how files become tables.

A table is a pandas DataFrame with the field's column names (qid, docno, text, label, score, rank). One that was read
from a file has two more columns: `file`, and `line` from 1 (of Parquet and Arrow the row), by which rules name a row.
"""

from __future__ import annotations

import csv as quoted
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from trainables.core.errors import DataError, Problem
from trainables.core.prose import counted
from trainables.data.columns import FLOAT32_END, MAX_GRADE
from trainables.data.files import (
    BROKEN,
    GIVEN,
    ending_of,
    first_lines,
    open_bytes,
    open_lines,
    parsed_json,
    unreadable,
    utf8,
    whole_text,
)
from trainables.data.settings import DataConfig

MAX_LINE = 16 << 20  # bytes; longer than any document of the public collections
BLOCK = 1 << 24  # bytes that are parsed at once
FEW, SHARE = 3, 0.01  # rows of a file whose ids may match nothing: so many, or this share if that is more
BAD_SHARE = 0.2  # rows of a file that may be unusable for what they hold, or one row
NUMBER = r"^[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?$"  # as trec_eval reads one, so 1_0 is none
ID_SPACES = r"[ \t\r\n\v\f]"  # white space of ASCII, which a TREC file cannot hold in an id
SHOWN = 3  # rows that a problem or a note names
ROWS_OF_JSON = "an array of objects, or one a line: DataFrame.to_json(FILE, orient='records', lines=True)"


@dataclass
class Tables:
    """A data set as read.

    docs      docno, text; in one table, or in several, one after the other, for a collection that memory cannot hold
    queries   by split: qid, text; or qid, utterances (lists of texts), for conversations
    qrels     by split: qid, docno, label
    runs      by split: qid, docno, score: first-stage candidates
    pools     by split: qid, docno: candidates that the data gives without scores
    scores    by split: qid, docno, score of a teacher
    rejected  by split: ids of queries with a given negative that was left out
    classes   names of the classes, of which labels are the numbers, for pairs to classify; each query has one document
    features  float32 [docs, F], for documents without texts; qrels then have their `row`, too
    ids_given whether the ids are the data's own, so that a query may be a document too
    notes     for the user
    """

    docs: pd.DataFrame | Iterable[pd.DataFrame]
    queries: dict[str, pd.DataFrame]
    qrels: dict[str, pd.DataFrame]
    runs: dict[str, pd.DataFrame] = field(default_factory=dict)
    pools: dict[str, pd.DataFrame] = field(default_factory=dict)
    scores: dict[str, pd.DataFrame] = field(default_factory=dict)
    rejected: dict[str, Sequence[str]] = field(default_factory=dict)
    classes: tuple[str, ...] = ()
    features: np.ndarray | None = None
    ids_given: bool = False
    notes: list[str] = field(default_factory=list)


@dataclass
class Reading:
    """One reading of a data set: the settings, what is wrong with its files, and notes on what was left out.

    A rule takes a table and gives the rows that keep to it, so that reading goes on and finds the other problems;
    `finish` raises DataError with all of them.
    """

    config: DataConfig = field(default_factory=DataConfig)
    problems: list[Problem] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    # -- rules -------------------------------------------------------------------------------------------------------

    def require(self, frame: pd.DataFrame, good: Any, wrong: str, right: str) -> pd.DataFrame:
        """The rows that are `good` (bool [N]). The others are one problem of their file, at the line of the first.
        `wrong` may name columns of that row: "label '{label}'"."""
        good = np.asarray(good, bool)
        if good.all():
            return frame
        bad = frame[~good]
        for _, rows in bad.groupby("file", observed=True, sort=False) if "file" in frame else [("", bad)]:
            first = {name: str(value)[:60] for name, value in rows.iloc[0].items()}
            count = f" ({len(rows):,} rows: {lines_of(rows)})" if len(rows) > 1 else ""
            self.problem(place(rows), wrong.format(**first) + count, right)
        return frame[good]

    def leave_out(
        self,
        frame: pd.DataFrame,
        good: Any,
        noun: str,
        why: str,
        wrong: str,
        right: str,
        *,
        few: int = 1,
        share: float = BAD_SHARE,
        rows: int | None = None,
        each: str | None = None,
    ) -> pd.DataFrame:
        """The rows that are `good`. Some others are left out with a note, `noun why left out`, as published collections
        have them; with `data.strict`, or if they are more than `few` and this `share` of the rows, or half of them,
        they are a problem as for `require`. `rows`: of the file, if not those of the table; `each`: a column of which
        equal values count once."""
        good = np.asarray(good, bool)
        bad = frame[~good]
        if not len(bad):
            return frame
        rows = rows or len(frame)
        count = bad[each].nunique() if each else len(bad)
        if self.config.strict or count > max(few, share * rows) or 2 * len(bad) >= rows:
            return self.require(frame, good, wrong, right)
        label = Path(str(bad["file"].iloc[0])).name if "file" in bad else "data"
        self.notes.append(f"{label}: {counted(len(bad), noun)} {why} left out ({places(bad)})")
        return frame[good]

    def once(self, frame: pd.DataFrame, keys: Sequence[np.ndarray], value: str, what: str) -> pd.DataFrame:
        """The first of the rows that have the same `keys` (int [N] each). A later one with the same `value` is left out
        with a note; with another one it contradicts the first, which is a problem. `what`: the value in words, "grade
        of '{qid}'"."""
        later, first = repeats_of(*keys)
        if not len(later):
            return frame
        values = frame[value].to_numpy()
        same = values[later] == values[first]
        self._contradictions(frame, later[~same], first[~same], what)
        if same.any():
            row, earlier = frame.iloc[[later[same][0]]], frame.iloc[[first[same][0]]]
            said = f"line {row['line'].iloc[0]} says what line {earlier['line'].iloc[0]} says" if "line" in row else \
                f"{place(row)} says what {place(earlier)} says"  # fmt: skip
            self.repeated(frame, int(same.sum()), said)
        return frame.drop(index=frame.index[later])

    def one_value(self, frame: pd.DataFrame, keys: Sequence[np.ndarray], value: str, what: str) -> pd.DataFrame:
        """The rows whose `value` is that of the first row with the same `keys` (int [N] each); another one is a
        problem. `what`: as for `once`."""
        later, first = repeats_of(*keys)
        values = frame[value].to_numpy()
        other = values[later] != values[first]
        self._contradictions(frame, later[other], first[other], what)
        return frame.drop(index=frame.index[later[other]])

    def _contradictions(self, frame: pd.DataFrame, later: np.ndarray, first: np.ndarray, what: str) -> None:
        if len(later):
            row = frame.iloc[later[0]]
            more = f" ({len(later):,} rows: {lines_of(frame.iloc[later])})" if len(later) > 1 else ""
            wrong = f"another {what.format(**row)} than in {place(frame.iloc[[first[0]]])}{more}"
            self.problem(place(frame.iloc[[later[0]]]), wrong, "keep the row that is right")

    def row_problems(self, frame: pd.DataFrame, rows: Sequence[tuple[int, str, str]]) -> None:
        """Problems of single rows, one of each kind. `rows`: number of the row, what is wrong, what would be right."""
        kinds: dict[str, list[tuple[int, str, str]]] = {}
        for row in rows:
            kinds.setdefault(re.sub(r"'[^']*'|\d+", "", row[1]), []).append(row)
        for alike in kinds.values():
            bad = frame.iloc[[number for number, _, _ in alike]].assign(wrong=[wrong for _, wrong, _ in alike])
            self.require(bad, np.zeros(len(bad), bool), "{wrong}", alike[0][2])

    def repeated(self, frame: pd.DataFrame, count: int, said: str) -> None:
        """A note on rows that say again what others say."""
        rows = "row" if count == 1 else "rows"
        label = Path(str(frame["file"].iloc[0])).name if "file" in frame else "data"
        self.notes.append(f"{label}: {count:,} repeated {rows} left out (the first: {said})")

    def problem(self, location: object, wrong: str, right: str) -> None:
        self.problems.append(Problem(str(location), wrong, right))

    def finish(self) -> None:
        """Raises DataError if there are problems."""
        if self.problems:
            raise DataError(self.problems)

    # -- values ------------------------------------------------------------------------------------------------------

    def numbers(self, frame: pd.DataFrame, column: str, most: float = FLOAT32_END) -> pd.DataFrame:
        """The rows whose `column` is a number, finite as a float32, now float64."""
        values = as_numbers(frame[column])
        right = "write a finite number in the range of float32"
        good = self.require(frame, np.abs(values) < most, f"{column} '{{{column}}}'", right)
        return good.assign(**{column: values[np.abs(values) < most]})

    def grades(
        self, frame: pd.DataFrame, column: str = "label", least: float = 0, most: int = MAX_GRADE
    ) -> pd.DataFrame:
        """The rows whose `column` is a whole number up to `most`, as 1, 1.0 or 1e0; now int64. Negative grades (spam in
        some tracks) mean not relevant and become `least`."""
        values = as_numbers(frame[column])
        good = (np.abs(values) <= most) & (np.floor(values) == values) | (values < -most) & (least == 0)
        kept = self.require(frame, good, f"grade '{{{column}}}'", f"write a whole number up to {most}")
        return kept.assign(**{column: np.maximum(values[good], least).astype(np.int64)})

    def ids(self, frame: pd.DataFrame, *columns: str) -> pd.DataFrame:
        """The rows whose ids can stand in a TREC file: not empty, without white space of ASCII inside."""
        for column in columns:
            values = arrow(frame[column])
            bad = pc.or_(pc.equal(values, ""), pc.match_substring_regex(values, ID_SPACES))
            frame = self.require(frame, ~flags(bad), f"id '{{{column}}}' is empty or holds white space",
                                 "use an id without")  # fmt: skip
        return frame

    def with_text(self, frame: pd.DataFrame, noun: str, name: str) -> pd.DataFrame:
        """The rows with a text; a few others are left out. `name`: the column by which a row is known."""
        empty = frame["text"].isna().to_numpy() | flags(pc.equal(pc.utf8_trim_whitespace(arrow(frame["text"])), ""))
        return self.leave_out(frame, ~empty, noun, "without text", f"'{{{name}}}' has an empty text",
                              "give a text or leave the row out")  # fmt: skip

    # -- files -------------------------------------------------------------------------------------------------------

    def table(
        self, path: Path, *columns: Sequence[str], separator: str | None = "\t", pipes: bool = False
    ) -> pd.DataFrame:
        """A file without a header whose lines have these `columns`; of several lists, of different lengths, the first
        lines tell which. A column named "" is not kept. `separator`: None is white space of ASCII, as in trec_eval.
        Fields are texts without quoting; blank lines are skipped."""
        parts = list(self.parts(path, *columns, separator=separator, pipes=pipes))
        return parts[0]

    def parts(
        self,
        path: Path,
        *columns: Sequence[str],
        separator: str | None = "\t",
        pipes: bool = False,
        stream: bool = False,
    ) -> Iterator[pd.DataFrame]:
        """As `table`; with `stream` as several tables, for a file that memory cannot hold."""
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
                    several = (
                        f" ({len(bad):,} rows, lines {enumerated(line for line, _ in bad)})" if len(bad) > 1 else ""
                    )
                    self.problem(f"{path}:{bad[0][0]}", f"{bad[0][1]} columns instead of {len(names)}{several}", form)
                count += len(frame) + len(bad)
                yield frame
            if not count:
                self.problem(path, "no rows", f"each row is {form}")
        except DataError as error:
            self.problems += error.problems
            yield empty(names)

    def headed(self, path: Path, names: Mapping[str, str]) -> pd.DataFrame:
        """As `table`, of a file whose first row names its columns, these among them. `names`: of a column in the file
        and in the table."""
        lines = first_lines(path, 1)
        header = lines[0].split("\t") if lines else list(names)
        if set(names) <= set(header):
            rows = self.table(path, [name if name in names else "" for name in header])
            return rows.iloc[1:].rename(columns=names)
        wrong = "XML or HTML" if header[0].lstrip().startswith("<") else "not the header"
        self.problem(f"{path}:1", wrong, f"the first row names the columns {', '.join(names)}")
        return empty(list(names.values()))

    def rows(self, path: Path, kind: str = "", strict: bool = True) -> pd.DataFrame:
        """A file with rows of named columns, by the ending of its name: JSON, CSV, TSV, Parquet or Arrow. Columns
        without a header (of TSV, and of JSON lists) are named 0, 1, ...; what cells hold stays as it is. `kind`: if not
        by the ending; not `strict`: quotation marks may stand anywhere in a field of CSV."""
        kind, before = kind or ending_of(path), len(self.problems)
        csv_rows = partial(_csv, strict=strict)
        readers = {"jsonl": _json, "json": _json, "csv": csv_rows, "parquet": _parquet, "arrow": _arrow_stream}
        try:
            frame = readers.get(kind, _tsv)(path, self)
        except DataError as error:
            self.problems += error.problems
        except BROKEN as error:
            self.problems.append(unreadable(path, error))
        except (pa.ArrowException, ValueError, KeyError) as error:
            wrong = f"cannot be read as {kind} ({str(error).splitlines()[0][:200]})"
            self.problem(path, wrong, "give the whole file")
        else:
            if not len(frame) and len(self.problems) == before:
                self.problem(path, "no rows behind the header", "give rows")
            return frame
        return empty([])

    def objects(self, path: Path) -> Iterator[tuple[int, Any]]:
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
        for number, what in wrong[:1]:
            several = f" ({len(wrong):,} rows: lines {enumerated(line for line, _ in wrong)})" if len(wrong) > 1 else ""
            self.problem(f"{path}:{number}", what + several, ROWS_OF_JSON)
        if not count:
            raise DataError(Problem(str(path), "no rows", ROWS_OF_JSON))


# -- parsing -----------------------------------------------------------------------------------------------------------

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
    kept = [name for name in names if name]
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
            ),
        }

    try:
        with open_lines(path, pipes, squeeze) as file:
            if stream:
                yield from _streamed(path, csv.open_csv(file, **options(False)), invalid)
                return
            table = csv.read_csv(file, **options(not pipes))
        if any(row.number is None for row in invalid):  # only one thread knows where a row is
            invalid.clear()
            with open_lines(path, pipes, squeeze) as file:
                table = csv.read_csv(file, **options(False))
    except pa.ArrowInvalid as error:
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


def _json(path: Path, reading: Reading) -> pd.DataFrame:
    rows = list(reading.objects(path))
    if rows and all(isinstance(value, list) for _, value in rows):  # without names, as embedding-training-data has them
        rows = [(line, {str(number): each for number, each in enumerate(value)}) for line, value in rows]
    wrong = [line for line, value in rows if not isinstance(value, dict)]
    lines = [line for line, value in rows if isinstance(value, dict)]
    values = [value for _, value in rows if isinstance(value, dict)]
    if len(values) == 1 and (all(isinstance(each, dict | list) for each in values[0].values()) or "data" in values[0]):
        raise DataError(Problem(f"{path}:1", "one object, whose keys are no rows", ROWS_OF_JSON))
    if wrong:
        reading.problem(f"{path}:{wrong[0]}", f"not a JSON object (lines {enumerated(wrong)})", ROWS_OF_JSON)
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
    from json import JSONDecoder

    text = whole_text(path)
    decoder = JSONDecoder(parse_constant=lambda name: None if name == "NaN" else float(name))
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


def _tsv(path: Path, reading: Reading) -> pd.DataFrame:
    """Tabs between fields, without quoting. Whether the first row is a header, whoever knows names tells."""
    widths = Counter(line.count("\t") + 1 for line in first_lines(path))
    width = first_lines(path)[0].count("\t") + 1 if widths else 1
    return reading.table(path, [str(number) for number in range(width)])


def _csv(path: Path, reading: Reading, strict: bool = True) -> pd.DataFrame:
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
                    reading.problem(f"{path}:{number}", wrong, "as many as the header names")
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


def _parquet(path: Path, reading: Reading) -> pd.DataFrame:
    from pyarrow import parquet

    with open_bytes(path) as file:
        table = parquet.read_table(pa.BufferReader(file.read()))
    return _of_arrow(path, table)


def _arrow_stream(path: Path, reading: Reading) -> pd.DataFrame:
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


# -- rows and columns --------------------------------------------------------------------------------------------------


def located(frame: pd.DataFrame, path: Path, lines: Any) -> pd.DataFrame:
    """The table with the file and line of each row."""
    files = pd.Categorical.from_codes(np.zeros(len(frame), np.int8), [str(path)])
    return frame.assign(file=files, line=np.asarray(lines, np.int32))


def empty(names: Sequence[str]) -> pd.DataFrame:
    """A table without rows."""
    return located(pd.DataFrame({name: pd.Series(dtype="str") for name in names if name}), Path(), [])


def form_of(names: Sequence[str], separator: str | None) -> str:
    """A row in words: QUERY TAB TEXT."""
    words = {"qid": "QUERY", "docno": "DOCUMENT", "label": "GRADE", "": "X", "svmlight": "LABEL qid:N INDEX:VALUE ..."}
    return " ".join(words.get(name, name.upper()) for name in names) if separator is None else \
        " TAB ".join(words.get(name, name.upper()) for name in names)  # fmt: skip


def place(row: pd.DataFrame) -> str:
    """FILE:LINE of the first row of a table."""
    return _where(row["file"].iloc[0], row["line"].iloc[0]) if "file" in row else f"row {row.index[0]}"


def places(rows: pd.DataFrame) -> str:
    """Where the first rows are."""
    if "file" not in rows:
        return f"rows {enumerated(rows.index)}"
    name = Path(str(rows["file"].iloc[0])).name
    return enumerated(_where(name, line) for line in rows["line"])


def _where(file: str, line: int) -> str:
    """FILE:LINE, of a table from Python: data['train'], row LINE (from 0)."""
    return f"{file}, row {line} (from 0)" if file == "data" or file.startswith("data[") else f"{file}:{line}"


def lines_of(rows: pd.DataFrame) -> str:
    """The lines of the first rows."""
    return f"lines {enumerated(rows['line'])}" if "line" in rows else f"rows {enumerated(rows.index)}"


def enumerated(values: Iterable[Any]) -> str:
    """The first values, and dots for more."""
    values = list(values)
    return ", ".join(map(str, values[:SHOWN])) + (", ..." if len(values) > SHOWN else "")


def arrow(series: pd.Series) -> pa.ChunkedArray:
    """A column of texts as Arrow has it, without a copy."""
    values = pa.array(series, from_pandas=True)
    chunked = values if isinstance(values, pa.ChunkedArray) else pa.chunked_array([values])
    return chunked if chunked.type == pa.large_string() else chunked.cast(pa.large_string())


def flags(values: Any) -> np.ndarray:
    """Arrow's booleans as bool [N]; null is false."""
    return pc.fill_null(values, False).to_numpy(zero_copy_only=False).astype(bool) if len(values) else np.zeros(0, bool)


def as_numbers(series: pd.Series) -> np.ndarray:
    """The numbers that texts write, NaN for what is none; float64 [N]."""
    if series.dtype != "str" and series.dtype != object:
        return series.to_numpy(np.float64, na_value=np.nan)
    texts = arrow(series.astype("str"))
    texts = pc.replace_substring_regex(texts, r"^\+", "") if flags(pc.starts_with(texts, "+")).any() else texts
    try:
        values = pc.cast(texts, pa.float64())
        if not flags(pc.is_finite(values)).all():
            raise pa.ArrowInvalid
    except pa.ArrowInvalid:
        values = pc.cast(pc.if_else(pc.match_substring_regex(texts, NUMBER), texts, None), pa.float64())
    return pc.fill_null(values, np.nan).to_numpy()


def rows_of(ids: pd.Series, known: pd.Series | pa.Array) -> np.ndarray:
    """The row of each id among the `known` ones, the first of equal ones, -1 for none; int64 [N]."""
    values = known if isinstance(known, pa.Array | pa.ChunkedArray) else arrow(known)
    if isinstance(values, pa.ChunkedArray):
        values = values.combine_chunks()
    return pc.fill_null(pc.index_in(arrow(ids), values), -1).to_numpy().astype(np.int64)


def repeats_of(*keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(rows whose keys are those of an earlier row; the first such row of each), of N rows."""
    count = len(keys[0])
    order = np.lexsort(keys)  # stable
    new = np.ones(count, bool)
    new[1:] = np.any([key[order][1:] != key[order][:-1] for key in keys], axis=0)
    if new.all():
        return np.empty(0, np.int64), np.empty(0, np.int64)
    first = np.empty(count, np.int64)
    first[order] = order[np.maximum.accumulate(np.where(new, np.arange(count), 0))]
    later = np.flatnonzero(first != np.arange(count))
    return later, first[later]


def alike(ids: pa.ChunkedArray) -> pa.ChunkedArray:
    """What is left of ids without what programs lose or add: spaces at the ends, the form of their Unicode, leading
    zeros and .0 of a number."""
    plain = pc.utf8_normalize(pc.utf8_trim_whitespace(ids), form="NFC")
    return pc.replace_substring_regex(plain, r"^0*([0-9]+)(\.0+)?$", r"\1")
