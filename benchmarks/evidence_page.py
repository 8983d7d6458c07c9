"""Writes what the study of effects found into docs/results.md and the README, and draws it into docs/images."""

from __future__ import annotations

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
    HARMFUL,
    KINDS,
    STUDY,
    CellEffects,
    Group,
    Pooled,
    judged_early,
    pooled,
    portfolio,
    read_rows,
)
from benchmarks.pages import put
from trainables.evaluation.significance import LEVEL, holm
from tune_cl.results import Effects
from tune_cl.verdict.figures import interval_words, p_value, signed

DOCS = Path(__file__).parents[1] / "docs"
PAGE, PICTURES, README = DOCS / "results.md", DOCS / "images", DOCS.parent / "README.md"
BEGIN, END = "<!-- evidence: {} -->\n", "<!-- end of evidence -->"
SHORT = {
    "knrm": "KNRM", "conv_knrm": "ConvKNRM", "bert": "cross-encoder", "bi_encoder": "bi-encoder",
    "minilm": "MiniLM cross-encoder", "lambdamart": "LambdaMART",
}  # fmt: skip
LABELS = {"clean": "clean", "random": "40 % random", "hard": "40 % hard"}
NO_DIFFERENCE = "no difference shown"
NFCORPUS = "trec/nfcorpus"  # a data set of which the page says more
VERDICTS = {"better": "**better**", "worse": "**worse**", NO_DIFFERENCE: NO_DIFFERENCE}
NINE = "the nine published"  # curricula
REACH = 0.075  # of the picture, to each side of 0
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


def networks(cells: Sequence[CellEffects]) -> list[CellEffects]:
    """The cells whose curricula order training pairs; those of trees do not."""
    return [cell for cell in cells if cell.row["ranker"] != "lambdamart"]


def groups(cells: Sequence[CellEffects]) -> dict[str, Group]:
    """The published curricula, then all by what they do."""
    found = {NINE: Group.of(networks(cells), CellEffects.published)}
    for kind in KINDS.values():
        found[kind] = Group.of(networks(cells), lambda cell, pair, kind=kind: cell.kind(pair) == kind)
    return found


def every(cells: Sequence[CellEffects]) -> Group:
    return Group.of(cells, lambda cell, pair: True)


def summary(cells: Sequence[CellEffects]) -> str:
    """The answer in a sentence."""
    kinds = groups(cells)
    published = kinds.pop(NINE)
    apart = [
        f"'{kind}', {effect(one.over_cells)} ({effect(one.over_equal_data_sets)})"
        for kind, one in kinds.items()
        if direction(one.over_cells.ci95)
    ]
    return (
        f"Over {len(published.cells)} combinations of data, ranker and training labels, {NINE} curricula change MAP by "
        f"{effect(published.over_cells)} on average ({effect(published.over_equal_data_sets)} with equal weights for "
        f"the {len(published.data_sets)} data sets); of {len(kinds)} groups formed after the fact by what curricula "
        f"do, the interval excludes 0 only for {'; '.join(apart) or 'none'}."
    )


def answer(rows: Sequence[Row]) -> str:
    """When does a curriculum help?"""
    cells = cells_of(rows)
    return "\n".join([
        summary(cells),
        "",
        *table_of_groups(cells),
        "",
        *table_of_differing(cells),
        "",
        *table_of_questions(cells),
        "",
        state(rows),
    ])  # fmt: skip


def table_of_groups(cells: Sequence[CellEffects]) -> Iterator[str]:
    yield line("", "curricula", "combinations", "MAP [95 %]", "weight of NFCorpus", "data sets weighted equally [95 %]")
    yield "|---|---:|---:|---|---:|---|"
    for name, one in groups(cells).items():
        yield line(
            name,
            str(one.curricula),
            str(len(one.cells)),
            effect(one.over_cells),
            f"{one.weight(NFCORPUS):.2f}",
            effect(one.over_equal_data_sets),
        )


def table_of_differing(cells: Sequence[CellEffects]) -> Iterator[str]:
    """Where true effects differ."""
    among = {
        "all": every(cells),
        f"all but: {HARMFUL}": Group.of(cells, lambda cell, pair: cell.kind(pair) != HARMFUL),
        "easy first": Group.of(cells, lambda cell, pair: not cell.kind(pair).startswith("hard")),
    }
    yield line("curricula", "differ by more than seeds and queries explain", "where")
    yield "|---|---|---|"
    for name, group in among.items():
        told = [(cell, found.sd_true_ci95) for cell, found in group.cells if found.sd_true_ci95]  # not by one seed
        apart = [where(cell.row) for cell, interval in told if interval[0] > 0]
        yield line(name, f"in {len(apart)} of {len(told)} combinations", "; ".join(apart))


