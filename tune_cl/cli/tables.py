"""Readable tables for the console."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Sequence
from io import StringIO
from itertools import compress
from textwrap import wrap
from typing import TYPE_CHECKING, Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from trainables.core.prose import visible, wrapped

if TYPE_CHECKING:
    from tune_cl.report.story import Part

FIGURES = re.compile(r"[-+±.,\d\s\[\]%]*(inf|e[-+]\d+)?")  # matches numbers and intervals
UNLIMITED = 100_000  # characters: a row of a file or pipe stays on one line
GAP = 3  # characters between columns


def table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Aligned columns: numbers are right-aligned, floats have four decimals. On a narrow terminal texts are wrapped
    between words, then intervals; where not even words fit side by side, each row is a block of lines. A column with
    neither heading nor text is left out."""
    shown = [[_cell(value) for value in row] for row in rows]
    is_shown = [bool(heading) or any(row[at] for row in shown) for at, heading in enumerate(columns)]
    columns, shown = list(compress(columns, is_shown)), [list(compress(row, is_shown)) for row in shown]
    cells = list(zip(*shown, strict=True)) or [()] * len(columns)
    widths = _widths(columns, cells)
    if widths is None:
        return "\n\n".join(_block(columns, row) for row in shown)
    grid = Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for heading, column, width in zip(columns, cells, widths, strict=True):
        numeric = bool(column) and all(map(_is_number, column))
        grid.add_column(heading, justify="right" if numeric else "left", overflow="fold", width=width)
    for row in shown:
        grid.add_row(*row)
    return plain(grid)


def text(parts: Iterable[Part]) -> str:
    """Parts of a story: under each title its sentences, wrapped, and its table."""
    return "\n\n".join(_part(one) for one in parts)


def _part(part: Part) -> str:
    lines = [part.title, *map(wrapped, part.sentences)]
    return "\n".join([*lines, "", table(part.table.columns, part.table.rows)] if part.table else lines)


def _widths(headings: Sequence[str], cells: Sequence[Sequence[str]]) -> list[int] | None:
    """The width of each column in characters; None if words would have to be broken."""
    free = width_of_output() - GAP * (len(headings) - 1)
    columns = list(zip(headings, cells, strict=True))
    whole = [max(map(len, (heading, *column))) for heading, column in columns]
    words = [_longest_word((heading, *column)) for heading, column in columns]
    figures = [
        max(least, *map(len, column)) if not _is_text(column) else least
        for (_, column), least in zip(columns, words, strict=True)
    ]
    if sum(figures) <= free:
        return _narrowed(whole, figures, free)
    return _narrowed(figures, words, free) if sum(words) <= free else None


def _narrowed(widths: list[int], least: Sequence[int], free: int) -> list[int]:
    """The widths, the widest of which is reduced until they fit."""
    for _ in range(sum(widths) - free):
        widest = max((i for i, width in enumerate(widths) if width > least[i]), key=lambda i: widths[i])
        widths[widest] -= 1
    return widths


def _longest_word(texts: Iterable[str]) -> int:
    return max((len(word) for text in texts for word in text.split()), default=0)


def _block(headings: Sequence[str], row: Sequence[str]) -> str:
    """A row with a line for each of its columns."""
    indent = max(map(len, headings)) + 2
    free = max(1, width_of_output() - indent)
    lines = []
    for heading, cell in zip(headings, row, strict=True):
        for at, part in enumerate(wrap(cell, free, break_long_words=False, break_on_hyphens=False)):
            lines.append(f"{'' if at else heading:<{indent}}{part}")
    return "\n".join(lines)


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
