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
    COMMON,
    FOLDER,
    GAINS,
    LOSS,
    STUDY,
    SUBSET,
    CellEffects,
    Pooled,
    by_data_set,
    controls_of,
    found_by_effects,
    pooled,
    pooled_effects,
    portfolio,
    read_rows,
    recorded_effects,
)
from benchmarks.pages import put
from trainables.evaluation.effects import Effects
from trainables.evaluation.significance import LEVEL, adjust
from tune_cl.effects.words import value_name
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
ADDED = (0.005, 0.01, 0.02, 0.03)  # gains
NO_DIFFERENCE = "no difference shown"
VERDICTS = {"better": "**better**", "worse": "**worse**", NO_DIFFERENCE: "not significant"}
STUDIES = {  # of the first round: what its table calls them
    "wrong_labels": ("wrong labels", "KNRM"),
    "wrong_labels_bert": ("wrong labels", "cross-encoder"),
    "wrong_labels_conv_knrm": ("wrong labels", "ConvKNRM"),
    "weak_labels": ("labels by BM25",),
    "clean_labels": ("clean labels",),
    "penha2020": ("Penha & Hauff",),
    "macavaney2020": ("MacAvaney et al.",),
    "ferro2018": ("Ferro et al.",),
}
RECORDED = {"noisy_wikiqa": "WikiQA with 65 % hard labels", "order_mediqa": "MEDIQA"}  # both with KNRM
Row = Mapping[str, Any]


def cells_of(rows: Iterable[Row]) -> list[CellEffects]:
    """The cells that were trained, in the order of the plan."""
    order = {tuple(cell): place for place, cell in enumerate(STUDY["cells"])}
    trained = [row for row in rows if "pairs" in row]
    return [
        CellEffects(row) for row in sorted(trained, key=lambda row: order[row["data"], row["ranker"], row["labels"]])
    ]


def where(row: Row) -> str:
    return f"{row['data'].rpartition('/')[2]}, {SHORT[row['ranker']]}, {LABELS[row['labels']]}"


def effect(pool: Pooled) -> str:
    return f"{signed(pool.mean)} {interval_words(pool.ci95)}"


def direction(interval: Sequence[float]) -> int:
    """1 or -1 for an interval on one side of 0."""
    return (interval[0] > 0) - (interval[1] < 0)


# -- the answer ----------------------------------------------------------------------------------------------------


def summary(cells: Sequence[CellEffects]) -> str:
    """The pooled answer."""
    pool, sets = pooled_effects(cells), by_data_set(cells)
    sides, differ = Counter(direction(cell.main.mean_ci95) for cell in cells), len(differing(cells))
    trainings = sum(2 * cell.main.pairs * cell.main.seeds for cell in cells)
    return (
        f"Over {len(cells)} combinations of data, ranker and training labels ({trainings:,} trainings), a curriculum "
        f"changes MAP (nDCG@10 of LambdaMART) by {effect(pool)} on average against the same training without it; over "
        f"the {sets.cells} data sets, by {effect(sets)}. The interval lies above 0 in {sides[1]} combinations, and "
        f"below in {sides[-1]}. But curricula differ among themselves by more than seeds and queries explain in "
        f"{differ} of {len(told_apart(cells))}."
    )


def told_apart(cells: Sequence[CellEffects]) -> list[CellEffects]:
    """The cells with more than one seed, which show how much curricula differ."""
    return [cell for cell in cells if cell.main.seeds > 1]


def differing(cells: Sequence[CellEffects]) -> list[str]:
    """The cells whose curricula do not all have the same effect."""
    return [where(cell.row) for cell in cells if cell.main.sd_true_ci95 and cell.main.sd_true_ci95[0] > 0]


def answer(rows: Sequence[Row]) -> str:
    """When does a curriculum help?"""
    cells = cells_of(rows)
    tested = [(cell.best["difference"], p) for cell, p in zip(cells, adjust(p_values(cells)), strict=True)]
    better, worse = (sum(p <= 1 - LEVEL and sign * found > 0 for found, p in tested) for sign in (1, -1))
    most, *others = sorted(told_apart(cells), key=lambda cell: -cell.fractions[1][0])
    large, least, largest = most.fractions[1]
    lost = np.mean([cell.fractions[2][0] for cell in told_apart(cells)])
    return "\n\n".join([
        summary(cells),
        f"By nDCG@10, the mean over all combinations is {effect(pooled_ndcg(cells))}. Curricula differ in "
        f"{'; '.join(differing(cells)) or 'none'}. In {where(most.row)}, {large:.0%} [{least:.0%}, "
        f"{largest:.0%}] of the curricula have a true gain above .01; in each other combination at most "
        f"{max((cell.fractions[1][0] for cell in others), default=0.0):.0%}. On average over combinations, {lost:.0%} "
        f"lose more than .01. The best curriculum of each "
        f"combination, chosen by one half of the test queries and tested with fresh seeds on the other, was "
        f"significantly better than its twin in {better} of {len(cells)} and worse in {worse} (Holm).",
        " ".join(map(of_recorded, RECORDED)),
        portfolio_words(cells),
        state(rows),
    ])  # fmt: skip


