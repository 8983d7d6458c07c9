"""One training of one configuration: iterations of optimiser steps, each followed by an evaluation on dev."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from trainables.config.keys import TrainingConfig
from trainables.config.task_fit import require_fit
from trainables.core.errors import ConfigError, Problem, WorkFailed
from trainables.core.randomness import generator, torch_seed
from trainables.curriculum.negatives import GrowingGroups, MovingRanks, Negatives, Sources
from trainables.data.columns import RankingData, Split, required_split
from trainables.data.combine import with_retrieved
from trainables.data.instances import Batch, HardNegatives, Instances, make_instances
from trainables.evaluation.metrics import dev_key
from trainables.evaluation.per_query import evaluator_of, reported
from trainables.rankers.ranker import DualEncoder, RankerModule, on_device, sent
from trainables.training import checkpoint, losses
from trainables.training.accumulation import Accumulation
from trainables.training.batching import DIFFICULTY, Batcher, make_curriculum, objective, total_steps
from trainables.training.contrast import InBatchNegatives
from trainables.training.device import best_device, choose_precision, keep_freed_memory
from trainables.training.losses import LOSSES, LossSettings
from trainables.training.memory import enough_memory
from trainables.training.prepared import PreparedData, ranker_of
from trainables.training.progress import RankerProgress
from trainables.training.saved_ranker import SavedRanker, load_ranker_folder, write_ranker
from trainables.training.scoring import Scorer, fixed_features

WORTH_FEATURES = 8  # times the rows that a training draws: for more candidates, features are not computed ahead


class Training(RankerProgress):
    """State of one training. All randomness is a function of (seed, step), and `save` includes what the curriculum
    remembers; so `load` followed by `iterate` gives the numbers of an uninterrupted run.
    """

    def __init__(self, run: TrainingConfig, prepared: PreparedData, device: str | None = None):
        super().__init__(run, prepared)
        self.device = torch.device(device) if device else best_device()
        keep_freed_memory()
        with enough_memory(self.device):
            self.module = initial_module(run, prepared).to(self.device)
        self.precision = choose_precision(run.training.precision, self.device, self.module)
        decay = run.training.weight_decay
        groups = decayed(self.module, self.module.parameter_groups(run.training.lr), decay)
        self.optimizer = torch.optim.AdamW(groups, weight_decay=decay, fused=True)
        self.base_rates = [group["lr"] for group in self.optimizer.param_groups]
        split, negatives = training_negatives(run, prepared)
        self.curriculum = make_curriculum(run, prepared, split, negatives)
        self.batcher = Batcher(prepared, split, self.curriculum, self.module, run.training.batch_size)
        contrasts = run.training.in_batch_negatives and run.training.loss == "softmax"
        self.in_batch = InBatchNegatives(self.batcher, run.evaluation.relevance_level) if contrasts else None
        self.accumulation = Accumulation(run.training.micro_batch, self.device)
        self.notes = self.accumulation.notes
        self.notes += self.curriculum.notes
        self.best_weights: dict[str, Tensor] = {}
        drawn = total_steps(run) * run.training.batch_size * self.batcher.instances.documents_a_sample
        if len(split.document) <= WORTH_FEATURES * drawn:
            self.batcher.features = fixed_features(self.scorer, prepared.text, split)

    @property
    def machine(self) -> str:
        return f"precision: {self.precision.reason}; device: {self.device}"

    # -- one iteration -------------------------------------------------------------------------------------------

    def iterate(self) -> dict[str, float]:
        """Trains `batches_per_iteration` steps, evaluates on dev, keeps the best weights; returns the metrics of
        docs/how-to/mlflow.md. Raises WorkFailed when the loss is no longer a number."""
        started = time.perf_counter()
        self.curriculum.follow([metrics[dev_key(self.run.metric)] for metrics in self.history])
        self._refresh_difficulty()
        metrics = self._train()
        metrics[dev_key(self.run.metric)] = self._evaluate_dev()
        metrics["seconds"] = time.perf_counter() - started
        self.history.append(metrics)
        return metrics

    def _evaluate_dev(self) -> float:
        """The dev value of the network's present weights, which become the best ones if it is the highest so far."""
        documents, evaluator = None, self.evaluator
        if (retrieved := self.retrieve(self.dev)) is None:
            scores = self.score(self.dev)
        else:
            documents, scores = retrieved
            data = with_retrieved(self.prepared.data, "dev", documents, scores)
            evaluator = evaluator_of(data, data.splits["dev"], self.run.evaluation.relevance_level, self.run.metric)
        value = self.evaluate(scores, evaluator)
        if value > self.best_value:
            self.best_iteration = self.iteration + 1
            self.best_weights = {}  # room for the new ones
            with enough_memory(self.device):
                trained = checkpoint.trained_state(self.module)
                self.best_weights = {name: tensor.detach().clone() for name, tensor in trained.items()}
            self.best_scores, self.best_documents = scores, documents
        return value

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
        available = self.curriculum.sampler.schedule.share(first + steps - 1)
        return {
            "train_loss": mean_loss,
            "available_share": available,
            "used_share": min(available, self.curriculum.weigher.used_share(self.iteration)),
            "mean_weight": weight / steps,
            "samples_per_second": pairs / (time.perf_counter() - started),
        }

    def _step(self, step: int, batch: Batch) -> tuple[Tensor, float, int]:
        """One optimiser step: its loss (on the device; of this process's part of the batch), mean weight, and number of
        query-document pairs."""
        weights = self.curriculum.weigher(batch, self.iteration)
        rate = rate_factor(self.run, step)
        for group, base in zip(self.optimizer.param_groups, self.base_rates, strict=True):
            group["lr"] = base * rate
        if self.in_batch is not None and objective(self.run, step) == self.run.training.loss:
            loss = self._contrast(self.in_batch, batch, weights)
        else:
            loss_of = partial(self._loss_of_part, step, batch, weights)
            loss = self.accumulation.backward(self.module, len(weights), loss_of)
        with enough_memory(self.device):
            torch.nn.utils.clip_grad_norm_(self.module.parameters(), self.run.training.clip)
            self.optimizer.step()
        pairs = len(weights) * self.batcher.instances.documents_a_sample
        return loss, float(weights.mean()), pairs

    def _loss_of_part(self, step: int, batch: Batch, weights: np.ndarray, part: slice) -> Tensor:
        """What a part of a batch adds to the batch's loss: its mean over the views of vectors that a ranker is trained
        on."""
        rows = self._rows(batch[part])
        scores = self._forward(rows.ravel())
        views = list(scores) if isinstance(self.module, DualEncoder) and scores.dim() == 2 else [scores]
        loss, ordered_share = objective(self.run, step), self.curriculum.negatives.ordered_share(step)
        per_view = [self._losses(rows, view, loss, ordered_share) for view in views]
        return self._reduced(per_view[0] if len(per_view) == 1 else torch.stack(per_view).mean(0), weights, part)

    def _reduced(self, per_sample: Tensor, weights: np.ndarray, part: slice) -> Tensor:
        on_loss = sent(torch.from_numpy(weights).to(per_sample.dtype), per_sample.device)
        return losses.reduced(per_sample, on_loss, self.run.curriculum.reduces_by_batch_mean, part)

    def _contrast(self, in_batch: InBatchNegatives, batch: Batch, weights: np.ndarray) -> Tensor:
        """The loss of a batch with in-batch negatives; leaves its gradient in the parameters."""
        contrast = in_batch.contrast(batch)
        assert isinstance(self.module, DualEncoder)
        views_of = self.module.views

        def contrasted(vectors: Tensor) -> Tensor:
            per_view = [contrast.losses(view, self.loss_settings) for view in views_of(vectors)]
            return per_view[0] if len(per_view) == 1 else torch.stack(per_view).mean(0)

        return self.accumulation.backward_through_vectors(
            self.module,
            len(weights),
            lambda count: [partial(self._embed, *rows) for rows in contrast.parts(count)],
            lambda vectors: self._reduced(contrasted(vectors), weights, slice(None)),
        )

    def _embed(self, query_rows: np.ndarray, document_rows: np.ndarray) -> Tensor:
        """Vectors of texts: those of the queries first."""
        assert isinstance(self.module, DualEncoder)
        text = self.prepared.text
        inputs = self.module.collate_texts(text.queries, text.documents, query_rows, document_rows)
        with self.precision.autocast(self.device):
            return self.module.embed(**on_device(inputs, self.device))

    def _rows(self, batch: Batch) -> np.ndarray:
        """Candidate rows of the documents of B samples, int [documents a sample, B]."""
        if self.batcher.instances.pairwise:
            return np.concatenate([batch.positive[None], batch.negative.T.reshape(-1, len(batch.instance))])
        return np.where(batch.positive >= 0, batch.positive, batch.negative)[None]

    def _losses(self, rows: np.ndarray, scores: Tensor, loss: str, ordered_share: float = 1.0) -> Tensor:
        """Loss of each sample, [B]; of a pair under a pointwise loss, the mean of its two documents' losses.

        rows           candidates, as `_rows` gives them
        scores         theirs, flat, or their class logits
        ordered_share  as in LossSettings
        """
        function, kind = LOSSES[loss].function, LOSSES[loss].kind
        settings = replace(self.loss_settings, ordered_share=ordered_share)
        grade = self.batcher.split.grade
        if self.prepared.data.task == "classification":
            of_classes = LOSSES[loss].of_classes
            assert of_classes is not None, f"{loss} is not a loss of classes"
            classes = sent(torch.from_numpy(grade[rows[0]].astype(np.int64)), scores.device)
            return losses.per_sample(loss, of_classes, scores, classes, settings)
        if kind == "pairwise":
            positive, negative = scores.chunk(2)
            return losses.per_sample(loss, function, positive, negative, settings)
        if kind == "listwise":
            taught = LOSSES[loss].reads_teacher
            labels = self.prepared.teachers["teacher"] if taught else np.maximum(grade, 0)
            of_lists = sent(torch.from_numpy(labels[rows.T]), scores.device)
            return losses.per_sample(loss, function, scores.view(rows.shape).T, of_lists, settings)
        grades = sent(torch.from_numpy(grade[rows.ravel()]), scores.device)
        of_documents = losses.per_sample(loss, function, scores, grades, settings)
        return of_documents.view(rows.shape).mean(0)

    @property
    def loss_settings(self) -> LossSettings:
        run, training = self.run, self.run.training
        return LossSettings(training.margin, run.evaluation.relevance_level, run.temperature, training.label_smoothing)

    def _forward(self, rows: np.ndarray) -> Tensor:
        inputs = self.batcher.inputs(rows)
        with self.precision.autocast(self.device):
            return self.module(**on_device(inputs, self.device))

    def _refresh_difficulty(self) -> None:
        """Self-paced learning: before each iteration but the first, each instance's loss becomes its difficulty."""
        step = self.iteration * self.run.training.batches_per_iteration
        if step and self.run.curriculum.is_self_paced and self.curriculum.reads_difficulty(step, self.iteration):
            self.curriculum.refresh(self._instance_losses(step))

    def _instance_losses(self, step: int) -> np.ndarray:
        """Loss of each training instance under the current weights, its negative drawn once, float64 [I]."""
        instances = np.arange(len(self.batcher.instances))
        negatives = self.curriculum.negatives
        drawn = negatives.at(step).draw(instances, generator(self.run.seed, "self-paced", step))
        rows = self._rows(Batch(instances, *drawn))
        distinct, index = np.unique(rows.ravel(), return_inverse=True)  # each is scored once
        scored = self.scorer.candidates(self.prepared.text, self.batcher.split, distinct, self.batcher.features)
        scores, loss = torch.from_numpy(scored[index]), objective(self.run, step)
        return self._losses(rows, scores, loss, negatives.ordered_share(step)).numpy().astype(np.float64)

    # -- evaluation ----------------------------------------------------------------------------------------------

    @property
    def scorer(self) -> Scorer:
        return Scorer(self.module, self.device, self.precision)

    def score(self, split: Split) -> np.ndarray:
        """Scores of all candidates of a split with the current weights, float32 [C]; or class logits, [C, K]."""
        return self.scorer.candidates(self.prepared.text, split)

    def retrieve(self, split: Split) -> tuple[np.ndarray, np.ndarray] | None:
        """The nearest documents of the whole collection, if `evaluation.retrieve` asks for them."""
        text, depth, own = self.prepared.text, self.run.evaluation.retrieve, self.prepared.data.own
        if depth is None:
            return None
        if own is None:
            return self.scorer.nearest(text.queries, text.documents, split.query, depth)
        nearest = self.scorer.nearest(text.queries, text.documents, split.query, depth + 1)
        documents, scores = (each.reshape(len(split), -1) for each in nearest)
        own_last = np.argsort(documents == own[split.query, None], axis=1, kind="stable")
        columns = own_last[:, :-1]
        return np.take_along_axis(documents, columns, 1).ravel(), np.take_along_axis(scores, columns, 1).ravel()

    # -- state ---------------------------------------------------------------------------------------------------

    def save(self, folder: Path) -> None:
        groups = {
            checkpoint.WEIGHTS: checkpoint.trained_state(self.module),
            checkpoint.OPTIMIZER: checkpoint.optimizer_state(self.optimizer),
        }
        if self.has_best:
            groups[checkpoint.BEST] = self.best_weights
            groups[checkpoint.DEV] = checkpoint.dev_tensors(self.best_scores, self.best_documents)
        if self.curriculum.refreshed is not None:
            groups[checkpoint.CURRICULUM] = {DIFFICULTY: torch.from_numpy(self.curriculum.refreshed)}
        checkpoint.save_tensors(folder, groups)
        checkpoint.write_json(folder / checkpoint.STATE, self.document() | {"micro_batch": self.accumulation.samples})

    def load(self, folder: Path) -> None:
        """Restores what `save` wrote for the same configuration. Raises DataError for another one."""
        state = self.restore_progress(folder)
        checkpoint.load_trained_state(self.module, checkpoint.load_tensors(folder, checkpoint.WEIGHTS))
        checkpoint.load_optimizer(self.optimizer, checkpoint.load_tensors(folder, checkpoint.OPTIMIZER))
        if refreshed := checkpoint.load_tensors(folder, checkpoint.CURRICULUM):
            self.curriculum.refresh(refreshed[DIFFICULTY].numpy())
        self.accumulation.samples = state["micro_batch"]
        self.best_weights = checkpoint.load_tensors(folder, checkpoint.BEST)

    def save_ranker(self, folder: Path) -> None:
        """Writes the ranker of the best iteration as a folder for `load_saved`; the network then has its weights, with
        adapters merged. Before the first iteration these are the initial weights."""
        if self.has_best:
            checkpoint.load_trained_state(self.module, self.best_weights)
        self.module.merge_adapters()
        write_ranker(self.run, self.module, self.prepared.text, folder, self.prepared.data.classes)

    def restore_ranker(self, folder: Path) -> None:
        """Takes the ranker that `save_ranker` wrote, to score with."""
        ranker = load_ranker_folder(folder)
        assert isinstance(ranker, SavedRanker)
        self.module = ranker.module.to(self.device)


