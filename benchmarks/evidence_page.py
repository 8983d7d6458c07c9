"""Writes what the studies of evidence.py found into docs/results.md, counts for `tune-cl data`, and draws the studies
into docs/images."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib
import yaml
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter
from results import put

from trainables.evaluation.significance import adjust
from tune_cl.confirmation.verdict import LEVEL, Verdict
from tune_cl.report.markup import p_value, signed

FOLDER = Path(__file__).parent / "evidence"
DOCS = Path(__file__).parents[1] / "docs"
PAGE, PICTURES = DOCS / "results.md", DOCS / "images"
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
REPLICATIONS = "replications"
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
Replication = tuple[Row, float, Verdict]


def read_rows(file: Path = FOLDER / "results.jsonl") -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def where(row: Row) -> str:
    parts = [WORDS[key](value) for key, value in row["values"].items()]
    variant = [row["variant"] + (f" against {row['against']}" if "against" in row else "")] if row["variant"] else []
    return ", ".join([*parts, *variant])


def picture_of(study: str) -> Path:
    return PICTURES / f"evidence-{study.replace('_', '-')}.svg"


def searches(rows: Iterable[Row]) -> list[Row]:
    return [row for row in rows if "cell" in row and row["study"] != REPLICATIONS]


def cells_of(row: Row) -> list[str]:
    """The cells of a row of a study's table."""
    effect = interval(row)
    if "against" in row:
        return [where(row), "", "", "", "", effect, "", p_value(row["p_new_adjusted"]), ""]
    counts = [str(row["trials"]), row["label"], str(row["seeds"]), f"{row['plain']:.4f}"]
    detectable, p = f"{row['detectable']:.4f}", p_value(row["p_new_adjusted"])
    return [where(row), *counts, effect, detectable, p, f"**{row['verdict']}**"]


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
        yield f"![Difference to plain training, with its interval, of each search](images/{picture_of(name).name})\n"
        yield "| | trials | curriculum | seeds | plain | difference [95 %] | detectable | p | |"
        yield "|---|---:|---|---:|---:|---|---:|---:|---|"
        yield from (f"| {' | '.join(cells_of(row))} |" for row in own)
        yield ""
    yield from table_of_replications(replications(rows))


def table_of_replications(again: Sequence[Replication]) -> Iterator[str]:
    """The table of what was tested again, if there is any."""
    if not again:
        return
    yield "### Does what was found better or worse hold for fresh seeds?\n"
    yield "| | curriculum | first | difference | fresh seeds | plain | difference [95 %] | p | |"
    yield "|---|---|---|---:|---:|---:|---:|---:|---|"
    for row, p, verdict in again:
        first = [row["label"], row["verdict"], signed(row["before"])]
        fresh = [str(row["seeds"]), f"{row['plain']:.4f}", interval(row), p_value(p), f"**{verdict}**"]
        study = next(name for name in STUDIES if row["cell"].startswith(name)).replace("_", " ")
        yield f"| {' | '.join([f'{study}: {where(row)}', *first, *fresh])} |"


def replications(rows: Iterable[Row]) -> list[Replication]:
    """Each replication with its p, corrected for their number (Holm), and its verdict."""
    own = [row for row in rows if row["study"] == REPLICATIONS]
    corrected = adjust([row["p_new"] for row in own]).tolist() if own else []
    return [(row, p, verdict_on(row["difference"], p)) for row, p in zip(own, corrected, strict=True)]


def verdict_on(difference: float, p: float) -> Verdict:
    if p > LEVEL:
        return "no difference shown"
    return "better" if difference > 0 else "worse"


def minutes(rows: Iterable[Row]) -> str:
    return f"{sum(row['seconds'] for row in searches(rows)) / 60:.0f} min"


def answer(rows: Sequence[Row], planned: int) -> str:
    """When does a curriculum help? Before all studies have ended, how far they are."""
    found = searches(rows)
    if len(found) < planned:
        return (
            f"The studies are under way: {len(found)} of {planned} searches have ended. The tables hold all of these."
        )
    hours = sum(row["seconds"] for row in found) / 3600
    random, swap, hard, as_dev, other = (
        "{better} of {searches} searches, worse in {worse}".format(
            **counted([row for row in found if case(row) == kind])
        )
        for kind in ("random", "swap", "hard", "as dev", "other")
    )
    return (
        "Where half of the relevant training documents were replaced by random ones, a curriculum was better than "
        f"plain training, for new queries and new seeds, in {random}. Where 40 % or more had changed places with "
        f"another candidate, it was better in {swap}, and where with the candidate that BM25 ranks highest, in {hard}. "
        f"With the labels as published, it was better in {as_dev}.{held(rows)} (All others, which are 20 % wrong "
        f"labels, trees, and one direction of a curriculum alone: better in {other}. The tables hold all {len(found)} "
        f"searches that were started, {sum(row['trials'] for row in found):,} trials in {hours:.1f} hours.)"
    )


