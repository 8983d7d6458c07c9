"""Losses of lists against formulas written out in float64, and their gradients against finite differences."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from trainables.training.losses import LOSSES, LossSettings

SCORES = [[1.0, 2.0, 0.5], [0.0, -1.0, 3.0]]
GRADES = [[2, 1, 0], [1, 0, 0]]
TEACHER = [[3.0, 1.0, 2.5], [0.2, 0.1, -4.0]]


def softmax(values):
    exponents = [math.exp(value - max(values)) for value in values]
    return [value / sum(exponents) for value in exponents]


def lce_by_hand(scores, grades, teacher):
    return -math.log(softmax(scores)[0])


def ranknet_by_hand(scores, grades, teacher):
    pairs = [(i, j) for i in range(len(scores)) for j in range(len(scores)) if grades[i] > grades[j]]
    return sum(math.log(1 + math.exp(scores[j] - scores[i])) for i, j in pairs) / len(pairs)


def listnet_by_hand(scores, grades, teacher):
    return -sum(p * math.log(q) for p, q in zip(softmax(grades), softmax(scores), strict=True))


def lambdaloss_by_hand(scores, grades, teacher):
    rank = {i: r for r, i in enumerate(sorted(range(len(scores)), key=lambda i: -scores[i]), 1)}

    def discount(r):
        return math.log2(1 + r)

    ideal = sum((2**grade - 1) / discount(r) for r, grade in enumerate(sorted(grades, reverse=True), 1))
    gain = [(2**grade - 1) / ideal for grade in grades]
    total = 0.0
    for i in range(len(scores)):
        for j in range(len(scores)):
            if grades[i] > grades[j]:
                apart = abs(rank[i] - rank[j])
                delta = abs(1 / discount(apart) - 1 / discount(apart + 1))
                rho = abs(1 / discount(rank[i]) - 1 / discount(rank[j]))
                weight = (rho + 10 * delta) * abs(gain[i] - gain[j])
                total += weight * math.log2(1 + math.exp(scores[j] - scores[i]))
    return total


def margin_mse_by_hand(scores, grades, teacher):
    return sum(((scores[0] - s) - (teacher[0] - t)) ** 2 for s, t in zip(scores[1:], teacher[1:], strict=True)) / len(
        scores[1:]
    )


def distill_kl_by_hand(scores, grades, teacher):
    p, q = softmax(teacher), softmax(scores)
    return sum(a * math.log(a / b) for a, b in zip(p, q, strict=True))


def cl_drd_by_hand(scores, grades, teacher):
    """With the whole list in order, so that a document's label is one over its rank by the teacher."""
    rank = {i: r for r, i in enumerate(sorted(range(len(scores)), key=lambda i: -scores[i]), 1)}
    pairs = [(i, j) for i in range(len(scores)) for j in range(len(scores)) if teacher[i] > teacher[j]]
    losses = [abs(1 / rank[i] - 1 / rank[j]) * math.log(1 + math.exp(scores[j] - scores[i])) for i, j in pairs]
    return sum(losses) / max(len(losses), 1)


BY_HAND = {
    "softmax": lce_by_hand,
    "ranknet": ranknet_by_hand,
    "listnet": listnet_by_hand,
    "lambdaloss": lambdaloss_by_hand,
    "margin_mse": margin_mse_by_hand,
    "distill_kl": distill_kl_by_hand,
    "cl_drd": cl_drd_by_hand,
}


def loss_of(name, scores, grades, teacher):
    labels = teacher if LOSSES[name].reads_teacher else grades
    return LOSSES[name].function(scores, labels, LossSettings())


def tensors(dtype=torch.float64):
    return torch.tensor(SCORES, dtype=dtype), torch.tensor(GRADES), torch.tensor(TEACHER, dtype=dtype)


@pytest.mark.parametrize("name", BY_HAND)
def test_a_loss_is_the_formula_of_its_paper(name):
    expected = [BY_HAND[name](*row) for row in zip(SCORES, GRADES, TEACHER, strict=True)]
    np.testing.assert_allclose(loss_of(name, *tensors()), expected, rtol=1e-12)
    np.testing.assert_allclose(loss_of(name, *tensors(torch.float32)), expected, rtol=1e-5)


