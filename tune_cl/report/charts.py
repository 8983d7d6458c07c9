"""The report's charts, by matplotlib, as SVG that stands in a page: its text has the page's colour."""

from __future__ import annotations

import io
import re
from collections.abc import Mapping
from typing import Any

import matplotlib
from markupsafe import Markup, escape
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from trainables.evaluation.metrics import in_words
from tune_cl.results import Arm, Effects, SearchResult, Verdict
from tune_cl.space.wording import arm_words, setting
from tune_cl.verdict.figures import cut
from tune_cl.verdict.sentences import opponent_words

INK = "#010203"  # stands for the colour of the page's text
CURRICULUM, PLAIN, OTHERS = "#d9591c", "#3f7fe0", "#8b96a3"  # legible on white and on black
WIDTH = 4.8  # inches; a phone shows an inch as 75 pixels, so text of 11 points stays legible
NAME_LENGTH = 56  # characters in a chart
MOST_LINES = 60  # trials of an arm that are drawn
STYLE: dict[Any, Any] = {
    "axes.edgecolor": INK, "axes.facecolor": "none", "axes.labelcolor": INK, "axes.spines.right": False,
    "axes.spines.top": False, "axes.titlecolor": INK, "figure.facecolor": "none", "font.size": 11,
    "grid.alpha": 0.15, "grid.color": INK, "legend.frameon": False, "legend.fontsize": 10, "svg.fonttype": "none",
    "text.color": INK, "text.parse_math": False, "xtick.color": INK, "ytick.color": INK,
}  # fmt: skip

Curves = Mapping[str, Mapping[int, float]]  # dev by iteration, by trial


def svg(figure: Figure, label: str) -> Markup:
    """A figure as an element of a page, with `label` for those who cannot see it."""
    target = io.StringIO()
    with matplotlib.rc_context({"svg.hashsalt": label}):
        metadata = dict.fromkeys(("Creator", "Date", "Format", "Type"))
        figure.savefig(target, format="svg", transparent=True, metadata=metadata, bbox_inches="tight")
    drawn = target.getvalue().replace(INK, "currentColor")
    body = drawn[drawn.index("<svg") :]
    size = re.compile(r' (width|height)="[\d.]+pt"')
    head, _, rest = size.sub("", body, count=2).partition(">")
    return Markup(f'{head} role="img" aria-label="{escape(label)}">{rest}')


def blank(height: float) -> tuple[Figure, Axes]:
    figure = Figure(figsize=(WIDTH, height), layout="constrained")
    axes = figure.add_subplot()
    axes.grid(True)
    return figure, axes


def learning_chart(result: SearchResult, curves: Curves) -> Markup:
    """The dev metric over iterations: a line for each trial, the best of each arm on top."""
    with matplotlib.rc_context(STYLE):
        figure, axes = blank(3.4)
        draw_curves(axes, result, curves)
        return svg(figure, "Learning curves on dev")


def draw_curves(axes: Axes, result: SearchResult, curves: Curves, others: bool = True) -> None:
    """`others`: also trials that are not the best of their arm."""
    arms: list[tuple[Arm, str | None, str]] = [
        ("plain", result.best_plain, PLAIN),
        ("curriculum", result.best_curriculum, CURRICULUM),
    ]
    for arm, best, colour in arms:
        trials = sorted(result.of_arm(arm), key=lambda trial: -(trial.dev or 0.0))[:MOST_LINES]
        for trial in trials if others else ():
            if trial.trial_id != best and (curve := curves.get(trial.trial_id)):
                axes.plot([*curve], [*curve.values()], color=colour, linewidth=0.8, alpha=0.45)
        if best and (curve := curves.get(best)):
            label = f"best {arm_words(arm, result.over_curricula)} ({best})"
            marker = "o" if len(curve) == 1 else None
            axes.plot([*curve], [*curve.values()], color=colour, linewidth=2.4, label=label, marker=marker)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_xlabel("iteration")
    axes.set_ylabel(f"dev {in_words(result.metric)}")
    axes.legend(loc="best")


def forest_chart(verdict: Verdict) -> Markup:
    """The curriculum's difference from each opponent: its interval, and a dot for each seed."""
    with matplotlib.rc_context(STYLE):
        figure, axes = blank(0.9 + 0.75 * len(verdict.opponents))
        draw_forest(axes, verdict)
        return svg(figure, f"Differences from each opponent on {verdict.split}")


def draw_forest(axes: Axes, verdict: Verdict) -> None:
    for place, one in enumerate(verdict.opponents):
        low, high = one.ci95 or (one.difference, one.difference)
        of_seeds = [value - other for value, other in zip(verdict.curriculum.values, one.values, strict=False)]
        axes.scatter(of_seeds, [place + 0.2] * len(of_seeds), s=14, color=OTHERS, zorder=2)
        axes.plot([low, high], [place, place], color=CURRICULUM, linewidth=2.5, zorder=3)
        axes.plot([one.difference], [place], "o", color=CURRICULUM, markersize=7, zorder=3)
        name = cut(opponent_words(verdict, one), NAME_LENGTH)
        axes.text(0, place - 0.25, name, transform=axes.get_yaxis_transform(), fontsize=10)
    axes.axvline(0, color=INK, linewidth=1, linestyle="--", zorder=1)
    axes.set_yticks([])
    axes.set_ylim(len(verdict.opponents) - 0.45, -0.7)
    axes.spines["left"].set_visible(False)
    axes.xaxis.set_major_locator(MaxNLocator(5))
    axes.set_xlabel(f"{in_words(verdict.metric)} on {verdict.split}, less the opponent's, 95 % CI")


def value_chart(effects: Effects) -> Markup:
    """The mean effect of the curricula with each value of a key; a dashed line: the mean over all pairs."""
    with matplotlib.rc_context(STYLE):
        figure, axes = blank(0.9 + 0.28 * len(effects.by_value))
        for place, one in enumerate(effects.by_value):
            axes.plot(one.ci95, [place, place], color=CURRICULUM, linewidth=2.2)
            axes.plot([one.effect], [place], "o", color=CURRICULUM, markersize=6)
        names = [cut(f"{setting(one.key, one.value)} ({one.pairs})", 30) for one in effects.by_value]
        axes.set_yticks(range(len(names)), names)
        axes.set_ylim(len(names) - 0.5, -0.5)
        axes.axvline(0, color=INK, linewidth=1)
        axes.axvline(effects.mean, color=PLAIN, linewidth=1.2, linestyle="--")
        axes.xaxis.set_major_locator(MaxNLocator(5))
        axes.set_xlabel(f"{in_words(effects.metric)} on {effects.split}: mean effect, 95 % CI")
        return svg(figure, "Mean effect by value")
