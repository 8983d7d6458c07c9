"""The report's charts, by matplotlib and Optuna, as SVG that stands in a page: its text has the page's colour."""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import matplotlib
from markupsafe import Markup, escape
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from trainables.evaluation.metrics import in_words
from tune_cl.results import Arm, Effects, SearchResult, Verdict
from tune_cl.space.wording import arm_words, setting
from tune_cl.verdict.figures import cut
from tune_cl.verdict.sentences import opponent_words

if TYPE_CHECKING:
    from optuna import Study

INK = "#010203"  # stands for the colour of the page's text
CURRICULUM, PLAIN, OTHERS = "#d9591c", "#3f7fe0", "#8b96a3"  # legible on white and on black
WIDTH = 4.8  # inches; a phone shows an inch as 75 pixels, so text of 11 points stays legible
NAME_LENGTH = 56  # characters in a chart
MOST_LINES = 60  # trials of an arm that are drawn
FEWEST_TRIALS = 4  # of which Optuna can say what matters
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


def pair_chart(effects: Effects) -> Markup:
    """The difference of each pair, sorted, the largest first."""
    differences = sorted((sum(one.differences) / len(one.differences) for one in effects.by_pair), reverse=True)
    with matplotlib.rc_context(STYLE):
        figure, axes = blank(2.6)
        colours = [CURRICULUM if difference > 0 else PLAIN for difference in differences]
        axes.bar(range(1, len(differences) + 1), differences, color=colours, width=0.7)
        axes.axhline(0, color=INK, linewidth=1)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.set_xlabel("pairs, sorted")
        axes.set_ylabel(f"{in_words(effects.metric)} on {effects.split}, less twin")
        return svg(figure, "Difference of each pair")


def settings_charts(study: Study, result: SearchResult) -> list[tuple[str, Markup]]:
    """Optuna's parallel coordinates and importances of the keys that every curriculum has, with their titles; none
    where there is too little to draw. `study`: of the curricula."""
    trials = [trial for trial in result.of_arm("curriculum") if trial.dev is not None and trial.outcome == "completed"]
    keys = [key for key in result.searched("curriculum") if all(key in trial.params for trial in trials)]
    if len(trials) < FEWEST_TRIALS or len(keys) < 2:
        return []
    noun = "curricula" if result.over_curricula else "other trials"
    by_optuna = {
        f"Settings of the {len(trials)} {noun} that ran to the end": "plot_parallel_coordinate",
        "What matters among them": "plot_param_importances",
    }
    name = f"dev {in_words(result.metric)}"
    drawn = [(title, _by_optuna(draw, study, keys, title, name)) for title, draw in by_optuna.items()]
    return [(title, chart) for title, chart in drawn if chart]


def _by_optuna(draw: str, study: Study, keys: Sequence[str], title: str, value_name: str) -> Markup | None:
    """A chart of Optuna's in the page's style; None where its analysis is not possible for these trials."""
    with matplotlib.rc_context(STYLE), warnings.catch_warnings():
        from matplotlib import pyplot
        from optuna.visualization import matplotlib as charts

        warnings.simplefilter("ignore")  # of functions that may change, and of importances from few trials
        try:
            axes: Any = getattr(charts, draw)(study, params=list(keys), target_name=value_name)
        except (RuntimeError, ValueError):  # such as trials whose values are all equal
            return None
        figure = axes.figure
        figure.set_size_inches(0.9 * WIDTH, 3.2)  # names stand outside
        for lines in axes.collections:
            if lines.colorbar:
                lines.set_cmap(LinearSegmentedColormap.from_list("values", [OTHERS, CURRICULUM]))
                lines.colorbar.remove()
        for part in figure.axes:
            _restyle(part, keys)
        drawn = svg(figure, title)
        pyplot.close(figure)
    return drawn


def _restyle(axes: Axes, keys: Sequence[str]) -> None:
    """Optuna draws in a style of its own, with grey grounds and white grids, which a dark page cannot show, and with
    names of keys that leave a phone no room."""
    axes.set_facecolor("none")
    for place in ("left", "center", "right"):
        axes.set_title("", loc=place)
    for axis in (axes.xaxis, axes.yaxis):
        names = [label.get_text() for label in axis.get_ticklabels()]
        if set(keys) & set(names):
            axis.set_ticklabels([name.rpartition(".")[2] if name in keys else name for name in names])
    axes.tick_params(colors=INK)
    axes.grid(visible=False)
    for label in (*axes.get_xticklabels(), *axes.get_yticklabels(), axes.xaxis.label, axes.yaxis.label, *axes.texts):
        label.set_color(INK)
        label.set_fontsize(10)
    for spine in axes.spines.values():
        spine.set_color(INK)
    if legend := axes.get_legend():
        legend.remove()
