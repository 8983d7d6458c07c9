"""What every loss promises."""

from __future__ import annotations

import math
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
    """A loss function with CASES samples. shape: of the scores; targets: what the loss reads besides them."""

    name: str
    function: LossFunction
    kind: str
    settings: LossSettings
    shape: tuple[int, ...]
    targets: Tensor

    def values(self, scores: Tensor, targets: Tensor) -> Tensor:
        return per_sample(self.name, self.function, scores, targets, self.settings)


def loss_cases(name: str) -> list[Case]:
    """The function of a loss, and that for classes if it has one, under two settings."""
    loss, cases = LOSSES[name], []
    functions: list[tuple[LossFunction, str]] = [(loss.function, loss.kind)]
    if loss.classes:
        functions.append((loss.classes, "classification"))
    for (function, kind), settings in product(functions, SETTINGS):
        level = settings.relevance_level
        lists = torch.tensor([level, *[0] * (WIDTH - 1)]).repeat(CASES, 1)
        targets = {
            "classification": torch.arange(CASES) % WIDTH,
            "pairwise": torch.linspace(-1, 1, CASES),  # the scores of the negatives
            "pointwise": torch.tensor([level, 0, -1]).repeat(CASES // 3),
            "listwise": lists.float() if loss.reads_teacher else lists,
        }
        shape = (CASES, WIDTH) if kind in ("listwise", "classification") else (CASES,)
        cases.append(Case(name, function, kind, settings, shape, targets[kind]))
    return cases


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
        torch.manual_seed(1)
        scores, negatives = ((0.1 * torch.randn(case.shape)).requires_grad_() for _ in range(2))
        optimizer = torch.optim.SGD([scores, negatives], RATE)
        for _ in range(STEPS):
            optimizer.zero_grad()
            case.values(scores, negatives if case.kind == "pairwise" else case.targets).sum().backward()
            optimizer.step()
        relevant = case.targets >= case.settings.relevance_level
        if case.kind == "classification":
            assert (scores.argmax(1) == case.targets).all(), "descending it predicts the right classes"
        elif case.kind == "pairwise":
            assert (scores > negatives).all(), "descending it ranks positives above negatives"
        elif case.kind == "listwise":
            assert (scores[:, :1] > scores[:, 1:]).all(), "descending it ranks a list's positive first"
        else:
            assert scores[relevant].min() > scores[~relevant].max(), "descending it ranks relevant documents first"


LOSS = (is_of_each_sample, is_finite_for_large_scores, teaches_the_right_order)
