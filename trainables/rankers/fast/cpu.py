"""Layers of encoders that compute the same as PyTorch's, but faster on a CPU; elsewhere they are PyTorch's own.

- float32 products by oneDNN instead of PyTorch's MKL, which leaves AVX-512 unused on processors that are not Intel's;
- dropout masks from 16 random bits per element, where PyTorch draws a 64-bit stream of its own for each;
- selection of rows whose gradient is added up by all threads.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional

_LEAST_ROWS, _LEAST_OUTPUTS = 32, 64  # below these MKL is as fast
_CPUINFO = Path("/proc/cpuinfo")


@cache
def uses_onednn() -> bool:
    """Whether oneDNN's float32 products are the faster ones; measured only on AMD with AVX-512."""
    return (
        torch.backends.mkldnn.is_available()
        and torch.backends.cpu.get_cpu_capability() == "AVX512"
        and hasattr(torch.ops.mkldnn, "_linear_pointwise")
        and _CPUINFO.is_file()
        and "AuthenticAMD" in _CPUINFO.read_text()
    )


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """x [..., D] times the transpose of weight [N, D], plus bias [N]: [..., N]."""
    large = weight.shape[0] >= _LEAST_OUTPUTS and x.numel() >= _LEAST_ROWS * weight.shape[1]
    plain = x.dtype == weight.dtype == torch.float32 and x.device.type == "cpu" and not torch.is_autocast_enabled("cpu")
    if large and plain and uses_onednn():
        return _OneDnnLinear.apply(x, weight, bias)
    return functional.linear(x, weight, bias)


def _product(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    return torch.ops.mkldnn._linear_pointwise(x, weight, bias, "none", [], "")


class _OneDnnLinear(torch.autograd.Function):
    """oneDNN falls back to loops if rows are not adjacent in memory, so operands are made contiguous; transposes of
    contiguous operands are as fast."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        rows, weight = x.reshape(-1, x.shape[-1]).contiguous(), weight.contiguous()
        ctx.save_for_backward(rows, weight)
        ctx.has_bias = bias is not None
        return _product(rows, weight, bias).view(*x.shape[:-1], -1)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        rows, weight = ctx.saved_tensors
        grad = grads[0].reshape(-1, weight.shape[0]).contiguous()
        needed = ctx.needs_input_grad
        return (
            _product(grad, weight.t()).view(*grads[0].shape[:-1], -1) if needed[0] else None,
            _product(grad.t(), rows.t()) if needed[1] else None,
            grad.sum(0) if ctx.has_bias and needed[2] else None,
        )


class Linear(nn.Linear):
    def forward(self, input: Tensor) -> Tensor:
        return linear(input, self.weight, self.bias)


def rows(x: Tensor, index: Tensor) -> Tensor:
    """x[index]: rows of x [N, ...] at `index`, int64 [M]. On a CPU, the gradient of indexing is added up by one thread,
    that of index_select by all threads; on a GPU, the latter is added up in no fixed order."""
    return x.index_select(0, index) if x.device.type == "cpu" else x[index]


def dropout_mask(like: Tensor, p: float) -> Tensor:
    """0 with probability p, rounded to 1 / 65,536, else 1 / kept share; in the shape and type of `like`."""
    threshold = round(p * 65536)
    bits = torch.empty(-(-like.numel() // 4), dtype=torch.int64).random_(-(2**63), None).view(torch.int16)
    mask = bits[: like.numel()].view(like.shape) >= threshold - 32768
    return mask.to(like.dtype).mul_(65536 / (65536 - threshold))


def dropout(x: Tensor, p: float, training: bool) -> Tensor:
    if training and 0 < p < 1 and x.device.type == "cpu":
        return x * dropout_mask(x, p)
    return functional.dropout(x, p, training)


class Dropout(nn.Dropout):
    def forward(self, input: Tensor) -> Tensor:
        return dropout(input, self.p, self.training)


def speed_up(encoder: nn.Module) -> None:
    """Turns an encoder's linear and dropout layers into those of this module; names and weights stay."""
    for layer in encoder.modules():
        if type(layer) is nn.Linear:
            layer.__class__ = Linear
        elif type(layer) is nn.Dropout:
            layer.__class__ = Dropout
