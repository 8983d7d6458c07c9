"""HTML and SVG that data cannot break out of: every text is escaped unless it is Html."""

from __future__ import annotations

import html
import math
from collections.abc import Iterable, Sequence
from typing import Any

NONE = "–"  # in place of a missing number


class Html(str):
    """Markup that is safe as it is."""


def tag(name: str, *children: object, **attributes: object) -> Html:
    """An element. Children are escaped unless they are Html, attribute values always; None among either is left out.

    `class_` gives `class`, `data_tip` gives `data-tip`. Floats are coordinates: one decimal.
    """
    given = {key: value for key, value in attributes.items() if value is not None}
    text = "".join(f' {key.rstrip("_").replace("_", "-")}="{_attribute(value)}"' for key, value in given.items())
    return Html(f"<{name}{text}>{join(children)}</{name}>")


def join(children: Iterable[object]) -> Html:
    """The children one after another: texts escaped, lists flattened, None left out."""
    return Html("".join(map(_child, children)))


def _child(child: object) -> str:
    if child is None:
        return ""
    if isinstance(child, list | tuple):
        return join(child)
    return child if isinstance(child, Html) else html.escape(str(child))


def _attribute(value: object) -> str:
    return html.escape(coordinate(value) if isinstance(value, float) else str(value))


def coordinate(value: float) -> str:
    """A length in an SVG: tenths of a pixel suffice and keep the file small."""
    return f"{value:.1f}".removesuffix(".0")


def paragraph(*children: object) -> Html:
    return tag("p", *children)


def code(*lines: str) -> Html:
    return tag("pre", tag("code", "\n".join(lines)))


def table(columns: Sequence[object], rows: Iterable[Sequence[object]], numeric: Sequence[int] = ()) -> Html:
    """A table that scrolls sideways on a narrow screen; columns whose index is in `numeric` are right-aligned."""

    def cells(kind: str, row: Sequence[object]) -> Html:
        return tag("tr", *(tag(kind, cell, class_="n" if i in numeric else None) for i, cell in enumerate(row)))

    head, body = tag("thead", cells("th", columns)), tag("tbody", *(cells("td", row) for row in rows))
    return tag("div", tag("table", head, body), class_="scroll")


def figure(title: str, drawing: Html, *notes: object) -> Html:
    """A drawing with its title above and notes below."""
    return tag("figure", tag("figcaption", title), drawing, *notes)


def legend(entries: Sequence[tuple[str, str]]) -> Html:
    """Signs and their meanings: (role, text) each, with roles as the style sheet names them."""
    return tag("ul", *(tag("li", tag("i", class_=f"key {role}"), text) for role, text in entries), class_="legend")


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


def key_name(key: str) -> str:
    """A key's name in charts and tables."""
    return key.removeprefix("curriculum.")


def plain(value: Any) -> str:
    """A configuration value for reading."""
    if isinstance(value, bool) or value is None:
        return {True: "true", False: "false", None: "null"}[value]
    return f"{value:.4g}" if isinstance(value, float) else str(value)
