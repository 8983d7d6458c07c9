"""Losses, one value per sample; `reduced` takes their mean after weighting (MacAvaney et al. 2020, Eq. 4).

PyTorch is imported only where a loss computes: naming one, and checking a configuration, must not take its time.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, get_args

from trainables.core.errors import WorkFailed
from trainables.core.registry import Part, Registry, require_arguments, require_known

if TYPE_CHECKING:
    from torch import Tensor

Kind = Literal["pointwise", "pairwise", "listwise", "classification"]
ARGUMENTS: dict[str, tuple[str, str, str]] = {
    "pointwise": ("scores", "grades", "settings"),
    "pairwise": ("positive", "negative", "settings"),
    "listwise": ("scores", "labels", "settings"),
    "classification": ("logits", "classes", "settings"),
}
KEYS = frozenset({"margin", "temperature", "label_smoothing"})


@dataclass(frozen=True)
class LossSettings:
    """What a loss may read besides scores: `training.margin`, `evaluation.relevance_level`, `training.temperature`,
    `training.label_smoothing`.

    ordered_share  share of a list, the teacher's first, whose order counts; below 1 under schedule groups of
                   `curriculum.negatives`
    """

    margin: float = 1.0
    relevance_level: int = 1
    temperature: float = 1.0
    label_smoothing: float = 0.0
    ordered_share: float = 1.0


LossFunction = Callable[[Any, Any, LossSettings], Any]


@dataclass(frozen=True)
class Loss:
    """A loss function, by kind a function of

    pointwise       scores [D] of documents and their judged grades, int [D], unjudged -1
    pairwise        scores [B] of positives, and [B] of negatives
    listwise        scores [B, 1 + N] of lists, the positive in column 0, and labels of the same shape: grades, int,
                    unjudged 0, or with `reads_teacher` the teacher's scores
    classification  class logits [B, K] and the right classes, int64 [B]

    and LossSettings, which gives one value for each document, pair of documents, list, or pair to classify.

    needs    the keys of `training` that it reads
    classes  the function of kind classification that has the same name, if the kind is another
    reads_teacher  whether a listwise loss learns from a teacher's scores instead of grades
    by_groups  whether it reads `LossSettings.ordered_share`
    """

    kind: Kind
    function: LossFunction
    needs: frozenset[str] = frozenset()
    classes: LossFunction | None = None
    reads_teacher: bool = False
    by_groups: bool = False

    @property
    def of_classes(self) -> LossFunction | None:
        """The function for pairs to classify, or None."""
        return self.function if self.kind == "classification" else self.classes


LOSSES: Registry[Loss] = Registry("training.loss", open_to_plugins=True)


def loss(
    name: str,
    summary: str = "",
    source: str = "",
    *,
    kind: Kind,
    keys: Iterable[str] = (),
    classes: LossFunction | None = None,
    reads_teacher: bool = False,
    by_groups: bool = False,
) -> Callable[[Part], Part]:
    """Registers a loss function; see Loss."""

    def value(function: Any) -> Loss:
        if kind not in ARGUMENTS:
            raise ValueError(f"{kind!r} is not a kind of loss; one of {', '.join(get_args(Kind))}")
        require_arguments(function, *ARGUMENTS[kind])
        if reads_teacher and kind != "listwise":
            raise ValueError(f"a loss of kind {kind} reads no teacher; kind listwise")
        return Loss(kind, function, require_known(keys, KEYS), classes, reads_teacher, by_groups)

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


@loss("mse", "(s - g)², the squared error on a document's grade", ITS_CODE, kind="pointwise")
def mse(scores: Tensor, grades: Tensor, settings: LossSettings) -> Tensor:
    """Squared error on the grade itself, where unjudged counts as 0."""
    return (scores - grades.clamp(min=0).to(scores)) ** 2


@loss("pairwise", "1 - softmax over the scores of a pair of documents", MACAVANEY, kind="pairwise")
def pairwise(positive: Tensor, negative: Tensor, settings: LossSettings) -> Tensor:
    """1 - softmax(s+, s-)[s+], the default of the paper's code; the paper prints it without the sign."""
    return (negative - positive).sigmoid()


def class_hinge(logits: Tensor, classes: Tensor, settings: LossSettings) -> Tensor:
    """max(0, margin + highest probability of a wrong class - that of the right one): Keras's categorical hinge, which
    the similarity-learning study (gensim, 2018) applies to softmax outputs, with margin 1."""
    outputs, right = logits.softmax(1), classes[:, None]
    wrong = outputs.scatter(1, right, -float("inf")).amax(1)
    return (settings.margin + wrong - outputs.gather(1, right).squeeze(1)).relu()


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
    """-log of the right class's probability, smoothed."""
    from torch.nn import functional

    return functional.cross_entropy(logits, classes, reduction="none", label_smoothing=settings.label_smoothing)


