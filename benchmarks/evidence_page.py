"""Writes what the studies of evidence.py found into docs/results.md, counts for `tune-cl data`, and draws
docs/images/noise.svg."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib
import yaml
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter
from results import put

from tune_cl.report.markup import p_value, signed

FOLDER = Path(__file__).parent / "evidence"
DOCS = Path(__file__).parents[1] / "docs"
PAGE, PICTURE = DOCS / "results.md", DOCS / "images" / "noise.svg"
COUNTS = DOCS.parent / "tune_cl" / "evidence.json"
BEGIN, END = "<!-- evidence: {} -->\n", "<!-- end of evidence -->"
STUDIES = (  # in the order of their design
    "noise_and_data",
    "kinds_of_noise",
    "anti",
    "order_and_weights",
    "small_data",
    "short_budgets",
    "trees",
    "clean_data",
    "cross_encoder",
)
SHARE, KIND = "data.label_noise.share", "data.label_noise.kind"
WORDS = {  # how a row says the value of a key
    "data": lambda value: value.rpartition("/")[2],
    SHARE: lambda value: f"{value:.0%} wrong",
    KIND: str,
    "ranker.name": str,
    "curriculum.anti": lambda value: "anti" if value else "easy first",
    "data.train_share": lambda value: f"{value:.0%} of the queries",
    "training.max_iterations": lambda value: f"{value} iterations",
}
Row = Mapping[str, Any]


def read_rows(file: Path = FOLDER / "results.jsonl") -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def where(row: Row) -> str:
    parts = [WORDS[key](value) for key, value in row["values"].items()]
    return ", ".join([*parts, *([row["variant"]] if row.get("variant") else [])])


def searches(rows: Iterable[Row]) -> list[Row]:
    return [row for row in rows if "cell" in row]


def cells_of(row: Row) -> list[str]:
    """The cells of a row of a study's table."""
    effect = interval(row)
    if "against" in row:
        return [f"{where(row)} against {row['against']}", "", "", "", "", effect, p_value(row["p_new_adjusted"]), ""]
    counts = [str(row["trials"]), row["label"], str(row["seeds"]), f"{row['plain']:.4f}"]
    return [where(row), *counts, effect, p_value(row["p_new_adjusted"]), f"**{row['verdict']}**"]


def interval(row: Row) -> str:
    if row["ci95_new"] is None:
        return signed(row["difference"])
    low, high = row["ci95_new"]
    return f"{signed(row['difference'])} [{signed(low)}, {signed(high)}]"


def tables(rows: Sequence[Row]) -> Iterator[str]:
    """A section for each study that has rows."""
    for name in STUDIES:
        own = [row for row in rows if row["study"] == name]
        if not own:
            continue
        study = yaml.safe_load((FOLDER / f"{name}.yaml").read_text())
        metrics = ", ".join(dict.fromkeys(row["metric"] for row in searches(own)))
        yield f"### {study['question']}\n"
        yield f"`benchmarks/evidence/{name}.yaml`, {metrics} on test, {minutes(own)}\n"
        yield "| | trials | curriculum | seeds | plain | difference [95 %] | p | |"
        yield "|---|---:|---|---:|---:|---|---:|---|"
        yield from (f"| {' | '.join(cells_of(row))} |" for row in own)
        yield ""


def minutes(rows: Iterable[Row]) -> str:
    return f"{sum(row['seconds'] for row in searches(rows)) / 60:.0f} min"


def answer(rows: Sequence[Row], planned: int) -> str:
    """When does a curriculum help? In three sentences; before all studies have ended, how far they are."""
    found = searches(rows)
    if len(found) < planned:
        return (
            f"The studies are under way: {len(found)} of {planned} searches have ended. The tables hold all of these."
        )
    counts = verdicts(found)
    shown = {kind: "{better} of {searches} searches, worse in {worse}".format(**own) for kind, own in counts.items()}
    return " ".join(
        (
            "Where 40 % or more of the training labels were wrong at random, a curriculum was better than plain "
            f"training, for new queries and new seeds, in {shown['wrong']}.",
            f"Where as many were wrong and matched words of the query, it was better in {shown['lexical']}; with the "
            f"labels as published, in {shown['as dev']}.",
            "In all others no difference is shown. (These counts leave out trees and the searches that test the "
            f"direction of a curriculum; the tables hold all {len(found)} searches that were started, "
            f"{sum(row['trials'] for row in found):,} trials.)",
        )
    )


