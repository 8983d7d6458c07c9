"""Losses, one value a sample: the mean is taken by the caller after weighting (MacAvaney et al. 2020, Eq. 4)."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

PAIRWISE = ("pairwise", "hinge", "cross_entropy")


def pointwise(scores: Tensor, relevant: Tensor) -> Tensor:
    """Binary cross-entropy of score logits [B] against labels [B]: Penha & Hauff's two-class softmax with one logit."""
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
