"""The parts of a page, as templates/blocks.html has them, and how the page writes numbers and values."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader
from markupsafe import Markup as Markup

NONE = "–"  # in place of a missing number
TEMPLATES = Environment(
    loader=FileSystemLoader(Path(__file__).parent / "templates"), autoescape=True, trim_blocks=True, lstrip_blocks=True
)
BLOCKS: Any = TEMPLATES.get_template("blocks.html").module  # macros, which return Markup
paragraph, heading, code, table, details = BLOCKS.paragraph, BLOCKS.heading, BLOCKS.code, BLOCKS.table, BLOCKS.details
figure, legend, side_by_side = BLOCKS.figure, BLOCKS.legend, BLOCKS.side_by_side


def number(value: float | None, digits: int = 4) -> str:
    """A number for reading."""
    return NONE if value is None or math.isnan(value) else f"{value:.{digits}f}"


def signed(value: float | None, digits: int = 4) -> str:
    return NONE if value is None or math.isnan(value) else f"{value:+.{digits}f}"


def p_value(p: float | None) -> str:
    if p is None or math.isnan(p):
        return NONE
    return "< 0.001" if p < 0.001 else f"{p:.3f}"


def cut(text: str, length: int) -> str:
    """The text on one line, cut to `length` with a … if it is longer."""
    text = " ".join(text.split())
    return text if len(text) <= length else text[: length - 1] + "…"


def plain(value: Any) -> str:
    """A configuration value for reading."""
    if isinstance(value, bool) or value is None:
        return {True: "true", False: "false", None: "null"}[value]
    return f"{value:.4g}" if isinstance(value, float) else str(value)
