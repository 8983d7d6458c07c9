"""Do the intervals of `tune-cl effects` hold the truth?

    python -m benchmarks.effects_coverage [--repetitions 2000] [--pairs 8 16 32] [--seeds 1 2 3]

Curricula differ by three keys: one with three values, one with two, one number that changes nothing; half, a quarter
and none of the variance of true effects is theirs, the rest each curriculum's own. A difference varies by SD .017
between seeds. With one seed, its variance comes from 2 or 8 further trainings of one pair (degrees of freedom). Twins:
each pair its own, or one for four pairs. `queries`: 200 queries, each of which moves all pairs (SD .02), each pair
(.03) and each training (.16). `common`: a third of the variance between seeds is all pairs'. Harmful tails: all true
variance is of one curriculum in five, which harms by an exponential amount (`exponential`) or one in ten by the same
(`few`), or effects are drawn from those that the study of effects found for KNRM on WikiQA, scaled (`study`).
docs/dev/effects-simulations.md holds what this prints.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from trainables.core.randomness import generator
from tune_cl.results import Effects
from tune_cl.verdict.estimates import SeedNoise, effects_of

OF_SEEDS = 0.017
OF_QUERY, OF_PAIR_AND_QUERY, RESIDUAL, QUERIES = 0.02, 0.03, 0.16, 200
TRUE = (0.0, 0.01, 0.025)
TAILS = ("exponential", "few", "study")
BY_VALUE = 300  # repetitions with effects by value, which take longer


@dataclass(frozen=True)
class Design:
    """`freedom`: of what is known of seeds, for one seed; `pairs_a_twin`: how many share one."""

    pairs: int
    seeds: int
    true: float
    freedom: int = 2
    pairs_a_twin: int = 1
    queries: int = 1
    common: float = 0.0
    tail: str = ""

    @property
    def words(self) -> str:
        known = f", {self.freedom} df" if self.seeds == 1 else ""
        shared = f", {self.pairs_a_twin} pairs a twin" if self.pairs_a_twin > 1 else ""
        extra = (", queries" if self.queries > 1 else "") + (", common" if self.common else "")
        extra += f", {self.tail}" if self.tail else ""
        return f"{self.pairs} | {self.seeds}{known}{shared}{extra} | {self.true}"


@dataclass(frozen=True)
class Drawn:
    """One search, and the truth about it: the mean of all curricula, the SD of these, effects of values by key and
    value."""

    differences: np.ndarray
    settings: list[dict[str, Any]]
    known: SeedNoise | None
    mean: float
    sd: float
    of_value: Mapping[tuple[str, Any], float]


def draw(design: Design, rng: np.random.Generator) -> Drawn:
    parts = {} if design.tail else {"a": (3, 0.5), "b": (2, 0.25)}
    levels = {key: design.true * share**0.5 * rng.normal(size=count) for key, (count, share) in parts.items()}
    chosen = {key: rng.integers(len(levels[key]), size=design.pairs) for key in levels}
    middle = 0.0
    if design.tail:
        own, middle = tail(design, rng)
    else:
        own = design.true * 0.25**0.5 * rng.normal(size=design.pairs)
    effects = sum(levels[key][chosen[key]] for key in levels) + own
    numbers = rng.uniform(size=design.pairs)
    settings = [
        {key: int(chosen[key][place]) for key in levels} | {"c": numbers[place]} for place in range(design.pairs)
    ]
    of_value = {
        (key, value): middle
        + levels[key][value]
        + sum(levels[other][chosen[other]].mean() for other in levels if other != key)
        for key in levels
        for value in range(len(levels[key]))
    }
    mean = middle + sum(values.mean() for values in levels.values())
    known = None
    if design.seeds == 1:
        variance = OF_SEEDS**2 * rng.chisquare(design.freedom) / design.freedom
        known = SeedNoise(float(variance), design.freedom)
    noise = _noise(design, rng)
    sd = float(effects.std(ddof=1))
    return Drawn(effects.reshape(-1, *[1] * (noise.ndim - 1)) + noise, settings, known, mean, sd, of_value)


def tail(design: Design, rng: np.random.Generator) -> tuple[np.ndarray, float]:
    """Effects of the design's pairs, and the mean of all curricula."""
    if design.tail == "study":
        population = study()
        population = population * design.true / population.std()
        return rng.choice(population, design.pairs), float(population.mean())
    harmful = rng.random(design.pairs) < (0.2 if design.tail == "exponential" else 0.1)
    if design.tail == "few":
        size = design.true / (0.1 * 0.9) ** 0.5
        return -size * harmful, -0.1 * size
    size = design.true / (2 * 0.2 - 0.2**2) ** 0.5
    return -size * harmful * rng.exponential(size=design.pairs), -0.2 * size


