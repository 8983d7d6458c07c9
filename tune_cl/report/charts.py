"""The drawings of the report, from plain numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from trainables.counting import counted
from tune_cl.report.markup import Html, cut, number, tag
from tune_cl.report.svg import BOTTOM, LEFT, RIGHT, TOP, Point, Scale, drawing, frame, path, rule, scale, text

HEIGHT = 300.0
ROW = 40.0  # height of a row in charts of rows
NAMES = 160.0  # room for their names
MOST_BARS = int(RIGHT - LEFT)  # of a strip: one for each pixel
ORDER = ("failed", "trial", "baseline", "best")  # later ones are drawn on top


@dataclass(frozen=True)
class Mark:
    """A mark on a line; its `role` is curriculum (a dot), stopped (a cross) or found (a ring)."""

    at: Point
    role: str
    tip: str


@dataclass(frozen=True)
class Line:
    """One trial's values; `role` is one of ORDER."""

    trial: str
    role: str
    tip: str
    points: Sequence[Point]
    marks: Sequence[Mark] = ()


@dataclass(frozen=True)
class Interval:
    """A mean and the ends of its confidence interval, which are NaN if there is none."""

    mean: float
    low: float
    high: float


def line_chart(
    lines: Sequence[Line],
    x_label: str,
    y_label: str,
    stepped: bool = False,
    level: float | None = None,
    whole: bool = True,
) -> Html:
    """Lines over a common x. `level`: the y of a dashed line, the baseline's value."""
    points = [point for line in lines for point in line.points]
    bottom = HEIGHT - BOTTOM
    x = scale((at for at, _ in points), LEFT, RIGHT)
    heights = [value for _, value in points] + ([] if level is None else [level])
    y = scale(heights, bottom, TOP)
    parts = frame(x, y, x_label, y_label, bottom, whole)
    if level is not None:
        parts.append(rule(LEFT, y(level), RIGHT, y(level), "level"))
    for line in sorted(lines, key=lambda line: ORDER.index(line.role)):
        parts.append(_line(line, x, y, stepped))
    return drawing(HEIGHT, f"{y_label} over {x_label}", *parts)


def _line(line: Line, x: Scale, y: Scale, stepped: bool) -> Html:
    """The line with its marks, and a wider invisible line that is easier to point at."""
    d = path([(x(at), y(value)) for at, value in line.points], stepped)
    strokes = [tag("path", d=d, class_="hit"), tag("path", d=d, class_="stroke")]
    marks = [_mark(mark, x(mark.at[0]), y(mark.at[1])) for mark in line.marks if math.isfinite(mark.at[1])]
    return tag("g", *strokes, *marks, class_=f"line {line.role}", data_trial=line.trial, data_tip=line.tip)


def _mark(mark: Mark, x: float, y: float) -> Html:
    if mark.role == "stopped":
        cross = path([(x - 4, y - 4), (x + 4, y + 4), (math.nan, 0), (x - 4, y + 4), (x + 4, y - 4)])
        return tag("path", d=cross, class_="cross", data_tip=mark.tip)
    return tag("circle", cx=x, cy=y, r=4.0, class_=mark.role, data_tip=mark.tip)


def interval_chart(names: Sequence[str], pairs: Sequence[tuple[Interval, Interval]], x_label: str) -> Html:
    """A row for each group, with two means and their intervals: (best, baseline)."""
    bottom = 12 + ROW * len(names)
    x = scale([end for pair in pairs for it in pair for end in (it.mean, it.low, it.high)], NAMES, RIGHT)
    parts = _row_grid(x, x_label, bottom)
    for row, (name, pair) in enumerate(zip(names, pairs, strict=True)):
        middle = 12 + ROW * (row + 0.5)
        parts.append(_row_name(name, middle))
        for role, offset, it in (("best", -6, pair[0]), ("baseline", 6, pair[1])):
            tip = f"{name}, {role}: {number(it.mean)} [{number(it.low)}, {number(it.high)}]"
            bar = None if math.isnan(it.low) else rule(x(it.low), middle + offset, x(it.high), middle + offset, "bar")
            dot = tag("circle", cx=x(it.mean), cy=middle + offset, r=4.5, class_="dot")
            parts.append(tag("g", bar, dot, class_=f"interval {role}", data_tip=tip))
    return drawing(bottom + 44, f"{x_label} by group", *parts)


