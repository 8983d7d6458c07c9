"""Readable tables for the console, by rich."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Sequence
from io import StringIO
from textwrap import wrap

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from trainables.core.prose import visible

NUMBER = re.compile(r"-|[-+]?(\d[\d.,]*(e[-+]\d+)?%?|inf|nan)")
INTERVAL = re.compile(r"[-+.\d]* ?(\[.*\]|± [.\d]+)")
UNLIMITED = 100_000  # characters: a row of a file or pipe stays on one line
GAP = 3  # characters between columns


def table(columns: Sequence[str], rows: Iterable[Iterable[object]]) -> str:
    """Aligned columns: numbers are right-aligned, floats have four decimals. On a narrow terminal texts are wrapped
    between words; where not even words fit side by side, each row is a block of lines. A column with neither heading
    nor text is left out."""
    cells = [[_cell(value) for value in row] for row in rows]
    shown = [at for at, heading in enumerate(columns) if heading or any(row[at] for row in cells)]
    headings = [columns[at] for at in shown]
    cells = [[row[at] for at in shown] for row in cells]
    by_column = [[row[at] for row in cells] for at in range(len(headings))]
    free = width_of_output() - GAP * (len(headings) - 1)
    widths = [max(map(len, (heading, *column))) for heading, column in zip(headings, by_column, strict=True)]
    least = [_least(heading, column) for heading, column in zip(headings, by_column, strict=True)]
    if sum(least) > free:
        return "\n\n".join(_block(headings, row) for row in cells)
    for _ in range(sum(widths) - free):
        widest = max((at for at, width in enumerate(widths) if width > least[at]), key=lambda at: widths[at])
        widths[widest] -= 1
    grid = Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for heading, column, width in zip(headings, by_column, widths, strict=True):
        numeric = bool(column) and all(map(NUMBER.fullmatch, column))
        grid.add_column(heading, justify="right" if numeric else "left", overflow="fold", width=width)
    for row in cells:
        grid.add_row(*row)
    out = StringIO()
    Console(file=out, width=width_of_output(), highlight=False, markup=False, emoji=False).print(grid)
    return "\n".join(line.rstrip() for line in out.getvalue().rstrip("\n").split("\n"))


def _least(heading: str, column: Sequence[str]) -> int:
    """The width that a column cannot go below: its longest word, or interval."""
    parts = heading.split()
    for text in column:
        parts += [text] if INTERVAL.fullmatch(text) else text.split()
    return max(map(len, parts), default=0)


def _block(headings: Sequence[str], row: Sequence[str]) -> str:
    """A row with a line for each of its columns."""
    indent = max(map(len, headings)) + 2
    lines = []
    for heading, cell in zip(headings, row, strict=True):
        parts = wrap(cell, max(1, width_of_output() - indent), break_long_words=False, break_on_hyphens=False)
        lines += [f"{'' if at else heading:<{indent}}{part}" for at, part in enumerate(parts)]
    return "\n".join(lines)


def width_of_output() -> int:
    """The terminal's width in characters; for a file or pipe COLUMNS if set, else UNLIMITED. COLUMNS=0: not known."""
    columns = os.environ.get("COLUMNS", "")
    if columns.isdigit() and int(columns):
        return int(columns)
    return Console(_environ={}).width if sys.stdout.isatty() else UNLIMITED


def _cell(value: object) -> str:
    if value is None:
        return "-"
    return f"{value:.4f}" if isinstance(value, float) else visible(str(value))