def table_of_questions(cells: Sequence[CellEffects]) -> Iterator[str]:
    """What else the trainings say."""
    rows = [
        means_outside_0(NINE, groups(cells)[NINE]),
        means_outside_0("all curricula", every(cells)),
        tests_of_the_best(cells),
        ("Paced trainings whose checkpoint is at or before the end of their pacing",
         "{} of {}".format(*judged_early(networks(cells)))),
        portfolio_words(cells),
    ]  # fmt: skip
    yield line("", "")
    yield "|---|---|"
    for row in rows:
        yield line(*row)


def means_outside_0(name: str, group: Group) -> tuple[str, str]:
    found, adjusted = [one for _, one in group.cells], holm(np.array(group.p_values))
    sides = [direction(one.ci95) for one in found]
    kept = [side for side, p in zip(sides, adjusted, strict=True) if p <= 1 - LEVEL]
    return (
        f"Combinations in which the interval of {name} is above or below 0",
        f"{sides.count(1)} above, {sides.count(-1)} below, of {len(sides)}; after Holm at most {kept.count(1)} and "
        f"{kept.count(-1)} (smallest p {p_value(min(adjusted))})",
    )


def tests_of_the_best(cells: Sequence[CellEffects]) -> tuple[str, str]:
    adjusted = holm(np.array([cell.best.p or 1.0 for cell in cells]))
    tested = [(cell.best.difference, p) for cell, p in zip(cells, adjusted, strict=True)]
    better, worse = (sum(p <= 1 - LEVEL and sign * found > 0 for found, p in tested) for sign in (1, -1))
    return (
        "The best curriculum of each combination, chosen by one half of the test queries, against its twin with fresh "
        "seeds on the other half",
        f"better in {better} of {len(cells)}, worse in {worse} (Holm). One such test alone detects a gain of "
        f"{median(cell.detectable for cell in cells):.3f} at the median (80 % power)",
    )


