"""Gaussian kernel pooling (Xiong et al. 2017), on which KNRM-like rankers spend most of their time."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

AT_ONCE = {"cuda": 2**24}  # most values, over all kernels, that a device computes at once; 0 for other devices
FAR = 100.0  # a similarity that no kernel counts, given to padding
_LOWEST = -100.0  # least exponent of 2, well above denormal numbers, with which CPUs are ten times slower
_SHORTEST = 1e-12  # a vector is divided by at least this length
_SMALLEST_VARIANCE = 1e-8  # keeps a learned width from reaching 0


Gradients = tuple[Tensor, Tensor | None, Tensor | None]


class GaussianKernels(nn.Module):
    """K soft histogram bins over similarities; centres and widths are learned unless `learned` is false.

    Exact matches have a narrow kernel of their own at 1; the others cover [-1, 1] evenly.
    """

    def __init__(self, kernels: int = 11, learned: bool = True):
        super().__init__()
        step = 2 / (kernels - 1)
        centres = [-1 + step * (i + 0.5) for i in range(kernels - 1)]
        self.mu = nn.Parameter(torch.tensor([*centres, 1.0]), requires_grad=learned)
        self.sigma = nn.Parameter(torch.tensor([0.1] * (kernels - 1) + [0.001]), requires_grad=learned)

    def forward(self, similarities: Tensor) -> Tensor:
        """Similarities [..., L] to log(sum_j exp(-(x_j - mu_k)^2 / 2 sigma_k^2) + 1e-6) [..., K]."""
        precision = 0.5 / self.sigma.square().clamp_min(_SMALLEST_VARIANCE)
        return torch.log(_KernelSums.apply(similarities, self.mu, precision) + 1e-6)


class _KernelSums(torch.autograd.Function):
    """sum_j exp(-precision_k (x_j - mu_k)^2), computed again in the backward pass: thus the [..., K, L] tensor, which
    would dominate time and memory, is not kept. A CPU takes one kernel at a time, in its cache; a GPU, whose time goes
    into launching operations, takes all at once if they are small (counted, not measured: some 370 operations per step
    of ConvKNRM become 180)."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, mu: Tensor, precision: Tensor) -> Tensor:
        ctx.save_for_backward(x, mu, precision)
        if at_once(x, len(mu)):
            return _kernel(x[..., None, :] - mu[:, None], precision[:, None]).sum(-1)
        return torch.stack([_kernel(x - m, p).sum(-1) for m, p in zip(mu, precision, strict=True)], -1)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> Gradients:
        x, mu, precision = ctx.saved_tensors
        learned = ctx.needs_input_grad[1] or ctx.needs_input_grad[2]
        gradients = _gradients_at_once if at_once(x, len(mu)) else _gradients_in_turn
        return gradients(x, mu, precision, grads[0], learned)


def at_once(x: Tensor, kernels: int) -> bool:
    """Whether all kernels of similarities [..., L] are computed at once."""
    return x.numel() * kernels <= AT_ONCE.get(x.device.type, 0)


def _gradients_at_once(x: Tensor, mu: Tensor, precision: Tensor, grad: Tensor, learned: bool) -> Gradients:
    distance = x[..., None, :] - mu[:, None]
    weighted = _kernel(distance, precision[:, None]).mul_(distance).mul_(grad[..., None])
    grad_x = (weighted * (-2 * precision[:, None])).sum(-2)
    if not learned:
        return grad_x, None, None
    others = (*range(grad.dim() - 1), -1)
    return grad_x, 2 * precision * weighted.sum(others), -weighted.mul_(distance).sum(others)


def _gradients_in_turn(x: Tensor, mu: Tensor, precision: Tensor, grad: Tensor, learned: bool) -> Gradients:
    grad_x, grad_mu, grad_precision = torch.zeros_like(x), [], []
    for k, p in enumerate(precision):
        distance = x - mu[k]
        weighted = _kernel(distance, p).mul_(distance).mul_(grad[..., k, None])
        grad_x.addcmul_(weighted, p, value=-2)
        if learned:
            grad_mu.append(weighted.sum())
            grad_precision.append(-torch.dot(weighted.flatten(), distance.flatten()))
    if not learned:
        return grad_x, None, None
    return grad_x, 2 * precision * torch.stack(grad_mu), torch.stack(grad_precision)


def _kernel(distance: Tensor, precision: Tensor) -> Tensor:
    """exp(-precision distance^2) as a power of 2, which CPUs compute four times faster than one of e."""
    return distance.square().mul_(precision * -math.log2(math.e)).clamp_min_(_LOWEST).exp2_()


def unit(x: Tensor) -> Tensor:
    """Vectors [..., D] divided by their lengths; zero vectors stay."""
    return _Unit.apply(x)


class _Unit(torch.autograd.Function):
    """Like functional.normalize, but its backward makes half as many passes."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        inverse = x.square().sum(-1, keepdim=True).clamp_min_(_SHORTEST**2).rsqrt_()
        result = x * inverse
        ctx.save_for_backward(result, inverse)
        return result

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> Tensor:
        result, inverse = ctx.saved_tensors
        along = (grads[0] * result).sum(-1, keepdim=True)
        return torch.addcmul(grads[0], result, along, value=-1).mul_(inverse)
