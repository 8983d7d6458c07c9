"""One training of one configuration: iterations of optimiser steps, each followed by an evaluation on dev."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from trainables.config import TrainingRun
from trainables.curriculum.difficulty import difficulty
from trainables.curriculum.sampler import Curriculum, easy_first
from trainables.curriculum.scoring import Scored
from trainables.curriculum.weighting import WEIGHTINGS
from trainables.data.columns import Split, required_split
from trainables.data.instances import Instances, make_instances
from trainables.errors import DataError, Problem, WorkFailed
from trainables.evaluation.metrics import METRICS, Evaluator
from trainables.randomness import torch_seed
from trainables.rankers.base import RankerModule
from trainables.training import checkpoint, losses
from trainables.training.batching import Batch, Batcher
from trainables.training.materials import Materials, ranker_of
from trainables.training.precision import choose_precision
from trainables.training.scoring import score_candidates


def metric_key(metric: str) -> str:
    """Name of the dev value in results."""
    return f"dev_{metric}"


class Training:
    """State of one training. All randomness is a function of (seed, step), so `load` then `iterate` gives the
    numbers of an unbroken run."""

    def __init__(self, run: TrainingRun, materials: Materials, device: str | None = None):
        self.run, self.materials = run, materials
        self.device = torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
        self.dev = required_split(materials.data, "dev")
        self.evaluator = Evaluator(self.dev, materials.data.document_ids, run.evaluation.relevance_level)
        self.module = self._build_module()
        self.precision = choose_precision(run.training.precision, self.device, self.module)
        self.optimizer = torch.optim.AdamW(
            self.module.parameter_groups(run.training.lr), weight_decay=run.training.weight_decay, fused=True
        )
        self.base_rates = [group["lr"] for group in self.optimizer.param_groups]
        self.batcher = self._make_batcher()
        self.history: list[dict[str, float]] = []
        self.best_iteration = 0
        self.best_weights: dict[str, Tensor] = {}
        self.best_scores = np.empty(0, np.float32)

    def _build_module(self) -> RankerModule:
        torch.manual_seed(torch_seed(self.run.seed, "initial weights"))
        ranker, settings = ranker_of(self.run)
        return ranker.build(self.materials.text, settings, self.run.training.max_length).to(self.device)

    def _make_batcher(self) -> Batcher:
        settings = self.run.training
        split, instances = training_instances(self.run, self.materials)
        curriculum = make_curriculum(self.run, self.materials, split, instances)
        return Batcher(self.materials, split, instances, curriculum, self.module, settings.batch_size, settings.window)

    # -- progress ------------------------------------------------------------------------------------------------

    @property
    def iteration(self) -> int:
        """Iterations done."""
        return len(self.history)

    @property
    def best_value(self) -> float:
        return self.history[self.best_iteration - 1][metric_key(self.run.metric)] if self.best_iteration else -math.inf

    @property
    def finished(self) -> bool:
        """The last iteration is done, or dev has not improved for `training.patience` iterations."""
        settings = self.run.training
        return self.iteration >= settings.max_iterations or self.iteration - self.best_iteration >= settings.patience

    # -- one iteration -------------------------------------------------------------------------------------------

    def iterate(self) -> dict[str, float]:
        """Trains `batches_per_iteration` steps, evaluates on dev, keeps the best weights; returns the metrics of
        interface section 7. Raises WorkFailed when the loss is no longer a number."""
        started = time.perf_counter()
        metrics = self._train()
        scores = self.score(self.dev)
        value = float(self.evaluator(scores, [self.run.metric])[self.run.metric].mean())
        if value > self.best_value:
            self.best_iteration = self.iteration + 1
            self.best_weights = checkpoint.trained_state(self.module)
            self.best_scores = scores
        metrics[metric_key(self.run.metric)] = value
        metrics["seconds"] = time.perf_counter() - started
        self.history.append(metrics)
        return metrics

    def _train(self) -> dict[str, float]:
        steps = self.run.training.batches_per_iteration
        first = self.iteration * steps
        torch.manual_seed(torch_seed(self.run.seed, "dropout", self.iteration))
        self.module.train()
        started = time.perf_counter()
        total, weight, pairs = torch.zeros((), device=self.device), 0.0, 0
        for step, batch in enumerate(self.batcher.batches(first, steps), first):
            loss, mean_weight, count = self._step(step, batch)
            total, weight, pairs = total + loss, weight + mean_weight, pairs + count
        mean_loss = float(total) / steps
        if not math.isfinite(mean_loss):
            raise WorkFailed(
                f"the training loss became {mean_loss} in iteration {self.iteration + 1}; a lower training.lr may help"
            )
        return {
            "train_loss": mean_loss,
            "available_share": self.batcher.curriculum.share(first + steps - 1),
            "mean_weight": weight / steps,
            "samples_per_second": pairs / (time.perf_counter() - started),
        }

    def _step(self, step: int, batch: Batch) -> tuple[Tensor, float, int]:
        """One optimiser step: its loss (on the device), mean weight, and number of query-document pairs."""
        weights = self._weights(batch)
        rate = rate_factor(self.run, step)
        for group, base in zip(self.optimizer.param_groups, self.base_rates, strict=True):
            group["lr"] = base * rate
        self.optimizer.zero_grad(set_to_none=True)
        per_sample, pairs = self._losses(batch)
        loss = (per_sample * torch.from_numpy(weights).to(per_sample)).mean()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.module.parameters(), self.run.training.clip)
        self.optimizer.step()
        return loss.detach(), float(weights.mean()), pairs

    def _weights(self, batch: Batch) -> np.ndarray:
        return self.batcher.curriculum.weights(
            batch.positive, batch.negative, self.batcher.instances.pairwise, self.iteration
        )

    def _losses(self, batch: Batch) -> tuple[Tensor, int]:
        settings = self.run.training
        if self.batcher.instances.pairwise:
            scores = self._forward(np.concatenate([batch.positive, batch.negative]))
            positive, negative = scores.chunk(2)
            return losses.pairwise(settings.loss, positive, negative, settings.margin), len(scores)
        relevant = batch.positive >= 0
        scores = self._forward(np.where(relevant, batch.positive, batch.negative))
        return losses.pointwise(scores, torch.from_numpy(relevant).to(scores)), len(scores)

    def _forward(self, rows: np.ndarray) -> Tensor:
        inputs = self.batcher.inputs(rows)
        with self.precision.autocast(self.device):
            scores = self.module(**{name: tensor.to(self.device, non_blocking=True) for name, tensor in inputs.items()})
        return scores.float()

    # -- evaluation ----------------------------------------------------------------------------------------------

    def score(self, split: Split) -> np.ndarray:
        """Scores of all candidates of a split with the current weights, float32 [C]."""
        text = self.materials.text
        return score_candidates(
            self.module,
            text.queries,
            text.documents,
            split.query[split.owner],
            split.document,
            self.device,
            self.precision,
        )

    def score_with_best(self, split: Split) -> np.ndarray:
        """Scores with the weights of the best iteration; the current weights stay."""
        current = checkpoint.trained_state(self.module)
        checkpoint.load_trained_state(self.module, self.best_weights)
        scores = self.score(split)
        checkpoint.load_trained_state(self.module, current)
        return scores

    # -- state ---------------------------------------------------------------------------------------------------

    def save(self, folder: Path) -> None:
        """Writes the whole state into an existing folder."""
        save_file(checkpoint.trained_state(self.module), folder / "weights.safetensors")
        checkpoint.save_optimizer(self.optimizer, folder / "optimizer.safetensors")
        if self.best_iteration:
            checkpoint.save_best(self.best_weights, self.best_scores, folder / checkpoint.BEST)
        state = {
            "run": self.run.model_dump(),
            "data": self.materials.data.digest,
            "history": self.history,
            "best_iteration": self.best_iteration,
        }
        checkpoint.write_json(folder / "state.json", state)

    def same_run(self, folder: Path) -> bool:
        """Whether `folder` holds the state of this configuration on this data."""
        state = read_state(folder)
        return TrainingRun.model_validate(state["run"]) == self.run and state["data"] == self.materials.data.digest

    def load(self, folder: Path) -> None:
        """Restores what `save` wrote for the same configuration. Raises DataError for another one."""
        state = read_state(folder)
        if not self.same_run(folder):
            raise DataError(
                Problem(str(folder), "is the state of another configuration", "a checkpoint of the same one")
            )
        checkpoint.load_trained_state(self.module, load_file(folder / "weights.safetensors"))
        checkpoint.load_optimizer(self.optimizer, folder / "optimizer.safetensors")
        self.history, self.best_iteration = state["history"], state["best_iteration"]
        if self.best_iteration:
            self.best_weights, self.best_scores = checkpoint.load_best(folder / checkpoint.BEST)


def read_state(folder: Path) -> dict[str, Any]:
    """The JSON part of a saved training: run, history, best_iteration."""
    return checkpoint.read_json(folder / "state.json")


def training_instances(run: TrainingRun, materials: Materials) -> tuple[Split, Instances]:
    """The training split and its instances under the configured loss and negatives."""
    split = required_split(materials.data, "train")
    pairwise = run.training.loss in losses.PAIRWISE
    return split, make_instances(split, pairwise, run.training.negatives, run.evaluation.relevance_level)


def make_curriculum(run: TrainingRun, materials: Materials, split: Split, instances: Instances) -> Curriculum:
    """The configured curriculum over the training instances."""
    settings, training = run.curriculum, run.training
    if settings.pacing == "none":
        order = np.arange(len(instances))
    else:
        scored = Scored(materials.data, split, instances, run.seed)
        order = easy_first(difficulty(settings.scoring, scored)[0], settings.anti)
    heuristic = WEIGHTINGS[settings.weighting]
    return Curriculum(
        order=order,
        value=None if heuristic is None else heuristic(split),
        pacing=settings.pacing,
        delta=settings.delta,
        n=settings.n,
        horizon=settings.T * training.max_iterations * training.batches_per_iteration,
        m=settings.m,
        anti=settings.anti,
        seed=run.seed,
    )


def rate_factor(run: TrainingRun, step: int) -> float:
    """Learning-rate factor at a step (from 0): linear warm-up, then constant or linear to 0."""
    settings = run.training
    total = settings.max_iterations * settings.batches_per_iteration
    warmup = settings.warmup * total
    if step < warmup:
        return (step + 1) / (warmup + 1)
    return 1.0 if settings.schedule == "constant" else (total - step) / (total - warmup)


def train(training: Training) -> Iterator[dict[str, float]]:
    """Iterates until finished, yielding each iteration's metrics."""
    while not training.finished:
        yield training.iterate()


def test_metrics(run: TrainingRun, materials: Materials, split: Split, scores: np.ndarray) -> dict[str, float]:
    """All metrics of `list metrics`, means over the split's queries."""
    evaluator = Evaluator(split, materials.data.document_ids, run.evaluation.relevance_level)
    return {name: float(values.mean()) for name, values in evaluator(scores, list(METRICS)).items()}
