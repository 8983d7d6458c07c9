"""Two arms looked at after each seed, or read again with more seeds: error, seeds, and the size that is told.

    python -m benchmarks.power looks       `confirm --until-settled`: error, power, seeds
    python -m benchmarks.power sizes       the size, and the interval's coverage
    python -m benchmarks.power readings    a confirmation with 5 seeds, then 10 and 20, or then looks

A look after each seed from the third on, with the levels, the conditional power and the ordering of
`tune_cl.confirmation.looks`. Draws are those of power_arms. docs/dev/verdict-simulations.md holds what this prints."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from scipy.special import ndtri

from benchmarks.power_arms import SPREADS, Tested, mean_squares, on_split, tested
from benchmarks.power_grid import LEVEL, OF_QUERIES, RESIDUAL, Summary
from trainables.core.randomness import generator
from trainables.evaluation.significance import FEW, Components, p_of
from tune_cl.confirmation.looks import (
    FIRST_LOOK,
    LEAST_POWER,
    boundary,
    conditional_power,
    reading_levels,
    stagewise,
)

MOST = (4, 6, 12, 20)
QUERIES = (800, 5000)
READINGS = (5, 10, 20)
NOISY = ((0.05, 0.05),)


@dataclass(frozen=True)
class Ends:
    """How confirmations ended, a value each: seeds, whether a difference was shown, the mean difference, and its size,
    p and interval over all looks."""

    seeds: np.ndarray
    shown: np.ndarray
    difference: np.ndarray
    size: np.ndarray
    p: np.ndarray
    low: np.ndarray
    high: np.ndarray


@dataclass(frozen=True)
class Case:
    """`of_seeds`: SD over seeds in the plain and in the other arm; `paired`: whether seeds are."""

    of_seeds: tuple[float, float]
    queries: int
    repetitions: int
    paired: bool = False

    def error(self, seeds: int) -> float:
        """Standard error of the difference."""
        per_seed = sum(sd**2 for sd in self.of_seeds) + 2 * RESIDUAL**2 / self.queries
        return (per_seed / seeds + 2 * OF_QUERIES**2 / self.queries) ** 0.5

    def tests(self, seeds: Sequence[int], shift: float, few: int = FIRST_LOOK) -> Iterator[Tested]:
        """What is seen after each number of seeds, the other arm better by `shift`; `few`: see Seeds."""
        rng = generator(self.queries, f"{self.of_seeds} {shift}")
        true = np.tile([0.0, shift], (self.repetitions, 1))
        effects = np.array(self.of_seeds)[:, None] * rng.standard_normal((self.repetitions, 2, max(seeds)))
        means = on_split(true, effects, self.queries, rng)
        for count in seeds:
            squares = mean_squares(count, self.queries, (self.repetitions, 1), rng)
            yield tested(Summary(means[:, :, :count], *squares, self.queries), self.paired, few=few)

    def ended(self, shift: float, most: int, readings: tuple[int, ...] = (), sized: bool = False) -> Ends:
        """`readings`: as in `boundary`, the looks begin with the last; `sized`: whether to infer size, p and interval,
        which takes long."""
        looks = range(readings[-1] if readings else FIRST_LOOK, most + 1)
        last = boundary(most, most, readings)
        ends = Ends(*(np.zeros(self.repetitions) for _ in range(7)))
        levels: dict[int, float] = {}
        for look, one in zip(looks, self.tests(looks, shift), strict=True):
            level = boundary(look, most, readings)
            p = p_of(one.difference, one.error, one.freedom)
            chances = conditional_power(one.difference, components(one), self.queries, look, most, last)
            over = (p <= level) | (np.maximum(*chances) < LEAST_POWER) | (look == most)
            now = (ends.seeds == 0) & over
            ends.seeds[now], ends.difference[now], ends.shown[now] = look, one.difference[now], p[now] <= level
            for place in np.flatnonzero(now) if sized else ():
                told = float(one.difference[place]), float(one.error[place]), float(one.freedom[place])
                found = stagewise(*told, look, levels)
                ends.size[place], ends.p[place] = found.median, found.p
                ends.low[place], ends.high[place] = found.interval
            if not readings or look > readings[-1]:
                levels[look] = level
        return ends


def components(one: Tested) -> Any:
    """Components of arrays [R] of estimates."""
    of_seeds: Any = np.maximum(one.of_seed - one.residual, 0) / one.queries
    of_queries: Any = np.maximum(one.of_query - one.residual, 0) / one.seeds
    return Components(of_seeds, of_queries, cast(Any, one.residual))


def name(of_seeds: Sequence[float]) -> str:
    return "/".join(f"{sd:g}" for sd in of_seeds)


def true_difference(case: Case, most: int, power: float) -> float:
    """What `most` seeds without looks would show with this probability, by the normal distribution."""
    return float(ndtri(1 - LEVEL / 2) + ndtri(power)) * case.error(most)


def looks(repetitions: int) -> Iterator[str]:
    """Error, and what is found of a true difference that all seeds show in four of five cases."""
    heads = " | ".join(f"{most}: error | seeds | power | seeds" for most in MOST)
    yield f"| seeds | SD of seeds | queries | {heads} |"
    yield "|---|---|---:|" + "---:|---:|---:|---:|" * len(MOST)
    for paired in (False, True):
        for of_seeds in ((0.0, 0.0), *SPREADS, *NOISY):
            for queries in QUERIES:
                case = Case(of_seeds, queries, repetitions, paired)
                cells = []
                for most in MOST:
                    none, true = case.ended(0.0, most), case.ended(true_difference(case, most, 0.8), most)
                    found = (true.shown > 0) & (true.difference > 0)
                    rates = none.shown.mean(), none.seeds.mean(), found.mean(), true.seeds.mean()
                    cells += [
                        format(rate, form) for rate, form in zip(rates, (".3f", ".1f", ".2f", ".1f"), strict=True)
                    ]
                kind = "paired" if paired else "unpaired"
                yield f"| {kind} | {name(of_seeds)} | {queries} | {' | '.join(cells)} |"


def sizes(repetitions: int) -> Iterator[str]:
    """Over the truth: the size's median and mean, of all and of those shown; the mean difference of those shown."""
    heads = "power | seeds | size: median | mean | if shown: median | mean | mean difference if shown | interval covers"
    yield f"| at most | SD of seeds | queries | {heads} |"
    yield "|---:|---|---:|" + "---:|" * 8
    for most in MOST:
        for of_seeds, queries in (((0.01, 0.01), 800), ((0.003, 0.003), 150)):
            case = Case(of_seeds, queries, repetitions)
            for power in (0.1, 0.3, 0.5, 0.7, 0.9):
                true = true_difference(case, most, power)
                ends = case.ended(true, most, sized=True)
                found = (ends.shown > 0) & (ends.difference > 0)
                size, shown = ends.size / true, ends.size[found] / true
                ratios = (
                    np.median(size),
                    size.mean(),
                    np.median(shown),
                    shown.mean(),
                    ends.difference[found].mean() / true,
                )
                covers = ((ends.low <= true) & (true <= ends.high)).mean()
                cells = " | ".join([*(f"{ratio:.2f}" for ratio in ratios), f"{covers:.3f}"])
                design = f"{most} | {name(of_seeds)} | {queries}"
                yield f"| {design} | {found.mean():.2f} | {ends.seeds.mean():.1f} | {cells} |"


