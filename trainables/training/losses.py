"""Losses, one value a sample: the mean is taken by the caller after weighting (MacAvaney et al. 2020, Eq. 4)."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

PAIRWISE = ("pairwise", "hinge", "cross_entropy")


def pointwise(name: str, scores: Tensor, grades: Tensor, relevance_level: int) -> Tensor:
    """Loss [D] of documents' scores against their judged grades, where unjudged (-1) counts as 0.

    pointwise: binary cross-entropy of score logits, Penha & Hauff's two-class softmax with one logit; mse: squared
    error on the grade as it is, the default of MacAvaney et al.'s code.
    """
    if name == "mse":
        return (scores - grades.clamp(min=0).to(scores)) ** 2
    relevant = (grades >= relevance_level).to(scores)
    return functional.binary_cross_entropy_with_logits(scores, relevant, reduction="none")


def pairwise(name: str, positive: Tensor, negative: Tensor, margin: float) -> Tensor:
    """Loss [B] of positive over negative scores.

    pairwise: 1 - softmax(s+, s-)[s+] (the default of MacAvaney et al.'s code; the paper prints it without the
    sign); cross_entropy: -log of that softmax; hinge: max(0, margin - s+ + s-).
    """
    difference = negative - positive
    if name == "pairwise":
        return torch.sigmoid(difference)
    if name == "cross_entropy":
        return functional.softplus(difference)
    return functional.relu(margin + difference)


def reduced(per_sample: Tensor, weights: Tensor, batch_mean: bool) -> Tensor:
    """The loss of a batch: mean of weight times loss (Eq. 4), or the product of both means, as in the paper's code."""
    return per_sample.mean() * weights.mean() if batch_mean else (per_sample * weights).mean()
