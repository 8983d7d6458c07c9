"""Losses by name. This file does not import PyTorch, so that a configuration is checked at once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Literal

from trainables.core.registry import Entry, Registry

Kind = Literal["pointwise", "pairwise", "listwise"]


@dataclass(frozen=True)
class Loss:
    """A loss function over samples.

    kind      pointwise: a sample is a document; pairwise: a positive and a negative; listwise: a positive and N
              negatives
    function  of `functions.Sample`, gives the loss of each sample, [B]: a function, or MODULE:FUNCTION
    classify  the same for pairs to classify: of logits [B, K], classes int64 [B] and the margin; None: for ranking only
    reads     what it reads besides scores and grades: margin, teacher
    """

    kind: Kind
    function: str | Callable[[Any], Any]
    classify: str | None = None
    reads: frozenset[str] = frozenset()


def function_of(named: str | Callable[[Any], Any]) -> Callable[..., Any]:
    """The function that an entry names."""
    if callable(named):
        return named
    module, _, attribute = named.partition(":")
    return getattr(import_module(module), attribute)


def _own(name: str) -> str:
    return f"trainables.losses.functions:{name}"


MARGIN, TEACHER = frozenset({"margin"}), frozenset({"teacher"})
LOSSES = Registry[Loss](
    "training.loss",
    Entry(
        "pointwise",
        Loss("pointwise", _own("pointwise")),
        "binary cross-entropy of a document's score",
        "Penha & Hauff 2020",
    ),
    Entry("mse", Loss("pointwise", _own("mse")), "squared error of a document's score on its grade", "OpenNIR"),
    Entry(
        "pairwise",
        Loss("pairwise", _own("pairwise")),
        "probability that softmax gives to the negative of a pair",
        "MacAvaney et al. 2020",
    ),
    Entry(
        "hinge",
        Loss("pairwise", _own("hinge"), _own("hinge_of_classes"), MARGIN),
        "max(0, margin - difference of a pair's scores)",
        "Joachims 2002",
    ),
    Entry(
        "cross_entropy",
        Loss("pairwise", _own("cross_entropy"), _own("cross_entropy_of_classes")),
        "-log of the probability that softmax gives to the positive of a pair",
        "Burges et al. 2005",
    ),
    Entry(
        "softmax",
        Loss("listwise", _own("softmax")),
        "-log of the positive's probability among N negatives (localised contrastive estimation)",
        "Gao et al. 2021",
    ),
    Entry(
        "ranknet",
        Loss("listwise", _own("ranknet")),
        "mean cross-entropy of a list's pairs",
        "Burges et al. 2005",
    ),
    Entry(
        "listnet",
        Loss("listwise", _own("listnet")),
        "cross-entropy of the list's scores with its grades, both by softmax",
        "Cao et al. 2007",
    ),
    Entry(
        "lambdaloss",
        Loss("listwise", _own("lambdaloss")),
        "NDCG-Loss2++: a bound on nDCG's loss over the list",
        "Wang et al. 2018",
    ),
    Entry(
        "margin_mse",
        Loss("listwise", _own("margin_mse"), reads=TEACHER),
        "squared error on the teacher's margins of the positive over each negative",
        "Hofstätter et al. 2020",
    ),
    Entry(
        "distill_kl",
        Loss("listwise", _own("distill_kl"), reads=TEACHER),
        "KL divergence from the teacher's distribution over the list",
        "Hinton et al. 2015; Lin et al. 2021",
    ),
)


def names_of(kind: Kind) -> list[str]:
    """The losses of one kind."""
    return [name for name, loss in LOSSES.items() if loss.kind == kind]


def names_that_read(what: str) -> list[str]:
    """The losses that read the margin, or the teacher."""
    return [name for name, loss in LOSSES.items() if what in loss.reads]
