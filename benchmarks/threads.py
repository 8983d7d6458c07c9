"""Concurrent trials must not fight for cores: two trainings of one thread each, against one such training alone.

    python benchmarks/threads.py ../shared/data/answers/wikiqa [--steps 60] [--repeats 3] [--json]

Times a training of ConvKNRM alone and two at once, in processes of their own that start together. The ratio is how
many times the work a second two of them do.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
from multiprocessing.synchronize import Barrier
from queue import Queue

from side_by_side import Comparison, seconds, tell

from trainables.config import unflatten, validated


def train(data: str, steps: int, together: Barrier, taken: Queue) -> None:
    import torch

    from trainables.training.materials import prepare
    from trainables.training.training import Training

    torch.set_num_threads(1)
    chosen = {"data.source": data, "training.batches_per_iteration": steps, "training.max_iterations": 2}
    run = validated(unflatten(chosen))
    training = Training(run, prepare(run))
    training._train()
    together.wait()
    taken.put(seconds(training._train))


def at_once(count: int, data: str, steps: int) -> float:
    """Seconds of the slowest of `count` trainings that start together."""
    context = multiprocessing.get_context("spawn")
    together, taken = context.Barrier(count), context.Queue()
    processes = [context.Process(target=train, args=(data, steps, together, taken)) for _ in range(count)]
    for process in processes:
        process.start()
    slowest = max(taken.get(timeout=300) for _ in processes)
    for process in processes:
        process.join()
    return slowest


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data")
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    taken = [
        (at_once(1, options.data, options.steps), at_once(2, options.data, options.steps))
        for _ in range(options.repeats)
    ]
    each = [both / 2 for _, both in taken]
    tell(Comparison("a training, two at once on two cores", "alone", each, [one for one, _ in taken]), options.json)
    return 0


if __name__ == "__main__":
    sys.exit(main())
