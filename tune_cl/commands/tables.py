"""Readable tables for the console."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from io import StringIO

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table


def table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Aligned columns; numbers stand right, floats have four digits."""
    rows = [[_cell(value) for value in row] for row in rows]
    grid = Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for index, column in enumerate(columns):
        numeric = bool(rows) and all(_is_number(row[index]) for row in rows)
        grid.add_column(column, justify="right" if numeric else "left", overflow="fold")
    for row in rows:
        grid.add_row(*row)
    return plain(grid)


def plain(renderable: object) -> str:
    """A rich renderable as text without colours, as wide as the terminal."""
    out = StringIO()
    Console(file=out, width=Console().width, highlight=False, markup=False).print(renderable)
    return out.getvalue().rstrip("\n")


def _cell(value: object) -> str:
    if value is None:
        return "-"
    return f"{value:.4f}" if isinstance(value, float) else str(value)


def _is_number(cell: str) -> bool:
    return cell in ("-", "inf") or cell.replace(".", "", 1).replace("-", "", 1).isdigit()
