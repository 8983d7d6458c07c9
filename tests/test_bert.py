"""Vanilla BERT: truncation, pair layout, vocabulary, passages."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.support.builders import tiny_data
from trainables.core.errors import ConfigError
from trainables.rankers import load_ranker, ranker_settings
from trainables.rankers.bert import BertModule
from trainables.rankers.ranker import TextSide, Tokens
from trainables.rankers.text_pairs import PairTemplate, truncated

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


def test_the_scoring_layer_may_have_a_rate_of_its_own() -> None:
    keys = ranker_settings({"name": "bert", "head_lr": 0.5})
    module = BERT.build(BERT.prepare(tiny_data(), keys, seed=0), keys, 32)
    assert [group["lr"] for group in module.parameter_groups(0.1)] == [0.1, 0.5]


def test_a_model_that_is_not_there_is_the_users_to_mend(tmp_path: Path) -> None:
    keys = ranker_settings({"name": "bert", "model": str(tmp_path / "none")})
    with pytest.raises(ConfigError, match=r"^error: ranker\.model: .*none' is not a folder; tiny, or a folder"):
        BERT.prepare(tiny_data(), keys, seed=0)


def test_scores_in_bf16_do_not_tie() -> None:
    data = tiny_data(queries=10)
    keys = ranker_settings({"name": "bert", "vocabulary_size": 300})
    text = BERT.prepare(data, keys, seed=0)
    train = data.splits["train"]
    for head in ("cls", "classification"):
        torch.manual_seed(0)
        module = BERT.build(text, keys.model_copy(update={"head": head}), 64).eval()
        inputs = module.collate(text.queries, text.documents, train.query[train.owner], train.document)
        with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
            scores = module(**inputs)
        assert scores.dtype == torch.float32
        assert len(scores.unique()) == len(scores)


def cls_vectors(module: BertModule, inputs: dict[str, Any]) -> torch.Tensor:
    """[CLS] vectors of sequences in their order, [P, D]."""
    encoder = {name: value for name, value in inputs.items() if name not in ("passages", "packed_index")}
    return module.encoder(**encoder).last_hidden_state[0, inputs["packed_index"]]


# -- passages -------------------------------------------------------------------------------------------------------

LONG = Tokens.of([range(11, 11 + length) for length in (0, 1, 3, 9, 40)])
TEMPLATE = PairTemplate((1,), (2,), (3,), second_segment=True, longest=512, pad=0, from_front=False)


def paper_passages(document: list[int], room: int) -> list[list[int]]:
    """The cut of MacAvaney et al.'s code for one document: parts of ceil(length / ceil(length / room)) tokens."""
    count = max(1, math.ceil(len(document) / room))
    size = math.ceil(len(document) / count)
    return [document[i * size : (i + 1) * size] for i in range(count)]


@pytest.mark.parametrize("passages_of", [1000, 12])
@pytest.mark.parametrize("query", range(5))
def test_passages_are_the_documents_parts_behind_the_whole_query(query: int, passages_of: int) -> None:
    rows = np.full(5, query), np.arange(5)
    inputs = TEMPLATE.assemble(LONG, LONG, *rows, max_length=13, passages_of=passages_of)
    of_query = LONG.ids[LONG.offsets[query] : LONG.offsets[query + 1]].tolist()
    expected: list[list[int]] = []
    for row, count in zip(range(5), inputs["passages"].tolist(), strict=True):
        document = LONG.ids[LONG.offsets[row] : LONG.offsets[row + 1]][:passages_of].tolist()
        kept = of_query[: lengths_kept(len(of_query), len(document), 10)[0]]
        parts = paper_passages(document, max(1, 10 - len(kept)))
        assert len(parts) == count
        expected += [[1, *kept, 2, *part, 3] for part in parts]
    found = [ids[mask].tolist() for ids, mask in zip(inputs["input_ids"], inputs["attention_mask"], strict=True)]
    assert found == expected
    assert max(map(len, found)) <= 13
    segments = [
        types[mask].tolist() for types, mask in zip(inputs["token_type_ids"], inputs["attention_mask"], strict=True)
    ]
    assert segments == [[0] * (row.index(2) + 1) + [1] * (len(row) - row.index(2) - 1) for row in found]


def passage_module(passages: str = "average", **keys: object) -> tuple[BertModule, TextSide]:
    settings = ranker_settings({"name": "bert", "vocabulary_size": 300, "passages": passages, "dropout": 0.0, **keys})
    text = BERT.prepare(tiny_data(turns=1), settings, seed=0)
    torch.manual_seed(0)
    module = BERT.build(text, settings, max_length=16)
    assert isinstance(module, BertModule)
    return module.double().eval(), text


def test_the_score_of_a_long_document_is_that_of_its_mean_cls() -> None:
    module, text = passage_module()
    rows = np.zeros(32, int), np.arange(32)
    inputs = module.collate(text.queries, text.documents, *rows)
    counts = inputs["passages"]
    assert counts.sum() > counts.shape[0] and counts.min() == 1
    parts = cls_vectors(module, inputs).split(counts.tolist())
    expected = torch.cat([module.score(part.mean(0)) for part in parts])
    torch.testing.assert_close(module(**inputs), expected)
    alone = [module(**module.collate(text.queries, text.documents, rows[0][[i]], rows[1][[i]])) for i in range(32)]
    torch.testing.assert_close(module(**inputs), torch.cat(alone), rtol=1e-9, atol=1e-12)
    assert module.costs(text.queries, text.documents, *rows).sum() == inputs["reads"].sum()