@pytest.mark.parametrize("name", BY_HAND)
def test_gradients_are_the_finite_differences_of_the_formula(name):
    by_hand = BY_HAND[name]
    scores, grades, teacher = tensors()
    scores.requires_grad_()
    loss_of(name, scores, grades, teacher).sum().backward()
    step = 1e-6
    for row in range(len(SCORES)):
        for column in range(len(SCORES[0])):
            up, down = list(SCORES[row]), list(SCORES[row])
            up[column] += step
            down[column] -= step
            slope = (by_hand(up, GRADES[row], TEACHER[row]) - by_hand(down, GRADES[row], TEACHER[row])) / (2 * step)
            assert float(scores.grad[row, column]) == pytest.approx(slope, abs=1e-6)


@settings(max_examples=30, deadline=None)
@given(arrays(np.float64, (4, 6), elements=st.floats(-20, 20)), arrays(np.float64, (4, 6), elements=st.floats(-20, 20)))
def test_losses_of_random_lists_follow_the_formulas(scores, teacher):
    scores = scores + np.arange(6) * 1e-6  # no ties: their ranks are a matter of taste
    grades = [[3, 1, 0, 0, 2, 0]] * 4
    for name, by_hand in BY_HAND.items():
        ours = loss_of(name, torch.from_numpy(scores), torch.tensor(grades), torch.from_numpy(teacher)).numpy()
        expected = [by_hand(*row) for row in zip(scores.tolist(), grades, teacher.tolist(), strict=True)]
        np.testing.assert_allclose(ours, expected, rtol=1e-6, atol=1e-9)


def test_with_one_negative_softmax_and_ranknet_are_the_pairwise_cross_entropy():
    scores, grades = torch.tensor([[1.0, 0.3], [-2.0, 2.0]]), torch.tensor([[1, 0], [1, 0]])
    expected = LOSSES["cross_entropy"].function(scores[:, 0], scores[:, 1], LossSettings())
    torch.testing.assert_close(loss_of("softmax", scores, grades, None), expected)
    torch.testing.assert_close(loss_of("ranknet", scores, grades, None), expected)


def test_a_temperature_divides_the_scores_and_keeps_the_size_of_distillation_s_gradients():
    """Hinton et al. 2015, section 2: gradients scale with 1 / T², which T² takes back."""
    scores, grades, teacher = tensors()
    cold = LossSettings(temperature=0.25)
    for name in ("softmax", "distill_kl"):
        labels = teacher if LOSSES[name].reads_teacher else grades
        by_hand = [
            BY_HAND[name]([4 * s for s in row], None, [4 * t for t in of])
            for row, of in zip(SCORES, TEACHER, strict=True)
        ]
        scale = 0.25**2 if name == "distill_kl" else 1
        np.testing.assert_allclose(LOSSES[name].function(scores, labels, cold), np.array(by_hand) * scale, rtol=1e-12)
    hot = LossSettings(temperature=1e4)
    gradient = torch.func.grad(lambda s: LOSSES["distill_kl"].function(s, teacher, hot).sum())(scores)
    centred = (scores - scores.mean(1, keepdim=True)) - (teacher - teacher.mean(1, keepdim=True))
    torch.testing.assert_close(gradient, centred / 3, rtol=1e-3, atol=1e-3)  # Eq. 4 there: (z - v) / N


@pytest.mark.parametrize("name", ["margin_mse", "distill_kl"])
def test_distillation_is_zero_only_where_the_student_agrees(name):
    teacher, grades = torch.tensor([[2.0, 1.0, 0.0]]), torch.tensor([[1, 0, 0]])
    assert loss_of(name, teacher + 5, grades, teacher).item() == pytest.approx(0, abs=1e-6)
    assert loss_of(name, teacher * 2, grades, teacher).item() > 0.01