def share_chart(names: Sequence[str], shares: Sequence[float], chances: Sequence[float], x_label: str) -> Html:
    """Rows with a bar from 0 to the share, and a tick at what chance reaches."""
    bottom = 12 + ROW * len(names)
    x = Scale(0.0, max([*shares, *chances, 0.05]) * 1.05, NAMES, RIGHT)
    parts = _row_grid(x, x_label, bottom)
    for row, (name, share, chance) in enumerate(zip(names, shares, chances, strict=True)):
        middle = 12 + ROW * (row + 0.5)
        above = "best" if share > chance else "trial"
        tip = f"{name}: {number(share, 2)}; chance stays below {number(chance, 2)} in 95 of 100 cases"
        bar = tag("rect", x=x(0), y=middle - 8, width=x(share) - x(0), height=16.0, class_=f"share {above}")
        limit = rule(x(chance), middle - 13, x(chance), middle + 13, "chance")
        parts += [_row_name(name, middle), tag("g", bar, limit, data_tip=tip)]
    return drawing(bottom + 44, x_label, *parts)


def _row_grid(x: Scale, x_label: str, bottom: float) -> list[Html]:
    parts = [text(RIGHT, bottom + 38, x_label, "axis", "end")]
    for tick in x.ticks():
        parts += [rule(x(tick), 8.0, x(tick), bottom, "grid")]
        parts.append(text(min(x(tick), RIGHT - 6), bottom + 18, f"{tick:g}"))  # else the last is cut off on a phone
    return parts


def _row_name(name: str, middle: float) -> Html:
    return tag("g", text(NAMES - 10, middle + 4, cut(name, 18), "name", "end"), data_tip=name)


def strip_chart(differences: np.ndarray, y_label: str) -> Html:
    """The differences of queries [Q], sorted, as bars from zero; if there are many, several queries share a bar."""
    columns, each, count = bars(differences), queries_a_bar(len(differences)), len(differences)
    bottom = HEIGHT - BOTTOM
    x, y = Scale(0, count, LEFT, RIGHT), scale([*columns, 0.0], bottom, TOP)
    parts = [text(4.0, 16.0, y_label, "axis", "start"), text(RIGHT, bottom + 30, _queries(differences), "axis", "end")]
    for tick in y.ticks():
        parts += [rule(LEFT, y(tick), RIGHT, y(tick), "grid"), text(LEFT - 6, y(tick) + 4, f"{tick:g}", anchor="end")]
    for role, sign in (("gain", 1), ("loss", -1)):
        signed = [(i * each, value) for i, value in enumerate(columns) if sign * value > 0]
        rows = [(x(start), x(min(start + each, count)), y(value)) for start, value in signed]
        d = "".join(path([(a, y(0)), (a, top), (b, top), (b, y(0))]) + "Z" for a, b, top in rows)
        parts.append(tag("path", d=d, class_=role))
    return drawing(HEIGHT, y_label, *parts, rule(LEFT, y(0), RIGHT, y(0), "zero"))


def queries_a_bar(count: int) -> int:
    """How many queries share a bar of a strip with `count` queries."""
    return math.ceil(count / MOST_BARS)


def bars(differences: np.ndarray) -> list[float]:
    """The heights of a strip's bars, the largest gain first: means over neighbouring queries, equally many in each bar
    but the last."""
    values, each = np.sort(differences)[::-1], queries_a_bar(len(differences))
    return [float(values[start : start + each].mean()) for start in range(0, len(values), each)]


def _queries(values: np.ndarray) -> str:
    gained, lost = int((values > 0).sum()), int((values < 0).sum())
    return f"{counted(gained, 'query')} gained, {lost} lost, {len(values) - gained - lost} unchanged"