def held(rows: Sequence[Row]) -> str:
    """How many verdicts fresh seeds gave again."""
    again = replications(rows)
    if not again:
        return ""
    first = Counter(row["verdict"] for row, _, _ in again)
    shown = Counter(verdict for row, _, verdict in again if verdict == row["verdict"])
    parts = (f"{shown[kind]} of {first[kind]} {kind}" for kind in ("better", "worse"))
    return f" Tested once more with {again[0][0]['seeds']} fresh seeds, {' and '.join(parts)} were shown again."


def verdicts(rows: Iterable[Row]) -> dict[str, dict[str, int]]:
    """Counts of verdicts by what `tune-cl data` would say of the training labels."""
    findings = {"wrong": ("swap", "random"), "lexical": ("hard",), "as dev": ("as dev",)}
    found = searches(rows)
    return {name: counted([row for row in found if case(row) in kinds]) for name, kinds in findings.items()}


def counted(rows: Sequence[Row]) -> dict[str, int]:
    verdict = [row["verdict"] for row in rows]
    return {"searches": len(rows), "better": verdict.count("better"), "worse": verdict.count("worse")}


def case(row: Row) -> str:
    """How the training labels were made wrong; "as dev" where they were not. "other": trees, the study that allows one
    direction alone, and few wrong labels."""
    share = share_of(row)
    if row["study"] in ("trees", "anti") or 0 < share < 0.4:
        return "other"
    return "as dev" if share == 0 else overrides(row)[KIND]


def share_of(row: Row) -> float:
    """Of wrong training labels."""
    return float(overrides(row).get(SHARE, 0))


def overrides(row: Row) -> dict[str, Any]:
    return json.loads(row["identity"])[2]


KINDS = ("swap", "random", "hard")
RANKERS = {"knrm": ("o", "KNRM"), "conv_knrm": ("^", "ConvKNRM")}  # marker and name


def draw(rows: Sequence[Row]) -> None:
    """The difference to plain training by the share of wrong labels, and by their kind."""
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
    save(figure, PICTURES / "noise.svg")


def draw_series(axes: Axes, x: Sequence[float], points: Sequence[Row], colour: str, marker: str) -> None:
    """Differences with their intervals; hollow where the verdict is "no difference shown"."""
    for at, row in zip(x, points, strict=True):
        axes.errorbar(
            at, row["difference"], half_intervals(row), color=colour, marker=marker, ms=5, mfc=face_of(row, colour),
            capsize=2, lw=1.2,
        )  # fmt: skip


def draw_study(rows: Sequence[Row], file: Path) -> None:
    """The difference of each search of a study, in the order of its table; comparisons of two curricula as diamonds."""
    figure = Figure(figsize=(7.2, 0.9 + 0.26 * len(rows)), layout="constrained")
    axes = figure.subplots()
    names = list(dict.fromkeys(row["values"]["data"] for row in rows))
    for at, row in enumerate(rows):
        colour = f"C{names.index(row['values']['data'])}"
        axes.errorbar(
            row["difference"], at, xerr=half_intervals(row), color=colour, marker="D" if "against" in row else "o",
            ms=5, mfc=face_of(row, colour), capsize=2, lw=1.2,
        )  # fmt: skip
    axes.set_yticks(range(len(rows)), [where(row) for row in rows])
    axes.invert_yaxis()
    axes.set_xlabel(f"difference in test {searches(rows)[0]['metric']}, 95 %")
    axes.axvline(0, color="black", lw=0.8)
    axes.grid(axis="x", alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)
    save(figure, file)


def half_intervals(row: Row) -> list[list[float]]:
    """The interval's lengths below and above the difference, [2, 1]."""
    low, high = row["ci95_new"]
    return [[row["difference"] - low], [high - row["difference"]]]


def face_of(row: Row, colour: str) -> str:
    return colour if row.get("verdict") in ("better", "worse") else "white"


def save(figure: Figure, file: Path) -> None:
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "tune-cl"}):
        figure.savefig(file, metadata={"Date": None})


def write_page(planned: int) -> None:
    """`planned`: searches of all studies."""
    rows = read_rows()
    put(PAGE, BEGIN.format("answer"), END, answer(rows, planned))
    put(PAGE, BEGIN.format("tables"), END, "\n".join(tables(rows)).rstrip())
    COUNTS.write_text(json.dumps(verdicts(rows)) + "\n")
    draw(rows)
    for study in STUDIES:
        if own := [row for row in rows if row["study"] == study]:
            draw_study(own, picture_of(study))
