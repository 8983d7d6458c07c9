"""Layers for CPUs compute what PyTorch's compute."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.nn import functional
from transformers import BertConfig, BertModel

from tests.support.gradients import with_gradients
from trainables.rankers.fast import cpu
from trainables.rankers.fast.cpu import dropout_mask, linear, speed_up
from trainables.rankers.fast.kernels import unit


@pytest.fixture
def products(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, ...]]:
    """The shapes of oneDNN's products, which are then used on any processor that has them."""
    if not (torch.backends.mkldnn.is_available() and hasattr(torch.ops.mkldnn, "_linear_pointwise")):
        pytest.skip("this PyTorch is built without oneDNN")
    seen: list[tuple[int, ...]] = []
    plain = cpu._product

    def product(x: Tensor, *others: Tensor) -> Tensor:
        seen.append(tuple(x.shape))
        return plain(x, *others)

    monkeypatch.setattr(cpu, "uses_onednn", lambda: True)
    monkeypatch.setattr(cpu, "_product", product)
    return seen


@pytest.mark.parametrize("shape", [(40, 96), (5, 9, 96)])
@pytest.mark.parametrize("strided", [False, True])
def test_products_and_gradients_are_those_of_float64(
    products: list[tuple[int, ...]], shape: tuple[int, ...], strided: bool
) -> None:
    torch.manual_seed(0)
    x = torch.randn(*shape[:-1], 2 * shape[-1])[..., : shape[-1]] if strided else torch.randn(shape)
    inputs = [tensor.detach().requires_grad_() for tensor in (x, torch.randn(64, 96), torch.randn(64))]
    exact = [tensor.detach().double().requires_grad_() for tensor in inputs]
    got = with_gradients(linear(*inputs), inputs)
    right = with_gradients(functional.linear(*exact), exact)
    assert len(products) == 3  # the result, the gradients of x and of the weight
    for ours, plain in zip((got[0], *got[1]), (right[0], *right[1]), strict=True):
        torch.testing.assert_close(ours, plain.float(), rtol=1e-5, atol=1e-4)


def test_other_types_and_autocast_keep_pytorchs_products(products: list[tuple[int, ...]]) -> None:
    x, weight = torch.randn(64, 96), torch.randn(64, 96)
    assert torch.equal(linear(x.double(), weight.double()), functional.linear(x.double(), weight.double()))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert linear(x, weight).dtype == torch.bfloat16
    assert products == []


@pytest.mark.parametrize("p", [0.1, 0.5])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_dropout_drops_its_share_and_keeps_the_mean(p: float, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    mask = dropout_mask(torch.empty(1001, 333, dtype=dtype), p)
    deviation = (p * (1 - p) / mask.numel()) ** 0.5
    assert (mask == 0).double().mean().item() == pytest.approx(p, abs=4 * deviation)
    assert mask.max().item() == pytest.approx(1 / (1 - p), rel=0.01 if dtype == torch.bfloat16 else 1e-4)
    columns = (mask == 0).double().mean(0)
    assert columns.std().item() == pytest.approx((p * (1 - p) / 1001) ** 0.5, rel=0.2)  # as independent draws have


def test_dropout_follows_the_seed_and_rests_in_evaluation() -> None:
    layer, x = cpu.Dropout(0.3), torch.ones(50)
    torch.manual_seed(1)
    first, other = layer(x), layer(x)
    torch.manual_seed(1)
    assert torch.equal(layer(x), first)
    assert not torch.equal(first, other)
    assert torch.equal(layer.eval()(x), x)


def test_a_faster_encoder_has_the_same_weights_scores_and_gradients(products: list[tuple[int, ...]]) -> None:
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=50, hidden_size=64, num_hidden_layers=2, num_attention_heads=2, intermediate_size=128,
        hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
    )  # fmt: skip
    plain, faster = BertModel(config), BertModel(config)
    faster.load_state_dict(plain.state_dict())
    speed_up(faster)
    ids = torch.randint(0, 50, (4, 20))
    mask = torch.arange(20) < torch.tensor([20, 3, 11, 1])[:, None]
    exact = plain.double()
    results = [
        with_gradients(model(input_ids=ids, attention_mask=mask).last_hidden_state[:, 0], [*model.encoder.parameters()])
        for model in (exact, faster)
    ]
    assert list(plain.state_dict()) == list(faster.state_dict())
    assert len(products) > 20
    for right, got in zip((results[0][0], *results[0][1]), (results[1][0], *results[1][1]), strict=True):
        torch.testing.assert_close(got, right.float(), rtol=1e-4, atol=1e-5)


def test_unit_vectors_have_the_gradient_of_normalize() -> None:
    torch.manual_seed(0)
    x = torch.randn(5, 3, 8, dtype=torch.float64).requires_grad_()
    right, got = with_gradients(functional.normalize(x, dim=-1), [x]), with_gradients(unit(x), [x])
    torch.testing.assert_close(got, right)
    assert torch.equal(unit(torch.zeros(2, 3)), torch.zeros(2, 3))
