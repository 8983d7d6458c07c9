"""A moving average of a network's weights over its optimiser steps."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
from torch import Tensor, nn

from trainables.training import checkpoint

AVERAGE, STEPS = "average.safetensors", "steps"
HORIZON = 3.0  # iterations after which weights count 1/e


class MovingAverage:
    """Exponential moving average of the trainable weights, on their device. `horizon`: in steps.

    The n-th step's weights enter with max(1 / n, 1 - exp(-1 / horizon)): the mean of all steps up to the horizon, then
    the moving average. So initial weights play no part.
    """

    def __init__(self, module: nn.Module, horizon: float):
        self.weights = {name: weight for name, weight in module.named_parameters() if weight.requires_grad}
        self.rate = -math.expm1(-1 / horizon)
        self.steps = 0
        self.values = [weight.detach().clone() for weight in self.weights.values()]

    @torch.no_grad()
    def update(self) -> None:
        """Takes in the weights after an optimiser step."""
        self.steps += 1
        weights: list[Tensor] = list(self.weights.values())
        share = max(1 / self.steps, self.rate)
        torch._foreach_lerp_(self.values, weights, share)  # pyright: ignore[reportPrivateImportUsage]

    @contextmanager
    def applied(self) -> Iterator[None]:
        """Inside the block the network has the average as its weights; before the first step it has its own."""
        self._exchange()
        try:
            yield
        finally:
            self._exchange()

    @torch.no_grad()
    def _exchange(self) -> None:
        """Exchanges the numbers, not the tensors: modules may refer to theirs."""
        if self.steps:
            for weight, value in zip(self.weights.values(), self.values, strict=True):
                weights = weight.clone()
                weight.copy_(value)
                value.copy_(weights)

    def state(self) -> dict[str, Tensor]:
        """Copies on the CPU: the average by the weights' names, and the number of steps."""
        named = dict(zip(self.weights, self.values, strict=True))
        return checkpoint.copied_to_cpu({**named, STEPS: torch.tensor(self.steps)})

    @torch.no_grad()
    def load(self, folder: Path) -> None:
        """Restores a saved `state`; begins again with the next step where the folder has none."""
        self.steps = 0
        if (folder / AVERAGE).is_file():
            state = checkpoint.load_tensors(folder / AVERAGE)
            self.steps = int(state.pop(STEPS))
            for name, value in zip(self.weights, self.values, strict=True):
                value.copy_(state[name])
