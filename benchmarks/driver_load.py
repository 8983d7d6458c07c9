"""What a result costs the driver: a search of trainings that cost nothing, with its journal and MLflow on SQLite.

    python benchmarks/driver_load.py --trials 1000 --results 20
    python benchmarks/driver_load.py --trials 120 --tracking down   # no MLflow server ever answers
    python benchmarks/driver_load.py --trials 120 --floor           # Ray Tune alone: no search, journal or tracking

Driver time is the CPU time of the driver's process, tracking thread included, from the first quarter of the results to
the last; MLflow's import and its new database, some seconds, come before that. `main` and `tracking` are the parts of
its two Python threads; the rest is Ray's own threads. The times by quarter show whether the cost grows with the search.
Memory is the resident size at each quarter of the results. The goal is 15 ms per result.
"""

from __future__ import annotations

import argparse
import json
import socket
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import psutil
from ray import tune

from trainables.config.objective import AnyRun
from trainables.ranker_trainable import ClusterTrainable
from tune_cl.experiment.experiment import Experiment
from tune_cl.experiment.load import build
from tune_cl.history.journal import Event, Journal
from tune_cl.history.tracking_uri import resolve_tracking_uri
from tune_cl.ray import tuner as ray_tune
from tune_cl.ray.session import ray_session
from tune_cl.ray.slots import Slots
from tune_cl.search.driver import BASELINE_TRIAL, Search
from tune_cl.tracking.writer import MlflowWriter

METRICS = ("train_loss", "available_share", "mean_weight", "samples_per_second", "seconds")


class Trivial(ClusterTrainable):
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

    def snapshot(self) -> Callable[[Path], None]:
        done = str(self.done)

        def write(folder: Path) -> None:
            (folder / "done").write_text(done)

        return write


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
        "event": "search", "name": "load", "space": "load", "data": {"name": "none", "digest": ""},
        "ranker": "none", "rankers": [],
        "metric": made.metric, "seed": made.seed, "baseline": BASELINE_TRIAL, "yaml": made.to_yaml(), "versions": {},
        "git_commit": None, "tracking_uri": tracking, "storage": str(folder), "time": time.time(),
    }  # fmt: skip


@dataclass(frozen=True)
class Mark:
    """The driver's process after that many results: seconds since the epoch, CPU seconds (of the process and of its two
    Python threads), resident MiB."""

    results: int
    wall: float
    cpu: float
    main: float
    tracking: float
    memory: float


class Marks:
    """A mark at each quarter of the expected results. `writer`: the tracking thread, if there is one."""

    def __init__(self, expected: int, writer: MlflowWriter | None = None):
        self.expected, self.writer = expected, writer
        self.taken: list[Mark] = []

    def at(self, results: int) -> None:
        """To be called by the driver's main thread after each result."""
        if len(self.taken) < 4 and results >= self.expected * (len(self.taken) + 1) / 4:
            process = psutil.Process()
            threads = {one.id: one.user_time + one.system_time for one in process.threads()}
            tracking = threads.get(self.writer.native_id or 0, 0.0) if self.writer else 0.0
            memory = process.memory_info().rss / 2**20
            mark = Mark(results, time.time(), time.process_time(), time.thread_time(), tracking, memory)
            self.taken.append(mark)

    def document(self) -> dict[str, Any]:
        """Milliseconds per result between the first quarter and the last; memory at each."""
        first, last = self.taken[0], self.taken[-1]
        between = (last.results - first.results) / 1000
        quarters = [
            1000 * (later.cpu - earlier.cpu) / (later.results - earlier.results)
            for earlier, later in pairwise(self.taken)
        ]
        return {
            "results": last.results,
            "driver_ms_per_result": round((last.cpu - first.cpu) / between, 2),
            "driver_ms_by_quarter": [round(quarter, 2) for quarter in quarters],
            "main_ms_per_result": round((last.main - first.main) / between, 2),
            "tracking_ms_per_result": round((last.tracking - first.tracking) / between, 2),
            "wall_ms_per_result": round((last.wall - first.wall) / between, 2),
            "memory_mib": [round(mark.memory, 1) for mark in self.taken],
            "kib_per_result": round((last.memory - first.memory) * 1024 / (last.results - first.results), 2),
        }


