"""Losses, one value per sample; `reduced` takes their mean after weighting (MacAvaney et al. 2020, Eq. 4)."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

PAIRWISE = ("pairwise", "hinge", "cross_entropy")  # if documents are ranked


def pointwise(name: str, scores: Tensor, grades: Tensor, relevance_level: int) -> Tensor:
    """Loss [D] of documents' scores against their judged grades, where unjudged (-1) counts as 0.

    pointwise: binary cross-entropy with scores as logits, i.e. Penha & Hauff's two-class softmax with one logit;
    mse: squared error on the grade itself, the default of MacAvaney et al.'s code.
    """
    if name == "mse":
        return (scores - grades.clamp(min=0).to(scores)) ** 2
    relevant = (grades >= relevance_level).to(scores)
    return functional.binary_cross_entropy_with_logits(scores, relevant, reduction="none")


def pairwise(name: str, positive: Tensor, negative: Tensor, margin: float) -> Tensor:
    """Loss [B] of ranking positives above negatives, from the scores [B] of both.

    pairwise: 1 - softmax(s+, s-)[s+] (the default of MacAvaney et al.'s code; the paper prints it without the
    sign); cross_entropy: -log of that softmax; hinge: max(0, margin - s+ + s-).
    """
    difference = negative - positive
    if name == "pairwise":
        return torch.sigmoid(difference)
    if name == "cross_entropy":
        return functional.softplus(difference)
    return functional.relu(margin + difference)


def classification(name: str, logits: Tensor, classes: Tensor, margin: float) -> Tensor:
    """Loss [B] of class logits [B, K] against the right classes, int64 [B].

    cross_entropy: -log of the right class's probability; hinge: categorical hinge of the probabilities.
    """
    if name == "cross_entropy":
        return functional.cross_entropy(logits, classes, reduction="none")
    return categorical_hinge(logits.softmax(1), classes, margin)


def categorical_hinge(outputs: Tensor, classes: Tensor, margin: float = 1.0) -> Tensor:
    """max(0, margin + largest output of a wrong class - output of the right one), [B], of outputs [B, K].

    Keras's loss, which the similarity-learning study (gensim, 2018) applies to softmax outputs, with margin 1.
    """
    right = classes[:, None]
    wrong = outputs.scatter(1, right, -torch.inf).amax(1)
    return functional.relu(margin + wrong - outputs.gather(1, right).squeeze(1))


def reduced(per_sample: Tensor, weights: Tensor, batch_mean: bool, part: slice = slice(None)) -> Tensor:
    """The loss of a batch: mean of weight times loss (Eq. 4), or the product of both means, as in the paper's code.

    `weights` [B] are those of the whole batch, `per_sample` the losses of its `part`. The results of all parts sum to
    the batch's loss.
    """
    return (per_sample * (weights.mean() if batch_mean else weights[part])).sum() / len(weights)
