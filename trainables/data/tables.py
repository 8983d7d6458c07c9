"""Data as tables: what every form of data is read into, and the rules that tables keep.

A table is a pandas DataFrame with the field's column names (qid, docno, text, label, score, rank) and two more, `file`
and `line` (from 1; of Parquet, Arrow and arrays of JSON the row), by which rules name a row (`located`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.compute as pc

from trainables.core.errors import DataError, Problem
from trainables.core.prose import counted
from trainables.data.columns import FLOAT32_END, MAX_GRADE
from trainables.data.files import first_lines
from trainables.data.parsing import delimited, json_values, rows_of_file
from trainables.data.rows import arrow, as_numbers, count_of_lines, file_name, flags, place, places
from trainables.data.settings import DataConfig

BAD_SHARE = 0.2  # rows of a file that may be unusable, or one row
ID_SPACES = r"[ \t\r\n\v\f]"  # white space of ASCII, which a TREC file cannot hold in an id


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


@dataclass
class Reading:
    """One reading of a data set: the settings, what is wrong with its rows, and notes on what was left out.

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
        for _, rows in frame[~good].groupby("file", observed=True, sort=False):
            first = {str(name): str(value)[:300] for name, value in rows.iloc[0].items()}
            self.problem(place(rows), wrong.format(**first) + count_of_lines(rows["line"]), right)
        return frame[good]

    def leave_out(
        self, frame: pd.DataFrame, good: Any, noun: str, why: str, wrong: str, right: str, rows: int | None = None
    ) -> pd.DataFrame:
        """The rows that are `good`. Others are left out with a note, `noun why left out`, as published collections have
        them; with `data.strict`, or if they are more than one and a fifth of the rows, or half of them, they are a
        problem as for `require`. `rows`: of the file, if not those of the table."""
        good = np.asarray(good, bool)
        bad, rows = frame[~good], rows or len(frame)
        if not len(bad):
            return frame
        if self.config.strict or len(bad) > max(1, BAD_SHARE * rows) or 2 * len(bad) >= rows:
            return self.require(frame, good, wrong, right)
        self.notes.append(f"{file_name(bad)}: {counted(len(bad), noun)} {why} left out ({places(bad)})")
        return frame[good]

    def once(self, frame: pd.DataFrame, keys: Sequence[str], value: str, what: str, noted: bool = True) -> pd.DataFrame:
        """The first of the rows that have the same values in the columns `keys`. A later one with the same `value` is
        left out, with a note if `noted`; with another one it contradicts the first, which is a problem. `what`: the
        value in words, "grade of '{qid}'"."""
        repeated = frame.duplicated(list(keys)).to_numpy()
        if not repeated.any():
            return frame
        position = pd.Series(np.arange(len(frame)), frame.index)
        first = position.groupby([frame[key] for key in keys], observed=True).transform("min").to_numpy()
        later, earlier = frame[repeated], frame.iloc[first[repeated]]
        same = later[value].to_numpy() == earlier[value].to_numpy()
        if not same.all():
            rows = later[~same]
            wrong = (
                f"another {what.format(**rows.iloc[0])} than in {place(earlier[~same])}{count_of_lines(rows['line'])}"
            )
            self.problem(place(rows), wrong, "keep the row that is right")
        if noted and same.any():
            noun = "repeated row" if same.sum() == 1 else "repeated rows"
            which = f"{places(later[same][:1])} says what {places(earlier[same][:1])} says"
            self.notes.append(f"{file_name(later)}: {same.sum():,} {noun} left out (the first: {which})")
        return frame[~repeated]

    def problem(self, location: object, wrong: str, right: str) -> None:
        self.problems.append(Problem(str(location), wrong, right))

    def finish(self) -> None:
        """Raises DataError if there are problems."""
        if self.problems:
            raise DataError(self.problems)

    # -- values ------------------------------------------------------------------------------------------------------

    def numbers(self, frame: pd.DataFrame, column: str) -> pd.DataFrame:
        """The rows whose `column` is a number, finite as a float32, now float64."""
        values = as_numbers(frame[column])
        good = np.abs(values) < FLOAT32_END
        right = "write a finite number in the range of float32"
        rows = self.require(frame, good, f"{column} '{{{column}}}'", right)
        return rows.assign(**{column: values if good.all() else values[good]})

    def grades(self, frame: pd.DataFrame, least: float = 0) -> pd.DataFrame:
        """The rows whose `label` is a whole number up to MAX_GRADE, as 1, 1.0 or 1e0; now int64. Negative grades (spam
        in some tracks) mean not relevant and become `least`."""
        values = as_numbers(frame["label"])
        good = (np.abs(values) <= MAX_GRADE) & (np.floor(values) == values) | (values < -MAX_GRADE) & (least == 0)
        rows = self.require(frame, good, "grade '{label}'", f"write a whole number up to {MAX_GRADE}")
        return rows.assign(label=np.maximum(values[good], least).astype(np.int64))

    def ids(self, frame: pd.DataFrame, *columns: str) -> pd.DataFrame:
        """The rows whose ids can stand in a TREC file: not empty, without white space of ASCII inside."""
        for column in columns:
            values = arrow(frame[column])
            good = ~flags(pc.or_(pc.equal(values, ""), pc.match_substring_regex(values, ID_SPACES)))
            wrong = f"id '{{{column}}}' is empty or holds white space"
            frame = self.require(frame, good, wrong, "use an id without")
        return frame

    def texts(self, frame: pd.DataFrame, *columns: str) -> pd.DataFrame:
        """The rows that have a text in each of these columns."""
        for column in columns:
            good = frame[column].str.strip() != ""
            frame = self.require(frame, good, f"an empty {column}", "give a text or leave the row out")
        return frame

    # -- files -------------------------------------------------------------------------------------------------------

    def table(self, path: Path, *columns: Sequence[str], separator: str | None = "\t") -> pd.DataFrame:
        """A file without a header whose lines have these `columns`; of several lists, of different lengths, the first
        lines tell which. A column whose name is empty or begins with _ is not kept. `separator`: None is white space of
        ASCII, as in trec_eval. Fields are texts without quoting; blank lines are skipped."""
        return pd.concat(list(self.parts(path, *columns, separator=separator)), ignore_index=True)

    def parts(self, path: Path, *columns: Sequence[str], separator: str | None = "\t") -> Iterator[pd.DataFrame]:
        """As `table`, in several tables, for a file that memory cannot hold."""
        return delimited(path, columns, separator, self.problems)

    def headed(self, path: Path, names: Mapping[str, str]) -> pd.DataFrame:
        """As `table`, of a file whose first row names its columns, these among them. `names`: of a column in the file
        and in the table."""
        header = next(iter(first_lines(path, 1)), "\t".join(names)).split("\t")
        if not set(names) <= set(header):
            wrong = "XML or HTML" if header[0].lstrip().startswith("<") else "not the header"
            right = f"the first row names the columns {', '.join(names)}"
            raise DataError(Problem(f"{path}:1", wrong, right))
        return self.table(path, [name if name in names else "" for name in header]).iloc[1:].rename(columns=names)

    def rows(self, path: Path, kind: str = "", strict: bool = True) -> pd.DataFrame:
        """A file with rows of named columns, by the ending of its name: JSON, CSV, TSV, Parquet or Arrow. Columns
        without a header (of TSV, and of JSON lists) are named 0, 1, ...; what cells hold stays as it is. `kind`: if not
        by the ending; not `strict`: quotation marks may stand anywhere in a field of CSV."""
        return rows_of_file(path, self.problems, kind, strict)

    def objects(self, path: Path) -> Iterator[tuple[int, Any]]:
        """(line, value) of each value of a file of JSON: one a line, or one array."""
        return json_values(path, self.problems)