@cache
def study() -> np.ndarray:
    """Mean differences of the curricula that were trained on WikiQA."""
    with np.load(Path(__file__).parent / "evidence" / "values" / "wikiqa-knrm-clean.npz") as stored:
        own, plain = stored["map"].astype(float) / 60_000
    return (own - plain).mean(axis=(1, 2))


def _noise(design: Design, rng: np.random.Generator) -> np.ndarray:
    """Errors of differences, [P, S] or [P, S, Q]: those of curricula less those of their twins."""
    twins = np.arange(design.pairs) // design.pairs_a_twin
    own = OF_SEEDS * (1 - design.common) ** 0.5 * 0.5**0.5
    errors = own * (
        rng.normal(size=(design.pairs, design.seeds)) - rng.normal(size=(design.pairs, design.seeds))[twins]
    )
    errors = errors + OF_SEEDS * design.common**0.5 * rng.normal(size=(1, design.seeds))
    if design.queries == 1:
        return errors
    half, shape = 0.5**0.5, (design.pairs, design.seeds, design.queries)
    by_query = OF_QUERY * rng.laplace(scale=half, size=(1, 1, design.queries))
    for scale, size in ((OF_PAIR_AND_QUERY, (design.pairs, 1, design.queries)), (RESIDUAL, shape)):
        curricula, plain = (scale * half * rng.laplace(scale=half, size=size) for _ in range(2))
        by_query = by_query + curricula - plain[twins]
    return errors[:, :, None] + by_query


def measure(design: Design, repetitions: int) -> list[float]:
    """Coverage of the intervals of mean, SD of true effects and values; and how wide they are."""
    rng = generator(0, f"effects_coverage {design.words}")
    names = [f"t{place}" for place in range(design.pairs)]
    twins = [place // design.pairs_a_twin for place in range(design.pairs)]
    rows = []
    for repetition in range(repetitions):
        drawn = draw(design, rng)
        settings = drawn.settings if repetition < BY_VALUE else [{}] * design.pairs
        rows.append(list(_row(effects_of(names, drawn.differences, twins, settings, drawn.known), drawn)))
    return np.nanmean(np.array(rows), axis=0).tolist()  # NaN, with a warning, where a design has no values


def _row(found: Effects, drawn: Drawn) -> Iterator[float]:
    yield found.ci95[0] <= drawn.mean <= found.ci95[1]
    assert found.sd_true_ci95
    yield found.sd_true_ci95[0] <= drawn.sd + 1e-12 <= found.sd_true_ci95[1] + 1e-9
    truths = [(one.ci95, drawn.of_value[one.key, one.value]) for one in found.by_value if one.key != "c"]
    yield float(np.mean([low <= truth <= high for (low, high), truth in truths])) if truths else np.nan
    yield found.ci95[1] - found.ci95[0]
    yield found.sd_true_ci95[1]


def designs(pairs: list[int], seeds: list[int]) -> Iterator[Design]:
    plain = [Design(count, number, true) for true in TRUE for count in pairs for number in seeds]
    yield from plain
    for design in plain:
        if design.true == TRUE[1] and design.pairs == 16:
            yield replace(design, pairs_a_twin=4)
            yield replace(design, common=1 / 3)
            yield replace(design, freedom=8) if design.seeds == 1 else replace(design, queries=QUERIES, pairs_a_twin=4)
    for design in plain:
        if design.true and design.seeds > 1:
            yield from (replace(design, tail=name) for name in TAILS)
        if design.true and design.seeds == 2 and design.pairs == 16:
            yield from (replace(design, tail=name, queries=QUERIES, pairs_a_twin=4) for name in TAILS)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repetitions", type=int, default=2000)
    parser.add_argument("--pairs", type=int, nargs="+", default=[8, 16, 32])
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--tails", action="store_true", help="the harmful tails alone")
    options = parser.parse_args()
    head = ("pairs", "seeds", "true SD", "mean", "SD", "values", "width", "upper SD")
    print(f"| {' | '.join(head)} |\n|{'---|' * len(head)}")
    for design in designs(options.pairs, options.seeds):
        if options.tails and not design.tail:
            continue
        covered, widths = (numbers := measure(design, options.repetitions))[:3], numbers[3:]
        shown = ["" if np.isnan(value) else f"{value:.3f}" for value in covered]
        cells = [design.words, *shown, *(f"{value:.4f}" for value in widths)]
        print(f"| {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
