"""How time and memory grow with instances, candidates, trials and workers: linearly, or why not.

    python benchmarks/growth.py [--largest 10000000] [--part triples]

Each row has a process of its own, so that its peak memory is its own: `memory` is what it needs beyond the smallest
row, `peak` all of the process. `each` is what one unit costs (an instance, a
candidate, a trial, a worker's result); `slope` is the exponent between a row and the one before it: 1 = linear, 0 = no
growth. The last part drives the search without Ray, with simulated workers.

Expected: sorting grows a little faster than linearly (n log n), drawing a batch does not grow at all, a question to a
Parzen estimator grows with the trials it was told of, so all questions together grow with their square.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from tune_cl.experiment.forecast import forecast_of

FOLDER = "GROWTH_FOLDER"  # variable with the folder of files that a row reads
SPACE = """
data: docstrings
ranker: conv_knrm
curriculum:
  pacing: {choice: [linear, root, geometric]}
  delta: {uniform: [0.1, 0.9]}
  T: {uniform: [0.1, 0.9]}
training: {max_iterations: 10}
search: {searcher: SEARCHER, trials: TRIALS, scheduler: asha, grace: 1}
"""


def order(instances: int) -> None:
    """Orders the instances by difficulty, as a training does once."""
    from trainables.curriculum.sampler import easy_first

    easy_first(np.random.default_rng(0).random(instances))


def draw(instances: int) -> None:
    """1,000 batches of 32 from half of the instances."""
    from trainables.curriculum.pacing import Schedule
    from trainables.curriculum.sampler import Sampler

    sampler = Sampler(np.arange(instances), Schedule("linear", 1e9, 0.5, 2.0, 3, "paper"), seed=0)
    for step in range(0, 1000, 8):
        sampler.draw(step, 8, 32)


def evaluate(candidates: int) -> None:
    """All metrics of queries with 100 candidates each."""
    from trainables.data.columns import Split, TextColumn
    from trainables.evaluation.metrics import Evaluator

    rng = np.random.default_rng(0)
    queries = candidates // 100
    grade = (rng.random(queries * 100) < 0.05).astype(np.int16)
    offsets = np.arange(queries + 1, dtype=np.int64) * 100
    documents = rng.integers(0, 10_000, queries * 100).astype(np.int32)
    nothing = np.zeros(len(grade), np.int32)
    split = Split(np.arange(queries, dtype=np.int32), offsets, documents, grade, nothing, nothing + 0.0, grade, offsets)
    Evaluator(split, TextColumn.of(f"d{i}" for i in range(10_000)))(rng.random(len(grade), np.float32))


def write_triples(folder: Path, rows: int) -> None:
    """MS MARCO in outline: 20 rows a query, with one relevant document of 56 words and another 20 others."""
    rng = np.random.default_rng(0)
    vocabulary = [f"word{number}" for number in range(30_000)]
    halves = [" ".join(vocabulary[word] for word in rng.integers(0, 30_000, 28)) for _ in range(20_000)]

    def text(number: int) -> str:
        return f"{halves[number % 20_000]} {halves[number * 7919 % 19_997]} n{number}"

    for split, count in (("train", rows), ("dev", 1000)):
        with (folder / f"{split}.jsonl").open("w", encoding="utf-8") as file:
            for number in range(count):
                query = number // 20
                row = {"query": f"{split} {halves[query % 20_000][:40]} q{query}", "positive": text(query)}
                row["negative"] = text(count + number)
                file.write(json.dumps(row) + "\n")


def triples(rows: int) -> None:
    """Reads a folder of triples into the cache, with BM25 scores of all candidates."""
    from trainables.data import load_data
    from trainables.data.settings import DataConfig

    data = load_data(DataConfig(source=os.path.join(os.environ[FOLDER], str(rows))))
    assert len(data.splits["train"].document) == rows + rows // 20


def search(trials: int, slots: int = 1, searcher: str = "random") -> None:
    """A whole search without Ray: questions, results, rungs and the journal."""
    from tune_cl.experiment.load import load_experiment
    from tune_cl.history.journal import Journal
    from tune_cl.search.driver import FINISHED, Plan, Search

    with TemporaryDirectory() as name:
        path = Path(name) / "space.yaml"
        path.write_text(SPACE.replace("SEARCHER", searcher).replace("TRIALS", str(trials)))
        experiment = load_experiment(str(path))
        with Journal(Path(name) / "growth") as journal:
            journal.append({**FIRST, "yaml": experiment.to_yaml(), "forecast": forecast_of(experiment)})
            crew = Search(experiment, journal, slots, lambda trial, checkpoint, run: Path(checkpoint))
            running: dict[str, int] = {}
            while True:
                plan = crew.next_trial()
                if isinstance(plan, Plan):
                    running[plan.trial] = 0
                elif plan == FINISHED and not running:
                    return
                else:
                    running = {t: done for t, at in running.items() if (done := advance(crew, t, at + 1))}


def advance(crew, trial: str, iteration: int) -> int:
    """Reports one more result of a trial; returns its iteration, or 0 once it has ended."""
    value = float(np.random.default_rng([int(trial[1:]), iteration]).random())
    known = {"train_loss": 0.0, "available_share": 1.0, "mean_weight": 1.0, "samples_per_second": 1.0, "seconds": 1.0}
    keep = crew.result(trial, {"iteration": iteration, "dev_map": value, **known})
    if keep and iteration < 10:
        return iteration
    crew.ended(trial)
    return 0


FIRST = {
    "event": "search",
    "name": "growth",
    "space": "growth",
    "data": {},
    "ranker": "conv_knrm",
    "rankers": ["conv_knrm"],
    "metric": "map",
    "seed": 0,
    "baseline": "t0000",
    "storage": "",
    "time": 0.0,
}
PARTS: dict[str, tuple[str, Callable[[int], None], tuple[int, ...]]] = {
    "order": ("instances ordered by difficulty", order, (10**4, 10**5, 10**6, 10**7)),
    "draw": ("1,000 batches out of instances", draw, (10**4, 10**5, 10**6, 10**7)),
    "evaluate": ("candidates evaluated, all metrics", evaluate, (10**4, 10**5, 10**6, 10**7)),
    "triples": ("triples read into the cache (rows a second: 1,000,000 / each)", triples, (10**4, 10**5, 10**6, 10**7)),
    "trials": ("trials, random search", lambda n: search(n), (30, 100, 300, 1000)),
    "tpe": ("trials, tpe", lambda n: search(n, searcher="tpe"), (30, 100, 300)),
    "nodes": ("workers of a search of 1,000 trials", lambda n: search(1000, slots=n), (1, 8, 64, 512)),
}


def measured(part: str, size: int) -> dict[str, float]:
    """Seconds and peak memory of one row, in a process of its own."""
    command = [sys.executable, "-W", "ignore", __file__, "--row", part, str(size)]
    with TemporaryDirectory() as folder:
        for rows in {size, min(PARTS[part][2])} if part == "triples" else ():
            Path(folder, str(rows)).mkdir()
            write_triples(Path(folder, str(rows)), rows)
        environment = {**os.environ, FOLDER: folder, "XDG_CACHE_HOME": folder}
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, env=environment)
    return json.loads(done.stdout)


def row(part: str, size: int) -> None:
    """Prints a row's seconds, and its peak memory beyond that at the smallest size, which is run first to warm up."""
    _, run, sizes = PARTS[part]
    run(min(sizes))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    started = time.perf_counter()
    run(size)
    seconds = time.perf_counter() - started
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(json.dumps({"seconds": seconds, "mib": (peak - before) / 1024, "peak": peak / 1024}))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--largest", type=int, default=10**7, help="leave out rows above this size")
    parser.add_argument("--part", choices=PARTS, action="append", help="only this part; repeatable")
    parser.add_argument("--row", nargs=2, metavar=("PART", "SIZE"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.row:
        row(options.row[0], int(options.row[1]))
        return
    for part, (what, _, sizes) in PARTS.items():
        if part not in (options.part or PARTS):
            continue
        heads = f"{'size':>12} {'seconds':>10} {'each, us':>10} {'memory, MiB':>12} {'peak, MiB':>10} {'slope':>6}"
        print(f"\n{what}\n{heads}")
        last: tuple[int, float] | None = None
        for size in (size for size in sizes if size <= options.largest):
            cost = measured(part, size)
            seconds, each = cost["seconds"], cost["seconds"] / size * 1e6
            slope = f"{math.log(seconds / last[1]) / math.log(size / last[0]):.2f}" if last else ""
            print(f"{size:>12,} {seconds:>10.3f} {each:>10.2f} {cost['mib']:>12.0f} {cost['peak']:>10.0f} {slope:>6}")
            last = (size, seconds)


if __name__ == "__main__":
    main()
