"""The level of the whole pipeline: searches among curricula that do nothing, to the verdict.

    python -m benchmarks.null_searches DATA... --memory FOLDER [--quick]

`nothing` has everything available from the first step; `random` shows the training data in a random order. A search
tries three losses and four learning rates with KNRM in 4, 6 or 12 trials, and is confirmed with five seeds. Printed:
how often the verdict was better or worse, with exact 95 % intervals (Clopper & Pearson 1934).

Search and confirmation are the real ones; but MLflow, the report and rankings without labels are left out, and in place
of Ray, trainings are made here, one after another. Equal ones are made once and kept in --memory, as are the verdicts:
a killed run goes on, and a new file of --rows judges the same trainings again. Searches of different master seeds have
no training in common: with the same five seeds for all, twenty searches would be one verdict read twenty times.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import shutil
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, nullcontext, redirect_stderr
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory, mkdtemp
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import torch
from scipy.stats import binomtest

from trainables.baselines.label_free import NOTHING
from trainables.config.keys import TrainingConfig
from trainables.core.cache import ROOT, digest_of
from trainables.training.checkpoint import read_json, write_json
from trainables.training.conclusion import RANKER, Conclusion
from trainables.training.factory import make_training
from trainables.training.prepared import PreparedData, prepared_for, prepared_key
from tune_cl import inputs, run_search
from tune_cl.experiment.experiment import Experiment
from tune_cl.experiment.load import load_experiment
from tune_cl.experiment.readers import distinct_rankers
from tune_cl.history.search_folder import SearchFolder
from tune_cl.ray.shared_data import untrained
from tune_cl.search.trials import Plan, Trials
from tune_cl.verdict import retraining
from tune_cl.verdict.confirm import confirm_search
from tune_cl.verdict.retraining import Request

SEEDS, QUICK = 20, 2  # master seeds
TREATMENTS: dict[str, dict[str, Any]] = {
    "nothing": {"curriculum": {"pacing": "linear", "delta": 1.0, "T": 0.5}},
    "random": {"curriculum": {"pacing": "linear", "scoring": "random", "delta": 0.33, "T": 0.5}},
}
TRIALS = {"nothing": (4, 6, 12), "random": (4, 6, 12)}
SPACE: dict[str, Any] = {
    "ranker": "knrm",
    "training": {
        "loss": {"choice": ["pairwise", "hinge", "cross_entropy"]},
        "lr": {"choice": [1e-3, 3e-3, 1e-2, 3e-2]},
        "batch_size": 16,
        "max_length": 24,
        "batches_per_iteration": 8,
        "max_iterations": 6,
    },
    "baseline": {"curriculum.pacing": "none"},
    "search": {"scheduler": "asha", "reduction_factor": 2},
}


@dataclass(frozen=True)
class Outcome:
    """A search and its verdict. difference, p: of the champion against the opponent in the first sentence."""

    data: str
    curriculum: str
    trials: int
    seed: int
    verdict: str
    difference: float
    p: float | None


def no_mlflow(*_: object) -> SimpleNamespace:
    """Stands in for the writer to MLflow."""
    return SimpleNamespace(trouble=None, run_id=None, start=lambda: None, close=lambda timeout: 0)


@dataclass(frozen=True)
class InProcess:
    """Runs trials as Ray would, one after another in this process.

    memory  the folder of all trainings, by what they read
    block   added to each seed, so that other searches have other ones
    """

    memory: Path
    block: int

    def run_trials(self, trials: Trials, prepared: Mapping[str, PreparedData], *_: object, **__: object) -> None:
        while isinstance(plan := trials.next_trial(), Plan):
            assert isinstance(plan.run, TrainingConfig)
            run = plan.run.model_copy(update={"seed": self.block + plan.run.seed})
            trained = self.trained(run, prepared_for(run, prepared), plan.conclusion and plan.conclusion.split)
            history = read_json(trained / "history.json")["history"]
            for number, metrics in enumerate(history, 1):
                if not trials.result(plan.trial, metrics | {"iteration": number, "done": number == len(history)}):
                    break
            if plan.conclusion:
                shutil.copytree(trained, plan.conclusion.folder, dirs_exist_ok=True)
            trials.ended(plan.trial)

    def trained(self, run: TrainingConfig, prepared: PreparedData, split: str | None) -> Path:
        """The folder of a training: its history, and what a confirmation reads of it on a split."""
        of = {"run": run.in_force(), "split": split}
        folder = self.memory / digest_of(prepared.digest, json.dumps(of, sort_keys=True))
        if folder.exists():
            return folder
        training, scratch = make_training(run, prepared), Path(mkdtemp(dir=self.memory))
        while not training.finished:
            training.iterate()
        if split:
            Conclusion(str(scratch), split).write(training)
            shutil.rmtree(scratch / RANKER)
        write_json(scratch / "history.json", of | {"history": training.history})
        return scratch.rename(folder)


_read: dict[tuple[str, ...], dict[str, PreparedData]] = {}


def read_once(experiment: Experiment) -> dict[str, PreparedData]:
    """`untrained`, once for all searches on the same data."""
    key = tuple(prepared_key(run) for run in distinct_rankers(experiment))
    if key not in _read:
        _read[key] = untrained(experiment)
    return _read[key]


@contextmanager
def without_ray(executor: InProcess) -> Iterator[None]:
    """Replaces Ray's execution, and leaves out what no verdict depends on."""
    replaced = {"run_trials": executor.run_trials, "ray_session": lambda *_: nullcontext()}
    replaced |= {"MlflowWriter": no_mlflow, "write_report": lambda *_: None}
    unread = {"notes": lambda *_: [], "label_free": lambda *_: NOTHING}
    patches = [
        patch.multiple(module, **{name: value for name, value in replaced.items() if hasattr(module, name)})
        for module in (run_search, retraining)
    ]
    one_trial = SimpleNamespace(of=lambda *_: lambda: 1)
    patches += [patch.object(module, "Concurrency", one_trial) for module in (run_search, retraining)]
    patches += [patch.multiple(inputs.RankerInputs, **unread), patch.object(inputs, "untrained", read_once)]
    with ExitStack() as stack:
        for one in (*patches, redirect_stderr(io.StringIO())):
            stack.enter_context(one)
        yield


