"""Data as tables: what every form of data is read into, and the rules that tables keep.

A table is a pandas DataFrame with the field's column names (qid, docno, text, label, score, rank). One that was read
from a file has two more columns: `file`, and `line` from 1 (of Parquet and Arrow the row), by which rules name a row.
"""

from __future__ import annotations

import re
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
from trainables.data.parsing import json_values, lines_in_parts, rows_of_file
from trainables.data.rows import arrow, as_numbers, count_of_rows, empty, flags, place, places, repeats_of
from trainables.data.settings import DataConfig

FEW, SHARE = 3, 0.01  # rows of a file whose ids may match nothing: so many, or this share if that is more
BAD_SHARE = 0.2  # rows of a file that may be unusable for what they hold, or one row
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
    partial   whether judgments and runs may name any number of documents outside the collection, as ir_datasets' do
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
    partial: bool = False
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
            first = {name: str(value)[: 500 if name == "wrong" else 60] for name, value in rows.iloc[0].items()}
            self.problem(place(rows), wrong.format(**first) + count_of_rows(rows), right)
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
            rows, earlier = frame.iloc[later], frame.iloc[[first[0]]]
            wrong = f"another {what.format(**rows.iloc[0])} than in {place(earlier)}{count_of_rows(rows)}"
            self.problem(place(rows), wrong, "keep the row that is right")

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
        good = np.abs(values) < most
        right = "write a finite number in the range of float32"
        rows = self.require(frame, good, f"{column} '{{{column}}}'", right)
        return rows.assign(**{column: values if good.all() else values[good]})

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

    # -- files -------------------------------------------------------------------------------------------------------

    def table(
        self, path: Path, *columns: Sequence[str], separator: str | None = "\t", pipes: bool = False
    ) -> pd.DataFrame:
        """A file without a header whose lines have these `columns`; of several lists, of different lengths, the first
        lines tell which. A column whose name is empty or begins with _ is not kept. `separator`: None is white space of
        ASCII, as in trec_eval. Fields are texts without quoting; blank lines are skipped."""
        [whole] = lines_in_parts(path, columns, separator, self.problems, pipes)
        return whole

    def parts(self, path: Path, *columns: Sequence[str], separator: str | None = "\t") -> Iterator[pd.DataFrame]:
        """As `table`, in several tables, for a file that memory cannot hold."""
        return lines_in_parts(path, columns, separator, self.problems, stream=True)

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
        return rows_of_file(path, self.problems, kind, strict)

    def objects(self, path: Path) -> Iterator[tuple[int, Any]]:
        """(line, value) of each value of a file of JSON: one a line, or one array."""
        return json_values(path, self.problems)
