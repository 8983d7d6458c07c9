"""Draws pacings.svg and weights.svg, the pictures of docs/reference/curricula.md: `python docs/images/curves.py`."""

from __future__ import annotations

from pathlib import Path

import matplotlib
import numpy as np
from matplotlib.figure import Figure

from trainables.curriculum.pacing import PACINGS, Schedule
from trainables.curriculum.weighting import weights

matplotlib.rcParams |= {"svg.fonttype": "none", "svg.hashsalt": "tune-cl"}


def save(name: str, title: str, x_label: str, y_label: str, curves: dict[str, tuple[np.ndarray, list[float]]]) -> None:
    """Writes the curves, highest first, as SVG."""
    figure = Figure(figsize=(7.2, 4), layout="constrained")
    axes = figure.add_subplot(title=title, xlabel=x_label, ylabel=y_label, ylim=(0, 1.03))
    axes.margins(x=0)
    axes.grid(alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)
    for label, (x, y) in sorted(curves.items(), key=lambda item: -sum(item[1][1])):
        axes.plot(x, y, lw=1.6, label=label)
    figure.legend(loc="outside right center", frameon=False)
    figure.savefig(Path(__file__).with_name(name), metadata={"Date": None})


steps, iterations = np.linspace(0, 1100, 221), np.arange(25)
pacings = [(name, n) for name in PACINGS if name != "none" for n in ((2, 5, 10) if name == "root" else (2,))]
shares = {f"root {n}" if name == "root" else name: Schedule(name, 1000, n=n) for name, n in pacings}
save(
    "pacings.svg", "Share of the training data available (δ = 0.33, T = 1000)", "step", "share",
    {label: (steps, [schedule.share(step) for step in steps]) for label, schedule in shares.items()},
)  # fmt: skip
save(
    "weights.svg", "Weight of a sample (m = 20)", "iteration", "weight",
    {f"D = {ease:g}": (iterations, [float(weights(np.asarray(ease), i, 20)) for i in iterations])
     for ease in (0, 0.25, 0.5, 0.75, 1)},
)  # fmt: skip
