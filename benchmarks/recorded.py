"""Trainings that `search_quality.py` replays searches on: every configuration of small spaces, with several seeds.

    python -m benchmarks.recorded DATA --memory FOLDER [--seeds 3] [--studies noisy_wikiqa ...]

noisy_wikiqa has a small version of the space noisy_labels (99 configurations), order_mediqa one of quickstart (135),
with three seeds; noisy_docstrings (40 % of the labels random) and noisy_semeval (65 % hard) a larger one of
noisy_labels (207), with five. All train KNRM for a second or two. A killed run goes on with what --memory has.
benchmarks/trainings/STUDY.npz is written when all configurations have one seed more.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch

from trainables.config.keys import TrainingConfig
from trainables.core.cache import ROOT
from trainables.evaluation.metrics import dev_key
from trainables.evaluation.per_query import evaluator_of
from trainables.extras.trees import TreeTraining
from trainables.training.checkpoint import load_trained_state
from trainables.training.factory import make_training
from trainables.training.prepared import PreparedData, prepared_for
from trainables.training.trainer import Training
from tune_cl.experiment.experiment import Experiment
from tune_cl.experiment.load import build, load_experiment
from tune_cl.ray.shared_data import untrained

TEST_METRICS = ("map", "ndcg@10")
HERE = Path(__file__).parent / "trainings"
TRAINING: dict[str, Any] = {
    "loss": {"choice": ["pairwise", "hinge", "cross_entropy"]},
    "batch_size": 16,
    "max_length": 24,
    "batches_per_iteration": 8,
    "max_iterations": 8,
}
COMMON: dict[str, Any] = {
    "ranker": "knrm",
    "metric": "map",
    "baseline": {"curriculum.pacing": "none", "curriculum.weighting": "none"},
}
WEIGHTING: dict[str, Any] = {"choice": ["none", "reciprocal_rank", "normalized_score"]}
DATA = {"noisy_wikiqa": "answers/wikiqa", "order_mediqa": "trec/mediqa", "noisy_semeval": "trec/semeval-cqa"}
NOISY = COMMON | {
    "data": {"label_noise": {"share": 0.65, "kind": "hard"}},
    "curriculum": {
        "weighting": WEIGHTING,
        "m": math.inf,
        "pacing": {"choice": ["none", "linear"]},
        "scoring": "normalized_score",
        "delta": 0.4,
        "T": 0.4,
        "final_share": 0.5,
        "anti": {"choice": [False, True]},
    },
    "training": TRAINING | {"lr": {"choice": [1e-2, 3e-3, 3e-2]}},
}
ORDER = COMMON | {
    "curriculum": {
        "pacing": {"choice": ["none", "linear", "root"]},
        "scoring": {
            "choice": ["context_words", "response_words"],
            "when": {"curriculum.pacing": ["linear", "root"]},
        },
        "delta": 0.3,
        "T": 0.4,
        "weighting": WEIGHTING,
        "m": 4,
    },
    "training": TRAINING | {"lr": {"choice": [1e-2, 5e-3, 2e-2]}},
}
SHARES: dict[str, Any] = {"choice": [0.5, 0.7, 0.9], "when": {"curriculum.pacing": "linear"}}
LARGER = NOISY | {"curriculum": NOISY["curriculum"] | {"final_share": SHARES}}
SPACES: dict[str, dict[str, Any]] = {
    "noisy_wikiqa": NOISY,
    "order_mediqa": ORDER,
    "noisy_docstrings": LARGER | {"data": {"source": "docstrings", "label_noise": {"share": 0.4, "kind": "random"}}},
    "noisy_semeval": LARGER | {"evaluation": {"relevance_level": 2}},
}


def settings_of(experiment: Experiment, params: Mapping[str, Any]) -> str:
    """What tells a configuration of a study from the others, of its keys in force: those that the space opens."""
    return json.dumps({key: params[key] for key in sorted(experiment.space.parameters) if key in params})


@dataclass(frozen=True)
class Recorded:
    """A study's trainings. dev: [configuration, seed, iteration]; test: [configuration, seed], of the iteration with
    the highest dev value; settings: of each configuration, as `settings_of` has them."""

    settings: tuple[str, ...]
    dev: np.ndarray
    test: np.ndarray

    @classmethod
    def read(cls, study: str, folder: Path = HERE) -> Recorded:
        with np.load(folder / f"{study}.npz") as file:
            return cls(tuple(file["settings"].tolist()), file["dev"].astype(float), file["test"].astype(float))

    @cached_property
    def row(self) -> Mapping[str, int]:
        return {settings: row for row, settings in enumerate(self.settings)}

    @property
    def seeds(self) -> int:
        return self.test.shape[1]


def configurations(experiment: Experiment) -> dict[str, TrainingConfig]:
    """Every different configuration of the space, by its settings, in a random order; the default first."""
    points = list(experiment.space.grid())
    random.Random(0).shuffle(points)
    found: dict[str, TrainingConfig] = {}
    for point in (experiment.base.point, *points):
        run = experiment.config(point).run
        assert isinstance(run, TrainingConfig)
        found.setdefault(settings_of(experiment, run.in_force()), run)
    return found


def trained(run: TrainingConfig, prepared: PreparedData) -> tuple[list[float], dict[str, np.ndarray]]:
    """A training's dev value after each iteration, and the best one's MAP and nDCG@10 on test by query, [Q] each."""
    training = make_training(run, prepared)
    while not training.finished:
        training.iterate()
    if isinstance(training, Training):
        load_trained_state(training.module, training.best_weights)
    elif isinstance(training, TreeTraining):
        training.cut_at_best()
    data, test = prepared.data, prepared.data.splits["test"]
    judge = evaluator_of(data, test, run.evaluation.relevance_level, run.metric)
    dev = [round(row[dev_key(run.metric)], 5) for row in training.history]
    return dev, judge(training.score(test), TEST_METRICS)


def rows_of(memory: Path, study: str) -> dict[tuple[str, int], dict[str, Any]]:
    file = memory / f"{study}.jsonl"
    rows = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
    return {(row["settings"], row["seed"]): row for row in rows}


def record(study: str, data: Path, seeds: int, memory: Path) -> Iterator[None]:
    """Makes one missing training after another; stops between seeds to let other studies go on."""
    folder = data / DATA[study] if study in DATA else None
    experiment = load_experiment({"name": study, **SPACES[study]}, {}, folder)
    prepared, every = untrained(experiment), configurations(experiment)
    made = rows_of(memory, study)
    for seed in range(1, seeds + 1):
        for settings, run in every.items():
            if (settings, seed) in made:
                continue
            dev, values = trained(run.model_copy(update={"seed": seed}), prepared_for(run, prepared))
            row = {"dev": dev, "test": round(float(values[run.metric].mean()), 5)}
            with (memory / f"{study}.jsonl").open("a") as file:
                file.write(json.dumps({"settings": settings, "seed": seed, **row}) + "\n")
        write(study, [*every], seed, rows_of(memory, study))
        yield


def write(study: str, every: list[str], seeds: int, rows: Mapping[tuple[str, int], dict[str, Any]]) -> None:
    """The file of a study with its first seeds, which are complete."""
    cells = [[rows[settings, seed] for seed in range(1, seeds + 1)] for settings in every]
    dev = np.array([[cell["dev"] for cell in line] for line in cells], np.float32)
    test = np.array([[cell["test"] for cell in line] for line in cells], np.float32)
    np.savez_compressed(HERE / f"{study}.npz", settings=np.array(every), dev=dev, test=test)


def experiment_of(study: str, search: Mapping[str, Any], seed: int) -> Experiment:
    """A search of a study's space, without its data."""
    return build(study, {"data": "docstrings", **SPACES[study], "search": dict(search), "seed": seed}, {})


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--memory", type=Path, required=True, help="a folder for what has been trained")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--studies", nargs="+", choices=SPACES, default=[*SPACES])
    options = parser.parse_args()
    torch.set_num_threads(1)
    memory = options.memory.resolve()
    memory.mkdir(parents=True, exist_ok=True)
    os.environ[ROOT] = str(memory / "cache")
    start = time.time()
    studies = {study: record(study, options.data.resolve(), options.seeds, memory) for study in options.studies}
    for seed in range(1, options.seeds + 1):
        for study, records in studies.items():
            next(records)
            print(f"{study}, seed {seed}: complete after {time.time() - start:.0f} s", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
