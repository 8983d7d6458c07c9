"""Kills at random moments: whether a search, its confirmation and its effects end as if nothing had happened.

    python -m benchmarks.kills [--kills 20] [--seed 0] [--folder FOLDER]

A small search of the space below (large enough to have further seeds), `confirm` and `effects` run unbroken; then
again, as often as it takes, while one process after another is killed with SIGKILL: the driver with all of its job, a
trial, or the raylet. What a kill has ended goes on with `resume`, or with the same command. Afterwards all folders must
hold the same trials, trainings, verdict and effects, and all databases of MLflow the same runs with the same points,
but for times. Ends with 1 and the differences if they do not. Nothing here depends on how trials are chosen.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import psutil
from mlflow.tracking import MlflowClient

from tune_cl.history.journal import FILE, read_events

SPACE = """
data: docstrings
ranker: {name: knrm, vector_size: 8}
curriculum:
  scoring: {choice: [context_words, random]}
  pacing: {choice: [root, linear]}
  T: {uniform: [0.3, 0.7]}
training: {lr: {loguniform: [0.0005, 0.005]}, batch_size: 8, batches_per_iteration: 2, max_iterations: 4}
search: {trials: 9, scheduler: asha, reduction_factor: 2}
"""
CONCURRENT = "search.max_concurrent=1"  # with several at a time, which trials meet at a rung depends on their speed
TIMED = ("seconds", "samples_per_second")  # parts of the names of metrics
OF_THIS_RUN = ("search_id", "key", "cost.", "machine")  # tags
LONGEST = 600.0  # seconds in which a command ends whose raylet was killed


def prepared(folder: Path) -> Path:
    folder.mkdir(parents=True)
    (folder / "kills.yaml").write_text(SPACE)
    return folder


def commands(folder: Path) -> list[list[str]]:
    storage = ["--storage", str(folder / "runs")]
    return [
        ["run", str(folder / "kills.yaml"), "--name", "kills", "--set", CONCURRENT, *storage],
        ["confirm", "kills", "--seeds", "2", "--top", "1", "--json", *storage],
        ["effects", "kills", "--seeds", "2", "--split", "dev", "--json", *storage],
    ]


def start(folder: Path, command: list[str]) -> subprocess.Popen[str]:
    """The command, or `resume` for a search that has begun."""
    if command[0] == "run" and (folder / "runs" / "kills" / FILE).exists():
        command = ["resume", "kills", *command[-2:]]
    with (folder / "log.txt").open("a") as log:
        return subprocess.Popen(
            [sys.executable, "-m", "tune_cl", *command],
            env=os.environ | {"PYTHONPATH": f"{os.getcwd()}{os.pathsep}{os.getenv('PYTHONPATH', '')}"},
            start_new_session=True, text=True,
            stdout=(folder / f"{command[0]}.json").open("w"), stderr=log,
        )  # fmt: skip


def finished(folder: Path, command: list[str]) -> float:
    """Runs a command to its end; returns its seconds."""
    began = time.monotonic()
    if status := start(folder, command).wait():
        raise SystemExit(f"error: {' '.join(command)} ended with {status}; see {folder / 'log.txt'}")
    return time.monotonic() - began


def victims(driver: psutil.Process, kind: str) -> list[psutil.Process]:
    """Processes of this kind below the driver."""
    found = []
    with suppress(psutil.NoSuchProcess):
        for process in driver.children(recursive=True):
            with suppress(psutil.NoSuchProcess, psutil.ZombieProcess):
                title = " ".join(process.cmdline())
                if process.name() == "raylet" if kind == "raylet" else "Trainable" in title:
                    found.append(process)
    return found


def kill(running: subprocess.Popen[str], kind: str) -> bool:
    """Kills what there is of this kind; returns whether there was any. A dead raylet ends the command, if late."""
    if kind == "driver":
        os.killpg(running.pid, signal.SIGKILL)
        running.wait()
        return True
    processes = victims(psutil.Process(running.pid), kind)
    for process in processes[:1]:
        process.kill()
    if kind == "raylet" and processes:
        running.wait(LONGEST)
    return bool(processes)


def broken(folder: Path, kills: int, seconds: list[float], rng: random.Random) -> int:
    """Runs the commands, and kills one process after another at uniform moments of half of a command's unbroken time;
    returns how many kills there were, at most `kills`. What a kill has ended begins again."""
    done = 0
    for command, longest in zip(commands(folder), seconds, strict=True):
        running, killed = start(folder, command), False
        while True:
            until = time.monotonic() + (rng.uniform(0.0, longest / 2) if done < kills else LONGEST)
            while time.monotonic() < until and running.poll() is None:
                time.sleep(0.02)
            if running.poll() == 0:
                break
            if running.poll() is not None:
                if not killed:
                    raise SystemExit(f"error: {' '.join(command)} failed by itself; see {folder / 'log.txt'}")
                running, killed = start(folder, command), False
                continue
            kind = rng.choice(["driver", "trial", "raylet"])
            while done < kills and running.poll() is None:  # until there is one of this kind
                if kill(running, kind):
                    done, killed = done + 1, True
                    print(f"{done}: {command[0]}, {kind}", flush=True)
                    break
                time.sleep(0.02)
    return done


def results(folder: Path) -> dict[str, Any]:
    """Trials, trainings and verdicts by the journal, and the effects, without times."""
    found: dict[str, Any] = {}
    events: Iterator[Any] = read_events(folder / "runs" / "kills" / FILE)
    for event in events:
        kind = event["event"]
        if kind == "trial":
            found.setdefault(event["trial"], [event["params"], {}, None])  # again when it goes on
        elif kind == "result":
            found[event["trial"]][1].setdefault(event["iteration"], untimed(event["metrics"]))
        elif kind == "end":
            found[event["trial"]][2] = (event["outcome"], event.get("best"))
        elif kind == "search_end":
            found["best"] = event["best"]
        elif kind == "confirmation":
            found.setdefault(f"{event['label']}, seed {event['seed']}", {}).update(untimed(event["metrics"]))
        elif kind == "verdict":
            found["verdict"] = {key: value for key, value in event.items() if key not in ("time", "description")}
    found["effects"] = json.loads((folder / "effects.json").read_text())
    found["effects"] = {key: value for key, value in found["effects"].items() if str(folder) not in str(value)}
    return found


def untimed(metrics: dict[str, float]) -> dict[str, str]:
    return {name: repr(value) for name, value in metrics.items() if not any(one in name for one in TIMED)}


def in_mlflow(folder: Path) -> dict[str, Any]:
    """Everything that MLflow has, by name of run, without times. A run that is there twice differs by its name."""
    client = MlflowClient(f"sqlite:///{folder / 'runs' / 'mlflow.db'}")
    experiments = [experiment.experiment_id for experiment in client.search_experiments()]
    runs: dict[str, Any] = {}
    for run in client.search_runs(experiments, max_results=1000):
        tags = {key: value for key, value in run.data.tags.items() if key.startswith("tune_cl.")}
        tags = {key: value for key, value in tags.items() if not key.removeprefix("tune_cl.").startswith(OF_THIS_RUN)}
        points = {
            name: [(point.step, repr(point.value)) for point in client.get_metric_history(run.info.run_id, name)]
            for name in untimed(run.data.metrics)
        }
        files = sorted(file.path for file in client.list_artifacts(run.info.run_id))
        name = str(run.info.run_name)
        while name in runs:
            name = f"{name} (again)"
        runs[name] = {"status": run.info.status, "params": run.data.params, "tags": tags} | points | {"files": files}
    return runs


def differences(ours: Any, theirs: Any, place: str = "") -> list[str]:
    if not (isinstance(ours, dict) and isinstance(theirs, dict)):
        return [] if ours == theirs else [f"{place}: {ours} != {theirs}"]
    keys = sorted({*ours, *theirs}, key=str)
    return [line for key in keys for line in differences(ours.get(key), theirs.get(key), f"{place} / {key}")]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--folder", type=Path)
    options = parser.parse_args()
    top = options.folder or Path(mkdtemp(prefix="kills-"))
    whole, rng, left, lines = prepared(top / "unbroken"), random.Random(options.seed), options.kills, list[str]()
    seconds = [finished(whole, command) for command in commands(whole)]
    print(f"unbroken: {', '.join(f'{one:.0f} s' for one in seconds)}; in {top}", flush=True)
    while left > 0 and not lines:
        folder = prepared(top / f"broken-{left}")
        left -= broken(folder, left, seconds, rng)
        lines += differences(results(whole), results(folder), "results")
        lines += differences(in_mlflow(whole), in_mlflow(folder), "MLflow")
    print(f"{options.kills - left} kills, {len(lines)} differences", *lines, sep="\n")
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
