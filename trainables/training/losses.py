"""Losses, one value per sample; `reduced` takes their mean after weighting (MacAvaney et al. 2020, Eq. 4).

PyTorch is imported only where a loss computes: naming one, and checking a configuration, must not take its time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, get_args

from trainables.core.errors import WorkFailed
from trainables.core.registry import Part, Registry, require_arguments, require_known

if TYPE_CHECKING:
    from torch import Tensor

Kind = Literal["pointwise", "pairwise", "classification"]
ARGUMENTS: dict[str, tuple[str, str, str]] = {
    "pointwise": ("scores", "grades", "settings"),
    "pairwise": ("positive", "negative", "settings"),
    "classification": ("logits", "classes", "settings"),
}
KEYS = frozenset({"margin"})


@dataclass(frozen=True)
class LossSettings:
    """What a loss may read besides scores: `training.margin` and `evaluation.relevance_level`."""

    margin: float = 1.0
    relevance_level: int = 1


LossFunction = Callable[[Any, Any, LossSettings], Any]


@dataclass(frozen=True)
class Loss:
    """A loss function, by kind a function of

    pointwise       scores [D] of documents and their judged grades, int [D], unjudged -1
    pairwise        scores [B] of positives, and [B] of negatives
    classification  class logits [B, K] and the right classes, int64 [B]

    and LossSettings, which gives one value for each document, pair of documents, or pair to classify.

    keys     the keys of `training` that it reads
    classes  the function of kind classification that has the same name, if the kind is another
    """

    kind: Kind
    function: LossFunction
    keys: frozenset[str] = frozenset()
    classes: LossFunction | None = None

    @property
    def of_classes(self) -> LossFunction | None:
        """The function for pairs to classify, or None."""
        return self.function if self.kind == "classification" else self.classes


LOSSES: Registry[Loss] = Registry("training.loss")


def loss(
    name: str,
    summary: str = "",
    source: str = "",
    *,
    kind: Kind,
    keys: Iterable[str] = (),
    classes: LossFunction | None = None,
) -> Callable[[Part], Part]:
    """Registers a loss function; see Loss."""

    def value(function: Any) -> Loss:
        if kind not in ARGUMENTS:
            raise ValueError(f"{kind!r} is no kind of loss; one of {', '.join(get_args(Kind))}")
        require_arguments(function, *ARGUMENTS[kind])
        return Loss(kind, function, require_known(keys, KEYS), classes)

    return LOSSES.decorator(name, summary, source, value)


def class_losses() -> list[str]:
    """The losses for pairs to classify, the default first."""
    names = [name for name, entry in LOSSES.items() if entry.of_classes]
    return sorted(names, key=lambda name: name != "cross_entropy")


def per_sample(name: str, function: LossFunction, scores: Tensor, other: Tensor, settings: LossSettings) -> Tensor:
    """The values of the loss `name`, [B]. Raises WorkFailed if the function gives another shape."""
    values = function(scores, other, settings)
    if values.shape != scores.shape[:1]:
        shape, right = (str(list(tensor)) for tensor in (values.shape, scores.shape[:1]))
        raise WorkFailed(f"training.loss: '{name}' gives values of shape {shape} for {right} samples")
    return values


MACAVANEY, ITS_CODE = "MacAvaney et al. 2020", "code of MacAvaney et al. 2020"


@loss("pointwise", "binary cross-entropy of a document's relevance", "Penha & Hauff 2020", kind="pointwise")
def pointwise(scores: Tensor, grades: Tensor, settings: LossSettings) -> Tensor:
    """Cross-entropy with scores as logits, i.e. Penha & Hauff's two-class softmax with one logit."""
    from torch.nn import functional

    relevant = (grades >= settings.relevance_level).to(scores)
    return functional.binary_cross_entropy_with_logits(scores, relevant, reduction="none")


@loss("mse", "squared error on a document's grade", ITS_CODE, kind="pointwise")
def mse(scores: Tensor, grades: Tensor, settings: LossSettings) -> Tensor:
    """Squared error on the grade itself, where unjudged counts as 0."""
    return (scores - grades.clamp(min=0).to(scores)) ** 2


@loss("pairwise", "1 - softmax over the scores of a pair of documents", MACAVANEY, kind="pairwise")
def pairwise(positive: Tensor, negative: Tensor, settings: LossSettings) -> Tensor:
    """1 - softmax(s+, s-)[s+], the default of the paper's code; the paper prints it without the sign."""
    return (negative - positive).sigmoid()


def class_hinge(logits: Tensor, classes: Tensor, settings: LossSettings) -> Tensor:
    """Categorical hinge of the classes' probabilities."""
    return categorical_hinge(logits.softmax(1), classes, settings.margin)


@loss(
    "hinge",
    "max(0, training.margin - difference of the scores), or of the classes' probabilities",
    ITS_CODE,
    kind="pairwise",
    keys=("margin",),
    classes=class_hinge,
)
def hinge(positive: Tensor, negative: Tensor, settings: LossSettings) -> Tensor:
    """max(0, margin - s+ + s-)."""
    return (settings.margin + (negative - positive)).relu()


def class_cross_entropy(logits: Tensor, classes: Tensor, settings: LossSettings) -> Tensor:
    """-log of the right class's probability."""
    from torch.nn import functional

    return functional.cross_entropy(logits, classes, reduction="none")


@loss(
    "cross_entropy",
    "-log of the softmax over the scores of a pair of documents, or over the classes",
    ITS_CODE,
    kind="pairwise",
    classes=class_cross_entropy,
)
def cross_entropy(positive: Tensor, negative: Tensor, settings: LossSettings) -> Tensor:
    """-log softmax(s+, s-)[s+]."""
    from torch.nn import functional

    return functional.softplus(negative - positive)


def categorical_hinge(outputs: Tensor, classes: Tensor, margin: float = 1.0) -> Tensor:
    """max(0, margin + largest output of a wrong class - output of the right one), [B], of outputs [B, K].

    Keras's loss, which the similarity-learning study (gensim, 2018) applies to softmax outputs, with margin 1.
    """
    right = classes[:, None]
    wrong = outputs.scatter(1, right, -float("inf")).amax(1)
    return (margin + wrong - outputs.gather(1, right).squeeze(1)).relu()


def reduced(per_sample: Tensor, weights: Tensor, batch_mean: bool, part: slice = slice(None)) -> Tensor:
    """The loss of a batch: mean of weight times loss (Eq. 4), or the product of both means, as in the paper's code.

    `weights` [B] are those of the whole batch, `per_sample` the losses of its `part`. The results of all parts sum to
    the batch's loss.
    """
    return (per_sample * (weights.mean() if batch_mean else weights[part])).sum() / len(weights)
