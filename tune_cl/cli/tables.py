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

from trainables.core.prose import visible

FIGURES = re.compile(r"[-+±.,\d\s\[\]%]*(inf|e[-+]\d+)?")  # matches numbers and intervals
UNLIMITED = 100_000  # characters: a row of a file or pipe stays on one line
GAP, LEAST = 3, 8  # characters between columns, and the fewest of a text column


def table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Aligned columns: numbers are right-aligned, floats have four decimals. On a narrow terminal texts are wrapped,
    between words if those fit; numbers and intervals are wrapped only if nothing else helps."""
    rows = [[_cell(value) for value in row] for row in rows]
    cells = list(zip(*rows, strict=True)) or [()] * len(columns)
    grid = Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for heading, column, width in zip(columns, cells, _widths(columns, cells), strict=True):
        numeric = bool(column) and all(map(_is_number, column))
        grid.add_column(heading, justify="right" if numeric else "left", overflow="fold", width=width)
    for row in rows:
        grid.add_row(*row)
    return plain(grid)


def _widths(headings: Sequence[str], cells: Sequence[Sequence[str]]) -> list[int] | list[None]:
    """The width of each column in characters; None if not even LEAST characters of each text fit."""
    free = width_of_output() - GAP * (len(headings) - 1)
    whole = [max(map(len, (heading, *column))) for heading, column in zip(headings, cells, strict=True)]
    words = [_longest_word(heading, column) for heading, column in zip(headings, cells, strict=True)]
    parts = [min(width, LEAST) if _is_text(column) else width for width, column in zip(words, cells, strict=True)]
    fitting = next((least for least in (words, parts) if sum(least) <= free), None)
    return [None] * len(headings) if fitting is None else _narrowed(whole, fitting, free)


def _narrowed(widths: list[int], least: Sequence[int], free: int) -> list[int]:
    """The widths, the widest of which is reduced until they fit."""
    for _ in range(sum(widths) - free):
        widest = max((i for i, width in enumerate(widths) if width > least[i]), key=lambda i: widths[i])
        widths[widest] -= 1
    return widths


def _longest_word(heading: str, cells: Sequence[str]) -> int:
    """The width of a column broken only between words; numbers and intervals count as words."""
    texts = (word for cell in cells for word in cell.split()) if _is_text(cells) else cells
    return max(map(len, (*heading.split(), *texts)), default=0)


def _is_text(cells: Sequence[str]) -> bool:
    return not (cells and all(map(FIGURES.fullmatch, cells)))


def short(value: Any) -> Any:
    """A parameter's value for a table: floats have three significant digits, for 0.00003 is not 0.0000."""
    return f"{value:.3g}" if isinstance(value, float) else value


def plain(renderable: object) -> str:
    """A rich renderable as text without colours, in the width of the output."""
    out = StringIO()
    Console(file=out, width=width_of_output(), highlight=False, markup=False, emoji=False).print(renderable)
    return "\n".join(map(str.rstrip, out.getvalue().rstrip("\n").split("\n")))


def width_of_output() -> int:
    """The terminal's width in characters; for a file or pipe COLUMNS if set, else UNLIMITED."""
    return Console().width if sys.stdout.isatty() or "COLUMNS" in os.environ else UNLIMITED


def _cell(value: object) -> str:
    if value is None:
        return "-"
    return f"{value:.4f}" if isinstance(value, float) else visible(str(value))


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return cell == "-"
    return True