def of_recorded(study: str) -> str:
    """What all curricula of a small space change that was trained for `search_quality.py`."""
    found = recorded_effects(study)
    return (
        f"All {found.pairs} curricula of a small space on {RECORDED[study]}, {found.seeds} seeds each, change MAP by "
        f"{signed(found.mean)} {interval_words(found.mean_ci95)} on these test queries (true SD "
        f"{true_sd(found)})."
    )


def p_values(cells: Sequence[CellEffects]) -> list[float]:
    return [cell.best["p_new"] for cell in cells]


def portfolio_words(cells: Sequence[CellEffects]) -> str:
    """Whether what was good on other data sets is good on one that was left out."""
    if (found := portfolio(cells)) is None:
        return "There are too few data sets to say whether what was good on some is good on others."
    helps = "It helps" if found.ci95[0] > 0 else "There is no evidence that it helps"
    return (
        f"{helps} to try first what was good on other data: the eight curricula that are best on all data sets but "
        f"one differ on that one by {effect(found)} from the mean of all {COMMON} ({found.cells} data sets)."
    )


def state(rows: Sequence[Row]) -> str:
    """What was dropped, failed or is missing."""
    dropped, failed = ([row for row in rows if key in row] for key in ("dropped", "failed"))
    lines = (
        [f"Dropped, because plain training is below BM25 on dev: {'; '.join(map(below, dropped))}."] if dropped else []
    )
    lines += [f"Failed: {'; '.join(where(row) + ': ' + row['failed'] for row in failed)}."] if failed else []
    done = [[row["data"], row["ranker"], row["labels"]] for row in rows]
    absent: list[Row] = [
        dict(zip(("data", "ranker", "labels"), cell, strict=True)) for cell in STUDY["cells"] if cell not in done
    ]
    lines += [f"Planned and not trained yet: {'; '.join(map(where, absent))}."] if absent else []
    seconds = sum(row.get("seconds", 0) for row in rows)
    return " ".join([*lines, f"({seconds / 3600:.1f} hours on a machine that others used, too.)"])


def below(row: Row) -> str:
    check = row["checks"][-1]
    return f"{where(row)} ({check['plain']:.4f} against {check['bm25']:.4f})"


# -- the tables ----------------------------------------------------------------------------------------------------


def line(*columns: str) -> str:
    return f"| {' | '.join(columns)} |"


def table_of_cells(cells: Sequence[CellEffects]) -> Iterator[str]:
    above = [f"above {gain:g}".replace("0.", ".") for gain in GAINS] + [f"below -{LOSS:g}".replace("0.", ".")]
    first = "plain", "mean effect [95 %]", "median", "nDCG@10", "SD of true effects"
    yield line("", *first, *above, "the best [95 %]", "p")
    yield "|---|---:|---|---:|---|---|---|---|---|---|---:|"
    pools = effect(pooled_effects(cells)), effect(pooled_ndcg(cells))
    yield line("**all, pooled**", "", f"**{pools[0]}**", "", pools[1], *[""] * 6)
    for cell in cells:
        main, ndcg, best = cell.main, cell.effects("ndcg@10"), cell.best
        fractions = [f"{one:.0%} [{least:.0%}, {most:.0%}]" for one, least, most in cell.fractions]
        yield line(
            where(cell.row) + " + BM25" * cell.row["checks"][-1]["first_stage"],
            f"{cell.plain:.4f}",
            f"{signed(main.mean)} {interval_words(main.mean_ci95)}",
            signed(cell.median),
            f"{signed(ndcg.mean)} {interval_words(ndcg.mean_ci95)}",
            true_sd(main),
            *(fractions or [""] * 3),
            f"{signed(best['difference'])} {interval_words(best['ci95_new'])}",
            p_value(best["p_new"]),
        )


def true_sd(found: Effects) -> str:
    """Of the curricula's true effects, with its interval; empty for one seed."""
    if found.sd_true is None or found.sd_true_ci95 is None:
        return ""
    return "{:.4f} [{:.4f}, {:.4f}]".format(found.sd_true, *found.sd_true_ci95)


