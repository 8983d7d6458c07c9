"""Rows of tables: where a row stands, ids as rows, texts as numbers, all in Arrow's memory."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from trainables.data.cells import NUMBER

SHOWN = 3  # rows that a problem or a note names
PLACE = ["file", "line"]  # columns that say where a row stands


def located(frame: pd.DataFrame, path: Path | str, lines: Any = None) -> pd.DataFrame:
    """The table with the file and line of each row; by default, lines from 1 on."""
    files = pd.Categorical.from_codes(np.zeros(len(frame), np.int8), [str(path)])
    return frame.assign(file=files, line=np.asarray(range(1, len(frame) + 1) if lines is None else lines, np.int32))


def place(rows: pd.DataFrame) -> str:
    """FILE:LINE of the first row of a table."""
    return _where(str(rows["file"].iloc[0]), int(rows["line"].iloc[0]))


def _where(file: str, line: int) -> str:
    """FILE:LINE, of a table from Python: data['train'], row LINE (from 0)."""
    return f"{file}, row {line} (from 0)" if file == "data" or file.startswith("data[") else f"{file}:{line}"


def file_name(rows: pd.DataFrame) -> str:
    """The name, without folders, of the file of a table that has rows."""
    return Path(str(rows["file"].iloc[0])).name


def places(rows: pd.DataFrame) -> str:
    """Where the first rows are."""
    return enumerated(_where(file_name(rows), line) for line in rows["line"])


def count_of_lines(lines: Any) -> str:
    """What a problem says behind its first row: how many rows have it, and where. Empty for one row."""
    return f" ({len(lines):,} rows: lines {enumerated(lines)})" if len(lines) > 1 else ""


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


def is_blank(texts: pd.Series) -> np.ndarray:
    """Which texts are missing, empty or white space, bool [N]."""
    return ~flags(pc.not_equal(pc.utf8_trim_whitespace(arrow(texts)), ""))


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
    """The row of each id among the `known` ones, the first of equal ones, -1 for none; int64 [N]. Ids are compared in
    Unicode's normal form C: macOS writes names of files in form D."""
    values = arrow(known).combine_chunks() if isinstance(known, pd.Series) else known
    return pc.fill_null(pc.index_in(_composed(arrow(ids)), _composed(values)), -1).to_numpy().astype(np.int64)


def _composed(values: Any) -> Any:
    is_ascii = pc.all(pc.string_is_ascii(values)).as_py()
    return values if is_ascii else pc.utf8_normalize(values, form="NFC")
