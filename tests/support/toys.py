"""Trainings for real Ray that cost nothing and break on demand.

In a module that imports little, because each process that Ray starts for a trial imports it.
"""

from __future__ import annotations

import json
import os
import random
import signal
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from ray import tune

BALLAST = "ballast"  # file that fills a storage
METRICS = ("train_loss", "available_share", "mean_weight", "samples_per_second", "seconds")


class Toy(tune.Trainable):
    """`prepared`: {folder: where it notes each step it makes and what GPUs its process sees, seconds: of a step,
    faults: trial -> what befalls it, storage: where checkpoints go}.

    Faults: `killed` ends the process with SIGKILL in step 3, once; `killed between` when a
    process that trained another trial takes this one up, once; `raises` fails before the first step; `nan` gives a
    loss that is not a number in step 2; `full` fills the storage when step 3 is to be saved, once.
    """

    def setup(self, config: dict[str, Any], prepared: dict[str, Any]) -> None:
        self.folder, self.seconds, self.faults = prepared["folder"], prepared["seconds"], prepared["faults"]
        self.ballast = Path(prepared["storage"]) / BALLAST
        (Path(self.folder) / f"{os.getpid()}.gpus").write_text(os.environ.get("CUDA_VISIBLE_DEVICES", ""))
        self.reset_config(config)

    def reset_config(self, new_config: dict[str, Any]) -> bool:
        self.trial, self.done = new_config["trial"], 0
        self.iterations = new_config["training.max_iterations"]
        begun = Path(self.folder) / f"{self.trial}.begun"
        if self.fault == "killed between" and not begun.exists():
            begun.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        if self.fault == "raises":
            raise RuntimeError("there is no such model")
        if new_config["checkpoint"]:
            self.load_checkpoint(new_config["checkpoint"])
        return True

    @property
    def fault(self) -> str | None:
        return self.faults.get(self.trial)

    def step(self) -> dict[str, Any]:
        if self.done == self.iterations:  # restored from its last checkpoint: no further step, as in RankerTrainable
            return self.result()
        time.sleep(self.seconds)
        self.done += 1
        with (Path(self.folder) / f"{self.trial}.steps").open("a") as steps:
            steps.write(f"{self.done}\n")
        if self.done == 3 and self.fault == "killed" and steps_of(self.folder, self.trial).count(3) == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        if self.fault == "nan" and self.done == 2:
            return {"failed": "the training loss became nan", "iteration": 2, "done": True}
        return self.result()

    def result(self) -> dict[str, Any]:
        value = random.Random(f"{self.trial} {self.done}").random()
        return dict.fromkeys(METRICS, 1.0) | {
            "dev_map": value, "iteration": self.done, "done": self.done == self.iterations, "should_checkpoint": True,
        }  # fmt: skip

    def save_checkpoint(self, checkpoint_dir: str) -> None:
        first = steps_of(self.folder, self.trial).count(3) == 1
        if self.done == 3 and self.fault == "full" and first:
            fill(self.ballast)
        (Path(checkpoint_dir) / "done.json").write_text(json.dumps(self.done))

    def load_checkpoint(self, checkpoint: str | None) -> None:
        self.done = json.loads((Path(str(checkpoint)) / "done.json").read_text())


def fill(ballast: Path) -> None:
    """Takes all space that is left on the file system."""
    with ballast.open("ab", buffering=0) as file, suppress(OSError):
        while file.write(bytes(4096)):
            pass


def steps_of(folder: str | Path, trial: str) -> list[int]:
    """Every step a trial made, those made twice included."""
    return [int(line) for line in (Path(folder) / f"{trial}.steps").read_text().split()]
