"""Level and power of the verdict's test, and of the test over queries, over a grid of designs and kinds of noise.

    python -m benchmarks.power grid [--repetitions 2000] [--queries 150 800 5000] [--rows FILE]

Per-query values of seven configurations and twenty seeds are drawn once a repetition; fewer seeds and configurations
are the first of these, and the effect of a seed is added to its mean: so a design costs no new drawing."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import ndtri

from trainables.core.randomness import generator
from trainables.evaluation.significance import TINY, error_and_freedom, moderated, p_of

ROWS, MOST_SEEDS = 7, 20
QUERIES = 150, 800, 5000
SEEDS, CONFIGURATIONS = (3, 5, 10, 20), (1, 3, 6)
OF_QUERIES, RESIDUAL, LEVEL = 0.03, 0.16, 0.05
SHARE = 0.4  # of queries with the right answer first, where the metric is p@1
TRUE_DIFFERENCE = 3.0  # in standard errors of the mean difference


@dataclass(frozen=True)
class Summary:
    """What the tests need of differences d[s, q] from the baseline, of R confirmations at once.

    means      of each seed, [R, 1 + K, N], the baseline first
    of_query   mean square between queries, N times the variance of the query means, [R, K]
    residual   mean square of what neither seed nor query explains, [R, K]
    """

    means: np.ndarray
    of_query: np.ndarray
    residual: np.ndarray
    queries: int

    @property
    def seeds(self) -> int:
        return self.means.shape[2]

    @property
    def of_seeds(self) -> np.ndarray:
        """Mean of each seed's differences, [R, K, N]."""
        return self.means[:, 1:] - self.means[:, :1]

    @property
    def difference(self) -> np.ndarray:
        return self.of_seeds.mean(axis=2)

    @property
    def moderated(self) -> tuple[np.ndarray, np.ndarray]:
        """Mean square between seeds, Q times the variance of their means, and its degrees of freedom, [R, K]."""
        deviations = self.of_seeds - self.difference[..., None]
        return moderated(self.queries * self.of_seeds.var(axis=2, ddof=1), deviations)

    def select(self, count: int) -> Summary:
        """The first `count` configurations alone."""
        return Summary(self.means[:, : count + 1], self.of_query[:, :count], self.residual[:, :count], self.queries)


def p_new(summary: Summary) -> np.ndarray:
    of_seed, freedom = summary.moderated
    squares = np.maximum(of_seed, TINY), summary.of_query, summary.residual
    return p_of(summary.difference, *error_and_freedom(squares, freedom, summary.seeds, summary.queries))


def over_queries(summary: Summary) -> np.ndarray:
    """p_value: the seeds as given."""
    error = np.sqrt(summary.of_query / (summary.seeds * summary.queries))
    return p_of(summary.difference, error, summary.queries - 1)


TESTS: dict[str, Callable[[Summary], np.ndarray]] = {"over queries (p_value)": over_queries, "p_new": p_new}


@dataclass(frozen=True)
class Scenario:
    """`of_seeds`: SD over seeds of the baseline, of the first configuration, and of each other one. `common`: SD of
    what a seed does to all of them. `in_grid`: whether the choice of the test is bound to it."""

    name: str
    values: str  # laplace, half_zero, or p@1
    of_seeds: tuple[float, float, float]
    common: float = 0.0
    seed_shape: str = "normal"
    in_grid: bool = True

    def effects(self, repetitions: int, rng: np.random.Generator) -> np.ndarray:
        """[R, ROWS, MOST_SEEDS]."""
        shape = (repetitions, ROWS, MOST_SEEDS)
        drawn = rng.standard_normal(shape) if self.seed_shape == "normal" else rng.laplace(scale=0.5**0.5, size=shape)
        spread = np.array([*self.of_seeds[:2], *[self.of_seeds[2]] * (ROWS - 2)])
        return drawn * spread[:, None] + self.common * rng.standard_normal((repetitions, 1, MOST_SEEDS))


