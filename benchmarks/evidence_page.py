"""Writes what the studies of evidence.py found into docs/results.md and the README, and counts for `tune-cl data`;
draws the studies into docs/images."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import matplotlib
import yaml
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from benchmarks.pages import put
from trainables.evaluation.significance import adjust
from tune_cl.confirmation.verdict import LEVEL
from tune_cl.report.wording import interval_words, p_value, signed

FOLDER = Path(__file__).parent / "evidence"
DOCS = Path(__file__).parents[1] / "docs"
PAGE, PICTURES, README = DOCS / "results.md", DOCS / "images", DOCS.parent / "README.md"
COUNTS = DOCS.parent / "tune_cl" / "evidence.json"
BEGIN, END = "<!-- evidence: {} -->\n", "<!-- end of evidence -->"
STUDIES = {  # in the order of their design; the heading of each
    "wrong_labels": "Wrong labels, KNRM",
    "wrong_labels_bert": "Wrong labels, cross-encoder",
    "wrong_labels_conv_knrm": "Wrong labels, ConvKNRM",
    "weak_labels": "Labels by BM25",
    "clean_labels": "Clean labels",
    "penha2020": "Penha & Hauff 2020",
    "macavaney2020": "MacAvaney et al. 2020",
    "ferro2018": "Ferro et al. 2018",
}
REPLICATIONS, BESIDE = "replications", "beside"
ZERO_SHOT, CLEAN = "zero-shot bi-encoder", "few clean queries"
SHORT = {"knrm": "KNRM", "conv_knrm": "ConvKNRM", "bert": "cross-encoder", "bi_encoder": "bi-encoder"}
VERDICTS = {"better": "**better**", "worse": "**worse**", "no difference shown": "not significant"}
NO_DIFFERENCE = "no difference shown"
MOST_SHOWN = 0.1  # on both sides of the picture; some intervals reach farther
COLUMNS = (
    "without labels", "clean", "default", "tuned plain", "curriculum", "gain [95 %]", "p", "seeds", "detectable",
)  # fmt: skip
Row = Mapping[str, Any]


def read_rows(file: Path = FOLDER / "results.jsonl") -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def searches(rows: Iterable[Row]) -> list[Row]:
    """In the order of the design."""
    return [row for study in STUDIES for row in rows if row["study"] == study]


def where(row: Row) -> str:
    values = (str(value) for value in row["values"].values())
    return ", ".join(SHORT.get(value, value.rpartition("/")[2]) for value in values)


# -- the tables ----------------------------------------------------------------------------------------------------


def tables(rows: Sequence[Row]) -> Iterator[str]:
    """A section for each study that has rows."""
    for name, heading in STUDIES.items():
        own = [row for row in rows if row["study"] == name]
        if not own:
            continue
        study = yaml.safe_load((FOLDER / f"{name}.yaml").read_text())
        yield f"### {heading}\n"
        metrics = ", ".join(dict.fromkeys(row["metric"].upper().replace("NDCG", "nDCG") for row in own))
        hours = sum(row["seconds"] for row in own) / 3600
        yield f"{study['question']} `benchmarks/evidence/{name}.yaml`, {metrics} on test, {hours:.1f} h.\n"
        yield f"| | {' | '.join(COLUMNS)} | |"
        yield "|---|---|---:|---:|---:|---:|---|---:|---:|---:|---|"
        yield from (f"| {' | '.join(cells_of(row, rows_beside(row, rows)))} |" for row in own)
        yield ""
        yield "<details><summary>Which curricula these are, and their opponents</summary>\n"
        yield from (f"- {where(row)}: {row['curriculum']['label']}; against {opponent(row)}" for row in own)
        yield "\n</details>\n"
    yield from table_of_replications(rows)


def rows_beside(row: Row, rows: Sequence[Row]) -> Sequence[Row]:
    """What was measured beside a search."""
    return next((one["rows"] for one in rows if one["identity"] == row["beside"]), [])


def cells_of(row: Row, beside: Sequence[Row]) -> list[str]:
    """The cells of a row of a study's table."""
    free = best_label_free(row, beside)
    clean = next((f"{one['mean']:.4f}" for one in beside if one["label"] == CLEAN), "")
    default = row["default"] or row["plain"]
    return [
        where(row),
        f"{free['mean']:.4f} {free['label']}" if free else "",
        clean,
        f"{default['mean']:.4f}",
        f"{row['plain']['mean']:.4f}",
        f"{row['curriculum']['mean']:.4f}",
        f"{signed(row['difference'])} {interval_words(row['interval'])}",
        p_value(row["p_new"]),
        str(len(row["seeds"])),
        f"{row['detectable']:.3f}",
        VERDICTS[row["verdict"]]
        + ", not than the default" * is_no_better_than_default(row)
        + ", below" * is_below(row, beside),
    ]