def pooled_ndcg(cells: Sequence[CellEffects]) -> Pooled:
    found = [cell.effects("ndcg@10") for cell in cells]
    return pooled([one.mean for one in found], [one.mean_ci95 for one in found])


def table_of_checks(cells: Sequence[CellEffects]) -> Iterator[str]:
    yield line("", "BM25", "plain", "still rising", "test queries", "clusters", "the best")
    yield "|---|---:|---:|---:|---:|---:|---|"
    for cell in cells:
        check, clusters, best = cell.row["checks"][-1], cell.stored["clusters"], cell.row["settings"][cell.row["best"]]
        yield line(
            where(cell.row),
            f"{check['bm25']:.4f}",
            f"{check['plain']:.4f}",
            signed(cell.still_rising),
            str(len(clusters)),
            str(len(np.unique(clusters))),
            " ".join(f"{key.partition('.')[2]}={value}" for key, value in best.items()),
        )


def table_of_values(cells: Sequence[CellEffects]) -> Iterator[str]:
    """Effects of values, pooled over the cells that have them."""
    found: dict[str, list[Any]] = {}
    for cell in cells:
        for one in cell.main.by_value:
            found.setdefault(value_name(one.key, one.value), []).append(one)
    yield line("", "effect [95 %]", "combinations", "curricula")
    yield "|---|---|---:|---:|"
    for name, ones in sorted(found.items()):
        if len(ones) > 1:
            pool = pooled([one.effect for one in ones], [one.ci95 for one in ones])
            yield line(name, effect(pool), str(pool.cells), str(sum(one.pairs for one in ones)))


def controls(rows: Sequence[Row], own: Sequence[Row]) -> str:
    """What the positive controls say of the study; `own`: their rows."""
    none, *found = found_by_effects(cells_of(rows), ADDED)
    often = ", ".join(f"one of {gain:g} in {share:.0%}" for gain, share in zip(ADDED, found, strict=True))
    text = (
        f"Where curriculum and twin change places at random, no mean effect is left; a gain is then added to every "
        f"curriculum. Over all combinations, the interval of the mean finds {often} of cases; without a gain it "
        f"excludes 0 in {none:.0%}."
    )
    return "\n".join([text, "", *table_of_controls(own)] if own else [text])


def table_of_controls(own: Sequence[Row]) -> Iterator[str]:
    """A row for each arm of the controls."""
    yield line("", "mean effect [95 %]", "found with 8 pairs", "duels that found it", "seeds")
    yield "|---|---|---:|---:|---:|"
    for row in own:
        for one in controls_of(row):
            name = f"{row['cell'].replace('-', ', ')}: {one.arm}"
            change = f"{signed(one.effects.mean)} {interval_words(one.effects.mean_ci95)}"
            duels = f"{one.better} of {one.effects.pairs}" if len(row["seeds"]) > 2 else ""  # two can find nothing
            drawn = f"{one.found:.0%}" if one.effects.pairs > SUBSET else ""
            yield line(name, change, drawn, duels, str(len(row["seeds"])))


# -- duels ---------------------------------------------------------------------------------------------------------


def duels_found(rows: Sequence[Row]) -> str:
    """What searches as users run them said."""
    ended = [row for row in rows if "verdict" in row and not row["swapped"]]
    again = {row["name"]: row for row in rows if row["swapped"]}
    if not ended:
        return "None has been run yet."
    verdicts = Counter(row["verdict"] for row in ended)
    detectable = median(row["detectable"] for row in ended)
    same = sum(again.get(f"{row['name']}-swapped", {}).get("verdict") == row["verdict"] for row in ended)
    text = (
        f"Of {len(ended)} searches, each confirmed with {ended[0]['seeds']} seeds, the best curriculum was better "
        f"than all its plain opponents in {verdicts['better']}, worse in {verdicts['worse']} and not significantly "
        f"different in {verdicts[NO_DIFFERENCE]} (minimum detectable difference {detectable:.3f} at the median). On "
        f"other queries (dev and test swapped), {same} of {len(again)} had the same verdict again."
    )
    return "\n".join([text, "", *table_of_duels(rows)])


def table_of_duels(rows: Iterable[Row]) -> Iterator[str]:
    """A row for each duel: the curriculum and its least favourable opponent."""
    yield line("", "curriculum", "opponent", "", "difference [95 %]", "p", "detectable", "")
    yield "|---|---:|---:|---|---|---:|---:|---|"
    for row in rows:
        if "failed" in row:
            yield line(row["name"], *[""] * 6, f"failed: {row['failed']}")
            continue
        against = next(one for one in row["opponents"] if one["least"])
        yield line(
            row["name"],
            f"{row['mean']:.4f}",
            f"{against['mean']:.4f}",
            " and ".join(against["roles"]),
            f"{signed(against['difference'])} {interval_words(against['ci95'])}",
            p_value(against["p"]),
            f"{row['detectable']:.4f}",
            VERDICTS[row["verdict"]],
        )


