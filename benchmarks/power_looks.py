"""Looking at a confirmation after each seed: error over all looks, and trainings saved.

    python benchmarks/power_looks.py [--repetitions 2000] [--queries 800] [--most 20] [--kind half_zero]

A look after each seed from the third on; a configuration is found at look n if its p_new after Holm is at most the
look's nominal level. The levels spend .05 as information comes in (Lan & DeMets 1983): by n of N seeds,
.05 (n / N)^rho. The error that queries leave is common to all looks, so these are more correlated than a random walk,
whose levels are used: that errs on the safe side. docs/dev/verdict-simulations.md holds what this prints."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr, ndtri

from benchmarks import power_grid
from benchmarks.crossed_tests import Summary, crossed, moderated, total
from benchmarks.power_grid import LEVEL, Scenario, adjusted, shifted, squares, values
from trainables.randomness import generator

FIRST, LEAST_POWER = 3, 0.1
SPREADS = (*((sd, sd, sd) for sd in (0.0, 0.003, 0.01, 0.03)), (0.03, 0.01, 0.01), (0.01, 0.03, 0.03))
GRID = np.linspace(-9, 9, 3601)  # of the random walk, in standard deviations at its end


def nominal_levels(looks: Sequence[int], most: int, rho: float, level: float = LEVEL) -> np.ndarray:
    """The two-sided level of each look such that a random walk leaves its bounds with probability `level` at most."""
    found, spent, before = [], 0.0, 0.0
    density, step = np.zeros_like(GRID), GRID[1] - GRID[0]
    for look in looks:
        time = look / most
        target = level * time**rho - spent
        if before == 0:
            density = np.exp(-(GRID**2) / (2 * time)) / np.sqrt(2 * np.pi * time)
        else:
            kernel = np.exp(-(GRID**2) / (2 * (time - before))) / np.sqrt(2 * np.pi * (time - before))
            density = np.convolve(density, kernel, mode="same") * step
        outside = np.cumsum((density[::-1] + density)[: len(GRID) // 2]) * step  # beyond each bound, both sides
        place = int(np.searchsorted(outside, target))
        bound = -GRID[place]
        density = np.where(np.abs(GRID) >= bound, 0, density)
        found.append(2 * ndtr(-bound / np.sqrt(time)))
        spent, before = level * time**rho, time
    return np.array(found)


def test(summary: Summary) -> np.ndarray:
    return crossed(summary, *moderated(summary), power=1)


def drawn(kind: str, queries: int, repetitions: int, looks: Sequence[int]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Seeds' means and mean squares without an effect of the seed, for each look."""
    power_grid.SEEDS = tuple(looks)
    found = [squares(values(kind, queries, generator(number, "looks"))) for number in range(repetitions)]
    means, of_query, residual = map(np.stack, zip(*found, strict=True))
    return means, of_query, residual


def conditional_power(summary: Summary, most: int, level: float) -> np.ndarray:
    """Chance to be found at the last look if the difference is the one seen, [R, K]: of a random walk, with the error
    as it is estimated now."""
    of_seed, _ = moderated(summary)
    z = np.abs(summary.difference) / np.sqrt(total(summary, of_seed) / (summary.seeds * summary.queries))
    time = summary.seeds / most
    last = -ndtri(level / 2)
    return 1 - ndtr((last - z / np.sqrt(time)) / np.sqrt(max(1 - time, 1e-9)))


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
        """Shares in which any, and the first, configuration is found; mean seeds until one is found or all are
        hopeless or the looks end."""
        repetitions = len(self.means)
        found, first, running = (np.full(repetitions, value) for value in (False, False, True))
        seeds = np.full(repetitions, self.most)
        for place, level in enumerate(levels):
            summary = self.at(place, shift)
            hit = adjusted(test(summary)) <= level
            found |= running & hit.any(axis=1)
            first |= running & hit[:, 0] & (summary.difference[:, 0] > 0)
            hopeless = (conditional_power(summary, self.most, levels[-1] / self.count) < LEAST_POWER).all(axis=1)
            ended = running & (hit.any(axis=1) | hopeless)
            seeds[ended] = self.looks[place]
            running &= ~ended
        return float(found.mean()), float(first.mean()), float(seeds.mean())

    def fixed(self, power: float, shift: float) -> tuple[float, int]:
        """The power and number of seeds of the smallest design without looks that finds as much."""
        for place, look in enumerate(self.looks):
            summary = self.at(place, shift)
            share = float(((adjusted(test(summary))[:, 0] <= LEVEL) & (summary.difference[:, 0] > 0)).mean())
            if share >= power or look == self.most:
                return share, look
        raise ValueError("no looks")

    def cells(self, rho: float) -> list[str]:
        levels = nominal_levels(self.looks, self.most, rho)
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
    parser.add_argument("--rho", type=float, nargs="+", default=[1.0, 2.0])
    options = parser.parse_args()
    looks = range(FIRST, options.most + 1)
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
