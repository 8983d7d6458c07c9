"""How many seeds a confirmation needs, from how much queries and seeds vary: `tune-cl plan`.

The variances come from an earlier confirmation of the search, or from a few trainings of the baseline on dev.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from trainables.core.prose import counted
from trainables.evaluation.significance import Components, detectable, mean_squares, seeds_needed
from tune_cl.confirmation.selection import SEEDS as SEEDS_OF_SELECTION
from tune_cl.confirmation.verdict import LEVEL
from tune_cl.history.state import SearchState

SEEDS = (3, 5, 10, 20, 50)
QUERIES = (0.5, 1, 2, 4)  # times those of the split
PILOT_NOTE = (
    "from trainings of the baseline alone: another configuration is taken to vary as much with the seed, by itself, "
    "and its per-query effects are not known"
)


@dataclass(frozen=True)
class Variances:
    """What the design of a confirmation depends on. `queries`: in the split; `seed_freedom`: as in CrossedTest;
    `source`: in words."""

    components: Components
    queries: int
    source: str
    seed_freedom: float = 1.0
    notes: tuple[str, ...] = ()

    def detectable(self, seeds: int, queries: int, level: float, power: float) -> float:
        """The smallest difference shown with probability `power`."""
        return detectable(self.components, seeds, queries, self.seed_freedom, level, power)

    def seeds_needed(self, difference: float, level: float, power: float) -> int | None:
        """The fewest seeds, up to 100, that would show a difference with probability `power`."""
        return seeds_needed(difference, self.components, self.queries, self.seed_freedom, level, power)


def of_confirmation(document: Mapping[str, Any] | None) -> Variances | None:
    """From the document of an earlier confirmation; None if it has no variances: one seed, or an earlier version."""
    components = (document or {}).get("components")
    if not document or not components:
        return None
    seeds = counted(len(document["seeds"]), "seed")
    source = f"the confirmation on {document['split']} with {seeds}"
    values = dict(components)
    freedom = values.pop("seed_freedom")
    return Variances(Components(**values), document["queries"], source, freedom)


def of_pilot(values: np.ndarray) -> Variances:
    """From per-query values [N, Q] of N trainings of the baseline: the difference of two independent trainings varies
    twice as much as one."""
    of_seed, _, residual = mean_squares(values)
    seeds, queries = values.shape
    components = Components(2 * max(0.0, of_seed - residual) / queries, 0.0, 2 * residual)
    source = f"{counted(seeds, 'training')} of the baseline on dev"
    return Variances(components, queries, source, notes=(PILOT_NOTE,))


def seconds_of(state: SearchState) -> float | None:
    """Mean seconds of a training: of confirmations, else of the trials that were not stopped early; None if nothing
    has been trained to its end."""
    confirmed = [event["metrics"]["seconds"] for event in state.confirmations if "seconds" in event["metrics"]]
    ended = [trial for trial in state.by_number() if trial.outcome in ("completed", "baseline")]
    trained = confirmed or [sum(row["seconds"] for row in trial.results.values()) for trial in ended]
    return float(np.mean(trained)) if trained else None


def plan_of(variances: Variances, top: int, power: float, seconds: float | None) -> dict[str, Any]:
    """The document of `tune-cl plan` without its question: what the test of two champions can show, and the hours that
    it takes after a selection among `top` configurations of each arm. `seconds`: of a training."""
    selecting = 2 * top * SEEDS_OF_SELECTION if top > 1 else 0
    table = []
    for factor in QUERIES:
        queries = max(2, round(variances.queries * factor))
        for seeds in SEEDS:
            smallest = variances.detectable(seeds, queries, LEVEL, power)
            hours = None if seconds is None else (selecting + 2 * seeds) * seconds / 3600
            table.append({"seeds": seeds, "queries": queries, "detectable": smallest, "hours": hours})
    components = asdict(variances.components)
    basics = {"components": components, "source": variances.source, "queries": variances.queries, "power": power}
    return basics | {"top": top, "table": table, "notes": list(variances.notes)}
