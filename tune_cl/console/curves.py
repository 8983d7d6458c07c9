"""Pictures of curves over time, one of which may be the one asked for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from matplotlib.figure import Figure

from tune_cl.console.plots import save_figure


@dataclass(frozen=True)
class Curve:
    """`points`: (x, y), with rising x. The `asked` curve stands out from the others."""

    label: str
    points: Sequence[tuple[float, float]]
    asked: bool = False


def save_curves(path: Path, title: str, x_label: str, y_label: str, curves: Sequence[Curve]) -> None:
    """Writes curves of values in [0, 1] as PNG or SVG; the legend runs from the highest curve to the lowest."""
    figure = Figure(figsize=(7.2, 4), layout="constrained")
    axes = figure.add_subplot(title=title, xlabel=x_label, ylabel=y_label, ylim=(0, 1.03))
    axes.margins(x=0)
    axes.grid(alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)
    for curve in sorted(curves, key=lambda curve: -sum(y for _, y in curve.points)):
        width, opacity = (3.0, 1.0) if curve.asked else (1.2, 0.75)
        axes.plot(*zip(*curve.points, strict=True), lw=width, alpha=opacity, label=curve.label, zorder=2 + curve.asked)
    figure.legend(loc="outside right center", frameon=False)
    save_figure(figure, path)
