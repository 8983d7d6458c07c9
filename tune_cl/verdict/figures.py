"""How numbers are written: on the terminal, in the report, in sentences and in a paper's table."""

from __future__ import annotations

import math
from collections.abc import Sequence

NONE = "–"  # in place of a missing number


def number(value: float | None) -> str:
    return NONE if value is None or math.isnan(value) else f"{value:.4f}"


def signed(value: float | None) -> str:
    return NONE if value is None or math.isnan(value) else f"{value:+.4f}"


def p_value(p: float | None) -> str:
    if p is None or math.isnan(p):
        return NONE
    return "< 0.001" if p < 0.001 else f"{p:.3f}"


def p_words(p: float) -> str:
    """p in a sentence: `p = 0.043`."""
    return f"p {p_value(p)}" if p < 0.001 else f"p = {p_value(p)}"


def interval_words(ends: Sequence[float | None] | None) -> str:
    low, high = ends or (None, None)
    return f"[{signed(low)}, {signed(high)}]"


def cut(text: str, length: int) -> str:
    """The text on one line, cut to `length` with a … if it is longer."""
    text = " ".join(text.split())
    return text if len(text) <= length else text[: length - 1] + "…"
