"""Pictures that commands write with `--plot FILE`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from trainables.core.errors import ConfigError, Problem
from trainables.core.files import output_file, replacing, require_file

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FORMATS = (".png", ".svg")


def require_format(path: Path) -> None:
    """Raises ConfigError unless the file can be written and its name ends in .png or .svg."""
    if path.suffix.lower() not in FORMATS:
        raise ConfigError(Problem("--plot", f"'{path}' names no format", f"a file ending in {' or '.join(FORMATS)}"))
    require_file("--plot", path)


def save_figure(figure: Figure, path: Path) -> None:
    """Writes PNG or SVG, by the suffix, atomically; creates the folder. Text in an SVG stays text."""
    from matplotlib import rc_context  # here: a command that draws nothing checks `--plot` with this module, too

    kind = path.suffix.lower().removeprefix(".")
    with (
        output_file(path) as file,
        replacing(file) as temporary,
        rc_context({"svg.fonttype": "none", "svg.hashsalt": "tune-cl"}),  # pyright: ignore[reportArgumentType]
    ):
        figure.savefig(temporary, format=kind, dpi=120, metadata={"Date": None} if kind == "svg" else {})


@dataclass(frozen=True)
class Curve:
    """`points`: (x, y), with rising x. The `asked` curve stands out from the others."""

    label: str
    points: Sequence[tuple[float, float]]
    asked: bool = False


def save_curves(path: Path, title: str, x_label: str, y_label: str, curves: Sequence[Curve]) -> None:
    """Writes curves of values in [0, 1] as PNG or SVG; the legend runs from the highest curve to the lowest."""
    from matplotlib.figure import Figure  # here: most commands draw nothing

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
