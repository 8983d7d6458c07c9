"""What does a user get from a search? Searches with real trainings, whose finds are trained again under new seeds.

    python benchmarks/real_searches.py [--data docstrings] [--searches 10] [--seeds 3] [--dev 100] [--json]

Each search runs in `driven.py`. Random search trains TRIALS configurations to their end; the others have as many
iterations in all. After a quarter, a half and all of them the configuration with the highest dev value so far is taken,
as the search would name it. `seen` is that value less the baseline's in the same search; `new seeds` is the mean best
dev value of its trainings under seeds that no search has seen, less that of the baseline's under the same seeds: what
is left without the luck of the best of many. Values are points of 100 of the metric, means over searches with 95 %
intervals."""

from __future__ import annotations

import argparse
import json
import math
import sys
from dataclasses import dataclass
from statistics import mean, stdev
from typing import Any

import torch
from driven import driven
from record_curves import with_fewer_dev_queries
from search_to_target import SPACE, TRIALS

from trainables.config.keys import TrainingRun
from trainables.data import load_data
from trainables.training.materials import Materials, prepare
from trainables.training.trainer import Training
from tune_cl.experiment.load import build
from tune_cl.search.driver import BASELINE_TRIAL

SHARES = (0.25, 0.5, 1.0)
NEW_SEEDS = 1000  # from here on
MANY = 10 * TRIALS
WAYS: dict[str, dict[str, Any]] = {
    "random search to the end": {"searcher": "random", "scheduler": "none", "trials": TRIALS},
    "random and asha": {"searcher": "random", "scheduler": "asha", "trials": MANY},
    "random and model": {"searcher": "random", "scheduler": "model", "trials": MANY},
    "tpe and model": {"searcher": "tpe", "scheduler": "model", "trials": MANY},
}


@dataclass(frozen=True)
class Find:
    """What a search would name after some of its iterations: its dev value, and what was trained."""

    value: float
    run: TrainingRun


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="docstrings")
    parser.add_argument("--searches", type=int, default=10, help="of each way")
    parser.add_argument("--seeds", type=int, default=3, help="new ones, for each find")
    parser.add_argument("--dev", type=int, default=100, help="dev queries")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(1)
    tree = SPACE | {"data": options.data}
    run = build("space", tree, {}).base_ranker()
    materials = prepare(run, with_fewer_dev_queries(load_data(run.data), options.dev))
    found: dict[tuple[str, float], list[tuple[float, float]]] = {}
    for number in range(options.searches):
        again = Again(materials, range(NEW_SEEDS + number * options.seeds, NEW_SEEDS + (number + 1) * options.seeds))
        for way in WAYS:
            baseline, finds = searched(tree, way, number, materials)
            for share, find in finds.items():
                pair = find.value - baseline.value, again(find.run) - again(baseline.run)
                found.setdefault((way, share), []).append(pair)
                shown = f"{way}, search {number}, {share:.0%} of the iterations: {100 * pair[0]:+.2f} seen"
                print(f"{shown}, {100 * pair[1]:+.2f} under new seeds", file=sys.stderr, flush=True)
    rows = [row(way, share, pairs) for (way, share), pairs in found.items()]
    print(json.dumps(rows, indent=1) if options.json else table(options.data, rows))


class Again:
    """A configuration's best dev value, as a mean over the seeds; each configuration is trained once under each."""

    def __init__(self, materials: Materials, seeds: range):
        self.materials, self.seeds = materials, seeds
        self.known: dict[str, float] = {}

    def __call__(self, run: TrainingRun) -> float:
        key = run.model_copy(update={"seed": 0}).model_dump_json()
        if key not in self.known:
            self.known[key] = mean(self._best(run.model_copy(update={"seed": seed})) for seed in self.seeds)
        return self.known[key]

    def _best(self, run: TrainingRun) -> float:
        training = Training(run, self.materials, device="cpu")
        while not training.finished:
            training.iterate()
        return training.best_value


def searched(tree: dict[str, Any], way: str, seed: int, materials: Materials) -> tuple[Find, dict[float, Find]]:
    """The baseline, and what the search would name after each of SHARES of the iterations of random search."""
    marks = {round(share * TRIALS * SPACE["training"]["max_iterations"]): share for share in SHARES}
    best: Find | None = None
    baseline: Find | None = None
    finds: dict[float, Find] = {}
    for made, now in enumerate(driven(tree | {"seed": seed, "search": WAYS[way]}, materials), 1):
        find = Find(now.best, TrainingRun.model_validate(now.plan.run.model_dump()))
        if best is None or find.value > best.value:
            best = find
        if now.plan.trial == BASELINE_TRIAL:
            baseline = find
        if made in marks:
            finds[marks[made]] = best
        if len(finds) == len(marks):
            break
    assert best is not None and baseline is not None
    # a search that ends before its iterations are used up keeps its find
    return baseline, finds | {share: best for share in SHARES if share not in finds}


def row(way: str, share: float, pairs: list[tuple[float, float]]) -> dict[str, Any]:
    cells: dict[str, Any] = {"way": way, "iterations": share, "searches": len(pairs)}
    for place, name in enumerate(("seen", "new_seeds")):
        values = [100 * pair[place] for pair in pairs]
        half = 1.96 * stdev(values) / len(values) ** 0.5 if len(values) > 1 else math.nan
        cells |= {name: round(mean(values), 2), f"{name}_ci95": None if math.isnan(half) else round(half, 2)}
    return cells


def table(data: str, rows: list[dict[str, Any]]) -> str:
    lines = [f"| {data} | iterations | seen | new seeds |", "|---|---:|---:|---:|"]
    for one in rows:
        cells = [f"{one[name]:+.2f} ± {one[f'{name}_ci95'] or math.nan:.2f}" for name in ("seen", "new_seeds")]
        lines.append(f"| {one['way']} | {one['iterations']:.0%} | {' | '.join(cells)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
