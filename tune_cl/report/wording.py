"""How a report writes numbers."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

NONE = "–"  # in place of a missing number
FIGURES = re.compile(r"[-+±.,<–\d\s\[\]]*")


def number(value: float | None) -> str:
    return NONE if value is None or math.isnan(value) else f"{value:.4f}"


def signed(value: float | None) -> str:
    return NONE if value is None or math.isnan(value) else f"{value:+.4f}"


def p_value(p: float | None) -> str:
    if p is None or math.isnan(p):
        return NONE
    return "< 0.001" if p < 0.001 else f"{p:.3f}"


def interval_words(ends: Sequence[float | None] | None) -> str:
    low, high = ends or (None, None)
    return f"[{signed(low)}, {signed(high)}]"


def cut(text: str, length: int) -> str:
    """The text on one line, cut to `length` with a … if it is longer."""
    text = " ".join(text.split())
    return text if len(text) <= length else text[: length - 1] + "…"


def numeric_columns(rows: Sequence[Sequence[str]]) -> list[int]:
    """The columns of a table that hold nothing but numbers and intervals."""
    columns = enumerate(zip(*rows, strict=True))
    return [at for at, column in columns if any(column) and all(FIGURES.fullmatch(cell) for cell in column)]
