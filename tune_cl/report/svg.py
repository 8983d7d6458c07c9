"""Scales, axes and paths. Drawings are 480 wide, so that text stays legible on a phone and two fit side by side."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tune_cl.report.markup import Html, coordinate, tag

WIDTH = 480.0
MARGIN = 0.04  # free space on either side of an axis, as a share of its values' span
LEFT, RIGHT, TOP, BOTTOM = 56.0, 468.0, 30.0, 42.0  # of the plotting area; BOTTOM is the room below it
Point = tuple[float, float]


@dataclass(frozen=True)
class Scale:
    """Linear map from [low, high] of the data to [start, end] of the drawing."""

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        return self.start + (value - self.low) / (self.high - self.low) * (self.end - self.start)

    def ticks(self, most: int = 6) -> list[float]:
        """At most `most` + 1 round numbers inside the range, 1, 2 or 5 times a power of ten apart."""
        raw = (self.high - self.low) / most
        power = 10.0 ** math.floor(math.log10(raw))
        step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= raw * (1 - 1e-9))
        first, last = math.ceil(self.low / step - 1e-9), math.floor(self.high / step + 1e-9)
        return [round(i * step, 12) for i in range(first, last + 1)]


def scale(values: Iterable[float], start: float, end: float) -> Scale:
    """A scale for all finite values, with MARGIN of their span free on either side."""
    known = [value for value in values if math.isfinite(value)] or [0.0, 1.0]
    low, high = min(known), max(known)
    room = (high - low) * MARGIN or max(abs(high), 1.0) * 0.05
    return Scale(low - room, high + room, start, end)


def drawing(height: float, label: str, *children: object) -> Html:
    """An SVG, with `label` for those who cannot see it."""
    box = f"0 0 {coordinate(WIDTH)} {coordinate(height)}"
    return tag("svg", *children, viewBox=box, role="img", aria_label=label)


def text(x: float, y: float, words: object, role: str = "tick", anchor: str = "middle") -> Html:
    return tag("text", words, x=x, y=y, class_=role, text_anchor=anchor)


def rule(x1: float, y1: float, x2: float, y2: float, role: str) -> Html:
    return tag("line", x1=x1, y1=y1, x2=x2, y2=y2, class_=role)


def frame(x: Scale, y: Scale, x_label: str, y_label: str, bottom: float, whole: bool = False) -> list[Html]:
    """Grid, ticks and names of both axes. `whole`: x takes whole numbers."""
    parts = [text(4.0, 16.0, y_label, "axis", "start"), text(RIGHT, bottom + 36, x_label, "axis", "end")]
    for tick in y.ticks():
        parts += [rule(LEFT, y(tick), RIGHT, y(tick), "grid"), text(LEFT - 6, y(tick) + 4, f"{tick:g}", anchor="end")]
    for tick in x.ticks():
        if not whole or tick == int(tick):
            parts.append(text(x(tick), bottom + 18, f"{tick:g}"))
    return parts


def path(points: Sequence[Point], stepped: bool = False) -> str:
    """The `d` of a line through the points, interrupted where a coordinate is not finite."""
    parts, pen = [], False
    for x, y in points:
        if not (math.isfinite(x) and math.isfinite(y)):
            pen = False
            continue
        at = f"{coordinate(x)} {coordinate(y)}"
        if not pen:
            parts.append(f"M{at}")
        else:
            parts.append(f"H{coordinate(x)}V{coordinate(y)}" if stepped else f"L{at}")
        pen = True
    return "".join(parts)
