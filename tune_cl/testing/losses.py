"""What every loss keeps to."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import torch
from torch import Tensor

from trainables.training.losses import LOSSES, LossFunction, LossSettings, per_sample
from tune_cl.testing.promises import alike, promise

CASES, CLASSES = 12, 3
STEPS, RATE = 400, 0.2
SETTINGS = tuple(LossSettings(margin, level) for margin, level in product((0.5, 1.0), (1, 2)))


def judged(kind: str, level: int) -> tuple[int, Tensor]:
    """How many scores a case has (0: one without a dimension of its own), and what is judged of the cases."""
    if kind == "classification":
        return CLASSES, torch.arange(CASES) % CLASSES
    return 0, torch.tensor([level, 0, -1]).repeat(CASES // 3)


def values(name: str, function: LossFunction, kind: str, scores: Tensor, settings: LossSettings) -> Tensor:
    """The loss of each case; of a pair, the first half of the scores are the positives'."""
    if kind == "pairwise":
        positive, negative = scores.chunk(2)
        return per_sample(name, function, positive, negative, settings)
    return per_sample(name, function, scores, judged(kind, settings.relevance_level)[1], settings)


def is_of_each_sample(name: str, function: LossFunction, kind: str, settings: LossSettings) -> None:
    torch.manual_seed(0)
    width, other = judged(kind, settings.relevance_level)
    scores, order = torch.randn(CASES, *([width] if width else [])), torch.randperm(CASES)
    if kind == "pairwise":
        other = torch.randn(CASES)
    loss = per_sample(name, function, scores, other, settings)
    moved = per_sample(name, function, scores[order], other[order], settings)
    promise(alike(moved, loss[order], 1e-6), "the loss of a sample does not depend on the others of the batch")


def bears_large_scores(name: str, function: LossFunction, kind: str, settings: LossSettings) -> None:
    width, _ = judged(kind, settings.relevance_level)
    for scale in (0.0, 1.0, 80.0):
        scores = (torch.linspace(-scale, scale, CASES * max(1, width))).requires_grad_()
        loss = values(name, function, kind, scores.view(CASES, width) if width else scores, settings)
        promise(torch.isfinite(loss).all(), f"losses of scores up to {scale:g} are finite")
        loss.sum().backward()
        promise(scores.grad is not None and torch.isfinite(scores.grad).all(), "its gradient reaches the scores")


def teaches_the_right_order(name: str, function: LossFunction, kind: str, settings: LossSettings) -> None:
    torch.manual_seed(1)
    width, other = judged(kind, settings.relevance_level)
    scores = (0.1 * torch.randn(CASES, *([width] if width else []))).requires_grad_()
    optimizer = torch.optim.SGD([scores], RATE)
    for _ in range(STEPS):
        optimizer.zero_grad()
        values(name, function, kind, scores, settings).sum().backward()
        optimizer.step()
    learned = scores.detach()
    if kind == "classification":
        promise((learned.argmax(1) == other).all(), "descending it predicts the right classes")
    elif kind == "pairwise":
        positive, negative = learned.chunk(2)
        promise((positive > negative).all(), "descending it ranks positives above negatives")
    else:
        relevant = other >= settings.relevance_level
        promise(learned[relevant].min() > learned[~relevant].max(), "descending it ranks relevant documents first")


Contract = Callable[[str, LossFunction, str, LossSettings], None]
LOSS_CONTRACT: tuple[Contract, ...] = (is_of_each_sample, bears_large_scores, teaches_the_right_order)


def check_loss(name: str) -> None:
    """Checks that a registered loss keeps to what all losses promise. Raises AssertionError saying what not."""
    loss = LOSSES[name]
    functions: list[tuple[LossFunction, str]] = [(loss.function, loss.kind)]
    functions += [(loss.classes, "classification")] if loss.classes else []
    for contract, (function, kind), settings in product(LOSS_CONTRACT, functions, SETTINGS):
        contract(name, function, kind, settings)