EQUAL = tuple((sd, sd, sd) for sd in (0.0, 0.003, 0.01, 0.03))
PLAIN_NOISY, OTHERS_NOISY, ONE_NOISY = (0.03, 0.01, 0.01), (0.01, 0.03, 0.03), (0.01, 0.03, 0.01)
SCENARIOS = (
    *(Scenario(f"SD {sds[0]}", "laplace", sds) for sds in EQUAL),
    Scenario("plain .03, others .01", "laplace", PLAIN_NOISY),
    Scenario("plain .01, others .03", "laplace", OTHERS_NOISY),
    *(Scenario(f"common .03, SD {sds[0]}", "laplace", sds, common=0.03) for sds in EQUAL[:3]),
    *(Scenario(f"half 0, SD {sds[0]}", "half_zero", sds) for sds in EQUAL),
    *(Scenario(f"p@1, SD {sds[0]}", "p@1", sds) for sds in EQUAL),
    Scenario("one .03, others .01", "laplace", ONE_NOISY, in_grid=False),
    Scenario("SD .01, Laplace", "laplace", EQUAL[2], seed_shape="laplace", in_grid=False),
)


def laplace(shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    """Standard deviation 1, float32."""
    drawn = rng.standard_exponential(shape, dtype=np.float32)
    drawn -= rng.standard_exponential(shape, dtype=np.float32)
    return drawn * np.float32(0.5**0.5)


def values(kind: str, queries: int, rng: np.random.Generator) -> np.ndarray:
    """Values without an effect of the seed, [ROWS, MOST_SEEDS, Q]; for p@1 what is compared with a threshold."""
    shape = (ROWS, MOST_SEEDS, queries)
    if kind == "laplace":
        return OF_QUERIES * laplace((ROWS, 1, queries), rng) + RESIDUAL * laplace(shape, rng)
    if kind == "half_zero":  # half of the queries are equally easy for all; tails of t with 3 degrees of freedom
        heavy = rng.standard_t(3, (ROWS, 1, queries)) / 3**0.5
        alive = (rng.random(queries) < 0.5) * 2**0.5
        return (alive * (OF_QUERIES * heavy + RESIDUAL * laplace(shape, rng))).astype(np.float32)
    topic = 2 * rng.standard_normal(queries, dtype=np.float32)
    suits = 0.3 * rng.standard_normal((ROWS, 1, queries), dtype=np.float32)
    return topic + suits + rng.standard_normal(shape, dtype=np.float32)


def squares(drawn: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The seeds' means [ROWS, MOST_SEEDS], and the mean squares of query and residual, each [len(SEEDS), K]."""
    queries = drawn.shape[2]
    differences = drawn[1:] - drawn[:1]
    means = differences.mean(axis=2, dtype=np.float64)
    whole = np.einsum("ksq,ksq->ks", differences, differences, dtype=np.float64)
    of_query, residual = [], []
    for seeds in SEEDS:
        over_seeds = differences[:, :seeds].mean(axis=1, dtype=np.float64)
        mean = over_seeds.mean(axis=1)
        query = seeds * ((over_seeds - mean[:, None]) ** 2).sum(axis=1)
        seed = queries * ((means[:, :seeds] - mean[:, None]) ** 2).sum(axis=1)
        rest = whole[:, :seeds].sum(axis=1) - seeds * queries * mean**2 - query - seed
        of_query.append(query / (queries - 1))
        residual.append(rest / ((queries - 1) * (seeds - 1)))
    return drawn.mean(axis=2, dtype=np.float64), np.stack(of_query), np.stack(residual)


def summaries(queries: int, repetitions: int) -> Iterator[tuple[Scenario, list[Summary]]]:
    """Each scenario with its confirmations, all configurations, by SEEDS."""
    for kind in ("laplace", "half_zero"):
        drawn = [squares(values(kind, queries, generator(number, kind, queries))) for number in range(repetitions)]
        means, of_query, residual = map(np.stack, zip(*drawn, strict=True))
        for scenario in (one for one in SCENARIOS if one.values == kind):
            moved = means + scenario.effects(repetitions, generator(queries, scenario.name))
            yield scenario, _by_seeds(moved, of_query, residual, queries)
    kind, threshold = "p@1", ndtri(1 - SHARE) * (2**2 + 0.3**2 + 1) ** 0.5
    slope = np.exp(-(ndtri(1 - SHARE) ** 2) / 2) / (2 * np.pi * (2**2 + 0.3**2 + 1)) ** 0.5
    scenarios = [one for one in SCENARIOS if one.values == kind]
    effects = [one.effects(repetitions, generator(queries, one.name)) / slope for one in scenarios]
    found: list[list[tuple[np.ndarray, ...]]] = [[] for _ in scenarios]
    for number in range(repetitions):
        latent = values(kind, queries, generator(number, kind, queries))
        for place, effect in enumerate(effects):
            hits = latent > (threshold - effect[number])[..., None].astype(np.float32)
            found[place].append(squares(hits.astype(np.float32)))
    for scenario, drawn in zip(scenarios, found, strict=True):
        means, of_query, residual = map(np.stack, zip(*drawn, strict=True))
        yield scenario, _by_seeds(means, of_query, residual, queries)


def _by_seeds(means: np.ndarray, of_query: np.ndarray, residual: np.ndarray, queries: int) -> list[Summary]:
    return [
        Summary(means[:, :, :seeds], of_query[:, place], residual[:, place], queries)
        for place, seeds in enumerate(SEEDS)
    ]


def adjusted(p: np.ndarray) -> np.ndarray:
    """Holm's p-values of each row of p [R, K]."""
    order = np.argsort(p, axis=1, kind="stable")
    stepped = np.maximum.accumulate(np.take_along_axis(p, order, 1) * np.arange(p.shape[1], 0, -1), axis=1)
    corrected = np.empty_like(p)
    np.put_along_axis(corrected, order, stepped, axis=1)
    return corrected


def shifted(summary: Summary, by: float) -> Summary:
    """The first configuration truly better."""
    means = summary.means.copy()
    means[:, 1] += by
    return Summary(means, summary.of_query, summary.residual, summary.queries)


def rows(queries: int, repetitions: int) -> Iterator[dict[str, Any]]:
    """A row a cell and test: family-wise error, and the share that finds a true difference of 3 standard errors."""
    for scenario, of_seeds in summaries(queries, repetitions):
        for summary in of_seeds:
            error = float(summary.difference[:, 0].std(ddof=1))
            for count in CONFIGURATIONS:
                null = summary.select(count)
                true = shifted(null, TRUE_DIFFERENCE * error)
                for name, test in TESTS.items():
                    level = float((adjusted(test(null)).min(axis=1) <= LEVEL).mean())
                    power = float(((adjusted(test(true))[:, 0] <= LEVEL) & (true.difference[:, 0] > 0)).mean())
                    yield {
                        "scenario": scenario.name, "in_grid": scenario.in_grid, "queries": queries,
                        "seeds": summary.seeds, "configurations": count, "test": name, "level": level, "power": power,
                    }  # fmt: skip


def table(found: list[dict[str, Any]]) -> str:
    """A line a test: largest family-wise error and its cell, the mean error, and the mean power by seeds."""
    head = "| test | largest error | in | largest outside the grid | mean error | power, N = " + " | ".join(
        map(str, SEEDS)
    )
    lines = [f"{head} |", "|---|---:|---|---:|---:|" + "---:|" * len(SEEDS)]
    for name in TESTS:
        own = [row for row in found if row["test"] == name]
        grid = [row for row in own if row["in_grid"]]
        worst = max(grid, key=lambda row: row["level"])
        others = max((row["level"] for row in own if not row["in_grid"]), default=float("nan"))
        cell = f"{worst['scenario']}; Q {worst['queries']}, N {worst['seeds']}, K {worst['configurations']}"
        powers = [np.mean([row["power"] for row in grid if row["seeds"] == seeds]) for seeds in SEEDS]
        level = np.mean([row["level"] for row in grid])
        cells = [f"{worst['level']:.3f}", cell, f"{others:.3f}", f"{level:.3f}", *(f"{power:.2f}" for power in powers)]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def run(repetitions: int, queries: Sequence[int], rows_file: Path | None) -> None:
    """Prints the table; writes a line of JSON for each cell and test to `rows_file`, if given."""
    found = []
    for count in queries:
        found += rows(count, repetitions)
        print(f"{count} queries done", file=sys.stderr, flush=True)
    if rows_file:
        rows_file.write_text("".join(json.dumps(row) + "\n" for row in found))
    print(table(found))
