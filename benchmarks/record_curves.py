"""Records the learning curves that schedulers are developed and compared on (benchmarks/curves/README.md).

    python benchmarks/record_curves.py FOLDER [--wikiqa PATH] [--mediqa PATH] [--semeval PATH] [--configurations 60]

Trains every configuration with every seed of its study in one process, without Ray, and appends one line per training
to FOLDER/STUDY.jsonl; trainings that are already there are left out. A study is a ranker on a data set. Trainings are
small, so that hundreds of them fit into an hour of one core; those of the studies `...-wide` are as in a real search:
learning rates over two decades, all dev queries."""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from recorded import Curve, append_curve, read_curves

from trainables.config.keys import TrainingRun
from trainables.core.randomness import generator
from trainables.data import load_data
from trainables.data.columns import RankingData
from trainables.data.combine import some_queries
from trainables.training.materials import Materials, prepare
from trainables.training.trainer import Training

SEEDS = (0, 1, 2)
RANKERS: dict[str, dict[str, Any]] = {
    "conv_knrm": {"name": "conv_knrm", "filters": 32, "vector_size": 50},
    "bert": {"name": "bert", "vocabulary_size": 4000},
}
RATES = {"conv_knrm": (3e-4, 4e-3), "bert": (5e-5, 1e-3)}
WEIGHTINGS = {
    "docstrings": "normalized_score",
    "wikiqa": "difficulty",
    "mediqa": "reciprocal_rank",
    "semeval": "difficulty",
}
SCORINGS = ("context_words", "response_words", "bm25_std", "random")


@dataclass(frozen=True)
class Study:
    """A ranker on a data set, and how its trainings are made. `dev_queries`: how many, from the first; None: all."""

    data: str
    ranker: str
    rates: tuple[float, float]
    iterations: int = 12
    batches: int = 8  # per iteration
    dev_queries: int | None = 64
    relevance: int = 1  # `evaluation.relevance_level`


STUDIES = {
    f"{data}-{ranker}": Study(data, ranker, RATES[ranker])
    for data in ("docstrings", "wikiqa", "mediqa")
    for ranker in RANKERS
} | {
    "wikiqa-conv_knrm-wide": Study("wikiqa", "conv_knrm", (1e-4, 1e-2), 27, 12, None),
    "semeval-conv_knrm-wide": Study("semeval", "conv_knrm", (1e-4, 1e-2), 18, 12, None, relevance=2),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    for name in ("wikiqa", "mediqa", "semeval"):
        parser.add_argument(f"--{name}", default=name, help="TREC folder, if a study reads it")
    parser.add_argument("--configurations", type=int, default=60)
    parser.add_argument("--studies", nargs="*", default=list(STUDIES), metavar="STUDY", help="default: %(default)s")
    parser.add_argument("--hours", type=float, default=1.0)
    options = parser.parse_args()
    torch.set_num_threads(1)
    options.folder.mkdir(parents=True, exist_ok=True)
    sources = {
        "docstrings": "docstrings",
        "wikiqa": options.wikiqa,
        "mediqa": options.mediqa,
        "semeval": options.semeval,
    }
    materials = {name: prepared(STUDIES[name], sources) for name in options.studies}
    deadline = time.monotonic() + options.hours * 3600
    for name, run in trainings(sources, options):
        if time.monotonic() > deadline:
            break
        record(options.folder / f"{name}.jsonl", run, materials[name])


def prepared(study: Study, sources: dict[str, str]) -> Materials:
    run = configured(study, sources, {}, 0)
    return prepare(run, with_fewer_dev_queries(load_data(run.data), study.dev_queries))


def with_fewer_dev_queries(data: RankingData, count: int | None) -> RankingData:
    """The data with only the first `count` of its dev queries; None: with all."""
    dev = data.splits["dev"]
    first = some_queries(dev, np.arange(len(dev))[:count])
    return replace(data, splits={**data.splits, "dev": first})


def trainings(sources: dict[str, str], options: argparse.Namespace) -> Iterator[tuple[str, TrainingRun]]:
    """(study, training): seed by seed, and under each seed configuration by configuration over all studies."""
    studies = {name: STUDIES[name] for name in options.studies}
    for seed in SEEDS:
        for index in range(options.configurations):
            for name, study in studies.items():
                yield name, configured(study, sources, configuration(index, study), seed)


def configuration(index: int, study: Study) -> dict[str, Any]:
    """The settings that vary, drawn for a configuration's number; number 0 is plain training at the middle rate.

    A sixth is plain training, a third has a pacing alone, a sixth a weighting alone, a third both.
    """
    rng = generator(0, "recorded configuration", index)
    low, high = np.log(study.rates)
    rate = float(np.exp((low + high) / 2 if index == 0 else rng.uniform(low, high)))
    kind = 0 if index == 0 else int(rng.integers(6))
    curriculum: dict[str, Any] = {"scoring": str(rng.choice(SCORINGS))}
    if kind in (1, 2, 3, 4):
        curriculum["pacing"] = str(rng.choice(["linear", "root", "step", "geometric"]))
        curriculum["n"] = int(rng.choice([2, 5, 10]))
        curriculum["delta"] = round(float(rng.uniform(0.1, 0.6)), 3)
        curriculum["T"] = float(rng.choice([0.25, 0.5, 0.75]))
    if kind in (3, 4, 5):
        curriculum["weighting"] = WEIGHTINGS[study.data]
        curriculum["m"] = round(study.iterations * float(rng.choice([0.25, 0.5, 0.75])))
    return {"curriculum": curriculum, "training": {"lr": float(f"{rate:.3g}")}}


def configured(study: Study, sources: dict[str, str], settings: dict[str, Any], seed: int) -> TrainingRun:
    sizes = {
        "max_length": 32,
        "max_iterations": study.iterations,
        "batches_per_iteration": study.batches,
        "batch_size": 16,
        "patience": study.iterations,  # no training ends early
    }
    return TrainingRun.model_validate(
        {
            "data": sources[study.data],
            "ranker": RANKERS[study.ranker],
            "curriculum": settings.get("curriculum", {}),
            "training": sizes | settings.get("training", {}),
            "evaluation": {"relevance_level": study.relevance},
            "seed": seed,
        }
    )


def record(file: Path, run: TrainingRun, materials: Materials) -> None:
    """Trains and appends the curve, unless the file has it already."""
    if any(curve.same_training(run) for curve in read_curves(file)):
        return
    started = time.perf_counter()
    training = Training(run, materials, device="cpu")
    values = []
    while not training.finished:
        training.iterate()
        values.append(training.dev_values)
    append_curve(file, Curve.of(run, np.stack(values), time.perf_counter() - started))


if __name__ == "__main__":
    main()
