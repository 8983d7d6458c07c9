"""What checkpoints cost a trial: none, each waited for, and each written while the next iteration runs.

    python benchmarks/checkpoints.py ../shared/data/answers/wikiqa [--steps 4] [--threads 1] [--device cuda]

A trial of a six-layer BERT, 384 wide, as Ray Tune runs it, writes checkpoints of 363 MB to a folder. A search makes
them so rarely that they take a tenth of the time; here one is due after every iteration, to show the cost. Blocks of
BLOCK iterations take turns; what is still being written at a block's end is waited for and counted. Needs the extra
`bench`, for the weights.
"""

from __future__ import annotations

import argparse
import shutil
import time
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from bert_training import our_training
from devices import add_device, required_device
from ray.train._internal.session import _TrainingResult
from ray.train._internal.storage import StorageContext

from trainables.ranker_trainable import RankerTrainable
from trainables.training.saves import Saves

BLOCK = 4


class Never(Saves[_TrainingResult]):
    def due(self) -> bool:
        return False


class Waited(Saves[_TrainingResult]):
    def due(self) -> bool:
        return True

    def worth_waiting(self) -> bool:
        return True


class Behind(Saves[_TrainingResult]):
    def due(self) -> bool:
        return self._behind is None

    def worth_waiting(self) -> bool:
        return False


def block(trial: RankerTrainable, saves: Saves[_TrainingResult], storage: Path) -> float:
    """Seconds per iteration; the checkpoints are removed."""
    trial.saves = saves
    started = time.perf_counter()
    for _ in range(BLOCK):
        if trial.train()["should_checkpoint"]:
            trial.save()
    saves.wait()
    seconds = (time.perf_counter() - started) / BLOCK
    for folder in storage.rglob("checkpoint_*"):
        shutil.rmtree(folder)
    return seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", help="folder of the data set")
    parser.add_argument("--steps", type=int, default=4, help="per iteration, each of 32 pairs")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1)
    add_device(parser)
    options = parser.parse_args()
    device = required_device(options.device)
    run = our_training(options.data, None, options.steps, "auto", device).run
    config = {"run": run.model_dump(), "checkpoint": None, "threads": options.threads, "gpu": device.type == "cuda"}
    with TemporaryDirectory() as folder:
        trial = RankerTrainable(config)
        trial._storage = StorageContext(folder, "search", trial_dir_name="trial")
        trial.train()
        taken: dict[str, list[float]] = {"none": [], "waited for": [], "written behind": []}
        for _ in range(options.rounds):
            for name, kind in zip(taken, (Never, Waited, Behind), strict=True):
                taken[name].append(block(trial, kind(), Path(folder)))
    for name, seconds in taken.items():
        more = [one / none - 1 for one, none in zip(seconds, taken["none"], strict=True)]
        print(
            f"checkpoints {name}: {median(seconds):.2f} s per iteration, "
            f"{median(more):+.0%} [{min(more):+.0%}, {max(more):+.0%}]"
        )


if __name__ == "__main__":
    main()
