"""Many trials that cost nothing: how long the driver takes for one, and whether its memory stays flat.

    python -m benchmarks.many_trials [--trials 1000] [--json]

A search by random of a function of one's own that reports three iterations at once, two at a time, on a local Ray; with
the journal, MLflow and reports as always. Says seconds and the driver's memory at each tenth of the trials. Ends with 1
if the last tenth takes twice as long as the second.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import psutil
from ray import tune

import tune_cl

PARTS = 10
SPACE = {"parameters": {"x": {"uniform": [0.0, 1.0]}}, "training": {"max_iterations": 3}}
SEARCH = {"searcher": "random", "scheduler": "none", "max_concurrent": 2}


def train(config: dict[str, Any], trial: Any) -> None:
    for iteration in range(3):
        trial.report(config["parameters"]["x"] + iteration / 10)


class Clock(tune.Callback):
    """Seconds and MiB of this process as each tenth of the trials ends."""

    def __init__(self, trials: int):
        self.each, self.ended = trials // PARTS, 0
        self.rows: list[tuple[float, float]] = []

    def on_trial_complete(self, *_: Any, **__: Any) -> None:
        if self.ended % self.each == 0:
            self.rows.append((time.monotonic(), psutil.Process().memory_info().rss / 2**20))
        self.ended += 1


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=1000)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    clock = Clock(options.trials)
    with TemporaryDirectory(ignore_cleanup_errors=True) as folder:  # MLflow may still be written to
        space = SPACE | {"search": SEARCH | {"trials": options.trials}}
        tune_cl.run(space, storage=Path(folder), objective=train, callbacks=[clock], progress=False)
    seconds = [later[0] - earlier[0] for earlier, later in zip(clock.rows, clock.rows[1:], strict=False)]
    each = [round(one / clock.each, 4) for one in seconds]
    memory = [round(row[1]) for row in clock.rows]
    if options.json:
        print(json.dumps({"trials": options.trials, "seconds_a_trial": each, "memory_mib": memory}))
    else:
        print(f"seconds a trial, by tenths: {each}", f"MiB of the driver: {memory}", sep="\n")
    return 1 if each[-1] > 2 * each[1] else 0


if __name__ == "__main__":
    sys.exit(main())
