"""How often the verdict errs, and what it finds, where the truth is known.

    python -m benchmarks.power level [--repetitions 2000]   first test, and all of three looks at 5, 10 and 20 seeds
    python -m benchmarks.power power [--repetitions 500]    of a gain over all of three opponents
    python -m benchmarks.power collapses                    of a gain over plain training that often fails
    python -m benchmarks.power noise STORAGE/NAME           noise in the values of a confirmed search

The test is the product's, on values by query. docs/dev/verdict-simulations.md holds what this prints.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from trainables.core.randomness import generator
from tune_cl.results import LEVEL
from tune_cl.verdict.files import last_verdict
from tune_cl.verdict.power import design_of
from tune_cl.verdict.test import Duel, answer, level_of, outcomes, values_by_cluster

LOOKS = (5, 10, 20)  # seeds
SPREADS = ((0.0, 0.0), (0.003, 0.003), (0.01, 0.01), (0.03, 0.03), (0.05, 0.05), (0.01, 0.03), (0.03, 0.01))
QUERIES, SEEDS = (243, 800), (3, 5, 10, 20)
ROLES = ("champion", "twin", "default")
GAIN, FALL, FAILS = 0.02, 0.2, 0.35


@dataclass(frozen=True)
class Noise:
    """Standard deviations in a configuration's values; topics, which all configurations share, cancel out.

    of_queries  some queries suit the configuration more than others
    of_seeds    a seed moves all queries at once
    residual    a seed moves each query by itself
    """

    of_queries: float = 0.03
    of_seeds: float = 0.01
    residual: float = 0.16


def draw(noise: Noise, shape: tuple[int, int], rng: np.random.Generator) -> np.ndarray:
    """Values [seeds, queries] of a configuration about 0. Laplace for queries and residual: like differences of average
    precision, mostly small, some large."""
    seeds, queries = shape
    laplace = 1 / np.sqrt(2)  # scale of standard deviation 1
    values = noise.of_seeds * rng.normal(size=(seeds, 1))
    values = values + noise.of_queries * rng.laplace(scale=laplace, size=(1, queries))
    return values + noise.residual * rng.laplace(scale=laplace, size=shape)


def duels(opponents: int, paired: bool = False) -> list[Duel]:
    return [Duel("curriculum", ROLES[place], (ROLES[place],), paired) for place in range(opponents)]


def estimate(values: np.ndarray, reference: np.ndarray) -> Noise:
    """Noise of one configuration, from its values [N, Q] and another one's, N at least 2.

    Two-way analysis of variance of the differences: a component is the excess of its mean square over the residual's.
    Two configurations differ by the noise of both, so each has half of the variance.
    """
    differences = values - reference
    seeds, queries = differences.shape
    of_query, of_seed = differences.mean(axis=0), differences.mean(axis=1)
    rest = differences - of_query - of_seed[:, None] + differences.mean()
    residual = float((rest**2).sum()) / ((seeds - 1) * (queries - 1))
    variances = (of_query.var(ddof=1) - residual / seeds, of_seed.var(ddof=1) - residual / queries, residual)
    return Noise(*(float(np.sqrt(max(0.0, variance) / 2)) for variance in variances))


def error_over_looks(spreads: tuple[float, float], queries: int, paired: bool, repetitions: int) -> list[float]:
    """Of a duel without a difference: how often each look alone shows one on either side, and how often any does."""
    shown = np.zeros((repetitions, len(LOOKS)), bool)
    for repetition in range(repetitions):
        rng = generator(repetition, f"level {spreads} {queries} {paired}")
        arms = [draw(Noise(of_seeds=sd), (LOOKS[-1], queries), rng) for sd in spreads]
        for number, seeds in enumerate(LOOKS):
            values = {"curriculum": arms[0][:seeds], "champion": arms[1][:seeds]}
            [one] = outcomes(values, duels(1, paired), level_of(number + 1))["curriculum"]
            shown[repetition, number] = one.p <= LEVEL
    return [*shown.mean(axis=0).tolist(), float(shown.any(axis=1).mean())]


def level(repetitions: int) -> Iterator[str]:
    yield "| seeds | SD of seeds | queries | 5 seeds | 10, look 2 | 20, look 3 | any |"
    yield "|---|---|---:|---:|---:|---:|---:|"
    for paired in (False, True):
        for spreads in SPREADS:
            for queries in (243, 5000):
                shown = error_over_looks(spreads, queries, paired, repetitions)
                cells = " | ".join(f"{one:.3f}" for one in shown)
                yield f"| {'paired' if paired else 'unpaired'} | {spreads[0]}/{spreads[1]} | {queries} | {cells} |"


def found(seeds: int, queries: int, repetitions: int, gain: float = GAIN) -> tuple[float, float, float]:
    """How often a gain over all of three opponents is shown; what the verdict says of that, and of the detectable gain:
    medians over some of the repetitions."""
    better, said = 0, []
    for repetition in range(repetitions):
        rng = generator(repetition, "power", seeds, queries)
        values = {name: draw(Noise(), (seeds, queries), rng) for name in ("curriculum", *ROLES)}
        values["curriculum"] += gain
        tests = outcomes(values, duels(len(ROLES)))["curriculum"]
        better += answer(tests) == "better"
        if repetition < 100 and (design := design_of([one.test for one in tests], queries, LEVEL)):
            said.append((design.power(seeds, gain), design.detectable(seeds)))
    return better / repetitions, *np.median(said, axis=0).tolist()


def power(repetitions: int) -> Iterator[str]:
    yield "| queries | seeds | power | as a verdict says | detectable, likewise |\n|---:|---:|---:|---:|---:|"
    for queries in QUERIES:
        for seeds in SEEDS:
            shown, said, detectable = found(seeds, queries, repetitions)
            yield f"| {queries} | {seeds} | {shown:.2f} | {said:.2f} | {detectable:.4f} |"


def collapses(repetitions: int) -> Iterator[str]:
    """Plain training fails by FALL in FAILS of its trainings, the curriculum never."""
    yield "| seeds | better |\n|---:|---:|"
    for seeds in (5, 10, 20, 40):
        better = 0
        for repetition in range(repetitions):
            rng = generator(repetition, "collapses", seeds)
            values = {name: 0.5 + draw(Noise(), (seeds, 800), rng) for name in ("curriculum", "champion")}
            values["champion"] -= FALL * (rng.random((seeds, 1)) < FAILS)
            better += answer(outcomes(values, duels(1))["curriculum"]) == "better"
        yield f"| {seeds} | {better / repetitions:.2f} |"


def noise_of(search: Path, split: str) -> Iterator[str]:
    if verdict := last_verdict(search, split):
        values = values_by_cluster(verdict.per_query)
        for one in verdict.opponents:
            yield f"{one.label}: {estimate(values[verdict.curriculum.label], values[one.label])}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    tables = {"level": (level, 2000), "power": (power, 500), "collapses": (collapses, 500)}
    parser.add_argument("what", choices=(*tables, "noise"))
    parser.add_argument("search", nargs="?", type=Path)
    parser.add_argument("--split", default="test")
    parser.add_argument("--repetitions", type=int)
    options = parser.parse_args()
    lines: Iterable[str]
    if options.what == "noise":
        lines = noise_of(options.search, options.split)
    else:
        table, usual = tables[options.what]
        lines = table(options.repetitions or usual)
    for line in lines:
        print(line, flush=True)


if __name__ == "__main__":
    main()
