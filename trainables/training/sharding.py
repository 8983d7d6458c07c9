"""Weights, gradients and moments of a network spread over the processes of a training: PyTorch's FSDP.

Each process holds a part of every tensor. A layer's whole weights are there only while it computes. PyTorch's part for
that takes most of a second to import, which only trainings of several processes need.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn


def shard(module: nn.Module, count: int, device: torch.device) -> None:
    """Spreads a network over `count` processes: each layer of a transformer by itself, and the rest together. Gradients
    are sums over the processes."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import FSDPModule, fully_shard, register_fsdp_forward_method
    from transformers.modeling_layers import GradientCheckpointingLayer

    how: dict[str, Any] = {"mesh": init_device_mesh(device.type, (count,)), "reshard_after_forward": True}
    for layer in [part for part in module.modules() if isinstance(part, GradientCheckpointingLayer)]:
        fully_shard(layer, **how)
    fully_shard(module, **how)  # resharded too: whole weights would outlive a change of their parts
    if hasattr(module, "embed"):
        register_fsdp_forward_method(module, "embed")
    for part in module.modules():
        if isinstance(part, FSDPModule):
            part.set_gradient_divide_factor(1.0)
            part.set_force_sum_reduction_for_comms(True)


def whole(tensor: Tensor) -> Tensor:
    """All of a tensor; of one that is spread, all processes must ask for it."""
    spread: Any = tensor
    return spread.full_tensor() if hasattr(spread, "full_tensor") else tensor


def spread_as(tensor: Tensor, other: Any) -> Tensor:
    """A tensor, spread as another one is if that is spread."""
    if hasattr(tensor, "full_tensor") or not hasattr(other, "full_tensor"):
        return tensor
    from torch.distributed.tensor import distribute_tensor

    return distribute_tensor(tensor.to(other.device), other.device_mesh, other.placements)