def verdicts(rows: Iterable[Row]) -> dict[str, dict[str, int]]:
    """Counts of verdicts by what `tune-cl data` would say of the training labels. Left out: trees, and the study that
    allows one direction alone."""
    kinds: dict[str, list[Row]] = {"wrong": [], "lexical": [], "as dev": []}
    for row in searches(rows):
        share = share_of(row)
        if row["study"] in ("trees", "anti") or 0 < share < 0.4:
            continue
        kind = "as dev" if share == 0 else "lexical" if overrides(row).get(KIND) == "hard" else "wrong"
        kinds[kind].append(row)
    return {
        kind: {"searches": len(own), "better": count(own, "better"), "worse": count(own, "worse")}
        for kind, own in kinds.items()
    }


def share_of(row: Row) -> float:
    """Of wrong training labels."""
    return float(overrides(row).get(SHARE, 0))


def overrides(row: Row) -> dict[str, Any]:
    return json.loads(row["identity"])[2]


def count(rows: Iterable[Row], verdict: str) -> int:
    return sum(row["verdict"] == verdict for row in rows)


KINDS = ("swap", "random", "hard")
RANKERS = {"knrm": ("o", "KNRM"), "conv_knrm": ("^", "ConvKNRM")}  # marker and name


def draw(rows: Sequence[Row]) -> None:
    """The difference to plain training by the share of wrong labels, and by their kind."""
    matplotlib.rcParams |= {"svg.fonttype": "none", "svg.hashsalt": "tune-cl"}
    figure = Figure(figsize=(9.6, 3.8), layout="constrained")
    by_share, by_kind = figure.subplots(1, 2, sharey=True)
    own = [row for row in rows if row["study"] == "noise_and_data"]
    names = list(dict.fromkeys(row["values"]["data"] for row in own))
    colours = {name: f"C{index}" for index, name in enumerate(names)}
    for index, name in enumerate(names):
        points = [row for row in own if row["values"]["data"] == name]
        shift = (index - (len(names) - 1) / 2) * 0.015
        draw_series(by_share, [share_of(row) + shift for row in points], points, colours[name], "o")
        by_share.plot([], [], color=colours[name], label=name.rpartition("/")[2])
    kinds = [row for row in rows if row["study"] == "kinds_of_noise"]
    series = list(dict.fromkeys((row["values"]["data"], row["values"]["ranker.name"]) for row in kinds))
    for index, (name, ranker) in enumerate(series):
        points = [row for row in kinds if (row["values"]["data"], row["values"]["ranker.name"]) == (name, ranker)]
        x = [KINDS.index(row["values"][KIND]) + (index - (len(series) - 1) / 2) * 0.12 for row in points]
        draw_series(by_kind, x, points, colours[name], RANKERS[ranker][0])
    for marker, ranker in RANKERS.values():
        by_kind.plot([], [], color="0.4", marker=marker, lw=0, label=ranker)
    by_kind.plot([], [], color="0.4", marker="o", mfc="white", lw=0, label="not shown")
    by_share.set(title="KNRM, swapped labels", xlabel="wrong training labels", ylabel="difference in test MAP, 95 %")
    by_share.xaxis.set_major_formatter(PercentFormatter(1.0))
    by_kind.set(title="half of the training labels wrong", xlabel="kind of wrong labels")
    by_kind.set_xticks(range(len(KINDS)), KINDS)
    for axes in (by_share, by_kind):
        axes.axhline(0, color="black", lw=0.8)
        axes.grid(alpha=0.25)
        axes.spines[["top", "right"]].set_visible(False)
    figure.legend(loc="outside right center", frameon=False)
    figure.savefig(PICTURE, metadata={"Date": None})


def draw_series(axes: Axes, x: Sequence[float], points: Sequence[Row], colour: str, marker: str) -> None:
    """Differences with their intervals; hollow where the verdict is "no difference shown"."""
    for at, row in zip(x, points, strict=True):
        low, high = row["ci95_new"]
        face = "white" if row["verdict"] == "no difference shown" else colour
        axes.errorbar(
            at, row["difference"], [[row["difference"] - low], [high - row["difference"]]],
            color=colour, marker=marker, ms=5, mfc=face, capsize=2, lw=1.2,
        )  # fmt: skip


def write_page(planned: int) -> None:
    """`planned`: searches of all studies."""
    rows = read_rows()
    put(PAGE, BEGIN.format("answer"), END, answer(rows, planned))
    put(PAGE, BEGIN.format("tables"), END, "\n".join(tables(rows)).rstrip())
    COUNTS.write_text(json.dumps(verdicts(rows)) + "\n")
    draw(rows)
