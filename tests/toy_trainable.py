"""Searches on real Ray whose trainings cost nothing and break on demand."""

from __future__ import annotations

import json
import os
import random
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from ray import tune

from tune_cl.experiment import Experiment
from tune_cl.journal import Journal, SearchState
from tune_cl.search import ray_tune
from tune_cl.search.search import BASELINE, Search

BALLAST = "ballast"  # file that fills a storage
METRICS = ("train_loss", "available_share", "mean_weight", "samples_per_second", "seconds")


class Toy(tune.Trainable):
    """`materials`: {folder: where it notes each step it makes, seconds: of a step, faults: trial -> what befalls it,
    storage: where checkpoints go}.

    Faults: `killed` ends the process with SIGKILL in step 3, once; `raises` fails before the first step; `nan` gives
    a loss that is no number in step 2; `full` fills the storage when step 3 is to be saved, once, and empties it when
    the trial goes on; `stays full` fills it each time and leaves it so.
    """

    def setup(self, config: dict[str, Any], materials: dict[str, Any]) -> None:
        self.folder, self.seconds, self.faults = materials["folder"], materials["seconds"], materials["faults"]
        self.ballast = Path(materials["storage"]) / BALLAST
        self.reset_config(config)

    def reset_config(self, new_config: dict[str, Any]) -> bool:
        self.trial, self.done = new_config["trial"], 0
        self.iterations = new_config["run"]["training"]["max_iterations"]
        if self.fault == "raises":
            raise RuntimeError("there is no such model")
        if new_config["checkpoint"]:
            self.load_checkpoint(new_config["checkpoint"])
        return True

    @property
    def fault(self) -> str | None:
        return self.faults.get(self.trial)

    def step(self) -> dict[str, Any]:
        time.sleep(self.seconds)
        self.done += 1
        with (Path(self.folder) / f"{self.trial}.steps").open("a") as steps:
            steps.write(f"{self.done}\n")
        if self.fault == "killed" and self.done == 3 and steps_of(self.folder, self.trial).count(3) == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        if self.fault == "nan" and self.done == 2:
            return {"failed": "the training loss became nan", "iteration": 2, "done": True}
        value = random.Random(f"{self.trial} {self.done}").random()
        return dict.fromkeys(METRICS, 1.0) | {
            "dev_map": value, "iteration": self.done, "done": self.done == self.iterations,
        }  # fmt: skip

    def save_checkpoint(self, checkpoint_dir: str) -> None:
        first = steps_of(self.folder, self.trial).count(3) == 1
        if self.done == 3 and (self.fault == "stays full" or (self.fault == "full" and first)):
            fill(self.ballast)
        (Path(checkpoint_dir) / "done.json").write_text(json.dumps(self.done))

    def load_checkpoint(self, checkpoint: str | None) -> None:
        if self.fault == "full":
            self.ballast.unlink(missing_ok=True)
        self.done = json.loads((Path(str(checkpoint)) / "done.json").read_text())


def fill(ballast: Path) -> None:
    """Takes all space that is left on the file system."""
    with ballast.open("ab", buffering=0) as file, suppress(OSError):
        while file.write(bytes(4096)):
            pass


def steps_of(folder: str | Path, trial: str) -> list[int]:
    """Every step a trial made, those made twice included."""
    return [int(line) for line in (Path(folder) / f"{trial}.steps").read_text().split()]


def search_event(experiment: Experiment, folder: Path) -> dict[str, Any]:
    return {
        "event": "search", "name": folder.name, "space": "toy", "data": {"name": "none", "digest": ""},
        "ranker": "conv_knrm", "metric": "map", "seed": 0, "baseline": BASELINE, "yaml": experiment.to_yaml(),
        "storage": str(folder.parent), "time": time.time(),
    }  # fmt: skip


def toy_search(
    experiment: Experiment,
    folder: Path,
    places: Callable[[], int],
    materials: dict[str, Any],
    watch: Callable[[SearchState], None] = lambda state: None,
) -> SearchState:
    """Runs a search of Toys in the Ray that this process is connected to."""
    made = {"folder": str(folder), "seconds": 0.0, "faults": {}, "storage": str(folder / "ray")} | materials
    with Journal(folder) as journal, pytest.MonkeyPatch.context() as patch:
        if not journal.path.stat().st_size:
            journal.append(search_event(experiment, folder))
        patch.setattr(ray_tune, "RankerTrainable", Toy)
        search = Search(experiment, journal, places(), lambda trial, checkpoint, run: folder / trial, watch)
        ray_tune.run_trials(search, made, made["storage"], 1, places)
        return search.state
