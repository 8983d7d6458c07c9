"""What a curriculum is in PyTorch: a batch sampler, and a loss that weighs samples."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import BatchSampler

from trainables.core.errors import ConfigError, Problem


class CurriculumBatches(BatchSampler):
    """The batches of a curriculum, step after step, from `start_step` on; a list of indices each.

    `batch`: step and batch size to indices, int64 [B].
    Trainers that resume by passing over the first batches (transformers, accelerate) get the right ones, too. After
    total_steps everything is open: a second epoch (`set_epoch(1)`) is plain training with new draws.
    """

    drop_last = True  # all batches are full

    def __init__(self, batch: Callable[[int, int], np.ndarray], total_steps: int, batch_size: int, start_step: int = 0):
        problems = []
        if batch_size < 1:
            problems.append(Problem("batch_size", f"{batch_size} is below 1", "a whole number, 1 or more"))
        if not 0 <= start_step <= total_steps:
            right = f"a whole number from 0 to {total_steps}, the total_steps"
            problems.append(Problem("start_step", f"{start_step} is not a step of this training", right))
        if problems:
            raise ConfigError(problems)
        self.batch, self.total_steps, self.batch_size = batch, total_steps, batch_size
        self.start_step, self.epoch = start_step, 0

    def __len__(self) -> int:
        return self.total_steps - self.start_step

    def __iter__(self) -> Iterator[list[int]]:
        total = self.total_steps
        for step in range(self.epoch * total + self.start_step, (self.epoch + 1) * total):
            yield self.batch(step, self.batch_size).tolist()

    def set_epoch(self, epoch: int) -> None:
        """Moves to the steps of an epoch (from 0); trainers call it."""
        self.start_step = self.start_step if epoch == self.epoch else 0
        self.epoch = epoch


class WeightedLoss(nn.Module):
    """Mean of weight times loss over a batch (MacAvaney et al. 2020, Eq. 4). See `Curriculum.weighted`.

    loss   gives a value for each sample, [B]
    weigh  D of the samples, float64 [B], to their weights, float64 [B]
    """

    def __init__(self, loss: nn.Module | Callable[..., Tensor], weigh: Callable[[np.ndarray], np.ndarray]):
        super().__init__()
        self.loss, self.weigh = loss, weigh
        if (model := getattr(loss, "model", None)) is not None:
            self.model = model  # the trainers put their wrapped model here, and in `loss`

    def forward(self, inputs: Any, labels: Tensor | list[Tensor], **options: Any) -> Tensor:
        pairs = torch.stack(labels) if isinstance(labels, list) else labels
        if pairs.ndim < 2:
            return self._losses(inputs, pairs, options).mean()
        losses = self._losses(inputs, pairs[:, 0], options)
        weights = torch.from_numpy(self.weigh(pairs[:, 1].double().cpu().numpy()))
        return (losses * weights.to(losses)).mean()

    def _losses(self, inputs: Any, labels: Tensor, options: dict[str, Any]) -> Tensor:
        losses = self.loss(inputs, labels, **options)
        if losses.shape != labels.shape:
            right = 'one value for each sample, as reduction="none" gives'
            raise ConfigError(
                Problem("loss", f"a value of shape {list(losses.shape)} for {len(labels)} samples", right)
            )
        return losses