def portfolio_words(cells: Sequence[CellEffects]) -> tuple[str, str]:
    """Whether what was good on other data sets is good on one that was left out."""
    found = portfolio(cells)
    return (
        f"The eight curricula that are best on all other data sets, against the mean of all {COMMON}",
        f"{effect(found)} ({len(found.weights)} data sets)" if found else "there are too few data sets",
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
    first = "plain", "mean effect [95 %]", "median", "nDCG@10", "SD of true effects"
    yield line("", *first, "the best [95 %]", "p")
    yield "|---|---:|---|---:|---|---|---|---:|"
    pools = effect(every(cells).over_cells), effect(pooled_ndcg(cells))
    yield line("**all, pooled**", "", f"**{pools[0]}**", "", pools[1], *[""] * 3)
    for cell in cells:
        main, ndcg, best = cell.main, cell.effects("ndcg@10"), cell.best
        yield line(
            where(cell.row) + " + BM25" * cell.row["checks"][-1]["first_stage"],
            f"{cell.plain:.4f}",
            f"{signed(main.mean)} {interval_words(main.ci95)}",
            signed(cell.median),
            f"{signed(ndcg.mean)} {interval_words(ndcg.ci95)}",
            true_sd(main),
            f"{signed(best.difference)} {interval_words(best.ci95)}",
            p_value(best.p),
        )


def true_sd(found: Effects) -> str:
    """Of the curricula's true effects, with its interval; empty for one seed."""
    if found.sd_true is None or found.sd_true_ci95 is None:
        return ""
    return "{:.4f} [{:.4f}, {:.4f}]".format(found.sd_true, *found.sd_true_ci95)


def pooled_ndcg(cells: Sequence[CellEffects]) -> Pooled:
    found = [cell.effects("ndcg@10") for cell in cells]
    return pooled([one.mean for one in found], [one.ci95 for one in found])


# -- duels ---------------------------------------------------------------------------------------------------------


def duels_found(rows: Sequence[Row]) -> str:
    """What searches as users run them said."""
    ended = [row for row in rows if "verdict" in row and not row["swapped"]]
    again = {row["name"]: row for row in rows if row["swapped"]}
    if not ended:
        return "None has been run yet."
    verdicts = Counter(row["verdict"] for row in ended)
    detectable = median(row["detectable"] for row in ended)
    text = (
        f"Of {len(ended)} searches, each confirmed with {ended[0]['seeds']} seeds, the best curriculum was better "
        f"than all its plain opponents in {verdicts['better']}, worse in {verdicts['worse']} and not significantly "
        f"different in {verdicts[NO_DIFFERENCE]} (minimum detectable difference {detectable:.3f} at the median)."
    )
    remarks = [better_words(row, again[f"{row['name']}-swapped"]) for row in ended if row["verdict"] == "better"]
    remarks += [alike_words(row) for row in ended if row["data"] == NFCORPUS]
    return "\n".join([" ".join([text, *remarks]), "", *table_of_duels(rows)])


def opponents_of(row: Row) -> tuple[Row, Row]:
    """The least favourable opponent, and the default of plain training."""
    least = next(one for one in row["opponents"] if one["least"])
    return least, next(one for one in row["opponents"] if "default" in one["roles"])


def better_words(row: Row, again: Row) -> str:
    """What a gain is worth: against BM25, its opponent's default, and on other queries."""
    (least, default), fresh = opponents_of(row), opponents_of(again)[0]
    found = "was found again" if again["verdict"] == row["verdict"] else "was not found again"
    return (
        f"The better one, {row['name']}, is {side(row['mean'], 'BM25', row['bm25'])}, and its opponent is "
        f"{side(least['mean'], 'the default of plain training', default['mean'])}. With dev and test swapped it "
        f"{found} ({signed(fresh['difference'])} {interval_words(fresh['ci95'])}, p {p_value(fresh['p'])})."
    )


def side(mean: float, name: str, other: float) -> str:
    return f"{'above' if mean > other else 'below'} {name} ({mean:.3f} against {other:.3f})"


def alike_words(row: Row) -> str:
    means = [row["mean"], row["bm25"], *(one["mean"] for one in row["opponents"])]
    return (
        f"{row['name']} had nothing to find: BM25 is added to every score, and the means of all its trainings and of "
        f"BM25 lie within {max(means) - min(means):.4f}."
    )


def table_of_duels(rows: Iterable[Row]) -> Iterator[str]:
    """A row for each duel: the curriculum and its least favourable opponent."""
    yield line("", "BM25", "default", "opponent", "", "curriculum", "difference [95 %]", "p", "detectable", "")
    yield "|---|---:|---:|---:|---|---:|---|---:|---:|---|"
    for row in rows:
        if "failed" in row:
            yield line(row["name"], *[""] * 8, f"failed: {row['failed']}")
            continue
        against, default = opponents_of(row)
        yield line(
            row["name"],
            *(f"{value:.4f}" for value in (row["bm25"], default["mean"], against["mean"])),
            " and ".join(against["roles"]),
            f"{row['mean']:.4f}",
            f"{signed(against['difference'])} {interval_words(against['ci95'])}",
            p_value(against["p"]),
            f"{row['detectable']:.4f}",
            VERDICTS[row["verdict"]],
        )


# -- the picture ---------------------------------------------------------------------------------------------------


def draw(cells: Sequence[CellEffects]) -> None:
    """A forest plot: groups of curricula over all combinations, with both weights; then the published in each."""
    found = groups(cells)
    cells_of_nine = found[NINE].cells
    names = [*found, *(where(cell.row) for cell, _ in cells_of_nine)]
    figure = Figure(figsize=(9.6, 1.4 + 0.32 * len(names)), layout="constrained")
    axes = figure.subplots()
    for at, group in enumerate(found.values()):
        point(axes, at - 0.12, group.over_cells, "C0", "D", "" if at else "combinations by precision")
        point(axes, at + 0.2, group.over_equal_data_sets, "C1", "o", "" if at else "data sets weighted equally")
    for at, (_, effects) in enumerate(cells_of_nine, len(found)):
        point(axes, at, effects, "black", "s", "" if at > len(found) else f"{NINE}, by combination")
    axes.set_yticks(range(len(names)), names, fontsize=9)
    axes.invert_yaxis()
    axes.set_xlim(-REACH, REACH)
    axes.axvline(0, color="black", lw=0.8)
    axes.axhline(len(found) - 0.5, color="grey", lw=0.6)
    axes.grid(axis="x", alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(axis="y", length=0)
    axes.legend(loc="lower right", fontsize=8)
    figure.supxlabel("change of MAP on test against plain training, with 95 % intervals", fontsize=9)
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "tune-cl"}):
        figure.savefig(PICTURES / "evidence.svg", metadata={"Date": None})


def point(axes: Axes, at: float, found: Pooled | Effects, colour: str, marker: str, label: str) -> None:
    low, high = found.ci95
    reach = [[found.mean - low], [high - found.mean]]
    axes.errorbar(found.mean, at, xerr=reach, color=colour, marker=marker, label=label, ms=5, capsize=2, lw=1.2)


# -- the page ------------------------------------------------------------------------------------------------------


def parts(rows: Sequence[Row], duels: Sequence[Row]) -> dict[str, str]:
    """What stands between the marks of the page, by name."""
    cells = cells_of(rows)
    return {
        "answer": answer(rows),
        "duels": duels_found(duels),
        "cells": "\n".join(table_of_cells(cells)),
    }


def stored() -> list[list[dict[str, Any]]]:
    """The rows of the study and of the duels."""
    return [read_rows(FOLDER / f"{name}.jsonl") for name in ("effects", "duels")]


def write_page() -> None:
    rows, duels = stored()
    for name, text in parts(rows, duels).items():
        put(PAGE, BEGIN.format(name), END, text)
    put(README, BEGIN.format("counts"), END, summary(cells_of(rows)))
    draw(cells_of(rows))
