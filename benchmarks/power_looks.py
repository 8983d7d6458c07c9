"""Two arms looked at after each seed, or read again with more seeds: error, seeds, and the size that is read.

    python -m benchmarks.power looks       `confirm --until-settled`
    python -m benchmarks.power readings    a confirmation with 5 seeds, then 10, then 20

A look after each seed from the third on, with the levels, the conditional power and the correction of
`tune_cl.confirmation.looks`. Draws are those of power_arms. docs/dev/verdict-simulations.md holds what this prints."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from scipy.special import ndtri

from benchmarks.power_arms import SPREADS, mean_squares, on_split
from benchmarks.power_grid import LEVEL, OF_QUERIES, RESIDUAL, Summary, p_new
from trainables.core.randomness import generator
from trainables.evaluation.significance import Components, CrossedTest
from tune_cl.confirmation.looks import (
    FIRST_LOOK,
    LEAST_POWER,
    bias_adjusted,
    conditional_power,
    nominal_levels,
    reading_levels,
)

MOST = 20
QUERIES = (150, 800, 5000)
READINGS = (5, 10, 20)


@dataclass(frozen=True)
class Case:
    """`of_seeds`: SD over seeds in the plain and in the other arm."""

    of_seeds: tuple[float, float]
    queries: int
    repetitions: int

    def error(self, seeds: int) -> float:
        """Standard error of the difference."""
        return self._variance(seeds) ** 0.5

    def _variance(self, seeds: int) -> float:
        per_seed = sum(sd**2 for sd in self.of_seeds) + 2 * RESIDUAL**2 / self.queries
        return per_seed / seeds + 2 * OF_QUERIES**2 / self.queries

    def summaries(self, seeds: Sequence[int], shift: float) -> Iterator[Summary]:
        """What is seen after each number of seeds, the other arm better by `shift`."""
        rng = generator(self.queries, f"{self.of_seeds} {shift}")
        true = np.tile([0.0, shift], (self.repetitions, 1))
        effects = np.array(self.of_seeds)[:, None] * rng.standard_normal((self.repetitions, 2, max(seeds)))
        means = on_split(true, effects, self.queries, rng)
        for count in seeds:
            squares = mean_squares(count, self.queries, (self.repetitions, 1), rng)
            yield Summary(means[:, :, :count], *squares, self.queries)

    def components(self, summary: Summary) -> Any:
        """Components of arrays [R] of estimates."""
        of_seed, of_query, residual = (
            each[:, 0] for each in (summary.moderated[0], summary.of_query, summary.residual)
        )
        of_seeds: Any = np.maximum(of_seed - residual, 0) / self.queries
        of_queries: Any = np.maximum(of_query - residual, 0) / summary.seeds
        return Components(of_seeds, of_queries, cast(Any, residual))

    def followed(self, shift: float) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """At each confirmation's end: seeds, whether a difference was shown, its size, and that corrected."""
        looks = tuple(range(FIRST_LOOK, MOST + 1))
        levels = nominal_levels(looks, MOST)
        seeds, shown, size, left = (np.zeros(self.repetitions) for _ in range(4))
        for look, level, summary in zip(looks, levels, self.summaries(looks, shift), strict=True):
            difference, parts = summary.difference[:, 0], self.components(summary)
            hit = p_new(summary)[:, 0] <= level
            chances = conditional_power(difference, parts, self.queries, look, MOST, levels[-1])
            hopeless = np.maximum(*chances) < LEAST_POWER
            ends = (seeds == 0) & (hit | hopeless | (look == MOST))
            seeds[ends], shown[ends], size[ends] = look, hit[ends], difference[ends]
            left[ends] = difference[ends]
            for place in np.flatnonzero(ends & hit):
                own = Components(parts.of_seed[place], parts.of_query[place], parts.residual[place])
                left[place] = bias_adjusted(size[place], CrossedTest(0.0, (0.0, 0.0), own), self.queries, MOST)
        return seeds, shown, size, left


def looks(repetitions: int) -> Iterator[str]:
    """True differences: what MOST seeds show with probability .6, .8, .975, and twice the second."""
    powers = {"half": 0.6, "four of five": 0.8, "nearly all": 0.975, "all": None}
    heads = " | ".join(f"{name}: found | seeds | read | corrected" for name in powers)
    yield f"| SD of seeds | queries | error | seeds, none true | {heads} |"
    yield "|---|---:|---:|---:|" + "---:|---:|---:|---:|" * len(powers)
    for of_seeds in ((0.0, 0.0), *SPREADS):
        for queries in QUERIES:
            case = Case(of_seeds, queries, repetitions)
            seeds, shown, _, _ = case.followed(0.0)
            cells = [f"{shown.mean():.3f}", f"{seeds.mean():.1f}"]
            for power in powers.values():
                needed = ndtri(1 - LEVEL / 2) + ndtri(power or 0.8)
                true = float(needed * (1 if power else 2) * case.error(MOST))
                seeds, shown, size, left = case.followed(true)
                found = (shown > 0) & (size > 0)
                ratios = (f"{each[found].mean() / true:.2f}" for each in (size, left))
                cells += [f"{found.mean():.2f}", f"{seeds.mean():.1f}", *ratios]
            yield f"| {'/'.join(f'{sd:g}' for sd in of_seeds)} | {queries} | {' | '.join(cells)} |"


def readings(repetitions: int) -> Iterator[str]:
    """Errors and power where a confirmation is read at READINGS seeds until it shows a difference."""
    yield "| SD of seeds | queries | error, first | .05 each time | with the levels | power, first | with the levels |"
    yield "|---|---:|---:|---:|---:|---:|---:|"
    levels = reading_levels(READINGS)
    for of_seeds in ((0.0, 0.0), *SPREADS):
        for queries in QUERIES:
            case = Case(of_seeds, queries, repetitions)
            rates = []
            for shift in (0.0, 2.5 * case.error(READINGS[0])):
                p = np.stack([p_new(summary)[:, 0] for summary in case.summaries(READINGS, shift)])
                shown = (p[0] <= LEVEL), (p <= LEVEL).any(axis=0), (p <= levels[:, None]).any(axis=0)
                rates.append([float(each.mean()) for each in shown])
            none, true = rates
            cells = " | ".join(f"{each:.3f}" for each in (*none, true[0], true[2]))
            yield f"| {'/'.join(f'{sd:g}' for sd in of_seeds)} | {queries} | {cells} |"