def readings(repetitions: int) -> Iterator[str]:
    """Errors and power where a confirmation is read at READINGS seeds until it shows a difference, or after the first
    of these goes on with looks."""
    heads = "error, first | .05 each time | with the levels | then looks | power, first | with the levels | then looks"
    yield f"| SD of seeds | queries | {heads} |"
    yield "|---|---:|" + "---:|" * 7
    levels = reading_levels(READINGS)
    for of_seeds in ((0.0, 0.0), *SPREADS, *NOISY):
        for queries in QUERIES:
            case = Case(of_seeds, queries, repetitions)
            rates = []
            for shift in (0.0, 2.5 * case.error(READINGS[0])):
                tests = case.tests(READINGS, shift, FEW)
                p = np.stack([p_of(one.difference, one.error, one.freedom) for one in tests])
                looked = case.ended(shift, READINGS[-1], READINGS[:1]).shown > 0
                shown = (p[0] <= LEVEL), (p <= LEVEL).any(axis=0), (p <= levels[:, None]).any(axis=0), looked
                rates.append([float(each.mean()) for each in shown])
            none, true = rates
            cells = " | ".join(f"{each:.3f}" for each in (*none, true[0], *true[2:]))
            yield f"| {name(of_seeds)} | {queries} | {cells} |"
