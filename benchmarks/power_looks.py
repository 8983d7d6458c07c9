"""Looking at a confirmation after each seed: error over all looks, and trainings saved.

    python -m benchmarks.power_looks [--repetitions 2000] [--queries 800] [--most 20] [--kind half_zero]

A look after each seed from the third on, with the levels, the conditional power and the rules of
`tune_cl.confirmation.looks`: a configuration that is hopeless gets no more seeds. The search ends once one is better,
once the recommended one is worse and all others are hopeless, or once all are hopeless. What this prints is in
docs/dev/verdict-simulations.md."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from scipy.special import ndtri

from benchmarks import power_grid
from benchmarks.crossed_tests import Summary, crossed, moderated
from benchmarks.power_grid import LEVEL, Scenario, adjusted, shifted, squares, values
from trainables.core.randomness import generator
from trainables.evaluation.significance import Components
from tune_cl.confirmation.looks import FIRST_LOOK, LEAST_POWER, conditional_power, nominal_levels

SPREADS = (*((sd, sd, sd) for sd in (0.0, 0.003, 0.01, 0.03)), (0.03, 0.01, 0.01), (0.01, 0.03, 0.03))


def test(summary: Summary) -> np.ndarray:
    return crossed(summary, *moderated(summary), power=1)


def drawn(kind: str, queries: int, repetitions: int, looks: Sequence[int]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Seeds' means and mean squares without an effect of the seed, for each look."""
    power_grid.SEEDS = tuple(looks)
    found = [squares(values(kind, queries, generator(number, "looks"))) for number in range(repetitions)]
    means, of_query, residual = map(np.stack, zip(*found, strict=True))
    return means, of_query, residual


def chance(summary: Summary, most: int, level: float) -> np.ndarray:
    """Chance to be shown above 0 after all seeds, [R, K]; of the first configuration, which the search recommends,
    also below."""
    of_seed, _ = moderated(summary)
    queries, residual = summary.queries, summary.residual
    of_seeds: Any = np.maximum(of_seed - residual, 0) / queries
    of_queries: Any = np.maximum(summary.of_query - residual, 0) / summary.seeds
    components = Components(of_seeds, of_queries, cast(Any, residual))
    above, below = conditional_power(summary.difference, components, queries, summary.seeds, most, level)
    above[:, 0] = np.maximum(above, below)[:, 0]
    return above


@dataclass(frozen=True)
class Case:
    """Confirmations of `count` configurations, with what is needed of them at each look."""

    means: np.ndarray
    of_query: np.ndarray
    residual: np.ndarray
    queries: int
    looks: Sequence[int]
    most: int
    count: int

    def at(self, place: int, shift: float) -> Summary:
        """What is seen at a look, the first configuration better by `shift`."""
        seen = self.means[:, :, : self.looks[place]]
        whole = Summary(seen, self.of_query[:, place], self.residual[:, place], self.queries)
        return shifted(whole.select(self.count), shift)

    def followed(self, levels: np.ndarray, shift: float) -> tuple[float, float, float]:
        """Shares in which the verdict is better or worse, and in which the first configuration is found to be better;
        mean trainings, as seeds of all configurations, until one is found or all are hopeless or the looks end."""
        repetitions = len(self.means)
        found, first, running = (np.full(repetitions, value) for value in (False, False, True))
        alive = np.ones((repetitions, self.count), bool)
        trainings = np.zeros(repetitions)
        for place, level in enumerate(levels):
            summary = self.at(place, shift)
            new = self.looks[place] - (self.looks[place - 1] if place else 0)
            trainings += running * new * (1 + alive.sum(axis=1))
            p = np.where(alive, adjusted(np.where(alive, test(summary), 1.0)), 1.0)
            above, below = summary.difference > 0, summary.difference[:, 0] < 0
            hit = (p <= level) & above
            worse = (p[:, 0] <= level) & below  # of the others it does not matter
            alive &= chance(summary, self.most, levels[-1]) >= LEAST_POWER
            hopeful = alive[:, 1:].any(axis=1) & (self.looks[place] < self.most)
            settled = hit.any(axis=1) | (worse & ~hopeful)
            found |= running & settled
            first |= running & hit[:, 0]
            running &= ~settled & alive.any(axis=1)
        return float(found.mean()), float(first.mean()), float(trainings.mean()) / (1 + self.count)

    def fixed(self, power: float, shift: float) -> tuple[float, int]:
        """The power and number of seeds of the smallest design without looks that finds as much."""
        for place, look in enumerate(self.looks):
            summary = self.at(place, shift)
            share = float(((adjusted(test(summary))[:, 0] <= LEVEL) & (summary.difference[:, 0] > 0)).mean())
            if share >= power or look == self.most:
                return share, look
        raise ValueError("no looks")

    def cells(self, rho: float) -> list[str]:
        levels = nominal_levels(tuple(self.looks), self.most, exponent=rho)
        error = float(self.at(len(self.looks) - 1, 0.0).difference[:, 0].std(ddof=1))
        twice = 2 * float(ndtri(1 - LEVEL / (2 * self.count)) + ndtri(0.8)) * error
        wrong, _, without = self.followed(levels, 0.0)
        _, found, seeds = self.followed(levels, twice)
        power, fixed = self.fixed(found, twice)
        return [f"{wrong:.3f}", f"{without:.1f}", f"{found:.2f}", f"{seeds:.1f}", f"{power:.2f}", str(fixed)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repetitions", type=int, default=2000)
    parser.add_argument("--queries", type=int, default=800)
    parser.add_argument("--most", type=int, default=20)
    parser.add_argument("--kind", choices=("laplace", "half_zero"), default="laplace")
    parser.add_argument("--rho", type=float, nargs="+", default=[4.0])
    options = parser.parse_args()
    looks = range(FIRST_LOOK, options.most + 1)
    base = drawn(options.kind, options.queries, options.repetitions, looks)
    print(
        "| rho | SD of seeds | K | error, all looks | seeds, none true | true: found | seeds | fixed: found | seeds |"
    )
    print("|---:|---|---:|---:|---:|---:|---:|---:|---:|")
    for rho in options.rho:
        for sds in SPREADS:
            effects = Scenario(str(sds), options.kind, sds).effects(options.repetitions, generator(0, str(sds)))
            for count in (1, 3, 6):
                case = Case(base[0] + effects, base[1], base[2], options.queries, looks, options.most, count)
                spread = "/".join(f"{sd:g}" for sd in sds[:2]) if sds[0] != sds[1] else f"{sds[0]:g}"
                print(f"| {rho:g} | {spread} | {count} | {' | '.join(case.cells(rho))} |", flush=True)


if __name__ == "__main__":
    main()