# -- the first round -----------------------------------------------------------------------------------------------


def searches(rows: Iterable[Row]) -> list[Row]:
    """In the order of their design."""
    return [row for study in STUDIES for row in rows if row["study"] == study]


def first_round(rows: Sequence[Row]) -> str:
    """What the duels of the first round said."""
    found, again = searches(rows), replications(rows)
    verdicts, detectable = Counter(row["verdict"] for row in found), [row["detectable"] for row in found]
    significant = sum(p <= 1 - LEVEL and row["difference"] * row["before"] > 0 for row, p in again.values())
    pool = pooled([row["difference"] for row in found], [row["interval"] for row in found])
    return (
        f"Of {len(found)} searches, the best curriculum was better in {verdicts['better']}, worse in "
        f"{verdicts['worse']} and not significantly different in {verdicts[NO_DIFFERENCE]}; with fresh seeds, "
        f"{significant} of {len(again)} differences were significant again. Pooled: {effect(pool)} (SD between "
        f"searches {pool.sd:.3f}). Minimum detectable difference: {median(detectable):.3f} at the median, "
        f"{min(detectable):.3f} at best."
    )


def replications(rows: Sequence[Row]) -> dict[str, tuple[Row, float]]:
    """What was tested again, by cell, each with its p over all of these (Holm)."""
    again = [row for row in rows if row["study"] == "replications"]
    adjusted = adjust([row["p_new"] for row in again]).tolist()
    return {row["cell"]: (row, p) for row, p in zip(again, adjusted, strict=True)}


def first_table(rows: Sequence[Row]) -> Iterator[str]:
    again = replications(rows)
    yield line("", "default", "tuned plain", "curriculum", "gain [95 %]", "seeds", "detectable", "", "again")
    yield "|---|---:|---:|---:|---|---:|---:|---|---|"
    for row in searches(rows):
        values = [SHORT.get(str(value), str(value).rpartition("/")[2]) for value in row["values"].values()]
        fresh = again.get(row["cell"])
        yield line(
            ", ".join([*STUDIES[row["study"]], *values]),
            *(f"{(row[arm] or row['plain'])['mean']:.4f}" for arm in ("default", "plain", "curriculum")),
            f"{signed(row['difference'])} {interval_words(row['interval'])}",
            str(len(row["seeds"])),
            f"{row['detectable']:.3f}",
            VERDICTS[row["verdict"]],
            f"{signed(fresh[0]['difference'])}, p {p_value(fresh[1])}" if fresh else "",
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
        point(means, at, cell.main.mean, cell.main.mean_ci95, "C0", "o")
        means.plot(cell.median, at, color="C3", marker="|", ms=12, mew=2)
        if cell.main.sd_true is not None and cell.main.sd_true_ci95:
            point(spreads, at, cell.main.sd_true, cell.main.sd_true_ci95, "C1", "s")
    names = [f"all {len(cells)}, pooled", *(where(cell.row) for cell in cells)]
    means.set_yticks(range(len(names)), names, fontsize=9)
    means.invert_yaxis()
    means.axvline(0, color="black", lw=0.8)
    means.set_title("what a curriculum changes: mean, and median (red)", fontsize=10)
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


def parts(rows: Sequence[Row], own: Sequence[Row], duels: Sequence[Row], first: Sequence[Row]) -> dict[str, str]:
    """What stands between the marks of the page, by name."""
    cells = cells_of(rows)
    return {
        "answer": answer(rows),
        "controls": controls(rows, own),
        "duels": duels_found(duels),
        "cells": "\n".join(table_of_cells(cells)),
        "checks": "\n".join(table_of_checks(cells)),
        "values": "\n".join(table_of_values(cells)),
        "first round": first_round(first),
        "first table": "\n".join(first_table(first)),
    }


def stored() -> list[list[dict[str, Any]]]:
    """The rows of the study, of its controls, of the duels and of the first round."""
    return [read_rows(FOLDER / f"{name}.jsonl") for name in ("effects", "controls", "duels", "first_round")]


def write_page() -> None:
    rows, own, duels, first = stored()
    for name, text in parts(rows, own, duels, first).items():
        put(PAGE, BEGIN.format(name), END, text)
    put(README, BEGIN.format("counts"), END, summary(cells_of(rows)))
    COUNTS.write_text(json.dumps(verdicts(first)) + "\n")
    draw(cells_of(rows))
