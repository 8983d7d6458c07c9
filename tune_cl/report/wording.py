"""How a report writes numbers and values."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any

NONE = "–"  # in place of a missing number


def number(value: float | None, digits: int = 4) -> str:
    """A number for reading."""
    return NONE if value is None or math.isnan(value) else f"{value:.{digits}f}"


def signed(value: float | None, digits: int = 4) -> str:
    return NONE if value is None or math.isnan(value) else f"{value:+.{digits}f}"


def p_value(p: float | None) -> str:
    if p is None or math.isnan(p):
        return NONE
    return "< 0.001" if p < 0.001 else f"{p:.3f}"


def interval_words(ends: Sequence[float | None] | None) -> str:
    low, high = ends or (None, None)
    return f"[{signed(low)}, {signed(high)}]"


def spread(sd: float | None) -> str:
    """The standard deviation over seeds, if there are several."""
    return "" if sd is None or math.isnan(sd) else f" ({number(sd)})"


def amount(value: float | None) -> str:
    if value is None:
        return NONE
    return f"{value:,}" if isinstance(value, int) else f"{value:.3f}"


def cut(text: str, length: int) -> str:
    """The text on one line, cut to `length` with a … if it is longer."""
    text = " ".join(text.split())
    return text if len(text) <= length else text[: length - 1] + "…"


def plain(value: Any) -> str:
    """A configuration value for reading."""
    if isinstance(value, bool) or value is None:
        return {True: "true", False: "false", None: "null"}[value]
    return f"{value:.4g}" if isinstance(value, float) else str(value)


FIGURES = re.compile(r"[-+±.,<–\d\s\[\]]*")


def figures(rows: Sequence[Sequence[str]]) -> list[int]:
    """The columns of a table that hold nothing but numbers and intervals."""
    columns = enumerate(zip(*rows, strict=True))
    return [at for at, column in columns if any(column) and all(map(FIGURES.fullmatch, column))]
