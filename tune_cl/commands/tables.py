"""Readable tables for the console."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Sequence
from io import StringIO
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

FIGURES = re.compile(r"[-+±.,\d\s\[\]%]*(inf|e[-+]\d+)?")  # what numbers and intervals are made of
ENDLESS = 100_000
GAP, LEAST = 2, 8  # characters between columns, and of a column of texts


def table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Aligned columns; numbers stand right, floats have four digits. Columns of numbers and of intervals are never
    broken where there is room for the others beside them."""
    rows = [[_cell(value) for value in row] for row in rows]
    widths = [max(map(len, (column, *(row[i] for row in rows)))) for i, column in enumerate(columns)]
    whole = [bool(rows) and all(FIGURES.fullmatch(row[i]) for row in rows) for i in range(len(columns))]
    needed = sum(width if kept else min(width, LEAST) for width, kept in zip(widths, whole, strict=True))
    room = needed + GAP * (len(columns) - 1) <= width_of_output()
    grid = Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for index, column in enumerate(columns):
        numeric = bool(rows) and all(_is_number(row[index]) for row in rows)
        align = "right" if numeric else "left"
        grid.add_column(column, justify=align, overflow="fold", no_wrap=whole[index] and room)
    for row in rows:
        grid.add_row(*row)
    return plain(grid)


def short(value: Any) -> Any:
    """A parameter's value for a table: a float as it would be written, for 0.00003 is not 0.0000."""
    return f"{value:.3g}" if isinstance(value, float) else value


def plain(renderable: object) -> str:
    """A rich renderable as text without colours, as wide as the output."""
    out = StringIO()
    Console(file=out, width=width_of_output(), highlight=False, markup=False).print(renderable)
    return out.getvalue().rstrip("\n")


def width_of_output() -> int:
    """Columns of the terminal; in a file or a pipe, where COLUMNS does not say otherwise, a row is a line."""
    return Console().width if sys.stdout.isatty() or "COLUMNS" in os.environ else ENDLESS


def _cell(value: object) -> str:
    if value is None:
        return "-"
    return f"{value:.4f}" if isinstance(value, float) else str(value)


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return cell == "-"
    return True
