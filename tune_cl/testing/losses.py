"""What every loss keeps to."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import product

import torch
from torch import Tensor

from trainables.training.losses import LOSSES, LossFunction, LossSettings, per_sample
from tune_cl.testing.promises import alike, promise

NEAR = 1e-6
CASES, WIDTH = 12, 3  # WIDTH: of a list, or classes
STEPS, RATE = 150, 0.2
SETTINGS = (LossSettings(margin=0.5), LossSettings(margin=1.0, relevance_level=2, label_smoothing=0.1))


@dataclass(frozen=True)
class Case:
    """A loss function, and CASES samples for it. `other`: what it reads besides scores; of pairs, scores too."""

    name: str
    function: LossFunction
    kind: str
    reads_teacher: bool
    settings: LossSettings

    @property
    def shape(self) -> tuple[int, ...]:
        """That of the scores."""
        return (CASES, WIDTH) if self.kind in ("listwise", "classification") else (CASES,)

    @property
    def other(self) -> Tensor:
        level = self.settings.relevance_level
        if self.kind == "classification":
            return torch.arange(CASES) % WIDTH
        if self.kind == "pairwise":
            return torch.linspace(-1, 1, CASES)
        if self.kind == "pointwise":
            return torch.tensor([level, 0, -1]).repeat(CASES // 3)
        labels = torch.tensor([level, *[0] * (WIDTH - 1)]).repeat(CASES, 1)
        return labels.float() if self.reads_teacher else labels

    def values(self, scores: Tensor, other: Tensor | None = None) -> Tensor:
        return per_sample(self.name, self.function, scores, self.other if other is None else other, self.settings)

    def learned(self) -> tuple[Tensor, Tensor]:
        """Scores, and those of the pairs' negatives, that descending the loss leads to."""
        torch.manual_seed(1)
        scores, negatives = (0.1 * torch.randn(self.shape) for _ in range(2))
        trained = [scores.requires_grad_(), negatives.requires_grad_()]
        optimizer = torch.optim.SGD(trained, RATE)
        for _ in range(STEPS):
            optimizer.zero_grad()
            self.values(scores, negatives if self.kind == "pairwise" else None).sum().backward()
            optimizer.step()
        return scores.detach(), negatives.detach()


def is_of_each_sample(case: Case) -> None:
    torch.manual_seed(0)
    scores, order, other = torch.randn(case.shape), torch.randperm(CASES), case.other
    moved = case.values(scores[order], other[order])
    promise(alike(moved, case.values(scores)[order], NEAR), "a sample's loss does not depend on the rest of the batch")


def bears_large_scores(case: Case) -> None:
    for scale in (0.0, 1.0, 80.0):
        scores = torch.linspace(-scale, scale, math.prod(case.shape)).view(case.shape).requires_grad_()
        loss = case.values(scores)
        promise(torch.isfinite(loss).all(), f"losses of scores up to {scale:g} are finite")
        loss.sum().backward()
        promise(scores.grad is not None and torch.isfinite(scores.grad).all(), "its gradient reaches the scores")


def teaches_the_right_order(case: Case) -> None:
    scores, negatives = case.learned()
    if case.kind == "classification":
        promise((scores.argmax(1) == case.other).all(), "descending it predicts the right classes")
    elif case.kind == "pairwise":
        promise((scores > negatives).all(), "descending it ranks positives above negatives")
    elif case.kind == "listwise":
        promise((scores[:, :1] > scores[:, 1:]).all(), "descending it ranks a list's positive first")
    else:
        relevant = case.other >= case.settings.relevance_level
        promise(scores[relevant].min() > scores[~relevant].max(), "descending it ranks relevant documents first")


LOSS_CONTRACT = (is_of_each_sample, bears_large_scores, teaches_the_right_order)


def check_loss(name: str) -> None:
    """Checks that a registered loss keeps to what all losses promise. Raises AssertionError saying what not."""
    loss = LOSSES[name]
    functions: list[tuple[LossFunction, str]] = [(loss.function, loss.kind)]
    functions += [(loss.classes, "classification")] if loss.classes else []
    for contract, (function, kind), settings in product(LOSS_CONTRACT, functions, SETTINGS):
        contract(Case(name, function, kind, loss.reads_teacher, settings))
