"""Results with their gradients, to compare two ways of computing the same thing."""

from __future__ import annotations

import torch
from torch import Tensor


def with_gradients(result: Tensor, inputs: list[Tensor], seed: int = 1) -> tuple[Tensor, tuple[Tensor, ...]]:
    """The result, and the gradients of a random weighting of it with respect to `inputs`."""
    weights = torch.randn(result.shape, generator=torch.Generator().manual_seed(seed)).to(result)
    return result.detach(), torch.autograd.grad((result * weights).sum(), inputs)