def opponent(row: Row) -> str:
    return "plain, default" if row["plain"]["label"] == "baseline" else row["plain"]["label"]


def best_label_free(row: Row, beside: Sequence[Row]) -> Row | None:
    """The highest mean on test of what needs no training labels."""
    encoder = [one for one in beside if one["label"] == ZERO_SHOT]
    found = [one for one in (row["first_stage"], row["label_free"], *encoder) if one]
    return max(found, key=lambda one: one["mean"], default=None)


def is_no_better_than_default(row: Row) -> bool:
    """Whether a curriculum that is better than tuned plain training may not be better than its default."""
    return row["verdict"] == "better" and row["over_default"] is not None and row["over_default"]["interval"][0] <= 0


def is_below(row: Row, beside: Sequence[Row]) -> bool:
    """Whether the curriculum's ranker is below what needs no training labels."""
    free = best_label_free(row, beside)
    return free is not None and row["curriculum"]["mean"] < free["mean"]


def replications(rows: Sequence[Row]) -> list[tuple[Row, float]]:
    """What was tested again, each with its p over all of these (Holm)."""
    again = [row for row in rows if row["study"] == REPLICATIONS]
    return list(zip(again, adjust([row["p_new"] for row in again]).tolist(), strict=True))


def table_of_replications(rows: Sequence[Row]) -> Iterator[str]:
    """The table of what was tested again, if there is any."""
    again = replications(rows)
    if again:
        yield "### Tested once more with fresh seeds\n"
        yield "| | first | fresh | p, Holm | seeds |"
        yield "|---|---|---|---:|---:|"
    for row, p in again:
        effect = f"{signed(row['difference'])} {interval_words(row['ci95_new'])}"
        first = f"{row['verdict']}, {signed(row['before'])}"
        yield f"| {row['cell'].partition('-')[0]}: {where(row)} | {first} | {effect} | {p_value(p)} | {row['seeds']} |"


# -- the answer ----------------------------------------------------------------------------------------------------


def counts(rows: Sequence[Row], planned: int) -> str:
    """How often a curriculum helped, and how far the studies are where some searches are missing."""
    found = searches(rows)
    verdicts = Counter(row["verdict"] for row in found)
    missing = "" if len(found) == planned else f" {planned - len(found)} of {planned} searches have not run yet."
    weak = sum(map(is_no_better_than_default, found))
    alone = f" (of these, {weak} not significantly better than the default of plain training)" if weak else ""
    again = replications(rows)
    significant = sum(p <= LEVEL and row["difference"] * row["before"] > 0 for row, p in again)
    fresh = f" With fresh seeds, {significant} of the {len(again)} differences were significant again." if again else ""
    return (
        f"Against plain training that was tuned as hard, a curriculum was better in {verdicts['better']} of "
        f"{len(found)} searches{alone}, worse in {verdicts['worse']}, and not significantly different in "
        f"{verdicts[NO_DIFFERENCE]}.{fresh}{missing}"
    )


def answer(rows: Sequence[Row], planned: int) -> str:
    """When does a curriculum help?"""
    found = searches(rows)
    hours = sum(row["seconds"] for row in found) / 3600
    below = sum(is_below(row, rows_beside(row, rows)) for row in found)
    tuned = [row["tuning"]["difference"] for row in found if row["tuning"]]
    worth = f" Tuning plain training alone was worth {median(tuned):.3f} at the median." if tuned else ""
    added = round(median(row["difference"] for row in found), 3) + 0.0  # no negative zero
    return (
        f"{counts(rows, planned)}{worth} A curriculum added {added:+.3f}. In {below} the ranker with a curriculum was "
        f"below what needs no training labels. ({hours:.1f} hours on two cores.)"
    )