def initial_module(run: TrainingConfig, prepared: PreparedData) -> RankerModule:
    """The network before its first step, on the CPU."""
    torch.manual_seed(torch_seed(run.seed, "initial weights"))
    ranker, settings = ranker_of(run)
    module = ranker.build(prepared.text, settings, run.training.max_length, len(prepared.data.classes) or 1)
    if run.training.pretrain_data is not None:
        assert prepared.start is not None
        # Copies: the arrays may lie read-only in Ray's object store.
        start = {name: torch.tensor(values) for name, values in prepared.start.items()}
        checkpoint.load_trained_state(module, start)
    return module


def decayed(module: nn.Module, groups: list[dict[str, Any]], decay: float) -> list[dict[str, Any]]:
    """Optimiser groups of which biases and the weights of norms, in groups of their own, do not decay."""
    if not decay:
        return groups
    spared = {
        id(parameter)
        for layer in module.modules()
        for name, parameter in layer.named_parameters(recurse=False)
        if name.endswith("bias") or "norm" in type(layer).__name__.lower()
    }
    split = [
        group
        | {"params": [p for p in group["params"] if (id(p) in spared) is spare]}
        | ({"weight_decay": 0.0} if spare else {})
        for group in groups
        for spare in (False, True)
    ]
    return [group for group in split if group["params"]]


