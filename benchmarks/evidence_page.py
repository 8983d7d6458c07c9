"""Writes what the study of effects found into docs/results.md and the README, draws it into docs/images, and puts the
first round's searches in one table; counts of these for `tune-cl data`."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from benchmarks.evidence_effects import (
    FOLDER,
    STUDY,
    CellEffects,
    Pooled,
    by_data_set,
    controls_of,
    found_by_effects,
    pooled,
    pooled_effects,
    portfolio,
    read_rows,
)
from benchmarks.pages import put
from trainables.core.prose import counted
from trainables.evaluation.significance import adjust
from tune_cl.confirmation.verdict import LEVEL
from tune_cl.report.wording import interval_words, p_value, signed

DOCS = Path(__file__).parents[1] / "docs"
PAGE, PICTURES, README = DOCS / "results.md", DOCS / "images", DOCS.parent / "README.md"
COUNTS = DOCS.parent / "tune_cl" / "evidence.json"
BEGIN, END = "<!-- evidence: {} -->\n", "<!-- end of evidence -->"
SHORT = {
    "knrm": "KNRM", "conv_knrm": "ConvKNRM", "bert": "cross-encoder", "bi_encoder": "bi-encoder",
    "minilm": "MiniLM cross-encoder", "lambdamart": "LambdaMART",
}  # fmt: skip
LABELS = {"clean": "clean", "random": "40 % random", "hard": "40 % hard"}
GAINS_ADDED = (0.005, 0.01, 0.02, 0.03)
NO_DIFFERENCE = "no difference shown"
VERDICTS = {"better": "**better**", "worse": "**worse**", NO_DIFFERENCE: "not significant"}
STUDIES = {  # of the first round
    "wrong_labels": "wrong labels",
    "wrong_labels_bert": "wrong labels",
    "wrong_labels_conv_knrm": "wrong labels",
    "weak_labels": "labels by BM25",
    "clean_labels": "clean labels",
    "penha2020": "Penha & Hauff",
    "macavaney2020": "MacAvaney et al.",
    "ferro2018": "Ferro et al.",
}
RANKER_OF = {"wrong_labels": "KNRM", "wrong_labels_bert": "cross-encoder", "wrong_labels_conv_knrm": "ConvKNRM"}
Row = Mapping[str, Any]


def cells_of(rows: Iterable[Row]) -> list[CellEffects]:
    """The cells that were trained."""
    return [CellEffects(row) for row in rows if "pairs" in row]


def where(row: Row) -> str:
    return f"{row['data'].rpartition('/')[2]}, {SHORT[row['ranker']]}, {LABELS[row['labels']]}"


def effect(pool: Pooled) -> str:
    return f"{signed(pool.mean)} {interval_words(pool.ci95)}"


def direction(interval: Sequence[float]) -> int:
    """1 or -1 for an interval on one side of 0."""
    return (interval[0] > 0) - (interval[1] < 0)


# -- the answer ----------------------------------------------------------------------------------------------------


def summary(cells: Sequence[CellEffects]) -> str:
    """The pooled answer, in two sentences."""
    pool, sets = pooled_effects(cells), by_data_set(cells)
    sides = Counter(direction(cell.main.mean_ci95) for cell in cells)
    trainings = sum(cell.stored["map"].shape[1] * cell.stored["map"].shape[2] * 2 for cell in cells)
    return (
        f"Over {len(cells)} combinations of data, ranker and training labels ({trainings:,} trainings), a curriculum changes MAP "
        f"by {effect(pool)} on average against the same training without it, and by {effect(sets)} over the "
        f"{sets.cells} data sets. The interval excludes 0 in {counted(len(cells) - sides[0], 'combination')}: above it in "
        f"{sides[1]}, below it in {sides[-1]}."
    )


def answer(rows: Sequence[Row]) -> str:
    """When does a curriculum help?"""
    cells = cells_of(rows)
    differ = [cell for cell in cells if cell.main.sd_true_ci95 and cell.main.sd_true_ci95[0] > 0]
    adjusted = adjust([cell.best["p_new"] for cell in cells])
    better, worse = (
        sum(p <= LEVEL and sign * cell.best["difference"] > 0 for cell, p in zip(cells, adjusted, strict=True))
        for sign in (1, -1)
    )
    named = "".join(f" ({', '.join(where(cell.row) for cell in differ)})" if differ else "")
    fractions = [np.array([cell.above[place] for cell in cells]).mean(axis=0)[0] for place in (0, 1)]
    return (
        f"{summary(cells)}\n\nCurricula differ among themselves by more than seeds and queries explain in "
        f"{len(differ)} of {len(cells)} combinations{named}. Of all curricula, {fractions[0]:.0%} have a true gain above .005 and "
        f"{fractions[1]:.0%} one above .01 (means over combinations; up to the upper ends in the table). The best curriculum of "
        f"each combination, chosen by one half of the test queries and tested with fresh seeds on the other, was "
        f"significantly better than its twin in {better} of {len(cells)}, worse in {worse} (Holm)."
        f"\n\n{portfolio_words(cells)}{state(rows)}"
    )


def portfolio_words(cells: Sequence[CellEffects]) -> str:
    """Whether what was good on other data sets is good on one that was left out."""
    found = portfolio(cells)
    if found is None:
        return ""
    helps = "it helps" if found.ci95[0] > 0 else "there is no sign that it helps"
    return (
        f"The eight best of the 24 common curricula on all data sets but one are {effect(found)} better on that one than the 24 are on average: {helps} to "
        f"try first what was good elsewhere.\n\n"
    )


def state(rows: Sequence[Row]) -> str:
    """What was dropped, failed or is missing."""
    dropped, failed = ([row for row in rows if key in row] for key in ("dropped", "failed"))
    lines = (
        [f"Dropped, because plain training is below BM25 on dev: {'; '.join(map(below, dropped))}."] if dropped else []
    )
    lines += [f"Failed: {'; '.join(where(row) + ': ' + row['failed'] for row in failed)}."] if failed else []
    done = [[row["data"], row["ranker"], row["labels"]] for row in rows]
    absent = [dict(zip(("data", "ranker", "labels"), cell, strict=True)) for cell in STUDY["cells"] if cell not in done]
    lines += [f"Planned and not trained yet: {'; '.join(map(where, absent))}."] if absent else []
    seconds = sum(row.get("seconds", 0) for row in rows)
    return " ".join([*lines, f"({seconds / 3600:.1f} hours on one core.)"])


def below(row: Row) -> str:
    check = row["checks"][-1]
    return f"{where(row)} ({check['plain']:.4f} against {check['bm25']:.4f})"


# -- the tables ----------------------------------------------------------------------------------------------------


def table_of_cells(cells: Sequence[CellEffects]) -> Iterator[str]:
    yield "| | plain | mean effect [95 %] | nDCG@10 | SD of true effects | above .005 | above .01 | the best, fresh [95 %] | p |"
    yield "|---|---:|---|---|---|---|---|---|---:|"
    yield f"| **all, pooled** | | **{effect(pooled_effects(cells))}** | {effect(pooled_ndcg(cells))} | | | | | |"
    for cell in cells:
        main, ndcg, best = cell.main, cell.effects("ndcg@10"), cell.best
        assert main.sd_true_ci95
        shares = [f"{one:.0%} [{low:.0%}, {high:.0%}]" for one, low, high in cell.above]
        yield " ".join(
            f"| {text}" for text in (
                where(cell.row) + " + BM25" * cell.row["checks"][-1]["first_stage"],
                f"{cell.plain:.4f}",
                f"{signed(main.mean)} {interval_words(main.mean_ci95)}",
                f"{signed(ndcg.mean)} {interval_words(ndcg.mean_ci95)}",
                f"{main.sd_true:.4f} [{main.sd_true_ci95[0]:.4f}, {main.sd_true_ci95[1]:.4f}]",
                *shares,
                f"{signed(best['difference'])} {interval_words(best['ci95_new'])}",
                f"{p_value(best['p_new'])} |",
            )
        )  # fmt: skip


def pooled_ndcg(cells: Sequence[CellEffects]) -> Pooled:
    found = [cell.effects("ndcg@10") for cell in cells]
    return pooled([one.mean for one in found], [one.mean_ci95 for one in found])


def table_of_checks(cells: Sequence[CellEffects]) -> Iterator[str]:
    yield "| | BM25, dev | plain, dev | still rising | queries | clusters | the best |"
    yield "|---|---:|---:|---:|---:|---:|---|"
    for cell in cells:
        check, clusters = cell.row["checks"][-1], cell.stored["clusters"]
        settings = " ".join(
            f"{key.partition('.')[2]}={value}" for key, value in cell.row["settings"][cell.row["best"]].items()
        )
        yield (
            f"| {where(cell.row)} | {check['bm25']:.4f} | {check['plain']:.4f} | {signed(cell.still_rising)} | {len(clusters)} | "
            f"{len(np.unique(clusters))} | {settings} |"
        )


def table_of_values(cells: Sequence[CellEffects]) -> Iterator[str]:
    """Effects of values, pooled over the cells that have them."""
    found: dict[tuple[str, str], list[Any]] = {}
    for cell in cells:
        for one in cell.main.by_value:
            found.setdefault((one.key.partition(".")[2], str(one.value)), []).append(one)
    yield "| | effect [95 %] | combinations | curricula |"
    yield "|---|---|---:|---:|"
    for (key, value), ones in sorted(found.items()):
        if len(ones) > 1:
            pool = pooled([one.effect for one in ones], [one.ci95 for one in ones])
            yield f"| {key} {value} | {effect(pool)} | {pool.cells} | {sum(one.pairs for one in ones)} |"


def controls(rows: Sequence[Row], own: Sequence[Row]) -> str:
    """What the positive controls say of the study; `own`: their rows."""
    cells = cells_of(rows)
    none, *found = found_by_effects(cells, GAINS_ADDED)
    often = ", ".join(f"{gain:g} in {share:.0%}" for gain, share in zip(GAINS_ADDED, found, strict=True))
    lines = [
        f"A gain that is added to all curricula of a combination, where curriculum and twin have changed places at random, is found by the "
        f"interval of the mean: {often} of cases; no gain is taken for one, or for harm, in {none:.0%}."
    ]
    if own:
        lines += ["", *table_of_controls(own)]
    return "\n".join(lines)


def table_of_controls(own: Sequence[Row]) -> Iterator[str]:
    """A row for each arm of the controls."""
    yield "| | mean effect [95 %] | found with 8 pairs | duels that found it |"
    yield "|---|---|---:|---:|"
    for row in own:
        for one in controls_of(row):
            duels = f"{one.better} of {one.duels}" if one.duels else ""
            yield (
                f"| {row['name'].replace('-', ', ')}: {one.arm} | {signed(one.effects.mean)} "
                f"{interval_words(one.effects.mean_ci95)} | {one.found:.0%} | {duels} |"
            )


# -- the first round -----------------------------------------------------------------------------------------------


def searches(rows: Iterable[Row]) -> list[Row]:
    """In the order of their design."""
    return [row for study in STUDIES for row in rows if row["study"] == study]


def first_pooled(rows: Sequence[Row]) -> Pooled:
    found = searches(rows)
    return pooled([row["difference"] for row in found], [row["interval"] for row in found])


def first_round(rows: Sequence[Row]) -> str:
    """What the duels of the first round said."""
    found = searches(rows)
    verdicts, again = Counter(row["verdict"] for row in found), replications(rows)
    significant = sum(p <= LEVEL and row["difference"] * row["before"] > 0 for row, p in again.values())
    pool, smallest = first_pooled(rows), min(row["detectable"] for row in found)
    return (
        f"Of {len(found)} searches, the best curriculum was better in {verdicts['better']}, worse in {verdicts['worse']} and not significantly "
        f"different in {verdicts[NO_DIFFERENCE]}; with fresh seeds, {significant} of {len(again)} differences were significant again. Pooled: "
        f"{effect(pool)} (SD between searches {pool.sd:.3f}). Minimum detectable difference: {median(row['detectable'] for row in found):.3f} at the "
        f"median, {smallest:.3f} at best."
    )


def replications(rows: Sequence[Row]) -> dict[str, tuple[Row, float]]:
    """What was tested again, by cell, each with its p over all of these (Holm)."""
    again = [row for row in rows if row["study"] == "replications"]
    adjusted = adjust([row["p_new"] for row in again]).tolist()
    return {row["cell"]: (row, p) for row, p in zip(again, adjusted, strict=True)}


def first_table(rows: Sequence[Row]) -> Iterator[str]:
    again = replications(rows)
    yield "| | default | tuned plain | curriculum | gain [95 %] | seeds | detectable | | again |"
    yield "|---|---:|---:|---:|---|---:|---:|---|---|"
    for row in searches(rows):
        values = [SHORT.get(str(value), str(value).rpartition("/")[2]) for value in row["values"].values()]
        name = ", ".join([STUDIES[row["study"]], *filter(None, [RANKER_OF.get(row["study"])]), *values])
        fresh = again.get(row["cell"])
        yield (
            f"| {name} | {(row['default'] or row['plain'])['mean']:.4f} | {row['plain']['mean']:.4f} | {row['curriculum']['mean']:.4f} | "
            f"{signed(row['difference'])} {interval_words(row['interval'])} | {len(row['seeds'])} | {row['detectable']:.3f} | {VERDICTS[row['verdict']]} | "
            + (f"{signed(fresh[0]['difference'])}, p {p_value(fresh[1])} |" if fresh else "|")
        )


def verdicts(rows: Iterable[Row]) -> dict[str, dict[str, int]]:
    """Counts of verdicts by what `tune-cl data` would say of the training labels."""
    found = searches(rows)
    return {name: counts([row for row in found if case(row) == name]) for name in ("wrong", "lexical", "as dev")}


def case(row: Row) -> str:
    if row["study"] == "weak_labels" or row["values"].get("data.label_noise.kind") == "hard":
        return "lexical"
    return "wrong" if row["study"].startswith("wrong_labels") else "as dev"


def counts(rows: Sequence[Row]) -> dict[str, int]:
    verdict = [row["verdict"] for row in rows]
    return {"searches": len(rows), "better": verdict.count("better"), "worse": verdict.count("worse")}


# -- the picture ---------------------------------------------------------------------------------------------------


def draw(cells: Sequence[CellEffects]) -> None:
    """A forest plot: the mean effect of each cell, and how much curricula differ; the pooled mean first."""
    pool = pooled_effects(cells)
    figure = Figure(figsize=(9.6, 1.6 + 0.32 * (len(cells) + 1)), layout="constrained")
    means, spreads = figure.subplots(1, 2, sharey=True, width_ratios=(3, 2))
    point(means, 0, pool.mean, pool.ci95, "black", "D")
    for at, cell in enumerate(cells, 1):
        assert cell.main.sd_true is not None and cell.main.sd_true_ci95
        point(means, at, cell.main.mean, cell.main.mean_ci95, "C0", "o")
        point(spreads, at, cell.main.sd_true, cell.main.sd_true_ci95, "C1", "s")
    names = [f"all {len(cells)}, pooled", *(where(cell.row) for cell in cells)]
    means.set_yticks(range(len(names)), names, fontsize=9)
    means.invert_yaxis()
    means.axvline(0, color="black", lw=0.8)
    means.set_title("what a curriculum changes on average", fontsize=10)
    spreads.set_title("how much curricula differ (true SD)", fontsize=10)
    spreads.set_xlim(left=-0.0005)
    for axes in (means, spreads):
        axes.axhline(0.5, color="grey", lw=0.6)
        axes.grid(axis="x", alpha=0.25)
        axes.spines[["top", "right"]].set_visible(False)
        axes.tick_params(axis="y", length=0)
    figure.supxlabel("MAP on test (LambdaMART: nDCG@10), with 95 % intervals", fontsize=9)
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "tune-cl"}):
        figure.savefig(PICTURES / "evidence.svg", metadata={"Date": None})


def point(axes: Axes, at: int, middle: float, interval: Sequence[float], colour: str, marker: str) -> None:
    reach = [[middle - interval[0]], [interval[1] - middle]]
    axes.errorbar(middle, at, xerr=reach, color=colour, marker=marker, ms=5, capsize=2, lw=1.2)


# -- the page ------------------------------------------------------------------------------------------------------


def parts(rows: Sequence[Row], own: Sequence[Row], first: Sequence[Row]) -> dict[str, str]:
    """What stands between the marks of the page, by name."""
    cells = cells_of(rows)
    return {
        "answer": answer(rows),
        "controls": controls(rows, own),
        "cells": "\n".join(table_of_cells(cells)),
        "checks": "\n".join(table_of_checks(cells)),
        "values": "\n".join(table_of_values(cells)),
        "first round": first_round(first),
        "first table": "\n".join(first_table(first)),
    }


def stored() -> tuple[list[Row], list[Row], list[Row]]:
    """The rows of the study, of its controls and of the first round."""
    study, own, first = (read_rows(FOLDER / f"{name}.jsonl") for name in ("effects", "controls", "first_round"))
    return list(study), list(own), list(first)


def write_page() -> None:
    rows, own, first = stored()
    for name, text in parts(rows, own, first).items():
        put(PAGE, BEGIN.format(name), END, text)
    put(README, BEGIN.format("counts"), END, summary(cells_of(rows)))
    COUNTS.write_text(json.dumps(verdicts(first)) + "\n")
    draw(cells_of(rows))
