"""Parallel coordinates, turned so that a phone can show them: each axis is a row, each trial a line from top to
bottom."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tune_cl.report.markup import Html, cut, key_name, number, plain, tag
from tune_cl.report.svg import RIGHT, Scale, drawing, path, rule, scale, text
from tune_cl.search.leaves import Integer, Leaf, LogUniform, Range

START, END, ABSENT = 18.0, 396.0, 446.0
ROW = 72.0
LETTER = 8.0  # width of a letter on a phone
ABSENT_NAME = "absent"


@dataclass(frozen=True)
class Traveller:
    """A trial as a line. `chosen`: its opened parameters that exist; `place`: its rank from 0 (worst) to 1."""

    trial: str
    number: int
    chosen: Mapping[str, Any]
    dev: float
    place: float
    tip: str


@dataclass(frozen=True)
class Axis:
    """Where one parameter's values are: choices by name, numbers by `scale` (`whole`: whole numbers)."""

    key: str
    positions: Mapping[str, float]
    scale: Scale | None
    log: bool = False
    whole: bool = False

    def __call__(self, chosen: Mapping[str, Any]) -> float:
        if self.key not in chosen:
            return ABSENT
        value = chosen[self.key]
        if self.scale is None:
            return self.positions[plain(value)]
        return self.scale(math.log10(value) if self.log else value)

    def ticks(self) -> list[tuple[float, str]]:
        if self.scale is None:
            return [(x, name) for name, x in self.positions.items()]
        ticks = [tick for tick in self.scale.ticks() if not self.whole or tick == int(tick)]
        return [(self.scale(tick), f"{10**tick:.3g}" if self.log else f"{tick:g}") for tick in ticks]


def axis_of(key: str, leaf: Leaf, travellers: Sequence[Traveller]) -> Axis:
    """The axis of an opened parameter: its listed values evenly spaced, or the range that the trials cover."""
    seen = [traveller.chosen[key] for traveller in travellers if key in traveller.chosen]
    if isinstance(leaf, Range):
        log, whole = isinstance(leaf, LogUniform), isinstance(leaf, Integer)
        return Axis(key, {}, scale([math.log10(value) if log else value for value in seen], START, END), log, whole)
    names = list(dict.fromkeys(map(plain, [*(leaf.values() or ()), *seen])))
    step = (END - START) / max(len(names) - 1, 1)
    return Axis(key, {name: START + i * step for i, name in enumerate(names)}, None)


def parallel_chart(leaves: Mapping[str, Leaf], travellers: Sequence[Traveller], metric: str) -> Html:
    """All opened parameters and the dev value; the better a trial's rank, the stronger its colour."""
    axes = [axis_of(key, leaf, travellers) for key, leaf in leaves.items()]
    values = scale([traveller.dev for traveller in travellers], START, END)
    heights = [44 + ROW * row for row in range(len(axes) + 1)]
    parts = []
    for traveller in sorted(travellers, key=lambda traveller: traveller.place):
        nudge = traveller.number * 7 % 13 - 6.0  # keeps lines through the same choices apart
        across = [axis(traveller.chosen) + (0 if axis.scale else nudge) for axis in axes]
        points = list(zip(across, heights[:-1], strict=True))
        parts.append(_travel([*points, (values(traveller.dev), heights[-1])], traveller))
    for axis, y in zip(axes, heights[:-1], strict=True):
        absent = any(axis.key not in traveller.chosen for traveller in travellers)
        parts += _axis(key_name(axis.key), axis.ticks(), y, absent)
    parts += _axis(f"dev {metric}", [(values(tick), f"{tick:g}") for tick in values.ticks()], heights[-1], False)
    return drawing(heights[-1] + 34, "parameters and dev value of each trial", *parts)


def _travel(points: Sequence[tuple[float, float]], traveller: Traveller) -> Html:
    d = path(points)
    colour = f"--mix:{100 * traveller.place:.0f}%"
    tip = f"{traveller.tip}: {number(traveller.dev)}"
    strokes = [tag("path", d=d, class_="hit"), tag("path", d=d, class_="stroke")]
    return tag("g", *strokes, class_="line way", style=colour, data_trial=traveller.trial, data_tip=tip)


def _axis(name: str, ticks: Sequence[tuple[float, str]], y: float, absent: bool) -> list[Html]:
    parts = [rule(START - 10, y, END + 10, y, "zero"), text(START - 10, y - 10, name, "axis halo", "start")]
    apart = (END - START) / max(len(ticks) - 1, 1)
    crowded = LETTER * max((len(label) for _, label in ticks), default=0) > apart / 1.5  # outer labels shift inward
    fits = int((2 if crowded else 1) * apart / 1.5 / LETTER)
    for i, (x, label) in enumerate(ticks):
        anchor = "start" if x < START + 25 else "end" if x > END - 25 else "middle"
        at = x - 8 if anchor == "start" else x + 8 if anchor == "end" else x
        below = y + 18 + (14 if crowded and i % 2 else 0)
        parts += [rule(x, y - 4, x, y + 4, "zero"), text(at, below, cut(label, max(fits, 4)), "tick halo", anchor)]
    if absent:
        parts += [tag("circle", cx=ABSENT, cy=y, r=3.0, class_="ring")]
        parts += [text(RIGHT, y + 18, ABSENT_NAME, "tick halo", "end")]
    return parts