@loss(
    "cross_entropy",
    "-log of the softmax over the scores of a pair of documents, or over the classes",
    ITS_CODE,
    kind="pairwise",
    keys=("label_smoothing",),
    classes=class_cross_entropy,
)
def cross_entropy(positive: Tensor, negative: Tensor, settings: LossSettings) -> Tensor:
    """-log softmax(s+, s-)[s+], smoothed: half of ε times s+ - s- is what the target ε / 2 of the negative adds."""
    from torch.nn import functional

    return functional.softplus(negative - positive) + settings.label_smoothing / 2 * (positive - negative)


def smoothed(log_probabilities: Tensor, right: Tensor, count: Tensor | int, smoothing: float) -> Tensor:
    """Cross-entropy with the target 1 - ε for the right one, and ε spread over all `count`, the right one too (Szegedy
    et al. 2016, section 7). `log_probabilities` [B, N]: 0 for what does not count."""
    return -(1 - smoothing) * right - smoothing * log_probabilities.sum(1) / count


MU = 10.0  # weight of NDCG-Loss2 in NDCG-Loss2++ (Wang et al. 2018, section 6)


@loss(
    "softmax",
    "-log of the positive's probability by softmax(s / T) over the list",
    "Gao et al. 2021",
    kind="listwise",
    keys=("temperature", "label_smoothing"),
)
def softmax(scores: Tensor, labels: Tensor, settings: LossSettings) -> Tensor:
    """Minus the log-probability of the positive among its list: the localised contrastive loss of Gao, Dai & Callan
    2021 ("Rethink Training of BERT Rerankers in Multi-Stage Retrieval Pipeline", Eq. 3; code: luyug/Reranker).
    Scores are divided by the temperature first, as in contrastive losses (van den Oord et al. 2018: 1; for cosines
    Chen et al. 2020, SimCLR, Eq. 1)."""
    logs = (scores / settings.temperature).log_softmax(1)
    return smoothed(logs, logs[:, 0], logs.shape[1], settings.label_smoothing)


@loss(
    "ranknet",
    "mean of log(1 + exp(s_j - s_i)) over the list's pairs with g_i > g_j",
    "Burges et al. 2005",
    kind="listwise",
)
def ranknet(scores: Tensor, labels: Tensor, settings: LossSettings) -> Tensor:
    """Mean of log(1 + exp(s_j - s_i)) over the pairs with a higher grade of i (Burges et al. 2005, Eq. 3, where the
    target probability is 1)."""
    from torch.nn import functional

    ordered = (labels[:, :, None] > labels[:, None, :]).to(scores)
    of_pairs = functional.softplus(scores[:, None, :] - scores[:, :, None])
    return (of_pairs * ordered).sum((1, 2)) / ordered.sum((1, 2)).clamp(min=1)


@loss("listnet", "cross-entropy between softmax(g) and softmax(s) over the list", "Cao et al. 2007", kind="listwise")
def listnet(scores: Tensor, labels: Tensor, settings: LossSettings) -> Tensor:
    """Cross-entropy of the top-one probabilities of scores and grades (Cao et al. 2007, section 4.2)."""
    return -(labels.to(scores).softmax(1) * scores.log_softmax(1)).sum(1)


@loss(
    "lambdaloss",
    "NDCG-Loss2++ with μ = 10: a bound on what nDCG loses over the list",
    "Wang et al. 2018",
    kind="listwise",
)
def lambdaloss(scores: Tensor, labels: Tensor, settings: LossSettings) -> Tensor:
    """NDCG-Loss2++ of LambdaLoss (Wang et al. 2018, section 5.3; code: allegro/allRank, ndcgLoss2PP_scheme).

    Sum over pairs with a higher grade of i of log2(1 + exp(s_j - s_i)) · (ρ_ij + μ δ_ij) · |G_i - G_j|, where ranks are
    those of the present scores, G = (2^grade - 1) / maxDCG, D_r = log2(1 + r),
    ρ_ij = |1 / D_i - 1 / D_j| (LambdaRank) and δ_ij = 1 / D_|i-j| - 1 / D_(|i-j|+1) (NDCG-Loss2).
    """
    import torch
    from torch.nn import functional

    order = scores.detach().argsort(dim=1, descending=True, stable=True)
    scores = scores.gather(1, order)
    gain = torch.exp2(labels.gather(1, order).to(scores)) - 1
    rank = torch.arange(1, scores.shape[1] + 1, device=scores.device, dtype=scores.dtype)
    discount = 1 / torch.log2(1 + rank)
    best = (gain.sort(dim=1, descending=True).values * discount).sum(1, keepdim=True)
    gain = gain / best.clamp(min=torch.finfo(scores.dtype).tiny)
    apart = (rank[:, None] - rank).abs().clamp(min=1)  # a document and itself make no pair: their gains are equal
    delta = 1 / torch.log2(1 + apart) - 1 / torch.log2(2 + apart)
    rho = (discount[:, None] - discount).abs()
    weight = (rho + MU * delta) * (gain[:, :, None] - gain[:, None, :]).clamp(min=0)  # 0 unless i has the higher grade
    of_pairs = functional.softplus(scores[:, None, :] - scores[:, :, None]) / math.log(2)
    return (of_pairs * weight).sum((1, 2))


