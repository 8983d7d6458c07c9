"""ConvKNRM: kernels, parameters, word vectors."""

from __future__ import annotations

import gzip
import math
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from gensim.models import KeyedVectors

from tests.builders import tiny_data
from trainables.errors import ConfigError, DataError
from trainables.rankers import load_ranker, ranker_settings
from trainables.rankers.base import TextSide
from trainables.rankers.conv_knrm import ConvKnrmModule
from trainables.rankers.kernels import FAR, GaussianKernels
from trainables.rankers.vectors import FIRST_WORD, HASHED, read_vectors, train_vectors, word_tokens

CONV_KNRM = load_ranker("conv_knrm")


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


def test_kernel_gradients_are_those_of_the_formula() -> None:
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


def test_scores_equal_those_of_the_definition() -> None:
    """Against loops over one unpadded pair: n-grams, cosines, kernels, logarithms, one linear layer."""
    torch.manual_seed(0)
    module = module_of(8, filters=6).eval()
    query, document = torch.randint(1, 50, (4,)), torch.randint(1, 50, (9,))

    def grams(ids: torch.Tensor) -> list[torch.Tensor]:
        padded = torch.cat([module.vectors(ids), torch.zeros(2, 8)])
        rows = [
            torch.stack(
                [torch.einsum("wd,fdw->f", padded[i : i + n], conv.weight) + conv.bias for i in range(len(ids))]
            )
            for n, conv in enumerate(module.ngrams, 1)
        ]
        return [row / row.norm(dim=1, keepdim=True) for row in rows]

    features = []
    for q in grams(query):
        for d in grams(document):
            distance = (q @ d.T)[..., None] - module.kernels.mu
            counts = torch.exp(-distance.square() / (2 * module.kernels.sigma.square())).sum(1)
            features.append(torch.log(counts + 1e-6).sum(0))
    expected = module.score(torch.cat(features))
    wide = [torch.cat([ids, torch.zeros(5, dtype=torch.long)])[None] for ids in (query, document)]
    got = module(wide[0], wide[0] > 0, torch.zeros(1, dtype=torch.long), wide[1], wide[1] > 0)
    torch.testing.assert_close(got, expected, rtol=1e-4, atol=1e-4)


def test_unknown_words_share_hashed_rows_and_padding_has_its_own() -> None:
    files = {"vocabulary.txt": "cat\ndog"}
    tokens = word_tokens(files, ["Cat, DOG! zebra", "", "zebra quagga"])
    rows = [tokens.ids[start:end].tolist() for start, end in pairwise(tokens.offsets)]
    assert rows[0][:2] == [FIRST_WORD, FIRST_WORD + 1]
    assert rows[1] == []
    assert rows[0][2] == rows[2][0] != rows[2][1]
    assert all(1 <= row <= HASHED for row in rows[2])


def test_trained_vectors_know_no_word_of_dev_and_test_queries() -> None:
    data = tiny_data(queries={"train": 2, "dev": 5, "test": 5}, candidates=1)
    known = set(train_vectors(data, 10, seed=0).words)
    texts = [*data.documents, *(data.query_text(int(q)) for q in data.splits["train"].query)]
    assert known == {word for text in texts for word in text.split()}
    assert {word for query in data.query_texts() for word in query.split()} - known


def test_trained_vectors_follow_from_the_seed() -> None:
    data = tiny_data()
    one, same, other = (train_vectors(data, 10, seed).vectors for seed in (0, 0, 1))
    np.testing.assert_array_equal(one, same)
    assert not np.allclose(one, other)
    np.testing.assert_allclose(np.linalg.norm(one, axis=1), 1, rtol=1e-5)


VECTORS = {"w1": [1.0, 0.5, -2.0], "w2": [0.0, 0.25, 3.0], "The": [9.0, 9.0, 9.0]}
LINES = "".join(f"{word} {' '.join(map(str, values))}\n" for word, values in VECTORS.items())


@pytest.fixture(params=["word2vec text", "glove", "gzip", "word2vec binary"])
def vector_file(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    if request.param == "word2vec binary":
        vectors = KeyedVectors(3)
        vectors.add_vectors(list(VECTORS), np.array(list(VECTORS.values()), np.float32))
        vectors.save_word2vec_format(str(tmp_path / "v.bin"), binary=True)
        return tmp_path / "v.bin"
    text = LINES if request.param == "glove" else f"3 3\n{LINES}"
    path = tmp_path / ("v.txt.gz" if request.param == "gzip" else "v.txt")
    path.write_bytes(gzip.compress(text.encode()) if request.param == "gzip" else text.encode())
    return path


def test_every_format_gives_the_same_vectors(vector_file: Path) -> None:
    read = read_vectors(vector_file, ["w2", "w1", "missing", "3"])
    assert {word: row.tolist() for word, row in zip(read.words, read.vectors, strict=True)} == {
        word: VECTORS[word] for word in ("w1", "w2")
    }


def prepare(path: Path) -> TextSide:
    return CONV_KNRM.prepare(tiny_data(), ranker_settings({"name": "conv_knrm", "vectors": str(path)}), seed=0)


def test_vectors_of_a_file_fill_the_table(vector_file: Path) -> None:
    text = prepare(vector_file)
    assert text.arrays["vectors"].shape == (1 + HASHED + 2, 3)
    assert not text.arrays["vectors"][0].any()
    row = int(word_tokens(text.files, ["w2"]).ids[0])
    assert text.arrays["vectors"][row].tolist() == VECTORS["w2"]


def test_all_broken_lines_of_a_vector_file_are_named(tmp_path: Path) -> None:
    path = tmp_path / "v.txt"
    path.write_text("a 1 2 3\nw1 1 2\nw2 1 x 3\nw3 1 nan 3\nw4 1 2 3\n")
    with pytest.raises(DataError) as caught:
        prepare(path)
    assert [problem.place for problem in caught.value.problems] == [f"{path}:{line}" for line in (2, 3, 4)]


@pytest.mark.parametrize(
    ("name", "content"), [("v.txt", b"A 1 2\n"), ("v.txt", b""), ("v.bin", b"junk"), ("v.gz", b"junk")]
)
def test_a_file_without_vectors_is_refused(name: str, content: bytes, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=str(tmp_path / name)):
        prepare(tmp_path / name)


def test_a_missing_vector_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"^error: ranker\.vectors: no file"):
        prepare(tmp_path / "none.txt")