def training_instances(run: TrainingConfig, prepared: PreparedData) -> tuple[Split, Instances]:
    """The training split and its instances (`split_instances`)."""
    split = required_split(prepared.data, "train")
    return split, split_instances(run, prepared.data, split, prepared.given_teachers().get("teacher"))


def training_negatives(run: TrainingConfig, prepared: PreparedData) -> tuple[Split, Negatives]:
    """The training split, and its instances with the configured schedule of their negatives. Raises as
    `split_instances`."""
    split, instances = training_instances(run, prepared)
    schedule, settings = run.curriculum.negatives_schedule(total_steps(run)), run.curriculum.negatives
    if settings.schedule == "ranks":
        hard = hard_negatives(run, prepared.data, split, prepared.given_teachers().get("teacher"))
        everything = None if hard is None else replace(hard, first=1, last=len(split.document))
        ranked = _instances(run, split, everything)
        return split, MovingRanks(instances, schedule, ranked, settings.start, run.training.ranks)
    if settings.schedule == "sources":
        before = tuple(_instances(run, split, hard) for hard in _easier_sources(run, prepared, split))
        return split, Sources(instances, schedule, (*before, instances))
    return split, (GrowingGroups if settings.schedule == "groups" else Negatives)(instances, schedule)


def _easier_sources(run: TrainingConfig, prepared: PreparedData, split: Split) -> Iterator[HardNegatives | None]:
    """What schedule `sources` draws from before the hard negatives of training.*."""
    yield None
    if run.training.hard_negatives == "teacher":
        if np.isnan(split.score).all():
            wrong = f"'{prepared.data.name}' has no first-stage scores, by which 'sources' draws before the teacher"
            right = "ranks, or data whose candidates come from a run or from BM25"
            raise ConfigError(Problem("curriculum.negatives.schedule", wrong, right))
        yield HardNegatives(split.score, *run.training.ranks)


