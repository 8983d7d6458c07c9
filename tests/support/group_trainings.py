"""Trainings without dropout, and what they compute alone or as one of several processes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import distributed

from tests.support.builders import tiny_data
from tests.support.training_runs import make_run
from trainables.config.keys import TrainingRun
from trainables.data.columns import RankingData
from trainables.training.parallel import ALONE, Ranks
from trainables.training.prepared import prepare
from trainables.training.trainer import Training

RATE = 0.3
PLAIN = {"lr": RATE, "max_iterations": 3, "batches_per_iteration": 2, "batch_size": 7, "precision": "fp32"}
CURRICULUM = {"pacing": "root", "scoring": "context_words", "weighting": "normalized_score", "m": 5}
LISTS = {"loss": "softmax", "negatives": 3}
CASES: dict[str, tuple[str, dict[str, Any], dict[str, Any], dict[str, Any]]] = {
    "pointwise": ("bert", {"loss": "pointwise"}, CURRICULUM, {}),
    "pairwise in micro-batches": ("bert", {"loss": "pairwise", "micro_batch": 2}, CURRICULUM, {}),
    "batch means": ("bert", {}, CURRICULUM | {"reference": "code"}, {}),
    "lists": ("bert", LISTS, {}, {}),
    "self-paced": ("bert", {}, {"pacing": "linear", "scoring": "self_paced", "weighting": "difficulty"}, {}),
    "in-batch negatives": ("bi_encoder", LISTS | {"in_batch_negatives": True}, {}, {}),
    "cached gradients": ("bi_encoder", LISTS | {"in_batch_negatives": True, "micro_batch": 2}, {}, {}),
    "retrieval": ("bi_encoder", LISTS, {}, {"retrieve": 9}),
}


def run_of_case(name: str) -> TrainingRun:
    ranker, training, curriculum, evaluation = CASES[name]
    return make_run(ranker, training=PLAIN | training, curriculum=curriculum, evaluation=evaluation)


def data_of_case() -> RankingData:
    return tiny_data(queries=24, candidates=6, seed=5)


@dataclass
class Computed:
    """The numbers of a training: of each iteration, and at its end the weights, the last step's gradients and the dev
    scores."""

    losses: list[float]
    dev: list[float]
    weights: dict[str, np.ndarray]
    gradients: dict[str, np.ndarray]
    scores: np.ndarray


def computed(name: str, ranks: Ranks = ALONE) -> Computed:
    run = run_of_case(name)
    training = Training(run, prepare(run, data_of_case()), "cpu", ranks)
    for module in training.module.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    training.optimizer = torch.optim.SGD(training.module.parameter_groups(RATE))  # Adam makes steps of rounding errors
    while not training.finished:
        training.iterate()
    losses, dev = ([row[key] for row in training.history] for key in ("train_loss", "dev_map"))
    weights = {name: one.numpy() for name, one in training.module.state_dict().items()}
    parameters = training.module.named_parameters()
    gradients = {name: one.grad.numpy() for name, one in parameters if one.grad is not None}
    return Computed(losses, dev, weights, gradients, training.score(training.dev))


def compute_cases(rank: int, count: int, meeting: Path) -> dict[str, Computed]:
    """Computes all cases as one of `count` processes, which find each other by a file."""
    torch.set_num_threads(1)
    distributed.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=count)
    done = {name: computed(name, Ranks.of_group()) for name in CASES}
    distributed.destroy_process_group()
    return done
