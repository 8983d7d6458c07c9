"""Starting a trial after the first: reused actors over shared arrays, against Ray with a new actor that loads its data.

    python benchmarks/trial_start.py [--trials 6] [--json]

Both are Ray Tune searches of the same ConvKNRM trainings on the built-in data, one at a time, one iteration each. A
trial's start is the time from the end of the trial before it to its first result, less the seconds of its own
iteration. The first trial, which starts Ray's workers, does not count. The peer's data comes from our cache, so that
only what a trial must do anew is counted. Ends in an error if a trial fails or the two give different losses.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from tempfile import TemporaryDirectory
from typing import Any

from ray import tune
from side_by_side import Comparison, tell

from trainables.config.keys import TrainingConfig, unflatten, validated
from trainables.ranker_trainable import RankerTrainable
from trainables.training.conclusion import RUN
from trainables.training.prepared import prepare, prepared_key
from tune_cl.ray.session import ray_session

CHOSEN = {
    "data.source": "docstrings",
    "ranker.name": "conv_knrm",
    "training.batches_per_iteration": 2,
    "training.max_iterations": 1,
}


class Clock(tune.Callback):
    """Seconds that each trial took beyond its own iteration, and the trials' losses."""

    def __init__(self) -> None:
        self.free = time.perf_counter()
        self.starts: list[float] = []
        self.losses: list[float] = []

    def on_trial_result(self, iteration: int, trials: list, trial: Any, result: dict, **info: Any) -> None:
        self.starts.append(time.perf_counter() - self.free - result["seconds"])
        self.losses.append(result["train_loss"])

    def on_trial_complete(self, iteration: int, trials: list, trial: Any, **info: Any) -> None:
        self.free = time.perf_counter()


class Alone(RankerTrainable):
    """The same training, but every trial is a new actor that reads its own data."""

    def reset_config(self, new_config: dict[str, Any]) -> bool:
        return False


def search(trainable: Any, run: TrainingConfig, trials: int, reuse: bool, folder: str) -> Clock:
    clock = Clock()
    config = {
        RUN: json.dumps(run.model_dump()),
        "checkpoint": None,
        "threads": 1,
        "number": tune.grid_search(list(range(trials))),
    }
    tuner = tune.Tuner(
        tune.with_resources(trainable, {"cpu": 1}),
        param_space=config,
        tune_config=tune.TuneConfig(max_concurrent_trials=1, reuse_actors=reuse),
        run_config=tune.RunConfig(name=f"reuse-{reuse}", storage_path=folder, callbacks=[clock], verbose=0),
    )
    if tuner.fit().errors:
        raise SystemExit("error: a trial failed")
    return clock


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=6)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    run = validated(unflatten(CHOSEN))
    prepared = {prepared_key(run): prepare(run)}
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [os.getcwd(), os.environ.get("PYTHONPATH")]))
    with TemporaryDirectory() as folder, ray_session(None):
        shared = tune.with_parameters(RankerTrainable, prepared=prepared)
        ours = search(shared, run, options.trials, True, folder)
        peer = search(Alone, run, options.trials, False, folder)
    done = Comparison("start of a trial after the first", "Ray, a new actor a trial", ours.starts[1:], peer.starts[1:])
    tell(done, options.json)
    if len(set(ours.losses + peer.losses)) != 1:
        print(f"error: losses differ: {ours.losses}, {peer.losses}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
