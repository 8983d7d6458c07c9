"""How many iterations does a search need until it sees a given dev value? Random search to the end against schedulers.

    python benchmarks/search_to_target.py [--studies '*-wide'] [--searches 100] [--json]
    python benchmarks/search_to_target.py --real SEEDS [--data docstrings] [--dev 100] [--json]

The target of a study is the best final dev value of a random search that trains ALL recorded or TRIALS real
configurations to their end, the median over searches. Recorded: trainings are tried in a random order, the same for
every way, one at a time, up to all that the study has; the schedulers know of no other end. `ratio` is the median
number of iterations over that of random search, with a 95 % interval of a bootstrap over pairs of searches. A search
that never sees the target counts as infinitely long (null in JSON); `reached` is the share of searches that see it.

Real: searches with real trainings in `driven.py`, each with its own seed. Random search makes TRIALS trials; the others
get at most as many iterations as its longest search made, and begin as many trials as they like."""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch
from driven import driven
from record_curves import with_fewer_dev_queries
from schedulers import ALL, Study, read_studies
from side_by_side import shown
from simulator import Simulation

from trainables.core.randomness import generator
from trainables.data import load_data
from trainables.training.materials import Materials, prepare
from tune_cl.experiment.load import build
from tune_cl.schedulers import SCHEDULERS, Setup

