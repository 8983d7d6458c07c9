"""How often a 95 % interval of a mean difference misses the true one: the interval of `tune-cl confirm`, Student's, and
SciPy's BCa bootstrap, on the same draws. docs/dev/verdict-simulations.md holds what this prints.

    python benchmarks/intervals.py [--repetitions 2000] [--queries 20 40 100 250]
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

import numpy as np
import scipy.stats

from trainables.evaluation.significance import bootstrap_ci, paired_t_test
from trainables.randomness import generator

RESAMPLES = 1000
Draw = Callable[[np.random.Generator, int], np.ndarray]
Ends = tuple[float, float]


def half_equal(rng: np.random.Generator, queries: int) -> np.ndarray:
    """Half of the differences 0, the rest with long tails."""
    return np.where(rng.random(queries) < 0.5, 0, rng.standard_t(3, queries))


DRAWS: dict[str, Draw] = {
    "normal": lambda rng, queries: rng.normal(size=queries),
    "half 0, the rest t with 3 degrees of freedom": half_equal,
    "exponential": lambda rng, queries: rng.exponential(size=queries) - 1,
}


def bca(differences: np.ndarray) -> Ends:
    rng = generator(0, "bca")
    found = scipy.stats.bootstrap((differences,), np.mean, method="BCa", n_resamples=RESAMPLES, rng=rng)
    return found.confidence_interval.low, found.confidence_interval.high


WAYS: dict[str, Callable[[np.ndarray], Ends]] = {
    "ours": lambda differences: bootstrap_ci(differences, resamples=RESAMPLES),
    "Student": lambda differences: paired_t_test(differences, np.zeros(len(differences))).ci95,
    "BCa": bca,
}


def misses(draw: Draw, queries: int, repetitions: int) -> dict[str, tuple[float, float]]:
    """For each way: the share of intervals without 0, and their mean width as a multiple of Student's."""
    outside, widths = dict.fromkeys(WAYS, 0), dict.fromkeys(WAYS, 0.0)
    for repetition in range(repetitions):
        differences = draw(generator(repetition, "intervals", queries), queries)
        for way, interval in WAYS.items():
            low, high = interval(differences)
            outside[way] += not low <= 0 <= high
            widths[way] += high - low
    return {way: (outside[way] / repetitions, widths[way] / widths["Student"]) for way in WAYS}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repetitions", type=int, default=2000)
    parser.add_argument("--queries", type=int, nargs="+", default=(20, 40, 100, 250))
    options = parser.parse_args()
    for name, draw in DRAWS.items():
        print(f"\n{name}\n| queries | {' | '.join(f'{way}: misses, width' for way in WAYS)} |")
        for queries in options.queries:
            found = misses(draw, queries, options.repetitions)
            cells = " | ".join(f"{share:.3f}, {width:.2f}" for share, width in found.values())
            print(f"| {queries} | {cells} |", flush=True)


if __name__ == "__main__":
    main()
