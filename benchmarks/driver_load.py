"""What a result costs the driver: a search of trainings that cost nothing, with its journal and MLflow on SQLite.

    python benchmarks/driver_load.py --trials 1000 --results 20

Driver time is the CPU time of the driver's process, tracking thread included, between the first quarter of the results
and the last: MLflow's import and its new database, some seconds, come before. Memory is the resident size each time a
quarter of the results is in. The goal is 15 ms a result.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
from ray import tune

from trainables.config import TrainingRun
from tune_cl.experiment import Experiment, build
from tune_cl.journal import Journal, SearchState
from tune_cl.search import ray_tune
from tune_cl.search.places import Places
from tune_cl.search.search import BASELINE, Search
from tune_cl.tracking.mlflow_writer import MlflowWriter
from tune_cl.tracking.uri import resolve_tracking_uri

METRICS = ("train_loss", "available_share", "mean_weight", "samples_per_second", "seconds")


class Trivial(tune.Trainable):
    """Reports at once, and writes a checkpoint of one number."""

    def setup(self, config: dict[str, Any], materials: dict[str, Any]) -> None:
        self.results = materials["results"]
        self.reset_config(config)

    def reset_config(self, new_config: dict[str, Any]) -> bool:
        self.done = 0
        return True

    def step(self) -> dict[str, Any]:
        self.done += 1
        value = {"dev_map": self.done / 100, "iteration": self.done, "done": self.done == self.results}
        return dict.fromkeys(METRICS, 1.0) | value

    def save_checkpoint(self, checkpoint_dir: str) -> None:
        (Path(checkpoint_dir) / "done").write_text(str(self.done))


def experiment(trials: int, results: int) -> Experiment:
    return build(
        "load",
        {
            "curriculum": {"pacing": "linear", "delta": {"uniform": [0.1, 0.9]}},
            "training": {"max_iterations": results},
            "search": {"trials": trials, "searcher": "random"},
        },
        {},
    )


def begin(made: Experiment, folder: Path, tracking: str) -> dict[str, Any]:
    return {
        "event": "search", "name": "load", "space": "load", "data": {"name": "none", "digest": ""}, "ranker": "none",
        "metric": made.metric, "seed": made.seed, "baseline": BASELINE, "yaml": made.to_yaml(), "versions": {},
        "git_commit": None, "tracking_uri": tracking, "storage": str(folder), "time": time.time(),
    }  # fmt: skip


@dataclass(frozen=True)
class Mark:
    """The driver's process when so many results were in: seconds since the epoch and of CPU, resident MiB."""

    results: int
    wall: float
    cpu: float
    memory: float


def watching(expected: int) -> tuple[list[Mark], Callable[[SearchState], None]]:
    """Marks at each quarter of the expected results, filled in by the function."""
    marks: list[Mark] = []

    def watch(state: SearchState) -> None:
        if len(marks) < 4 and state.iterations >= expected * (len(marks) + 1) / 4:
            memory = psutil.Process().memory_info().rss / 2**20
            marks.append(Mark(state.iterations, time.time(), time.process_time(), memory))

    return marks, watch


def artifacts_in(folder: Path) -> Callable[[str, Path, TrainingRun], Path]:
    """Leaves one small file for each trial, for MLflow to copy."""

    def write(trial: str, checkpoint: Path, run: TrainingRun) -> Path:
        made = folder / "trials" / trial
        made.mkdir(parents=True, exist_ok=True)
        (made / "run.txt").write_text(trial)
        return made

    return write


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=1000)
    parser.add_argument("--results", type=int, default=20, help="a trial")
    options = parser.parse_args()
    ray_tune.RankerTrainable = Trivial
    made = experiment(options.trials, options.results)
    with tempfile.TemporaryDirectory() as storage, ray_tune.ray_session(None):
        folder = Path(storage) / "load"
        tracking = resolve_tracking_uri(Path(storage))
        places = Places(made.search.resources, None, cluster=False)
        marks, watch = watching(options.trials * options.results)
        with Journal(folder) as journal:
            journal.append(begin(made, Path(storage), tracking))
            writer = MlflowWriter(journal.path, tracking)
            writer.start()
            search = Search(made, journal, places(), artifacts_in(folder), watch)
            ray_tune.run_trials(search, {"results": options.results}, folder, 1, places)
            behind = writer.pending()
            unsent = writer.close(timeout=600)
    first, last = marks[0], marks[-1]
    between = (last.results - first.results) / 1000
    document = {
        "trials": len(search.state.trials), "results": search.state.iterations,
        "driver_ms_per_result": (last.cpu - first.cpu) / between,
        "wall_ms_per_result": (last.wall - first.wall) / between,
        "tracking_behind_at_end": behind, "unsent": unsent, "memory_mib": [round(mark.memory) for mark in marks],
    }  # fmt: skip
    print(json.dumps(document, indent=1))


if __name__ == "__main__":
    main()
