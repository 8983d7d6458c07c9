"""ConvKNRM: kernels, parameters, scores as defined."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from trainables.rankers import ranker_settings
from trainables.rankers.fast.kernels import AT_ONCE, FAR, GaussianKernels
from trainables.rankers.knrm import ConvKnrmModule, ConvolvedGrams
from trainables.rankers.ranker import Tokens


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


def test_scores_equal_those_of_the_definition() -> None:
    """Against loops over one unpadded pair: n-grams, cosines, kernels, logarithms, one linear layer."""
    torch.manual_seed(0)
    module = module_of(8, filters=6).eval()
    convolved = module.grams
    assert isinstance(convolved, ConvolvedGrams)
    query, document = torch.randint(1, 50, (4,)), torch.randint(1, 50, (9,))

    def gram_vectors(ids: torch.Tensor) -> list[torch.Tensor]:
        padded = torch.cat([module.vectors(ids), torch.zeros(2, 8)])
        rows = []
        for n, conv in enumerate(convolved.convolutions, 1):
            weight, bias = conv.get_parameter("weight"), conv.get_parameter("bias")
            grams = [torch.einsum("wd,fdw->f", padded[i : i + n], weight) + bias for i in range(len(ids))]
            rows.append(torch.stack(grams))
        return [row / row.norm(dim=1, keepdim=True) for row in rows]

    features = []
    for q in gram_vectors(query):
        for d in gram_vectors(document):
            distance = (q @ d.T)[..., None] - module.kernels.mu
            counts = torch.exp(-distance.square() / (2 * module.kernels.sigma.square())).sum(1)
            features.append(torch.log(counts + 1e-6).sum(0))
    expected = module.score(torch.cat(features)[None])
    longer = [torch.randint(1, 50, (len(ids) + 5,)) for ids in (query, document)]  # the batch's padding
    texts = Tokens.of([ids.tolist() for ids in (query, document, *longer)])
    got = module(**module.collate(texts, texts, np.array([0, 2]), np.array([1, 3])))[:1]
    torch.testing.assert_close(got, expected, rtol=1e-4, atol=1e-4)


def plain_scores(module: ConvKnrmModule, inputs: dict[str, torch.Tensor]) -> torch.Tensor:
    """The module's scores with all padding computed and masked: convolutions, and one [.., L, K] tensor of kernels."""
    convolved = module.grams
    assert isinstance(convolved, ConvolvedGrams)

    def grams(ids: torch.Tensor) -> torch.Tensor:
        words = module.vectors(ids).transpose(1, 2)
        convolutions = enumerate(convolved.convolutions)
        sizes = [conv(torch.nn.functional.pad(words, (0, longer))).transpose(1, 2) for longer, conv in convolutions]
        return torch.nn.functional.normalize(torch.stack(sizes, 1), dim=-1)

    queries, documents = grams(inputs["query"])[inputs["query_of"]], grams(inputs["document"])
    similarities = torch.einsum("bsie,btje->bsitj", queries, documents)
    distance = similarities[..., None] - module.kernels.mu
    kernels = torch.exp(-distance.square() / (2 * module.kernels.sigma.square()))
    counts = torch.log((kernels * inputs["document_mask"][:, None, None, None, :, None]).sum(-2) + 1e-6)
    there = inputs["query_mask"][inputs["query_of"]][:, None, :, None, None]
    return module.score((counts * there).sum(2).flatten(1))


def test_scores_and_gradients_are_those_of_the_plain_way() -> None:
    """In float64, for texts of unequal lengths (one empty), with a query that two documents share."""
    torch.manual_seed(0)
    module = module_of(8, filters=6, train_vectors=True).double()
    generator = np.random.default_rng(0)
    texts = Tokens.of([generator.integers(1, 50, length) for length in (3, 0, 7, 1, 12, 5)])
    inputs = module.collate(texts, texts, np.array([0, 2, 2, 3]), np.array([4, 1, 5, 2]))
    weights = torch.randn(4, dtype=torch.float64)
    parameters = dict(module.named_parameters())
    got, right = module(**inputs), plain_scores(module, inputs)
    torch.testing.assert_close(got, right, rtol=1e-9, atol=1e-7)
    gradients = [torch.autograd.grad((scores * weights).sum(), [*parameters.values()]) for scores in (got, right)]
    for name, ours, plain in zip(parameters, *gradients, strict=True):
        torch.testing.assert_close(ours, plain, rtol=1e-6, atol=1e-6, msg=lambda text, name=name: f"{name}: {text}")
