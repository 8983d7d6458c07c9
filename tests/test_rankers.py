"""The contract that every ranker keeps, whatever its architecture."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from tests.builders import tiny_data
from trainables.data.columns import RankingData
from trainables.rankers import RANKERS, load_ranker, ranker_settings
from trainables.rankers.base import Ranker, RankerModule, RankerSettings, TextSide, Tokens

MAX_LENGTH = 32
SMALL = {"bert": {"vocabulary_size": 300}, "conv_knrm": {"vector_size": 20, "filters": 16}}


@dataclass(frozen=True)
class Case:
    """A ranker on tiny data, and all training pairs of that data as rows."""

    ranker: Ranker
    settings: RankerSettings
    data: RankingData
    text: TextSide

    @property
    def pairs(self) -> tuple[np.ndarray, np.ndarray]:
        train = self.data.splits["train"]
        return train.query[train.owner], train.document

    def build(self, seed: int = 0) -> RankerModule:
        torch.manual_seed(seed)
        return self.ranker.build(self.text, self.settings, MAX_LENGTH)

    def score(self, module: RankerModule, query_rows: np.ndarray, document_rows: np.ndarray) -> torch.Tensor:
        return score(module, self.text.queries, self.text.documents, query_rows, document_rows)


def score(
    module: RankerModule, queries: Tokens, documents: Tokens, query_rows: np.ndarray, document_rows: np.ndarray
) -> torch.Tensor:
    with torch.no_grad():
        return module.eval()(**module.collate(queries, documents, query_rows, document_rows))


@pytest.fixture(params=sorted(RANKERS))
def case(request: pytest.FixtureRequest) -> Iterator[Case]:
    ranker = load_ranker(request.param)
    settings = ranker_settings({"name": request.param} | SMALL.get(request.param, {}))
    data = tiny_data(queries=5, candidates=4)
    torch.use_deterministic_algorithms(True)
    yield Case(ranker, settings, data, ranker.prepare(data, settings, seed=0))
    torch.use_deterministic_algorithms(False)


def test_one_float32_score_a_pair(case: Case) -> None:
    scores = case.score(case.build(), *case.pairs)
    assert scores.shape == (len(case.pairs[0]),)
    assert scores.dtype == torch.float32
    assert scores.std() > 0


def test_neither_padding_nor_the_batch_changes_a_score(case: Case) -> None:
    module, (queries, documents) = case.build(), case.pairs
    together = case.score(module, queries, documents)
    alone = torch.cat([case.score(module, queries[[i]], documents[[i]]) for i in range(len(queries))])
    assert len(np.unique(case.text.documents.lengths[documents])) > 1, "no pair is padded"
    torch.testing.assert_close(together, alone, rtol=1e-5, atol=1e-5)


def test_scores_are_float32_and_finite_in_bf16_too(case: Case) -> None:
    with torch.autocast("cpu", torch.bfloat16):
        scores = case.score(case.build(), *case.pairs)
    assert scores.dtype == torch.float32
    assert torch.isfinite(scores).all()


def test_order_in_the_batch_changes_no_score(case: Case) -> None:
    module, (queries, documents) = case.build(), case.pairs
    order = np.random.default_rng(0).permutation(len(queries))
    shuffled = case.score(module, queries[order], documents[order])
    torch.testing.assert_close(shuffled, case.score(module, queries, documents)[order], rtol=1e-5, atol=1e-5)


def test_the_seed_decides_everything(case: Case) -> None:
    one, same, other = case.build(1), case.build(1), case.build(2)
    inputs = one.collate(case.text.queries, case.text.documents, *case.pairs)
    scores = []
    for module in (one, same, other):
        torch.manual_seed(3)
        scores.append(module.train()(**inputs))
    assert torch.equal(scores[0], scores[1])
    assert not torch.allclose(scores[0], scores[2])


def test_preparing_again_gives_the_same(case: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    anew = case.ranker.prepare(case.data, case.settings, seed=0)
    from_cache = case.ranker.prepare(case.data, case.settings, seed=0)
    for text in (anew, from_cache):
        assert dict(text.files) == dict(case.text.files)
        assert_same_tokens(text.queries, case.text.queries)
        assert_same_tokens(text.documents, case.text.documents)
        for name, values in case.text.arrays.items():
            np.testing.assert_array_equal(text.arrays[name], values)


def assert_same_tokens(one: Tokens, other: Tokens) -> None:
    assert one.ids.dtype == other.ids.dtype == np.int32
    np.testing.assert_array_equal(one.ids, other.ids)
    np.testing.assert_array_equal(one.offsets, other.offsets)


def test_a_gradient_reaches_every_trainable_parameter(case: Case) -> None:
    module = case.build().train()
    module(**module.collate(case.text.queries, case.text.documents, *case.pairs)).sigmoid().sum().backward()
    for name, parameter in module.named_parameters():
        if parameter.requires_grad:
            assert parameter.grad is not None, name
            assert torch.isfinite(parameter.grad).all() and parameter.grad.any(), name


def test_optimiser_groups_hold_every_trainable_parameter_once(case: Case) -> None:
    module = case.build()
    grouped = [id(parameter) for group in module.parameter_groups(1e-3) for parameter in group["params"]]
    assert sorted(grouped) == sorted(id(parameter) for parameter in module.parameters() if parameter.requires_grad)


def test_a_saved_ranker_scores_alike_and_reads_new_texts(case: Case, tmp_path: Path) -> None:
    module, (queries, documents) = case.build(), case.pairs
    save_file(module.state_dict(), tmp_path / "model.safetensors")
    restored = case.ranker.restore(case.text.files, case.settings, MAX_LENGTH)
    restored.load_state_dict(load_file(tmp_path / "model.safetensors"))
    expected = case.score(module, queries, documents)
    assert torch.equal(case.score(restored, queries, documents), expected)
    texts = [
        case.ranker.encode(case.text.files, case.settings, t) for t in (case.data.query_texts(), case.data.documents)
    ]
    assert torch.equal(score(restored, *texts, queries, documents), expected)


def test_new_words_and_empty_texts_get_finite_scores_and_gradients(case: Case) -> None:
    module = case.build().train()
    texts = case.ranker.encode(case.text.files, case.settings, ["", "never seen", "w1 w2 w3", "☃ 日本"])
    assert len(texts) == 4
    rows = np.arange(4).repeat(4), np.tile(np.arange(4), 4)
    scores = module(**module.collate(texts, texts, *rows))
    scores.sum().backward()
    assert torch.isfinite(scores).all()
    assert all(torch.isfinite(p.grad).all() for p in module.parameters() if p.grad is not None)


def test_costs_are_positive_and_bounded(case: Case) -> None:
    module = case.build()
    long = " ".join(f"w{i}" for i in range(100))
    texts = case.ranker.encode(case.text.files, case.settings, ["", "w1 w2", long])
    rows = np.zeros(3, int), np.arange(3)
    costs = module.costs(texts, texts, *rows)
    assert costs.shape == (3,)
    assert np.all(np.diff(costs) > 0) and costs[0] > 0
    assert costs[2] == MAX_LENGTH
    assert module.collate(texts, texts, *rows)  # what costs promise, collate can hold


def test_twenty_pairs_can_be_learned_by_heart(case: Case) -> None:
    module = case.build().train()
    queries, documents = case.pairs
    labels = torch.from_numpy((case.data.splits["train"].grade == 1).astype(np.float32))
    assert len(labels) == 20
    optimizer = torch.optim.AdamW(module.parameter_groups(2e-3))
    inputs = module.collate(case.text.queries, case.text.documents, queries, documents)
    for _ in range(80):
        optimizer.zero_grad()
        torch.nn.functional.binary_cross_entropy_with_logits(module(**inputs), labels).backward()
        optimizer.step()
    assert torch.equal(case.score(module, queries, documents) > 0, labels > 0)