def which_queries(rows: Sequence[Row]) -> str:
    """The gain in each third of the queries, mean over the searches with one."""
    shown = [row for row in searches(rows) if row["verdict"] == "better"]
    if not shown:
        return "No search found a gain."
    lines = ["| a third of the queries each, by | lowest | middle | highest | searches |", "|---|---:|---:|---:|---:|"]
    for trait in dict.fromkeys(trait for row in shown for trait in row["gains"]):
        own = [row["gains"][trait] for row in shown if trait in row["gains"]]
        means = [signed(sum(thirds) / len(own)) for thirds in zip(*own, strict=True)]
        lines.append(f"| {trait} | {' | '.join(means)} | {len(own)} |")
    return "\n".join(lines)


def verdicts(rows: Iterable[Row]) -> dict[str, dict[str, int]]:
    """Counts of verdicts by what `tune-cl data` would say of the training labels."""
    found = searches(rows)
    return {name: counted([row for row in found if case(row) == name]) for name in ("wrong", "lexical", "as dev")}


def case(row: Row) -> str:
    if row["study"] == "weak_labels" or row["values"].get("data.label_noise.kind") == "hard":
        return "lexical"
    return "wrong" if row["study"].startswith("wrong_labels") else "as dev"


def counted(rows: Sequence[Row]) -> dict[str, int]:
    verdict = [row["verdict"] for row in rows]
    return {"searches": len(rows), "better": verdict.count("better"), "worse": verdict.count("worse")}


# -- the picture ---------------------------------------------------------------------------------------------------


def draw(rows: Sequence[Row]) -> None:
    """Both steps of each search: what tuning was worth to plain training, and what a curriculum adds."""
    found = searches(rows)
    figure = Figure(figsize=(9.6, 1.4 + 0.21 * len(found)), layout="constrained")
    tuning, curriculum = figure.subplots(1, 2, sharey=True, sharex=True)
    for at, row in enumerate(found):
        colour = f"C{list(STUDIES).index(row['study'])}"
        if row["tuning"]:
            draw_step(tuning, at, row["tuning"], row["tuning"]["p_new"] <= LEVEL, colour)
        draw_step(curriculum, at, row, row["verdict"] != NO_DIFFERENCE, colour)
    tuning.set_yticks(range(len(found)), [f"{STUDIES[row['study']]}: {where(row)}" for row in found], fontsize=7)
    tuning.invert_yaxis()
    tuning.set_title("tuning plain training", fontsize=10)
    curriculum.set_title("a curriculum on top", fontsize=10)
    for axes in (tuning, curriculum):
        axes.set_xlim(-MOST_SHOWN, MOST_SHOWN)
        axes.set_xticks([-MOST_SHOWN, -MOST_SHOWN / 2, 0, MOST_SHOWN / 2, MOST_SHOWN])
        axes.axvline(0, color="black", lw=0.8)
        axes.grid(axis="x", alpha=0.25)
        axes.spines[["top", "right"]].set_visible(False)
        axes.tick_params(axis="y", length=0)
    figure.supxlabel("difference on test with its 95 % interval (filled: significant)", fontsize=9)
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "tune-cl"}):
        figure.savefig(PICTURES / "evidence.svg", metadata={"Date": None})


def draw_step(axes: Axes, at: int, test: Mapping[str, Any], shown: bool, colour: str) -> None:
    low, high = test["interval"]
    reach = [[test["difference"] - low], [high - test["difference"]]]
    face = colour if shown else "white"
    axes.errorbar(test["difference"], at, xerr=reach, color=colour, marker="o", ms=4, mfc=face, capsize=1.5, lw=1)


def write_page(planned: int) -> None:
    """`planned`: searches of all studies."""
    rows = read_rows()
    put(README, BEGIN.format("counts"), END, counts(rows, planned))
    put(PAGE, BEGIN.format("answer"), END, answer(rows, planned))
    put(PAGE, BEGIN.format("queries"), END, which_queries(rows))
    put(PAGE, BEGIN.format("tables"), END, "\n".join(tables(rows)).rstrip())
    COUNTS.write_text(json.dumps(verdicts(rows)) + "\n")
    draw(rows)