class CountedJournal(Journal):
    """Counts every result for `marks`."""

    marks: Marks
    results = 0

    def append(self, event: Event, patience: float | None = None) -> None:
        super().append(event, patience)
        if event["event"] == "result":
            self.results += 1
            self.marks.at(self.results)


def artifacts_in(folder: Path) -> Callable[[str, str, AnyRun], Path]:
    """Leaves one small file for each trial, for MLflow to copy."""

    def write(trial: str, checkpoint: str, run: AnyRun) -> Path:
        made = folder / "trials" / trial
        made.mkdir(parents=True, exist_ok=True)
        (made / "run.txt").write_text(trial)
        return made

    return write


def search_load(trials: int, results: int, down: bool) -> dict[str, Any]:
    """A whole search. `down`: the tracking address is one where nothing listens."""
    made = experiment(trials, results)
    with tempfile.TemporaryDirectory() as storage, ray_session(None):
        folder = Path(storage) / "load"
        tracking = f"http://127.0.0.1:{free_port()}" if down else resolve_tracking_uri(Path(storage))
        places = Slots(made.search.resources, None, cluster=False)
        with CountedJournal(folder) as journal:
            journal.append(begin(made, Path(storage), tracking))
            writer = MlflowWriter(journal, tracking)
            writer.start()
            marks = journal.marks = Marks(trials * results, writer)
            search = Search(made, journal, places(), artifacts_in(folder))
            materials: dict[str, Any] = {"results": results}  # what Trivial takes in place of data
            ray_tune.run_trials(search, materials, str(folder / "ray"), 1, places)
            behind = writer.pending()
            unsent = writer.close(timeout=1 if down else 600)
    return marks.document() | {"tracking_behind_at_end": behind, "unsent": unsent}


class Counting(tune.Callback):
    """Counts results for the marks; nothing else."""

    def __init__(self, marks: Marks):
        self.marks, self.results = marks, 0

    def on_trial_result(self, iteration: int, trials: list, trial: Any, result: dict, **info: Any) -> None:
        self.results += 1
        self.marks.at(self.results)

    def __reduce__(self):
        return (Counting, (Marks(self.marks.expected),))


def ray_alone(trials: int, results: int) -> dict[str, Any]:
    """The same trials on Ray Tune with its own first-in-first-out scheduler, no searcher, its own snapshots."""
    marks = Marks(trials * results)
    with tempfile.TemporaryDirectory() as storage, ray_session(None):
        trainable = tune.with_parameters(Trivial, materials={"results": results})
        tune.Tuner(
            tune.with_resources(trainable, {"cpu": 1}),
            tune_config=tune.TuneConfig(num_samples=trials, reuse_actors=True),
            run_config=tune.RunConfig(
                storage_path=storage,
                callbacks=[Counting(marks)],
                checkpoint_config=tune.CheckpointConfig(num_to_keep=2, checkpoint_frequency=1),
                verbose=0,
            ),
        ).fit()
    return marks.document()


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=1000)
    parser.add_argument("--results", type=int, default=20, help="a trial")
    parser.add_argument("--tracking", choices=("sqlite", "down"), default="sqlite")
    parser.add_argument("--floor", action="store_true", help="Ray Tune alone")
    options = parser.parse_args()
    ray_tune.RankerTrainable = Trivial
    if options.floor:
        document = ray_alone(options.trials, options.results)
    else:
        document = search_load(options.trials, options.results, options.tracking == "down")
    print(json.dumps({"trials": options.trials, "results_per_trial": options.results} | document, indent=1))


if __name__ == "__main__":
    main()
