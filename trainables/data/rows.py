"""Rows and columns of tables: where a row stands, ids as rows, texts as numbers, all in Arrow's memory."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

NUMBER = r"^[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?$"  # as trec_eval reads one, so 1_0 is none
SHOWN = 3  # rows that a problem or a note names


def located(frame: pd.DataFrame, path: Path, lines: Any) -> pd.DataFrame:
    """The table with the file and line of each row."""
    files = pd.Categorical.from_codes(np.zeros(len(frame), np.int8), [str(path)])
    return frame.assign(file=files, line=np.asarray(lines, np.int32))


def empty(names: Sequence[str]) -> pd.DataFrame:
    """A table without rows."""
    columns = {name: pd.Series(dtype="str") for name in names if not is_passed_over(name)}
    return located(pd.DataFrame(columns), Path(), [])


def is_passed_over(name: str) -> bool:
    """Whether a column of a file is not kept: one without a name, or whose name begins with _."""
    return not name or name.startswith("_")


def form_of(names: Sequence[str], separator: str | None) -> str:
    """A row in words: QUERY TAB TEXT."""
    words = {
        "qid": "QUERY",
        "docno": "DOCUMENT",
        "label": "GRADE",
        "": "...",
        "svmlight": "LABEL qid:N INDEX:VALUE ...",
    }
    shown = [words.get(name, name.upper().removeprefix("_")) for name in names]
    return (" " if separator is None else " TAB ").join(shown)


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


def count_of_rows(rows: pd.DataFrame) -> str:
    """What a problem says behind its first row: how many rows have it, and where. Empty for one row."""
    return count_of_lines(rows["line"]) if "line" in rows else count_of_lines(rows.index, "rows")


def count_of_lines(lines: Sequence[int] | pd.Series | pd.Index, noun: str = "lines") -> str:
    """As `count_of_rows`, of the numbers of lines."""
    return f" ({len(lines):,} rows: {noun} {enumerated(lines)})" if len(lines) > 1 else ""


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
        if not np.isfinite(values.to_numpy()).all():
            raise pa.ArrowInvalid
        return values.to_numpy()
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