RANDOM = "random search to the end"
RECORDED = {
    RANDOM: ("none", {}),
    "asha, promotion, grace curriculum": ("asha", {"promotion": True}),
    "asha, promotion, no grace": ("asha", {"promotion": True, "grace": "none"}),
    "model": ("model", {"promotion": True}),
}
TRIALS = 12  # of real random searches
REAL = {
    RANDOM: {"searcher": "random", "scheduler": "none", "trials": TRIALS},
    "tpe and asha": {"searcher": "tpe", "scheduler": "asha", "trials": 10 * TRIALS},
    "tpe and model": {"searcher": "tpe", "scheduler": "model", "trials": 10 * TRIALS},
}
SPACE = {
    "ranker": {"name": "conv_knrm", "filters": 32, "vector_size": 50},
    "curriculum": {
        "scoring": {"choice": ["context_words", "response_words", "random"]},
        "pacing": {"choice": ["none", "linear", "root", "step"]},
        "delta": {"uniform": [0.1, 0.6]},
        "T": {"choice": [0.25, 0.5, 0.75]},
        "weighting": {"choice": ["none", "normalized_score"]},
        "m": {"choice": [2, 4, 6], "when": {"curriculum.weighting": "normalized_score"}},
    },
    "training": {
        "lr": {"loguniform": [1e-4, 1e-2]},
        "batch_size": 16,
        "max_length": 32,
        "batches_per_iteration": 8,
        "max_iterations": 9,
    },
    "baseline": {"curriculum.pacing": "none", "curriculum.weighting": "none"},
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--curves", type=Path, default=Path(__file__).with_name("curves"))
    parser.add_argument("--studies", nargs="+", default=["*"], metavar="PATTERN", help="of names; default: all")
    parser.add_argument("--searches", type=int, default=100, help="of each study")
    parser.add_argument("--real", type=int, metavar="SEEDS", help="real searches, with so many seeds")
    parser.add_argument("--data", default="docstrings", help="of real searches")
    parser.add_argument("--dev", type=int, default=100, help="dev queries of real searches")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if options.real:
        rows = list(real(options))
    else:
        studies = read_studies(options.curves, options.studies)
        rows = [row for study in studies for row in recorded(study, options.searches)]
    for row in rows if options.json else table(rows):
        print(json.dumps(row) if options.json else row)


def recorded(study: Study, searches: int) -> list[dict[str, Any]]:
    """The rows of a study: simulated searches over its recorded trainings."""
    orders = [generator(0, "simulated search", index).permutation(len(study.pool)) for index in range(searches)]
    finals = [max(study.pool[place].best for place in order[:ALL]) for order in orders]
    target = median(finals)
    found = {way: [needed(study, order, way, target) for order in orders] for way in RECORDED}
    return rows_of(study.name, target, found)


def needed(study: Study, order: np.ndarray, way: str, target: float) -> float:
    """Iterations of one simulated search until it sees the target."""
    name, options = RECORDED[way]
    setup = Setup(study.last, **options)
    pool = [study.pool[place] for place in order]
    if setup.grace == "curriculum":
        pool = [replace(trial, grace=trial.end) for trial in pool]
    search = Simulation(SCHEDULERS[name](setup), pool, target=target).run()
    return search.spent if search.best().best >= target else math.inf


def real(options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Searches with real trainings: random search first, whose final values set the target."""
    torch.set_num_threads(1)
    tree = SPACE | {"data": options.data}
    run = build("space", tree, {}).base_ranker()
    materials = prepare(run, with_fewer_dev_queries(load_data(run.data), options.dev))
    seeds = range(options.real)
    values = {seed: told(RANDOM, seed, seen(tree, RANDOM, seed, materials, math.inf, math.inf)) for seed in seeds}
    target = median(max(values[seed]) for seed in seeds)
    found = {RANDOM: [first_at(values[seed], target) for seed in seeds]}
    most = max(len(values[seed]) for seed in seeds)
    for way in list(REAL)[1:]:
        searches = [told(way, seed, seen(tree, way, seed, materials, target, most)) for seed in seeds]
        found[way] = [first_at(values, target) for values in searches]
    yield from rows_of(f"{options.data}, real", target, found)


def seen(tree: dict[str, Any], way: str, seed: int, materials: Materials, target: float, most: float) -> list[float]:
    """Dev values of one search in the order in which it sees them, until it ends, sees the target or has made `most`
    iterations."""
    values: list[float] = []
    for now in driven(tree | {"seed": seed, "search": REAL[way]}, materials):
        values.append(now.best)
        if now.best >= target or len(values) >= most:
            break
    return values


def told(way: str, seed: int, values: list[float]) -> list[float]:
    """Prints a line about their search to stderr and returns the values."""
    print(f"{way}, seed {seed}: {len(values)} iterations, best {max(values):.4f}", file=sys.stderr, flush=True)
    return values


def first_at(values: list[float], target: float) -> float:
    """Iterations until the target is seen."""
    return next((count for count, value in enumerate(values, 1) if value >= target), math.inf)


def rows_of(work: str, target: float, found: dict[str, list[float]]) -> list[dict[str, Any]]:
    """One row for each way. `found`: by way, the iterations of each search, paired by position."""
    rng = generator(0, "bootstrap of searches")
    places = rng.integers(len(found[RANDOM]), size=(2000, len(found[RANDOM])))
    whole = np.array(found[RANDOM])
    rows = []
    for way, iterations in found.items():
        ours = np.array(iterations)
        drawn = [ratio(ours[drawn], whole[drawn]) for drawn in places]
        low, high = np.quantile(drawn, [0.025, 0.975], method="nearest")
        row = {"work": work, "way": way, "target": round(target, 4), "iterations": finite(median(iterations))}
        row |= {"ratio": finite(ratio(ours, whole)), "low": finite(low), "high": finite(high)}
        row["reached"] = float(np.isfinite(ours).mean())
        rows.append(row | {"each": [finite(count) for count in iterations] if len(ours) < 10 else None})
    return rows


def ratio(ours: np.ndarray, whole: np.ndarray) -> float:
    """Of the medians; 1 if neither is finite."""
    above, below = np.median(ours), np.median(whole)
    return 1.0 if np.isinf(above) and np.isinf(below) else float(above / below)


def finite(value: float) -> float | None:
    return round(float(value), 3) if math.isfinite(value) else None


def table(rows: list[dict[str, Any]]) -> list[str]:
    lines = ["| work | target | way | iterations | ratio | 95 % | reached |", "|---|---|---|---|---|---|---|"]
    for row in rows:
        cells = [row["work"], f"{row['target']:.3f}", row["way"], shown(row["iterations"], 0), shown(row["ratio"])]
        lines.append(f"| {' | '.join(cells)} | {shown(row['low'])} to {shown(row['high'])} | {row['reached']:.2f} |")
    return lines


if __name__ == "__main__":
    main()
