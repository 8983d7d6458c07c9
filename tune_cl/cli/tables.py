"""Readable tables for the console, by rich."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Sequence
from io import StringIO

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from trainables.core.prose import visible

FIGURES = re.compile(r"[-+.,\d\s%±\[\]<e]*|[-+]?inf|nan")  # a number, or an interval
UNLIMITED = 100_000  # characters: a row of a file or pipe stays on one line


def table(columns: Sequence[str], rows: Iterable[Iterable[object]]) -> str:
    """Aligned columns; floats have four decimals. On a terminal texts are wrapped between words, numbers and intervals
    never. A column with neither heading nor text is left out."""
    cells = [[_cell(value) for value in row] for row in rows]
    shown = [at for at, heading in enumerate(columns) if heading or any(row[at] for row in cells)]
    grid = Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for at in shown:
        figures = all(FIGURES.fullmatch(row[at]) for row in cells)
        texts = [columns[at], *(row[at] for row in cells)]
        longest = max(map(len, texts if figures else " ".join(texts).split()))
        grid.add_column(columns[at], justify="right" if figures else "left", min_width=longest)
    for row in cells:
        grid.add_row(*(row[at] for at in shown))
    out = StringIO()
    console = Console(file=out, width=_width(), highlight=False, markup=False, emoji=False)
    console.print(grid, crop=False)
    return "\n".join(line.rstrip() for line in out.getvalue().rstrip("\n").split("\n"))


def _width() -> int:
    columns = os.environ.get("COLUMNS", "")
    if columns.isdigit() and int(columns):
        return int(columns)
    return Console().width if sys.stdout.isatty() else UNLIMITED


def _cell(value: object) -> str:
    if value is None:
        return "-"
    return f"{value:.4f}" if isinstance(value, float) else visible(str(value))
