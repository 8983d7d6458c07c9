"""How many seeds a confirmation needs, from how much queries and seeds vary: `tune-cl plan`.

The variances come from an earlier confirmation of the search, or from a few trainings of the baseline on dev.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from trainables.core.errors import ConfigError, Problem
from trainables.core.prose import counted
from trainables.evaluation.significance import Components, detectable, mean_squares, seeds_needed
from tune_cl.confirmation.request import PlanRequest
from tune_cl.confirmation.selection import SEEDS as SEEDS_OF_SELECTION
from tune_cl.confirmation.verdict import LEVEL, last_verdict
from tune_cl.documents import document_of
from tune_cl.history.state import SearchState
from tune_cl.results import Effects

SEEDS = (3, 5, 10, 20, 50)
QUERIES = (0.5, 1, 2, 4)  # times those of the split
OF_TWO_SAMPLES = 1.75  # Welch's degrees of freedom for each of N - 1 where two arms vary alike: with five seeds
PILOT_NOTE = (
    "from trainings of the baseline alone: another configuration is taken to vary as much with the seed, by itself, "
    "and its per-query effects are not known"
)


@dataclass(frozen=True)
class Variances:
    """What the design of a confirmation depends on. `queries`: in the split; `seed_freedom`, `lent`: as in CrossedTest;
    `source`: in words."""

    components: Components
    queries: int
    source: str
    seed_freedom: float = 1.0
    lent: float = 0.0
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class PlanRow:
    """The smallest difference that so many seeds and queries show. hours: of all trainings; None if none is timed."""

    seeds: int
    queries: int
    detectable: float
    hours: float | None


@dataclass(frozen=True, kw_only=True)
class Plan:
    """How many seeds a confirmation needs.

    difference, power, top  what was asked for
    components, source      how much seeds and queries vary, and where that is from
    queries                 of the split
    seeds_needed            the fewest seeds that show `difference`; None for more than 100, or if none was asked for
    over_curricula, effects what the pairs of the search say so far, as in its result
    """

    search: str
    metric: str
    difference: float | None
    components: Components
    source: str
    queries: int
    power: float
    top: int
    table: tuple[PlanRow, ...]
    notes: tuple[str, ...]
    seeds_needed: int | None
    over_curricula: bool = True
    effects: Effects | None = None

    @property
    def document(self) -> dict[str, Any]:
        """For `tune-cl plan --json`."""
        return document_of(self)


def recorded(folder: Path) -> Variances:
    """From the last confirmation of the search in this folder that has any: not one with one seed, or of an earlier
    version. Raises ConfigError if there is none."""
    for verdict in filter(None, (last_verdict(folder, split) for split in ("test", "dev"))):
        if found := verdict.components:
            source = f"the confirmation on {verdict.split} with {counted(len(verdict.seeds), 'seed')}"
            components = Components(found.of_seed, found.of_query, found.residual)
            return Variances(components, verdict.queries, source, found.seed_freedom, found.lent)
    wrong = f"search '{folder.name}' has no confirmation whose variances are on record"
    right = "--pilot 3, which trains the baseline three times; or tune-cl confirm first"
    raise ConfigError(Problem("NAME", wrong, right))


def of_pilot(values: np.ndarray, paired: bool) -> Variances:
    """From per-query values [N, Q] of N trainings of the baseline: the difference of two independent trainings varies
    twice as much as one. `paired`: whether the test will pair equal seeds."""
    of_seed, _, residual = mean_squares(values)
    seeds, queries = values.shape
    components = Components(2 * max(0.0, of_seed - residual) / queries, 0.0, 2 * residual)
    source = f"{counted(seeds, 'training')} of the baseline on dev"
    freedom = 1.0 if paired else OF_TWO_SAMPLES
    return Variances(components, queries, source, freedom, notes=(PILOT_NOTE,))


def seconds_of(state: SearchState) -> float | None:
    """Mean seconds of a training: of confirmations, else of the trials that were not stopped early; None if nothing
    has been trained to its end."""
    confirmed = [event["metrics"]["seconds"] for event in state.confirmations if "seconds" in event["metrics"]]
    ended = [trial for trial in state.by_number() if trial.outcome in ("completed", "baseline")]
    trained = confirmed or [sum(row["seconds"] for row in trial.results.values()) for trial in ended]
    return float(np.mean(trained)) if trained else None


def plan_of(state: SearchState, variances: Variances, asked: PlanRequest) -> Plan:
    """What the test of two champions can show with probability `power`, the hours that it takes after a selection among
    `top` configurations of each arm, and the fewest seeds, up to 100, that would show `difference`. Raises ConfigError
    if nothing varies."""
    difference, power, top = asked.difference, asked.power, asked.top
    components, seconds = variances.components, seconds_of(state)
    freedom, lent = variances.seed_freedom, variances.lent
    if not any(asdict(components).values()):
        wrong = f"the values do not vary: {variances.source}"
        raise ConfigError(Problem("NAME", wrong, "a search whose trainings differ; see training.lr"))
    selecting = 2 * top * SEEDS_OF_SELECTION if top > 1 else 0
    table = []
    for factor in QUERIES:
        queries = max(2, round(variances.queries * factor))
        for seeds in SEEDS:
            smallest = detectable(components, seeds, queries, freedom, LEVEL, power, lent)
            hours = None if seconds is None else (selecting + 2 * seeds) * seconds / 3600
            table.append(PlanRow(seeds, queries, smallest, hours))
    needed = None
    if difference is not None:
        needed = seeds_needed(difference, components, variances.queries, freedom, LEVEL, power, lent)
    return Plan(
        search=state.name,
        metric=state.metric,
        difference=difference,
        components=components,
        source=variances.source,
        queries=variances.queries,
        power=power,
        top=top,
        table=tuple(table),
        notes=variances.notes,
        seeds_needed=needed,
    )
