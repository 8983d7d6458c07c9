"""ConvKNRM: kernels and parameters."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from trainables.rankers import ranker_settings
from trainables.rankers.fast.kernels import AT_ONCE, FAR, GaussianKernels
from trainables.rankers.knrm import ConvKnrmModule


def module_of(dimensions: int, **keys: object) -> ConvKnrmModule:
    vectors = torch.randn(50, dimensions)
    vectors[0] = 0
    settings = ranker_settings({"name": "conv_knrm"} | keys)
    return ConvKnrmModule(vectors, settings, max_length=60, from_front=False)  # type: ignore[arg-type]


def test_parameter_count_of_the_paper() -> None:
    trained = [p for p in module_of(300).parameters() if p.requires_grad]
    assert sum(p.numel() for p in trained) == 230_906


@pytest.mark.parametrize(
    ("keys", "names"),
    [({"kernels_learned": False}, {"kernels.mu", "kernels.sigma"}), ({"train_vectors": True}, {"vectors.weight"})],
)
def test_what_is_trained_can_be_chosen(keys: dict[str, bool], names: set[str]) -> None:
    trained = [
        {n for n, p in module.named_parameters() if p.requires_grad} for module in (module_of(8), module_of(8, **keys))
    ]
    assert trained[0] ^ trained[1] == names


def test_kernels_are_the_papers() -> None:
    kernels = GaussianKernels()
    expected = [-0.9, -0.7, -0.5, -0.3, -0.1, 0.1, 0.3, 0.5, 0.7, 0.9, 1.0]
    np.testing.assert_allclose(kernels.mu.detach(), expected, atol=1e-7)
    np.testing.assert_allclose(kernels.sigma.detach(), [0.1] * 10 + [0.001])


def test_kernel_counts_known_answers() -> None:
    """One exact match and one similarity of 0; exp(-.5) = .606531 at a distance of one width."""
    counts = GaussianKernels()(torch.tensor([1.0, 0.0, FAR, FAR])).exp().tolist()
    assert counts[10] == pytest.approx(1, abs=1e-5)
    assert counts[9] == pytest.approx(0.606531, abs=1e-5)
    assert counts[5] == pytest.approx(0.606531, abs=1e-5)
    assert counts[2] == pytest.approx(math.exp(-12.5), rel=0.5)


@pytest.mark.parametrize("way", ["one kernel at a time", "all at once"])
def test_kernel_gradients_are_those_of_the_formula(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(AT_ONCE, "cpu", 3 * 4 * 7 * 11 if way == "all at once" else 3 * 4 * 7 * 11 - 1)
    torch.manual_seed(0)
    kernels = GaussianKernels().double()
    x = (torch.rand(3, 4, 7, dtype=torch.float64) * 2 - 1).requires_grad_()
    x.data[:, 0, :2] = 1 - 1e-4
    weights = torch.randn(3, 4, 11, dtype=torch.float64)

    def plain() -> torch.Tensor:
        distance = x[..., None] - kernels.mu
        return torch.log(torch.exp(-distance.square() / (2 * kernels.sigma.square())).sum(-2) + 1e-6)

    inputs = [x, kernels.mu, kernels.sigma]
    expected = torch.autograd.grad((plain() * weights).sum(), inputs)
    for got, right in zip(torch.autograd.grad((kernels(x) * weights).sum(), inputs), expected, strict=True):
        torch.testing.assert_close(got, right, rtol=1e-6, atol=1e-9)
    fixed = GaussianKernels(learned=False).double()
    (found,) = torch.autograd.grad((fixed(x) * weights).sum(), [x])
    torch.testing.assert_close(found, expected[0], rtol=1e-6, atol=1e-9)
