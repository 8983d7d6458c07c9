"""KNRM, DRMM_TKS and MatchPyramid: the papers' parameter counts, and the cells of MatchPyramid."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional

from trainables.rankers import load_ranker, ranker_settings
from trainables.rankers.match_pyramid import average_over_cells, cell_bounds, max_over_cells
from trainables.rankers.ranker import TextSide, Tokens
from trainables.rankers.word_vectors import FIRST_WORD, META, VOCABULARY

WORDS = 50


def module_of(name: str, dimensions: int = 8, outputs: int = 1, **keys: Any) -> Any:
    """A ranker's module over random vectors of WORDS words; row 0 is padding."""
    torch.manual_seed(0)
    vectors = torch.randn(WORDS, dimensions)
    vectors[0] = 0
    module = load_ranker(name).Module  # type: ignore[attr-defined]
    return module(vectors, ranker_settings({"name": name} | keys), max_length=60, from_front=False, outputs=outputs)


def trainable(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters() if parameter.requires_grad)


@pytest.mark.filterwarnings("error:The given NumPy array is not writable")  # and no warning of what other tests left
@pytest.mark.parametrize("name", ["knrm", "bidaf_t"])
def test_trainings_share_frozen_vectors_and_copy_those_they_train(name: str) -> None:
    """The table of half a million words took 0.6 GB and 0.4 s of every trial."""
    vectors = np.random.default_rng(0).standard_normal((FIRST_WORD + 2, 8), np.float32)
    vectors.flags.writeable = False  # as in a file of the cache or in Ray's object store
    files = {VOCABULARY: "one\ntwo", META: '{"size": 8, "from_front": false}'}
    text = TextSide(Tokens.of(()), Tokens.of(()), files, {"vectors": vectors})
    for trained in (False, True):
        module = load_ranker(name).build(text, ranker_settings({"name": name, "train_vectors": trained}), 20)
        [table] = (values for key, values in module.named_parameters() if key == "vectors.weight")
        assert table.requires_grad == trained and (table.data_ptr() == vectors.ctypes.data) != trained
        np.testing.assert_array_equal(table.detach().numpy(), vectors)
        module.load_state_dict({key: values + 1 for key, values in module.state_dict().items()})
        np.testing.assert_array_equal(module.state_dict()["vectors.weight"].numpy(), vectors + 1)


@pytest.mark.parametrize(
    ("name", "keys", "count"),
    [
        ("knrm", {"train_vectors": False}, 12),
        ("knrm", {"train_vectors": False, "kernels_learned": True}, 34),
        ("knrm", {"train_vectors": False, "add_first_stage": True}, 13),
        ("knrm", {"train_vectors": True}, 12 + WORDS * 300),
        ("conv_knrm", {}, 230_906),
        ("conv_knrm", {"add_first_stage": True}, 230_907),
        ("drmm_tks", {"topk": 20, "hidden": [100], "reference": "study"}, 2_201),
        ("drmm_tks", {"topk": 20, "hidden": [100]}, 2_201 + 300 + 2),
        ("match_pyramid", {}, 397_769),
    ],
)
def test_parameter_counts_of_the_papers(name: str, keys: dict[str, Any], count: int) -> None:
    assert trainable(module_of(name, 300, **keys)) == count


@pytest.mark.parametrize("name", ["knrm", "conv_knrm", "drmm_tks", "embedding", "match_pyramid"])
def test_words_that_match_nothing_go_on_doing_so_when_vectors_are_trained(name: str) -> None:
    """At a vector of zeros the gradient of a cosine is beyond all others, which clipping would then erase."""
    torch.manual_seed(0)
    vectors = torch.randn(WORDS, 8)
    vectors[:4] = 0
    keys = {"name": name, "train_vectors": True, "unknown": "zero"}
    module = load_ranker(name).Module(  # type: ignore[attr-defined]
        vectors.clone(), ranker_settings(keys), max_length=60, from_front=False, outputs=1
    )
    nn.init.normal_(module.score.weight) if module.score is not None else None
    queries, documents = (Tokens.of([[1, 2], [1, 9, 8], [7, 6, 5]]), Tokens.of([[2, 3], [2, 9, 30, 31], [3, 8, 7, 6]]))
    module(**module.collate(queries, documents, np.arange(3), np.arange(3))).sum().backward()
    grad = module.vectors.weight.grad
    assert not grad[:4].any() and grad[4:].any()
    assert max(float(p.grad.abs().max()) for p in module.parameters() if p.grad is not None) < 1e6


def test_a_study_classifier_reads_the_same_scalar() -> None:
    """Dense(n) on the one value, as in the papers' classification: 2 more parameters for each class."""
    ranking = trainable(module_of("drmm_tks", reference="study"))
    assert trainable(module_of("drmm_tks", reference="study", outputs=3)) == ranking + 6


@given(length=st.integers(1, 40), cells=st.integers(1, 12))
def test_cells_cover_every_word_in_order_and_none_is_empty(length: int, cells: int) -> None:
    start, end = (bounds[0].numpy() for bounds in cell_bounds(torch.tensor([length]), cells))
    assert (end > start).all() and (start >= 0).all() and (end <= length).all()
    assert start[0] == 0 and end[-1] == length
    assert (start[1:] <= end[:-1]).all()
    assert (np.diff(start) >= 0).all() and (np.diff(end) >= 0).all()


@settings(deadline=None)
@given(lengths=st.lists(st.integers(1, 30), min_size=1, max_size=4), cells=st.integers(1, 12))
def test_pooling_equals_adaptive_pooling_of_the_unpadded_texts(lengths: list[int], cells: int) -> None:
    torch.manual_seed(len(lengths))
    x = torch.randn(len(lengths), 2, 3, max(lengths))
    for row, length in enumerate(lengths):
        real = x[row, ..., :length]
        highest = max_over_cells(x, torch.tensor(lengths), cells)[row]
        mean = average_over_cells(x, torch.tensor(lengths), cells)[row]
        torch.testing.assert_close(highest, functional.adaptive_max_pool1d(real.flatten(0, 1), cells).view(2, 3, -1))
        torch.testing.assert_close(mean, functional.adaptive_avg_pool1d(real.flatten(0, 1), cells).view(2, 3, -1))
