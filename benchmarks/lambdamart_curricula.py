"""Curricula of Ferro et al. (2018) on a LETOR folder: test nDCG@10 over seeds, with all choices made on dev.

    python benchmarks/lambdamart_curricula.py FOLDER [--trees 200] [--seeds 5] [--feature 25]

Learning rate and leaves are chosen on dev for plain LambdaMART (seed 0), then each curriculum's switch point among a
fifth to four fifths of the trees. Trees are grown on 80 % of queries and features, so that seeds differ.
"""

from __future__ import annotations

import argparse
from itertools import product
from statistics import mean, stdev
from typing import Any

from trainables.config.keys import TrainingRun, validated
from trainables.evaluation.metrics import Evaluator
from trainables.training.materials import Materials, prepare
from trainables.training.trees import TreeTraining

METRIC, STEP = "ndcg@10", 10
RATES, LEAVES = (0.01, 0.05, 0.1, 0.5), (8, 16, 32, 64)
CURRICULA: dict[str, dict[str, Any]] = {
    "MSE-t": {"objective_switch": "mse"},
    "label_extremes": {"subset": "label_extremes"},
    "relevant_count": {"subset": "relevant_count"},
    "feature_ndcg": {"subset": "feature_ndcg"},
}


def run_of(options: argparse.Namespace, lr: float, leaves: int, seed: int, curriculum: dict[str, Any]) -> TrainingRun:
    sampled = {"feature_fraction": 0.8, "bagging_fraction": 0.8}
    iterations = options.trees // STEP
    return validated(
        {
            "data": options.folder,
            "ranker": {"name": "lambdamart", "leaves": leaves, "trees_per_iteration": STEP, **sampled},
            "training": {"lr": lr, "max_iterations": iterations, "patience": iterations},
            "curriculum": {"feature": options.feature, **curriculum},
            "metric": METRIC,
            "seed": seed,
        }
    )


def measured(run: TrainingRun, materials: Materials) -> tuple[float, float]:
    """Best dev value, and the test value of the trees up to there."""
    training = TreeTraining(run, materials)
    while not training.finished:
        training.iterate()
    training.cut_at_best()
    test = materials.data.splits["test"]
    values = Evaluator(test, materials.data.document_ids)(training.score(test), [METRIC])[METRIC]
    return training.best_value, float(values.mean())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("--trees", type=int, default=200)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--feature", type=int, default=25)
    options = parser.parse_args()
    materials = prepare(run_of(options, RATES[0], LEAVES[0], 0, {}))
    lr, leaves = max(
        product(RATES, LEAVES), key=lambda pair: measured(run_of(options, *pair, seed=0, curriculum={}), materials)[0]
    )
    print(f"{materials.data.name}: learning rate {lr}, {leaves} leaves, {options.trees} trees", flush=True)
    print("| curriculum | switch | test nDCG@10 | sd over seeds |\n|---|---:|---:|---:|")
    _tell("none", "", [run_of(options, lr, leaves, seed, {}) for seed in range(options.seeds)], materials)
    for name, keys in CURRICULA.items():
        switches = [options.trees * part // 5 for part in range(1, 5)]
        made = {switch: {**keys, "switch": switch} for switch in switches}
        best = max(switches, key=lambda switch: measured(run_of(options, lr, leaves, 0, made[switch]), materials)[0])
        _tell(name, best, [run_of(options, lr, leaves, seed, made[best]) for seed in range(options.seeds)], materials)


def _tell(name: str, switch: int | str, runs: list[TrainingRun], materials: Materials) -> None:
    values = [measured(run, materials)[1] for run in runs]
    print(f"| {name} | {switch} | {mean(values):.4f} | {stdev(values):.4f} |", flush=True)


if __name__ == "__main__":
    main()
