"""How many trees plain training needs to reach what a curriculum reaches (Ferro et al. 2018, Table 2)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tune_cl.report.findings import Findings, words
from tune_cl.report.markup import NONE, Html, figure, number, paragraph, table

POINTS = 5  # equal parts of the training, at whose ends the two are compared
TREES = "ranker.trees_per_iteration"


@dataclass(frozen=True)
class Needed:
    """`trees` of a curriculum give the value `dev`, which plain training first reaches with `plain` trees (None:
    never)."""

    trees: int
    dev: float
    plain: int | None

    @property
    def ratio(self) -> float | None:
        """Plain training's trees divided by the curriculum's."""
        return None if self.plain is None else self.plain / self.trees


def needed(dev: Mapping[int, float], plain: Mapping[int, float], trees: int, plain_trees: int) -> list[Needed]:
    """Compares a trial with plain training at the ends of POINTS equal parts of the trial.

    dev, plain           value by iteration, from 1, of the trial and of plain training
    trees, plain_trees   trees an iteration of each
    """
    last = max(dev, default=0)
    at = sorted({round(last * part / POINTS) for part in range(1, POINTS + 1)} & dev.keys())
    return [Needed(iteration * trees, dev[iteration], _first(plain, dev[iteration], plain_trees)) for iteration in at]


def _first(values: Mapping[int, float], level: float, trees: int) -> int | None:
    """Trees after the first iteration whose value is at least `level`, if any."""
    reached = [iteration for iteration, value in values.items() if value >= level]
    return min(reached) * trees if reached else None


def trees_section(findings: Findings) -> list[Html]:
    """The best curriculum against plain training under the same seed if the search's rankers grow trees; else empty."""
    best, baseline = next(iter(findings.pairs), (None, None))
    if baseline is None or best is None or not {TREES} <= baseline.params.keys() & best.params.keys():
        return []
    rows = needed(best.dev(findings.metric), baseline.dev(findings.metric), best.params[TREES], baseline.params[TREES])
    most = max(baseline.results, default=0) * baseline.params[TREES]
    shown = table(
        [f"trees of {words(best)}", f"dev {findings.metric}", "trees of plain training", "ratio"],
        [_row(row, most) for row in rows],
        numeric=range(4),
    )
    note = paragraph("The trees with which plain training first has as high a dev value.")
    return [figure("Trees for the same quality", shown, note)]


def _row(row: Needed, most: int) -> list[str]:
    plain = f"more than {most}" if row.plain is None else str(row.plain)
    return [str(row.trees), number(row.dev), plain, NONE if row.ratio is None else f"{row.ratio:.2f}"]
