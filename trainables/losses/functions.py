"""Losses, one value per sample; `reduced` takes their mean after weighting (MacAvaney et al. 2020, Eq. 4)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

MU = 10.0  # weight of NDCG-Loss2 in NDCG-Loss2++ (Wang et al. 2018, section 6)


@dataclass(frozen=True)
class Sample:
    """What a ranking loss reads of B samples.

    scores   [B] of documents (pointwise), [B, 2] of pairs or [B, 1 + N] of lists; column 0 is the positive
    grades   int, of the same shape: judged grades, unjudged documents as 0; column 0 is the highest of its row
    teacher  of the same shape: the teacher's scores; None for losses that do not read them
    relevance_level  lowest relevant grade
    margin   of the hinge
    """

    scores: Tensor
    grades: Tensor
    teacher: Tensor | None = None
    relevance_level: int = 1
    margin: float = 1.0

    @property
    def teacher_scores(self) -> Tensor:
        """The teacher's scores in the scores' precision."""
        assert self.teacher is not None, "the materials of a training hold what its loss reads"
        return self.teacher.to(self.scores)


# -- of documents ------------------------------------------------------------------------------------------------


def pointwise(sample: Sample) -> Tensor:
    """Binary cross-entropy with scores as logits, i.e. Penha & Hauff's two-class softmax with one logit."""
    relevant = (sample.grades >= sample.relevance_level).to(sample.scores)
    return functional.binary_cross_entropy_with_logits(sample.scores, relevant, reduction="none")


def mse(sample: Sample) -> Tensor:
    """Squared error on the grade itself, the default of MacAvaney et al.'s code."""
    return (sample.scores - sample.grades.to(sample.scores)) ** 2


# -- of pairs ----------------------------------------------------------------------------------------------------


def _difference(sample: Sample) -> Tensor:
    """s- - s+ of each pair."""
    return sample.scores[:, 1] - sample.scores[:, 0]


def pairwise(sample: Sample) -> Tensor:
    """1 - softmax(s+, s-)[s+]: the default of MacAvaney et al.'s code; the paper prints it without the sign."""
    return torch.sigmoid(_difference(sample))


def cross_entropy(sample: Sample) -> Tensor:
    """-log softmax(s+, s-)[s+]."""
    return functional.softplus(_difference(sample))


def hinge(sample: Sample) -> Tensor:
    """max(0, margin - s+ + s-)."""
    return functional.relu(sample.margin + _difference(sample))


# -- of lists: a positive and N negatives of one query -----------------------------------------------------------


def softmax(sample: Sample) -> Tensor:
    """Minus the log-probability of the positive among its list: the localised contrastive loss of Gao, Dai & Callan
    2021 ("Rethink Training of BERT Rerankers in Multi-Stage Retrieval Pipeline", Eq. 3; code: luyug/Reranker)."""
    return -functional.log_softmax(sample.scores, dim=1)[:, 0]


def ranknet(sample: Sample) -> Tensor:
    """Mean of log(1 + exp(s_j - s_i)) over the pairs with a higher grade of i (Burges et al. 2005, Eq. 3, where the
    target probability is 1)."""
    scores, grades = sample.scores, sample.grades
    ordered = (grades[:, :, None] > grades[:, None, :]).to(scores)
    of_pairs = functional.softplus(scores[:, None, :] - scores[:, :, None])
    return (of_pairs * ordered).sum((1, 2)) / ordered.sum((1, 2)).clamp(min=1)


def listnet(sample: Sample) -> Tensor:
    """Cross-entropy of the top-one probabilities of scores and grades (Cao et al. 2007, section 4.2)."""
    target = sample.grades.to(sample.scores).softmax(1)
    return -(target * functional.log_softmax(sample.scores, dim=1)).sum(1)


def lambdaloss(sample: Sample) -> Tensor:
    """NDCG-Loss2++ of LambdaLoss (Wang et al. 2018, section 5.3; code: allegro/allRank, ndcgLoss2PP_scheme).

    Sum over pairs with a higher grade of i of log2(1 + exp(s_j - s_i)) · (ρ_ij + μ δ_ij) · |G_i - G_j|, where ranks are
    those of the present scores, G = (2^grade - 1) / maxDCG, D_r = log2(1 + r),
    ρ_ij = |1 / D_i - 1 / D_j| (LambdaRank) and δ_ij = 1 / D_|i-j| - 1 / D_(|i-j|+1) (NDCG-Loss2).
    """
    order = sample.scores.detach().argsort(dim=1, descending=True, stable=True)
    scores = sample.scores.gather(1, order)
    gain = torch.exp2(sample.grades.gather(1, order).to(scores)) - 1
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


def margin_mse(sample: Sample) -> Tensor:
    """Mean squared difference of the margins of student and teacher, positive over each negative (Hofstätter et al.
    2020, Eq. 6; code: sebastian-hofstaetter/neural-ranking-kd)."""
    scores, teacher = sample.scores, sample.teacher_scores
    return ((scores[:, :1] - scores[:, 1:] - (teacher[:, :1] - teacher[:, 1:])) ** 2).mean(1)


def distill_kl(sample: Sample) -> Tensor:
    """KL divergence of the student's from the teacher's distribution over the list, both by softmax (Hinton et al.
    2015; over lists of documents: Lin et al. 2021, TCT-ColBERT, Eq. 4)."""
    target = sample.teacher_scores.log_softmax(1)
    student = functional.log_softmax(sample.scores, dim=1)
    return functional.kl_div(student, target, reduction="none", log_target=True).sum(1)


# -- of pairs to classify ----------------------------------------------------------------------------------------


def cross_entropy_of_classes(logits: Tensor, classes: Tensor, margin: float) -> Tensor:
    """-log of the right class's probability, [B], of logits [B, K]."""
    return functional.cross_entropy(logits, classes, reduction="none")


def hinge_of_classes(logits: Tensor, classes: Tensor, margin: float) -> Tensor:
    """Categorical hinge of the probabilities, [B], of logits [B, K]."""
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
