"""How many queries and seeds show a difference, and what the tests of `tune-cl confirm` do where there is none.

    python -m benchmarks.power noise STORAGE/NAME [--split test]     noise in the values of a confirmed search
    python -m benchmarks.power power [--difference 0.01] [noise]     share of confirmations that find a difference
    python -m benchmarks.power level [noise]                         share that find one where there is none
    python -m benchmarks.power grid [--rows FILE]                    the tests over a grid of noise and designs
    python -m benchmarks.power seeds|duel|collapse|groups|clusters   two arms (power_arms.py)
    python -m benchmarks.power looks|sizes|readings                  looks at two arms (power_looks.py)

Noise: --of-queries, --of-seeds, --residual, standard deviations in a configuration's per-query values.
docs/explanation/verdict.md holds what the first three print; docs/dev/verdict-simulations.md the others."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.power_arms import clusters, collapse, duel, groups, seeds
from benchmarks.power_grid import QUERIES as GRID_QUERIES
from benchmarks.power_grid import run as run_grid
from benchmarks.power_looks import looks, readings, sizes
from trainables.core.randomness import generator
from tune_cl.confirmation.decisions import corrected_tests
from tune_cl.confirmation.training import values_by_query
from tune_cl.confirmation.verdict import LEVEL
from tune_cl.history.journal import FILE, read_events
from tune_cl.history.state import replay

TABLES = {each.__name__: each for each in (seeds, duel, collapse, groups, clusters, looks, sizes, readings)}
QUERIES, SEEDS = (100, 250, 500, 1000, 2500, 7000), (1, 3, 5, 10, 20)


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


def draw(noise: Noise, shape: tuple[int, int, int], rng: np.random.Generator) -> np.ndarray:
    """Values of configurations without any true difference, float64 [configurations, seeds, queries].

    Laplace for queries and residual: like differences of average precision, mostly small, some large.
    """
    rows, seeds, queries = shape
    laplace = 1 / np.sqrt(2)  # scale of standard deviation 1
    values = noise.of_seeds * rng.normal(size=(rows, seeds, 1))
    values = values + noise.of_queries * rng.laplace(scale=laplace, size=(rows, 1, queries))
    return values + noise.residual * rng.laplace(scale=laplace, size=shape)


def rates(
    noise: Noise, seeds: int, queries: int, configurations: int, repetitions: int, difference: float = 0.0
) -> dict[str, float]:
    """Shares of the repetitions with each finding, after Holm; the first configuration has the true difference.

    any, any_new: some configuration differs by p_value or p_new; found, found_new: the first is above the
    baseline; better: some is, for new seeds; worse: none is, and the first is below; uncorrected: some
    p_value is small before Holm.
    """
    names = ("any", "any_new", "found", "found_new", "better", "worse", "uncorrected")
    counts = dict.fromkeys(names, 0)
    for repetition in range(repetitions):
        rng = generator(repetition, "simulation", seeds, queries)
        baseline, *others = draw(noise, (configurations + 1, seeds, queries), rng)
        judged = corrected_tests([(values, baseline) for values in (others[0] + difference, *others[1:])], "holm")
        first, better = judged[0], any(one.direction(new_seeds=True) > 0 for one in judged)
        counts["any"] += any(one.p_adjusted <= LEVEL for one in judged)
        counts["any_new"] += any(one.p_new_adjusted <= LEVEL for one in judged)
        counts["found"] += bool(first.direction(new_seeds=False) > 0)
        counts["found_new"] += first.p_new_adjusted <= LEVEL and first.test.difference > 0
        counts["better"] += better
        counts["worse"] += not better and first.direction(new_seeds=True) < 0
        counts["uncorrected"] += any(one.test.p_value <= LEVEL for one in judged)
    return {name: count / repetitions for name, count in counts.items()}


def estimate(values: np.ndarray, baseline: np.ndarray) -> Noise:
    """Noise of one configuration, from its values [N, Q] and the baseline's, N at least 2.

    Two-way analysis of variance of the differences: a component is the excess of its mean square over the residual's.
    Two configurations differ by the noise of both, so each has half of the variance.
    """
    differences = values - baseline
    seeds, queries = differences.shape
    of_query, of_seed = differences.mean(axis=0), differences.mean(axis=1)
    rest = differences - of_query - of_seed[:, None] + differences.mean()
    residual = float((rest**2).sum()) / ((seeds - 1) * (queries - 1))
    variances = (of_query.var(ddof=1) - residual / seeds, of_seed.var(ddof=1) - residual / queries, residual)
    return Noise(*(float(np.sqrt(max(0.0, variance) / 2)) for variance in variances))


def confirmed(search: Path, split: str) -> dict[str, np.ndarray]:
    """Per-query values [N, Q] of a confirmed search by folder, the baseline first."""
    metric = replay(read_events(search / FILE)).metric
    folders = sorted(path for path in (search / "confirmation").iterdir() if path.is_dir())
    runs = {folder.name: sorted(folder.glob("seed-*")) for folder in folders}
    return {
        name: np.stack([list(values_by_query(run, split, metric).values()) for run in of]) for name, of in runs.items()
    }


def show(columns: Iterable[object]) -> None:
    print(" | ".join(f"{column:.4f}" if isinstance(column, float) else f"{column!s:>7}" for column in columns))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("noise", "power", "level", "grid", *TABLES))
    parser.add_argument("search", nargs="?", type=Path)
    parser.add_argument("--split", default="test")
    parser.add_argument("--difference", type=float, default=0.01)
    parser.add_argument("--repetitions", type=int, help="default 500, of a grid and two arms 2000")
    parser.add_argument("--configurations", type=int, default=3)
    parser.add_argument("--queries", type=int, nargs="+")
    parser.add_argument("--rows", type=Path, help="a line of JSON for each cell of a grid and test")
    for name, value in vars(Noise()).items():
        parser.add_argument(f"--{name.replace('_', '-')}", type=float, default=value)
    options = parser.parse_args()
    if options.what == "grid":
        return run_grid(options.repetitions or 2000, options.queries or GRID_QUERIES, options.rows)
    if options.what in TABLES:
        for line in TABLES[options.what](options.repetitions or 2000):
            print(line, flush=True)
        return None
    noise = Noise(options.of_queries, options.of_seeds, options.residual)
    if options.what == "noise":
        baseline, *others = confirmed(options.search, options.split).items()
        for name, values in others:
            show([values.shape, name, *vars(estimate(values, baseline[1])).values()])
        return None
    difference = options.difference if options.what == "power" else 0.0
    shown = ("found", "found_new") if options.what == "power" else ("any", "any_new", "better", "worse")
    show(["queries", "seeds", *shown])
    for queries in options.queries or QUERIES:
        for count in SEEDS:
            found = rates(noise, count, queries, options.configurations, options.repetitions or 500, difference)
            show([queries, count, *(found[name] for name in shown)])


if __name__ == "__main__":
    main()
