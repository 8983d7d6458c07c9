"""Concurrent trials must not fight for cores: two trainings of one thread each, against one such training alone.

    python benchmarks/threads.py ../shared/data/answers/wikiqa [--steps 60] [--repeats 6] [--json]

Two processes stay alive; by turns one of them trains ConvKNRM alone, and both do at once. The ratio is how many times
as much work per second the two do. A matrix product that stays in a core's own cache is measured in the same way; it
shows how much of that is due to the machine: cores that share a clock, or a cache with others.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
from collections.abc import Callable
from multiprocessing.synchronize import Barrier
from queue import Queue

from side_by_side import Comparison, seconds, tell

from trainables.config.keys import unflatten, validated

CORES = 2


def works_of(data: str, steps: int) -> dict[str, Callable[[], object]]:
    import torch

    from trainables.training.materials import prepare
    from trainables.training.trainer import Training

    torch.set_num_threads(1)
    chosen = {"data.source": data, "training.batches_per_iteration": steps, "training.max_iterations": 1000}
    run = validated(unflatten(chosen))
    training, square = Training(run, prepare(run)), torch.rand(256, 256)

    def products() -> None:
        for _ in range(20 * steps):
            torch.mm(square, square)

    return {"a training": training._train, "a matrix product in the cache": products}


def work(number: int, data: str, steps: int, repeats: int, together: Barrier, taken: Queue) -> None:
    """Each kind of work in turn: alone in one process while the other waits, then in both."""
    works = works_of(data, steps)
    for repeat in range(repeats + 1):
        for name, call in works.items():
            for alone in (True, False):
                together.wait()
                if not alone or repeat % CORES == number:
                    taken.put((name, repeat, alone, seconds(call)))


def measured(data: str, steps: int, repeats: int) -> dict[tuple[str, int, bool], float]:
    """Seconds of the slower process by work, repeat, and whether it was alone; the first repeat is left out."""
    context = multiprocessing.get_context("spawn")
    together, taken = context.Barrier(CORES), context.Queue()
    arguments = (data, steps, repeats, together, taken)
    processes = [context.Process(target=work, args=(number, *arguments)) for number in range(CORES)]
    for process in processes:
        process.start()
    slowest: dict[tuple[str, int, bool], float] = {}
    for _ in range((repeats + 1) * 2 * (1 + CORES)):
        *which, took = taken.get(timeout=300)
        slowest[*which] = max(took, slowest.get((*which,), 0.0))
    for process in processes:
        process.join()
    return {which: took for which, took in slowest.items() if which[1]}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data")
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--repeats", type=int, default=6)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    slowest = measured(options.data, options.steps, options.repeats)
    for name in dict.fromkeys(name for name, _, _ in slowest):
        repeats = range(1, options.repeats + 1)
        both = [slowest[name, repeat, False] / CORES for repeat in repeats]
        alone = [slowest[name, repeat, True] for repeat in repeats]
        tell(Comparison(f"{name}, two at once on two cores", "alone", both, alone), options.json)
    return 0


if __name__ == "__main__":
    sys.exit(main())
