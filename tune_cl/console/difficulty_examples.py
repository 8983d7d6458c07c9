"""What a difficulty looks like: the easiest and hardest instances as text, and the distribution as a picture."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from textwrap import shorten, wrap
from typing import Any

import numpy as np

from trainables.curriculum.sampler import easy_first
from trainables.data.columns import RankingData, Split
from trainables.data.instances import DRAWN, NONE, Instances

SHOWN = 3
DRAWN_ANEW = "(drawn anew each time among the less relevant candidates)"
LETTERS = 300  # of a text
BINS = 40
WIDTH = 110  # of the printed examples
PICTURE_WIDTH, PICTURE_LINES = 62, 3  # of a text in the picture


@dataclass(frozen=True)
class Example:
    """One instance, its texts cut to LETTERS. `label`: relevant, other, or a pair's class."""

    value: float
    query_id: str
    query: str
    document: str
    label: str


def extremes(data: RankingData, split: Split, instances: Instances, values: np.ndarray) -> dict[str, list[Example]]:
    """The SHOWN easiest and hardest instances, on each side of different queries, most extreme first."""
    orders = {"easiest": easy_first(values), "hardest": easy_first(values, anti=True)}
    return {name: [_example(data, split, instances, values, row) for row in _of_queries(instances, order)]
            for name, order in orders.items()}  # fmt: skip


def _of_queries(instances: Instances, order: np.ndarray) -> list[int]:
    """The first SHOWN instances of an order that belong to different queries."""
    _, first = np.unique(instances.query[order], return_index=True)
    return order[np.sort(first)[:SHOWN]].tolist()


def _example(data: RankingData, split: Split, instances: Instances, values: np.ndarray, row: int) -> Example:
    query = int(split.query[instances.query[row]])
    positive = int(instances.fixed_positive[row])
    shown = positive if positive != NONE else int(instances.negative[row])
    document = DRAWN_ANEW if shown == DRAWN else data.documents[int(split.document[shown])]
    texts = [shorten(text, LETTERS, placeholder=" ...") for text in (data.query_text(query), document)]
    label = "other" if positive == NONE else data.classes[split.grade[positive]] if data.classes else "relevant"
    return Example(float(values[row]), data.query_ids[query], *texts, label=label)


def as_document(found: Mapping[str, list[Example]]) -> dict[str, list[dict[str, Any]]]:
    """The examples, for JSON."""
    return {name: [asdict(example) for example in examples] for name, examples in found.items()}


def as_text(found: Mapping[str, list[dict[str, Any]]]) -> str:
    """The examples of a document, a block each."""
    blocks = []
    for name, examples in found.items():
        blocks.append(f"\n{name}:")
        for example in examples:
            lines = [f"  {example['value']:.4g}  {example['query_id']}"]
            lines += _indented("query: ", example["query"]) + _indented(f"{example['label']}: ", example["document"])
            blocks.append("\n".join(lines))
    return "\n".join(blocks)


def _indented(label: str, text: str) -> list[str]:
    return wrap(label + text, WIDTH, initial_indent="    ", subsequent_indent="      ")


def plot_difficulty(path: Path, name: str, values: np.ndarray, found: Mapping[str, list[Example]]) -> None:
    """Writes a histogram of the values, above the examples as text, as PNG or SVG."""
    from matplotlib.figure import Figure

    from tune_cl.console.plots import save_figure

    figure = Figure(figsize=(10, 7.5), layout="constrained")
    axes = figure.subplot_mosaic([["values", "values"], ["easiest", "hardest"]], height_ratios=[1, 1.3])
    _histogram(axes["values"], values)
    axes["values"].set(xlabel=f"{name} (higher = harder)", ylabel="instances")
    axes["values"].set_title(f"Difficulty {name} of {len(values):,} instances", loc="left")
    for side, examples in found.items():
        axes[side].set_axis_off()
        axes[side].set_title(side, loc="left")
        axes[side].text(0, 1, "\n\n".join(map(_caption, examples)), va="top", fontsize=8, parse_math=False)
    save_figure(figure, path)


def _histogram(axes: Any, values: np.ndarray) -> None:
    """A histogram; if there are few distinct values, such as numbers of turns, a bar at each."""
    places, counts = np.unique(values, return_counts=True)
    if len(places) <= BINS:
        gap = np.diff(places).min(initial=np.inf)
        axes.bar(places, counts, width=0.8 * (gap if np.isfinite(gap) else 1.0))
    else:
        axes.hist(values, BINS)
    axes.spines[["top", "right"]].set_visible(False)


def _caption(example: Example) -> str:
    lines = [f"{example.value:.4g}  {example.query_id}"]
    for label, text in (("query", example.query), (example.label, example.document)):
        lines += wrap(f"{label}: {text}", PICTURE_WIDTH, max_lines=PICTURE_LINES, placeholder=" ...")
    return "\n".join(lines)
