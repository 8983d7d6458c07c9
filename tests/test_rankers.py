"""The contract that every ranker keeps, whatever its architecture."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from torch.nn import functional

from tests.support.builders import tiny_data
from tests.support.gradients import with_gradients
from tests.support.plain_rankers import PLAIN
from tests.support.ranker_cases import NETWORKS, SMALL, VARIANTS
from trainables.core.errors import ConfigError
from trainables.data.columns import RankingData
from trainables.rankers import RANKERS, load_ranker, ranker_settings
from trainables.rankers.ranker import Ranker, RankerModule, TextSide, Tokens
from trainables.rankers.settings import RankerSettings

MAX_LENGTH = 32
CLASSES = 3
LEARNING_RATES = {"drmm_tks": 2e-2}  # 80 steps are few for a network that reads 20 numbers; others learn with 2e-3
SAME_START = {"embedding"}  # its first score is the cosine, whatever the seed


class Recorder:
    """Settings that remember which of their keys were read."""

    def __init__(self, settings: RankerSettings):
        self.settings, self.read = settings, set()

    def __getattr__(self, key: str) -> object:
        self.read.add(key)
        return getattr(self.settings, key)


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

    def build(self, seed: int = 0, outputs: int = 1) -> RankerModule:
        torch.manual_seed(seed)
        return self.ranker.build(self.text, self.settings, MAX_LENGTH, outputs)

    def score(self, module: RankerModule, query_rows: np.ndarray, document_rows: np.ndarray) -> torch.Tensor:
        return score(module, self.text.queries, self.text.documents, query_rows, document_rows)

    def inputs(self, module: RankerModule) -> dict[str, torch.Tensor]:
        return inputs(module, self.text.queries, self.text.documents, *self.pairs)


def inputs(
    module: RankerModule, queries: Tokens, documents: Tokens, query_rows: np.ndarray, document_rows: np.ndarray
) -> dict[str, torch.Tensor]:
    """Tensors of pairs for `forward`; a made-up first-stage score is a function of the pair."""
    tensors = module.collate(queries, documents, query_rows, document_rows)
    if module.reads_first_stage:
        tensors["first_stage"] = torch.from_numpy(np.sin(query_rows + 7.0 * document_rows).astype(np.float32))
    return tensors


def score(
    module: RankerModule, queries: Tokens, documents: Tokens, query_rows: np.ndarray, document_rows: np.ndarray
) -> torch.Tensor:
    with torch.no_grad():
        return module.eval()(**inputs(module, queries, documents, query_rows, document_rows))


@pytest.mark.parametrize("name", RANKERS)
def test_settings_are_those_of_their_ranker(name: str) -> None:
    kind = RANKERS[name]
    assert kind.settings.model_validate({}).name == name
    assert kind.settings.text_keys <= kind.settings.model_fields.keys()
    assert bool(kind.settings.text_side) != kind.grows_trees, "rankers of one text side share what is prepared"


def test_a_ranker_of_trees_is_no_network() -> None:
    with pytest.raises(TypeError, match="lambdamart is no network over texts"):
        load_ranker("lambdamart")


@pytest.fixture(params=[*NETWORKS, *VARIANTS])
def case(request: pytest.FixtureRequest) -> Iterator[Case]:
    keys = VARIANTS.get(request.param, {"name": request.param})
    ranker = load_ranker(keys["name"])
    settings = ranker_settings(SMALL.get(keys["name"], {}) | keys)
    data = tiny_data(queries=5, candidates=4)
    torch.use_deterministic_algorithms(True)
    yield Case(ranker, settings, data, ranker.prepare(data, settings, seed=0))
    torch.use_deterministic_algorithms(False)


def test_one_float32_score_a_pair(case: Case) -> None:
    scores = case.score(case.build(), *case.pairs)
    assert scores.shape == (len(case.pairs[0]),)
    assert scores.dtype == torch.float32
    assert scores.std() > 0


def test_scores_and_gradients_are_those_of_the_plain_ranker(case: Case) -> None:
    """In float64, for texts of unequal lengths in one batch, some in several pairs."""
    assert PLAIN.keys() == set(NETWORKS)
    module, (queries, documents) = case.build().double().eval(), (np.array([0, 2, 1, 2, 0]), np.array([4, 3, 5, 6, 3]))
    for parameter in module.parameters():
        torch.nn.init.normal_(parameter, std=0.3) if not parameter.any() else None  # a layer that starts at zero
    words, rng = case.text.documents.ids, np.random.default_rng(0)
    texts = Tokens.of([rng.choice(words, length) for length in (1, 6, 3, 1, 4, 11, 20)])
    plain = PLAIN[case.settings.name]
    rows = [
        [torch.from_numpy(texts.ids[texts.offsets[i] : texts.offsets[i + 1]]).long() for i in pair]
        for pair in zip(queries, documents, strict=True)
    ]
    tensors = inputs(module, texts, texts, queries, documents)
    right = torch.stack([plain(module, *pair) for pair in rows])
    if module.reads_first_stage:
        tensors["first_stage"] = tensors["first_stage"].double()
        neural = module.additivity.alpha.sigmoid()
        right = neural * right + (1 - neural) * tensors["first_stage"]
    trained = [parameter for parameter in module.parameters() if parameter.requires_grad]
    got = with_gradients(module(**tensors), trained)
    torch.testing.assert_close(got, with_gradients(right, trained), rtol=1e-6, atol=1e-8)


def test_neither_padding_nor_the_batch_changes_a_score(case: Case) -> None:
    module, (queries, documents) = case.build(), case.pairs
    together = case.score(module, queries, documents)
    alone = torch.cat([case.score(module, queries[[i]], documents[[i]]) for i in range(len(queries))])
    assert len(np.unique(case.text.documents.lengths[documents])) > 1, "no pair is padded"
    torch.testing.assert_close(together, alone, rtol=1e-5, atol=1e-5)


def test_class_logits_keep_the_contract_too(case: Case) -> None:
    if case.build().reads_first_stage:
        with pytest.raises(ConfigError, match=r"^error: ranker\.add_first_stage: true, but classes have no"):
            case.build(outputs=CLASSES)
        return
    module, (queries, documents) = case.build(outputs=CLASSES), case.pairs
    logits = case.score(module, queries, documents)
    assert logits.shape == (len(queries), CLASSES)
    assert logits.dtype == torch.float32
    alone = torch.cat([case.score(module, queries[[i]], documents[[i]]) for i in range(len(queries))])
    torch.testing.assert_close(logits, alone, rtol=1e-5, atol=1e-5)
    restored = case.ranker.restore(case.text.files, case.settings, MAX_LENGTH, CLASSES)
    restored.load_state_dict(module.state_dict())
    assert torch.equal(case.score(restored, queries, documents), logits)
    module.train()(**case.inputs(module)).softmax(1)[:, 0].sum().backward()
    for name, parameter in module.named_parameters():
        assert not parameter.requires_grad or parameter.grad is not None, name


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
    scores = []
    for module in (one, same, other):
        torch.manual_seed(3)
        scores.append(module.train()(**case.inputs(module)))
    assert torch.equal(scores[0], scores[1])
    assert torch.allclose(scores[0], scores[2]) == (case.settings.name in SAME_START)


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
    module(**case.inputs(module)).sigmoid().sum().backward()
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
    read = [
        case.ranker.encode(case.text.files, case.settings, t) for t in (case.data.query_texts(), case.data.documents)
    ]
    assert torch.equal(score(restored, read[0], read[1], queries, documents), expected)


def test_new_words_and_empty_texts_get_finite_scores_and_gradients(case: Case) -> None:
    module = case.build().train()
    texts = case.ranker.encode(case.text.files, case.settings, ["", "never seen", "w1 w2 w3", "☃ 日本"])
    assert len(texts) == 4
    rows = np.arange(4).repeat(4), np.tile(np.arange(4), 4)
    scores = module(**inputs(module, texts, texts, *rows))
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
    assert module.collate(texts, texts, *rows)  # what `costs` has counted can be collated


def test_the_order_of_twenty_pairs_can_be_learned(case: Case) -> None:
    module = case.build().train()
    split = case.data.splits["train"]
    relevant = split.grade == 1
    better = torch.from_numpy((split.owner[:, None] == split.owner) & relevant[:, None] & ~relevant)
    assert len(relevant) == 20 and better.sum() > 10
    optimizer = torch.optim.AdamW(module.parameter_groups(LEARNING_RATES.get(case.settings.name, 2e-3)))
    tensors = case.inputs(module)
    for _ in range(80):
        optimizer.zero_grad()
        scores = module(**tensors)
        functional.softplus(scores - scores[:, None])[better].mean().backward()
        optimizer.step()
    scores = case.score(module, *case.pairs)
    assert ((scores[:, None] > scores)[better]).all()


def test_prepare_reads_the_declared_settings_only(case: Case) -> None:
    """Trials that agree in these settings share one text side."""
    recorder = Recorder(case.settings)
    case.ranker.prepare(case.data, recorder, seed=1)
    assert recorder.read <= case.settings.text_keys