@loss(
    "margin_mse",
    "mean of ((s+ - s-) - (t+ - t-))² over the negatives: squared error on the teacher's margins",
    "Hofstätter et al. 2020",
    kind="listwise",
    reads_teacher=True,
)
def margin_mse(scores: Tensor, labels: Tensor, settings: LossSettings) -> Tensor:
    """Mean squared difference of the margins of student and teacher, positive over each negative (Hofstätter et al.
    2020, Eq. 6; code: sebastian-hofstaetter/neural-ranking-kd)."""
    teacher = labels.to(scores)
    return ((scores[:, :1] - scores[:, 1:] - (teacher[:, :1] - teacher[:, 1:])) ** 2).mean(1)


@loss(
    "distill_kl",
    "T² times the KL divergence of softmax(s / T) from the teacher's softmax(t / T) over the list",
    "Hinton et al. 2015; Lin et al. 2021",
    kind="listwise",
    keys=("temperature",),
    reads_teacher=True,
)
def distill_kl(scores: Tensor, labels: Tensor, settings: LossSettings) -> Tensor:
    """T² times the KL divergence of the student's from the teacher's distribution over the list, both by softmax of
    scores / T, where T is the temperature (Hinton et al. 2015, section 2; over lists of documents: Lin et al. 2021,
    TCT-ColBERT, Eq. 4)."""
    temperature = settings.temperature
    teacher = (labels.to(scores) / temperature).log_softmax(1)
    student = (scores / temperature).log_softmax(1)
    return temperature**2 * (teacher.exp() * (teacher - student)).sum(1)


HARD, REMAINING = -0.25, -0.5  # labels of the two groups behind the ordered one, as in the code of Zeng et al. 2022


@loss(
    "cl_drd",
    "mean of |1/π_i - 1/π_j| log(1 + exp(s_j - s_i)) over pairs in the order of the teacher's groups, π the ranks by s",
    "Zeng et al. 2022",
    kind="listwise",
    reads_teacher=True,
    by_groups=True,
)
def cl_drd(scores: Tensor, labels: Tensor, settings: LossSettings) -> Tensor:
    """Mean of |1/π_i - 1/π_j| log(1 + exp(s_j - s_i)) over the pairs with y_i > y_j, where π are the ranks by score
    (Zeng, Zamani & Vinay 2022, "Curriculum Learning for Dense Retrieval Distillation"; code: HansiZeng/CL-DRD,
    lambda_mrr_loss and label modes 6 to 10).

    y follows from the teacher's rank r in the list: 1/r for the first K documents, whose order is learned, -.25 for the
    first half of the others, -.5 for the last. K is `ordered_share` of the list, rounded up: a curriculum from the
    order of three groups to that of all documents, under schedule groups.
    """
    import torch
    from torch.nn import functional

    width = scores.shape[1]
    head = max(1, math.ceil(settings.ordered_share * width - 1e-9))
    rank = torch.arange(1, width + 1, device=scores.device, dtype=scores.dtype)
    of_rank = 1 / rank
    of_rank[head:] = HARD
    of_rank[head + (width - head) // 2 :] = REMAINING
    taught = _ranked(labels, of_rank)
    reciprocal = _ranked(scores.detach(), 1 / rank)
    weight = (reciprocal[:, :, None] - reciprocal[:, None, :]).abs()
    apart = labels[:, :, None] > labels[:, None, :]  # the order of what the teacher scores alike is nobody's
    ordered = ((taught[:, :, None] > taught[:, None, :]) & apart).to(scores)
    of_pairs = functional.softplus(scores[:, None, :] - scores[:, :, None]) * weight
    return (of_pairs * ordered).sum((1, 2)) / ordered.sum((1, 2)).clamp(min=1)


def _ranked(scores: Tensor, of_rank: Tensor) -> Tensor:
    """The value of each document's rank by score in its list, [B, N]; `of_rank` [N] are those of the ranks."""
    order = scores.argsort(dim=1, descending=True, stable=True)
    return of_rank.expand_as(order).gather(1, order.argsort(dim=1))


def reduced(per_sample: Tensor, weights: Tensor, batch_mean: bool, part: slice = slice(None)) -> Tensor:
    """The loss of a batch: mean of weight times loss (Eq. 4), or the product of both means, as in the paper's code.

    `weights` [B] are those of the whole batch, `per_sample` the losses of its `part`. The results of all parts sum to
    the batch's loss.
    """
    return (per_sample * (weights.mean() if batch_mean else weights[part])).sum() / len(weights)
