"""The report's charts as SVG. They are 480 wide, so that text stays legible on a phone and two fit side by side."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from textwrap import wrap

from markupsafe import Markup, escape

from trainables.core.prose import counted
from trainables.evaluation.metrics import in_words
from tune_cl.report.document import EffectsPart, MainFacts, SeedRow, TrialCurve
from tune_cl.report.wording import cut, interval_words, number, signed

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
    finite = [value for value in values if math.isfinite(value)] or [0.0, 1.0]
    low, high = min(finite), max(finite)
    room = (high - low) * MARGIN or max(abs(high), 1.0) * 0.05
    return Scale(low - room, high + room, start, end)


def tag(name: str, *children: Markup | str | None, **attributes: object) -> Markup:
    """An element. Texts are escaped; None among children or attributes is left out.

    `class_` gives `class`, `data_tip` gives `data-tip`. Floats are coordinates.
    """
    given = {key.rstrip("_").replace("_", "-"): value for key, value in attributes.items() if value is not None}
    shown = {key: coordinate(value) if isinstance(value, float) else value for key, value in given.items()}
    text = "".join(f' {key}="{escape(value)}"' for key, value in shown.items())
    return Markup(f"<{name}{text}>{''.join(escape(child) for child in children if child is not None)}</{name}>")


def coordinate(value: float) -> str:
    """A length in an SVG: tenths of a pixel suffice and keep the file small."""
    return f"{value:.1f}".removesuffix(".0")


def drawing(height: float, label: str, *children: Markup | str | None) -> Markup:
    """An SVG, with `label` for those who cannot see it."""
    box = f"0 0 {coordinate(WIDTH)} {coordinate(height)}"
    return tag("svg", *children, viewBox=box, role="img", aria_label=label)


def text(x: float, y: float, words: str, role: str = "tick", anchor: str = "middle") -> Markup:
    return tag("text", words, x=x, y=y, class_=role, text_anchor=anchor)


def rule(x1: float, y1: float, x2: float, y2: float, role: str) -> Markup:
    return tag("line", x1=x1, y1=y1, x2=x2, y2=y2, class_=role)


def frame(x: Scale, y: Scale, x_label: str, y_label: str, bottom: float) -> list[Markup]:
    """Grid, ticks and names of both axes; x takes whole numbers."""
    parts = [text(4.0, 16.0, y_label, "axis", "start"), text(RIGHT, bottom + 36, x_label, "axis", "end")]
    for tick in y.ticks():
        parts += [rule(LEFT, y(tick), RIGHT, y(tick), "grid"), text(LEFT - 6, y(tick) + 4, f"{tick:g}", anchor="end")]
    for tick in x.ticks():
        if tick == int(tick):
            parts.append(text(x(tick), bottom + 18, f"{tick:g}"))
    return parts


def path(points: Sequence[Point]) -> str:
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
            parts.append(f"L{at}")
        pen = True
    return "".join(parts)


HEIGHT = 300.0
ROW = 40.0  # height of a row in charts of rows
FOREST_ROW = 26.0  # of a forest
NAME_LINE, SEED_ROW = 17.0, 34.0  # heights in a chart of seeds: of a line of a name, and of what is below it
NAME_LENGTH = 54  # characters of a line
NAMES = 160.0  # room for their names
FOREST_NAMES = 222.0  # room for a key, its value and the number of pairs
MOST_BARS = int(RIGHT - LEFT)  # of a strip: one for each pixel
ORDER = ("failed", "plain", "trial", "baseline", "best")  # later ones are drawn on top


@dataclass(frozen=True)
class Mark:
    """A mark on a line; its `role` is curriculum (a dot) or stopped (a cross)."""

    at: Point
    role: str
    tip: str


@dataclass(frozen=True)
class Line:
    """One trial's values; `role` is one of ORDER."""

    trial: str | None
    role: str
    tip: str
    points: Sequence[Point]
    marks: Sequence[Mark] = ()
    twin: str | None = None  # the other trial of its pair, which stands out with it


def line_chart(lines: Sequence[Line], x_label: str, y_label: str) -> Markup:
    """Lines over a common x of whole numbers."""
    points = [point for line in lines for point in line.points]
    bottom = HEIGHT - BOTTOM
    x = scale((at for at, _ in points), LEFT, RIGHT)
    y = scale([value for _, value in points], bottom, TOP)
    parts = frame(x, y, x_label, y_label, bottom)
    for line in sorted(lines, key=lambda line: ORDER.index(line.role)):
        parts.append(_line(line, x, y))
    return drawing(HEIGHT, f"{y_label} over {x_label}", *parts)


def _line(line: Line, x: Scale, y: Scale) -> Markup:
    """The line with its marks, and a wider invisible line that is easier to point at."""
    d = path([(x(at), y(value)) for at, value in line.points])
    strokes = [tag("path", d=d, class_="hit"), tag("path", d=d, class_="stroke")]
    marks = [_mark(mark, x(mark.at[0]), y(mark.at[1])) for mark in line.marks if math.isfinite(mark.at[1])]
    data = {"data_trial": line.trial, "data_twin": line.twin, "data_tip": line.tip}
    return tag("g", *strokes, *marks, class_=f"line {line.role}", **data)


