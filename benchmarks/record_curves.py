"""Records the learning curves that schedulers are developed and compared on (benchmarks/curves/README.md).

    python benchmarks/record_curves.py FOLDER --wikiqa PATH --mediqa PATH [--configurations 60] [--hours 1]

Trains every configuration with three seeds in one process, without Ray, and appends a line a training to
FOLDER/STUDY.jsonl; what is there already is not done again. A study is a ranker on a data set. Trainings are small (8
batches an iteration, the first 64 dev queries), so that hundreds of them fit into an hour of one core. With
`--scaled STUDY`, the studies named also have trainings whose whole budget is a rung (`search.grace: scaled`)."""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from trainables.config import TrainingRun
from trainables.data import load_data
from trainables.data.columns import RankingData, Split
from trainables.randomness import generator
from trainables.training.materials import Materials, prepare
from trainables.training.training import Training
from tune_cl.search.curves import Curve, append_curve, read_curves
from tune_cl.search.schedulers.grace import scaled_run

STUDIES = [f"{data}-{ranker}" for data in ("docstrings", "wikiqa", "mediqa") for ranker in ("conv_knrm", "bert")]
SEEDS = (0, 1, 2)
ITERATIONS, RUNGS = 12, (3, 6)
DEV_QUERIES = 64
RANKERS: dict[str, dict[str, Any]] = {
    "conv_knrm": {"name": "conv_knrm", "filters": 32, "vector_size": 50},
    "bert": {"name": "bert", "vocabulary_size": 4000},
}
RATES = {"conv_knrm": (3e-4, 4e-3), "bert": (5e-5, 1e-3)}
WEIGHTINGS = {"docstrings": "normalized_score", "wikiqa": "difficulty", "mediqa": "reciprocal_rank"}
SCORINGS = ("context_words", "response_words", "bm25_std", "random")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--wikiqa", required=True)
    parser.add_argument("--mediqa", required=True)
    parser.add_argument("--configurations", type=int, default=60)
    parser.add_argument("--studies", nargs="*", default=STUDIES, metavar="STUDY", help="default: %(default)s")
    parser.add_argument("--scaled", nargs="*", default=["mediqa-conv_knrm", "wikiqa-conv_knrm"], metavar="STUDY")
    parser.add_argument("--hours", type=float, default=1.0)
    options = parser.parse_args()
    torch.set_num_threads(1)
    options.folder.mkdir(parents=True, exist_ok=True)
    sources = {"docstrings": "docstrings", "wikiqa": options.wikiqa, "mediqa": options.mediqa}
    studies = prepared(sources, options.studies)
    deadline = time.monotonic() + options.hours * 3600
    for study, run, budget in trainings(sources, options):
        if time.monotonic() > deadline:
            break
        record(options.folder / f"{study}.jsonl", run, budget, studies[study])


def prepared(sources: dict[str, str], wanted: list[str]) -> dict[str, Materials]:
    """Materials of each study wanted, by its name."""
    studies = {}
    for name, source in sources.items():
        data = with_fewer_dev_queries(load_data(configured(source, "conv_knrm", {}, 0).data))
        for ranker in RANKERS:
            if f"{name}-{ranker}" in wanted:
                studies[f"{name}-{ranker}"] = prepare(configured(source, ranker, {}, 0), data)
    return studies


def with_fewer_dev_queries(data: RankingData) -> RankingData:
    """The data with the first DEV_QUERIES of its dev queries alone."""
    dev = data.splits["dev"]
    queries = min(DEV_QUERIES, len(dev))
    candidates, judged = int(dev.offsets[queries]), int(dev.judged_offsets[queries])
    first = Split(
        query=dev.query[:queries],
        offsets=dev.offsets[: queries + 1],
        document=dev.document[:candidates],
        grade=dev.grade[:candidates],
        rank=dev.rank[:candidates],
        score=dev.score[:candidates],
        judged_grade=dev.judged_grade[:judged],
        judged_offsets=dev.judged_offsets[: queries + 1],
    )
    return replace(data, splits={**data.splits, "dev": first})


def trainings(sources: dict[str, str], options: argparse.Namespace) -> Iterator[tuple[str, TrainingRun, int]]:
    """(study, training, budget in iterations), one configuration after the other over all studies and seeds."""
    for index in range(options.configurations):
        for name, source in sources.items():
            for ranker in RANKERS:
                study = f"{name}-{ranker}"
                if study not in options.studies:
                    continue
                settings = configuration(index, ranker, WEIGHTINGS[name])
                for seed in SEEDS:
                    run = configured(source, ranker, settings, seed)
                    yield study, run, ITERATIONS
                    if study in options.scaled and has_curriculum(run):
                        yield from ((study, scaled_run(run, rung), rung) for rung in RUNGS)


def has_curriculum(run: TrainingRun) -> bool:
    return run.curriculum.pacing != "none" or run.curriculum.weighting != "none"


def configuration(index: int, ranker: str, weighting: str) -> dict[str, Any]:
    """The settings that vary, drawn for a configuration's number; number 0 is plain training at the middle rate.

    A sixth is plain training, a third has a pacing alone, a sixth a weighting alone, a third both.
    """
    rng = generator(0, "recorded configuration", index)
    low, high = np.log(RATES[ranker])
    rate = float(np.exp((low + high) / 2 if index == 0 else rng.uniform(low, high)))
    kind = 0 if index == 0 else int(rng.integers(6))
    curriculum: dict[str, Any] = {"scoring": str(rng.choice(SCORINGS))}
    if kind in (1, 2, 3, 4):
        curriculum["pacing"] = str(rng.choice(["linear", "root", "step", "geometric"]))
        curriculum["n"] = int(rng.choice([2, 5, 10]))
        curriculum["delta"] = round(float(rng.uniform(0.1, 0.6)), 3)
        curriculum["T"] = float(rng.choice([0.25, 0.5, 0.75]))
    if kind in (3, 4, 5):
        curriculum["weighting"] = weighting
        curriculum["m"] = int(rng.choice([3, 6, 9]))
    return {"curriculum": curriculum, "training": {"lr": float(f"{rate:.3g}")}}


def configured(source: str, ranker: str, settings: dict[str, Any], seed: int) -> TrainingRun:
    sizes = {"max_length": 32, "max_iterations": ITERATIONS, "batches_per_iteration": 8, "batch_size": 16}
    return TrainingRun.model_validate(
        {
            "data": source,
            "ranker": RANKERS[ranker],
            "curriculum": settings.get("curriculum", {}),
            "training": sizes | settings.get("training", {}),
            "seed": seed,
        }
    )


def record(file: Path, run: TrainingRun, budget: int, materials: Materials) -> None:
    """Trains for the budget and appends the curve, unless it is in the file."""
    if any(curve.same_training(run, budget) for curve in read_curves(file)):
        return
    started = time.perf_counter()
    training = Training(run, materials, device="cpu")
    values = []
    while not training.finished:
        training.iterate()
        values.append(training.dev_values)
    append_curve(file, Curve.of(run, budget, np.stack(values), time.perf_counter() - started))


if __name__ == "__main__":
    main()
