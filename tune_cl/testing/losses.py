"""What every loss promises."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import product

import torch
from torch import Tensor

from trainables.training.losses import LOSSES, LossFunction, LossSettings, per_sample

CASES, WIDTH = 12, 3  # samples; documents of a list, or classes
STEPS, RATE = 150, 0.2
SETTINGS = (LossSettings(margin=0.5), LossSettings(margin=1.0, relevance_level=2, label_smoothing=0.1))


@dataclass(frozen=True)
class Case:
    """A loss function with CASES samples."""

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
    def targets(self) -> Tensor:
        """What the loss reads besides scores; of pairs, the scores of the negatives."""
        level = self.settings.relevance_level
        if self.kind == "classification":
            return torch.arange(CASES) % WIDTH
        if self.kind == "pairwise":
            return torch.linspace(-1, 1, CASES)
        if self.kind == "pointwise":
            return torch.tensor([level, 0, -1]).repeat(CASES // 3)
        labels = torch.tensor([level, *[0] * (WIDTH - 1)]).repeat(CASES, 1)
        return labels.float() if self.reads_teacher else labels

    def values(self, scores: Tensor, targets: Tensor) -> Tensor:
        return per_sample(self.name, self.function, scores, targets, self.settings)

    def learned(self) -> tuple[Tensor, Tensor]:
        """Scores, and those of the pairs' negatives, that descending the loss leads to."""
        torch.manual_seed(1)
        scores, negatives = ((0.1 * torch.randn(self.shape)).requires_grad_() for _ in range(2))
        optimizer = torch.optim.SGD([scores, negatives], RATE)
        for _ in range(STEPS):
            optimizer.zero_grad()
            self.values(scores, negatives if self.kind == "pairwise" else self.targets).sum().backward()
            optimizer.step()
        return scores.detach(), negatives.detach()


@contextmanager
def loss_cases(name: str) -> Iterator[list[Case]]:
    """The function of a loss, and that for classes if it has one, under two settings."""
    loss = LOSSES[name]
    functions: list[tuple[LossFunction, str]] = [(loss.function, loss.kind)]
    if loss.classes:
        functions.append((loss.classes, "classification"))
    yield [Case(name, *function, loss.reads_teacher, settings) for function, settings in product(functions, SETTINGS)]


def is_of_each_sample(cases: list[Case]) -> None:
    for case in cases:
        torch.manual_seed(0)
        scores, order = torch.randn(case.shape), torch.randperm(CASES)
        expected = case.values(scores, case.targets)[order]
        assert torch.allclose(case.values(scores[order], case.targets[order]), expected, 1e-6, 1e-6)


def is_finite_for_large_scores(cases: list[Case]) -> None:
    for case, scale in product(cases, (0.0, 1.0, 80.0)):
        scores = torch.linspace(-scale, scale, math.prod(case.shape)).view(case.shape).requires_grad_()
        loss = case.values(scores, case.targets)
        assert torch.isfinite(loss).all(), f"losses of scores up to {scale:g} are finite"
        loss.sum().backward()
        assert scores.grad is not None and torch.isfinite(scores.grad).all(), "its gradient reaches the scores"


def teaches_the_right_order(cases: list[Case]) -> None:
    for case in cases:
        scores, negatives = case.learned()
        if case.kind == "classification":
            assert (scores.argmax(1) == case.targets).all(), "descending it predicts the right classes"
        elif case.kind == "pairwise":
            assert (scores > negatives).all(), "descending it ranks positives above negatives"
        elif case.kind == "listwise":
            assert (scores[:, :1] > scores[:, 1:]).all(), "descending it ranks a list's positive first"
        else:
            relevant = case.targets >= case.settings.relevance_level
            assert scores[relevant].min() > scores[~relevant].max(), "descending it ranks relevant documents first"


LOSS = (is_of_each_sample, is_finite_for_large_scores, teaches_the_right_order)