def split_instances(
    run: TrainingConfig, data: RankingData, split: Split, teacher: Callable[[], np.ndarray] | None = None
) -> Instances:
    """The instances of a split under the configured loss and negatives; for pairs to classify, every pair. `teacher`
    returns the teacher's scores of the split.

    Raises ConfigError if the configuration does not fit the data's task or run, DataError if no instance is left.
    """
    require_fit(run, data.task)
    if data.task == "classification":
        return Instances.of_pairs(split)
    return _instances(run, split, hard_negatives(run, data, split, teacher))


def _instances(run: TrainingConfig, split: Split, hard: HardNegatives | None) -> Instances:
    """The instances of a split of documents to rank, with negatives from `hard`."""
    settings = run.training
    loss, level = LOSSES[settings.loss], run.evaluation.relevance_level
    scored = ~np.isnan(split.teacher) if loss.reads_teacher and split.teacher is not None else None
    pairwise = loss.kind != "pointwise"
    negatives = settings.negatives
    if negatives == "first":
        rows = np.arange(len(split.document)) if split.given is None else split.given
        negatives, hard = 1, HardNegatives(-rows.astype(np.float64), 1, 1)
    return make_instances(split, pairwise, negatives, level, loss.kind == "listwise", hard, scored)


def hard_negatives(
    run: TrainingConfig, data: RankingData, split: Split, teacher: Callable[[], np.ndarray] | None
) -> HardNegatives | None:
    """The configured ranks of negatives; None where all candidates may be drawn. Before there is a teacher, whose order
    is not known then, all may. Raises ConfigError without a run to take the order from."""
    settings = run.training
    if not settings.draws_hard_negatives:
        return None
    first, last = settings.ranks
    if settings.hard_negatives == "teacher":
        return None if teacher is None else HardNegatives(teacher(), first, last)
    if np.isnan(split.score).all():
        wrong = f"'{data.name}' has no first-stage scores among its training candidates"
        right = "random or teacher, or data whose candidates come from a run or from BM25"
        raise ConfigError(Problem("training.hard_negatives", wrong, right))
    return HardNegatives(split.score, first, last)


def rate_factor(run: TrainingConfig, step: int) -> float:
    """Learning-rate factor at a step (from 0): linear warm-up, then constant, or to 0 as a line or half a cosine."""
    settings = run.training
    total = total_steps(run)
    warmup = settings.warmup * total
    if step < warmup:
        return (step + 1) / (warmup + 1)
    if settings.schedule == "constant":
        return 1.0
    left = (total - step) / (total - warmup)
    return left if settings.schedule == "linear" else (1 - math.cos(math.pi * left)) / 2


def test_metrics(run: TrainingConfig, prepared: PreparedData, split: Split, scores: np.ndarray) -> dict[str, float]:
    """All metrics of `list metrics` and the run's, as means over the split's queries; for pairs to classify only the
    accuracy."""
    evaluator = evaluator_of(prepared.data, split, run.evaluation.relevance_level, run.metric)
    return {name: float(values.mean()) for name, values in reported(split, prepared.data, scores, evaluator).items()}