def experiment_of(data: Path, curriculum: str, trials: int, seed: int) -> Experiment:
    settings: dict[str, Any] = {"search.trials": trials, "seed": seed}
    space = {"name": curriculum, **SPACE, **TREATMENTS[curriculum]}
    return load_experiment(space, settings, data)


def searched(data: Path, curriculum: str, trials: int, seed: int, memory: Path) -> Outcome:
    """Runs a search and its confirmation."""
    with TemporaryDirectory(dir=memory) as storage, without_ray(InProcess(memory, 10_000 * seed)):
        folder = SearchFolder(Path(storage), curriculum)
        run_search.start_search(experiment_of(data, curriculum, trials, seed), folder, None)
        verdict = confirm_search(folder, Request(seeds=5), None)
    first = verdict.opponents[0]
    return Outcome(data.name, curriculum, trials, seed, verdict.verdict, first.difference, first.p)


def outcomes_of(data: list[Path], curricula: list[str], seeds: int, memory: Path, rows: Path) -> list[Outcome]:
    """All searches; those that `rows` has are not made again."""
    lines = rows.read_text().splitlines() if rows.exists() else []
    outcomes = [Outcome(**json.loads(line)) for line in lines]
    done = {(one.seed, one.data, one.curriculum, one.trials) for one in outcomes}
    for seed, path, curriculum in product(range(1, seeds + 1), data, curricula):
        for trials in TRIALS[curriculum]:
            if (seed, path.name, curriculum, trials) not in done:
                outcomes.append(searched(path, curriculum, trials, seed, memory))
                with rows.open("a") as file:
                    file.write(json.dumps(asdict(outcomes[-1])) + "\n")
                print(outcomes[-1], file=sys.stderr, flush=True)
    return outcomes


def interval(count: int, of: int) -> str:
    found = binomtest(count, of).proportion_ci(0.95, "exact")
    return f"{count} of {of} ({found.low:.3f} to {found.high:.3f})"


def table(outcomes: list[Outcome]) -> str:
    """Markdown: a row for each curriculum, data set and number of trials, and one for all searches of a curriculum."""
    lines = ["| curriculum | data | trials | better | worse |", "|---|---|---:|---|---|"]
    for curriculum in dict.fromkeys(one.curriculum for one in outcomes):
        groups: dict[tuple[str, str], list[str]] = {}
        for one in outcomes:
            if one.curriculum == curriculum:
                groups.setdefault((one.data, str(one.trials)), []).append(one.verdict)
        groups["all", "all"] = [verdict for verdicts in groups.values() for verdict in verdicts]
        for key, verdicts in groups.items():
            counts = [interval(verdicts.count(verdict), len(verdicts)) for verdict in ("better", "worse")]
            lines.append(f"| {' | '.join((curriculum, *key, *counts))} |")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", nargs="+", type=Path)
    parser.add_argument("--memory", type=Path, required=True, help="a folder for trainings and verdicts")
    parser.add_argument("--rows", help="the file of verdicts in it", default="rows.jsonl")
    parser.add_argument("--curricula", nargs="+", default=[*TREATMENTS], choices=TREATMENTS)
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--quick", action="store_true", help=f"the first data set, {QUICK} master seeds")
    options = parser.parse_args()
    torch.set_num_threads(1)
    memory = options.memory.resolve()
    memory.mkdir(parents=True, exist_ok=True)
    os.environ[ROOT] = str(memory / "cache")  # what it reads of test is none of the user's readings
    data = [path.resolve() for path in options.data][: 1 if options.quick else None]
    seeds = QUICK if options.quick else options.seeds
    print(table(outcomes_of(data, options.curricula, seeds, memory, memory / options.rows)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