def _mark(mark: Mark, x: float, y: float) -> Markup:
    if mark.role == "stopped":
        cross = path([(x - 4, y - 4), (x + 4, y + 4), (math.nan, 0), (x - 4, y + 4), (x + 4, y - 4)])
        return tag("path", d=cross, class_="cross", data_tip=mark.tip)
    return tag("circle", cx=x, cy=y, r=4.0, class_=mark.role, data_tip=mark.tip)


def seed_chart(rows: Sequence[SeedRow], level: float, x_label: str) -> Markup:
    """A row for each configuration: a dot for each seed, the mean and its interval. `level`: a dashed line."""
    names = [wrap(row.name, NAME_LENGTH) for row in rows]
    heights = [NAME_LINE * len(lines) + SEED_ROW for lines in names]
    bottom = 12 + sum(heights)
    x = scale([level, *(end for row in rows for end in (row.low, row.high, *row.values.values()))], 16.0, RIGHT)
    parts = [*_row_grid(x, x_label, bottom), rule(x(level), 8.0, x(level), bottom, "level")]
    for row, lines, top in zip(rows, names, accumulate(heights, initial=12.0), strict=False):
        at = top + NAME_LINE * len(lines)
        name = [text(4.0, top + NAME_LINE * (i + 0.8), line, "name halo", "start") for i, line in enumerate(lines)]
        bar = None if math.isnan(row.low) else rule(x(row.low), at + 22, x(row.high), at + 22, "bar")
        dots = [
            tag("circle", cx=x(value), cy=at + 8, r=3.0, class_="dot seed", data_tip=f"seed {seed}: {number(value)}")
            for seed, value in row.values.items()
        ]
        dots += [bar, tag("circle", cx=x(row.mean), cy=at + 22, r=4.5, class_="dot")]
        tip = f"{row.name}: mean {number(row.mean)}"
        parts += [tag("g", *dots, class_=f"interval {row.role}", data_tip=tip), *name]
    return drawing(bottom + 44, f"{x_label} by configuration and seed", *parts)


def forest_chart(effects: EffectsPart, x_label: str) -> Markup:
    """A row for each value of a key: its mean effect and interval. A dashed line: the mean over all pairs."""
    rows, mean = effects.by_value, effects.mean
    bottom = 12 + FOREST_ROW * len(rows)
    x = scale([0.0, mean, *(end for row in rows for end in row.ci95)], FOREST_NAMES, RIGHT)
    parts = _row_grid(x, x_label, bottom)
    parts += [rule(x(0.0), 8.0, x(0.0), bottom, "zero"), rule(x(mean), 8.0, x(mean), bottom, "level")]
    for place, row in enumerate(rows):
        middle, (low, high) = 12 + FOREST_ROW * (place + 0.5), row.ci95
        name = f"{row.name} ({row.pairs})"
        tip = f"{row.name}, {counted(row.pairs, 'pair')}: {signed(row.effect)} {interval_words(row.ci95)}"
        bar = rule(x(low), middle, x(high), middle, "bar")
        dot = tag("circle", cx=x(row.effect), cy=middle, r=4.5, class_="dot")
        label = text(FOREST_NAMES - 10, middle + 4, cut(name, 32), "name", "end")
        parts.append(tag("g", label, bar, dot, class_="interval best", data_tip=tip))
    return drawing(bottom + 44, f"{x_label} by value", *parts)


def _row_grid(x: Scale, x_label: str, bottom: float) -> list[Markup]:
    parts = [text(RIGHT, bottom + 38, x_label, "axis", "end")]
    for tick in x.ticks():
        parts += [rule(x(tick), 8.0, x(tick), bottom, "grid")]
        parts.append(text(min(x(tick), RIGHT - 6), bottom + 18, f"{tick:g}"))  # else the last is cut off on a phone
    return parts


# -- lines of trials -----------------------------------------------------------------------------------------------


def learning_chart(facts: MainFacts) -> Markup:
    """The dev metric over iterations, with a line for each trial."""
    lines = [_line_of(curve, curve.dev, [*_marks(curve)]) for curve in facts.curves if curve.dev]
    return line_chart(lines, "iteration", f"dev {in_words(facts.metric)}")


def _marks(curve: TrialCurve) -> Iterator[Mark]:
    """Where the curriculum is over, and where the trial was stopped."""
    dev, past = curve.dev, curve.curriculum_over
    if past in dev:
        yield Mark((past, dev[past]), "curriculum", f"{curve.name}: curriculum over at iteration {past}")
    if curve.outcome == "stopped_early" and dev:
        yield Mark((max(dev), dev[max(dev)]), "stopped", f"{curve.name}: {curve.reason or 'stopped early'}")


def _line_of(curve: TrialCurve, values: Mapping[int, float], marks: Sequence[Mark] = ()) -> Line:
    best, ended = curve.best, curve.outcome.replace("_", " ")
    reached = f"best {number(best.dev)} at iteration {best.iteration}" if best else "no dev value"
    tip = f"{curve.name}: {reached}; {ended}"
    return Line(curve.trial, curve.role, tip, list(values.items()), marks, curve.twin)


def pacing_chart(facts: MainFacts) -> Markup:
    """The share of the training data that was open, as reported by the trials."""
    lines = [_line_of(curve, curve.available_share) for curve in facts.curves if curve.available_share]
    return line_chart(lines, "iteration", "fraction of the training data available")
