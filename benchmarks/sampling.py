"""Does it matter whether batches are independent draws, or each open instance comes once before any comes again?

    python benchmarks/sampling.py docstrings [--seeds 3] [--iterations 10]

Trains conv_knrm with both values of curriculum.sampling, plain and with a linear pacing, under the same seeds; prints
best dev MAP and test MAP of the best iteration: means and sample standard deviations over seeds, and differences."""

from __future__ import annotations

import argparse

import numpy as np
import torch

from trainables.config.keys import TrainingRun
from trainables.data.columns import required_split
from trainables.training.checkpoint import load_trained_state
from trainables.training.materials import Materials, prepare
from trainables.training.trainer import Training, test_metrics

WAYS = ("with_replacement", "without_replacement")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--iterations", type=int, default=10)
    options = parser.parse_args()
    torch.set_num_threads(1)
    materials = prepare(configured(options, "none", WAYS[0], seed=0))
    for pacing in ("none", "linear"):
        found = [
            np.asarray([one(configured(options, pacing, way, seed), materials) for seed in range(options.seeds)])
            for way in WAYS
        ]
        for way, values in [*zip(WAYS, found, strict=True), ("difference", found[1] - found[0])]:
            mean, deviation = values.mean(0), values.std(0, ddof=1)
            cells = (
                f"{name} {m:+.4f} (sd {d:.4f})" for name, m, d in zip(("dev", "test"), mean, deviation, strict=True)
            )
            print(f"{pacing:7} {way:20}", *cells, flush=True)


def configured(options: argparse.Namespace, pacing: str, sampling: str, seed: int) -> TrainingRun:
    return TrainingRun.model_validate(
        {
            "data": options.data,
            "ranker": "conv_knrm",
            "curriculum": {"pacing": pacing, "scoring": "context_words", "sampling": sampling},
            "training": {"max_iterations": options.iterations, "max_length": 64},
            "seed": seed,
        }
    )


def one(run: TrainingRun, materials: Materials) -> tuple[float, float]:
    """Best dev MAP and the test MAP of that iteration."""
    training = Training(run, materials)
    while not training.finished:
        training.iterate()
    load_trained_state(training.module, training.best_weights)
    test = required_split(materials.data, "test")
    return training.best_value, test_metrics(run, materials, test, training.score(test))["map"]


if __name__ == "__main__":
    main()
