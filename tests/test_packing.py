"""Packed batches hold each sequence once, in the cheapest groups, and attention stays within a sequence."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from tests.support.gradients import with_gradients
from trainables.rankers.fast import packing
from trainables.rankers.fast.packing import group_widths, pack, packed_attention

LENGTHS = st.lists(st.integers(2, 12), min_size=1, max_size=9)


def padded(lengths: list[int]) -> dict[str, Tensor]:
    """Sequences of distinct ids: those of sequence i are 100 i + 1, 100 i + 2, ..."""
    mask = np.arange(max(lengths)) < np.array(lengths)[:, None]
    ids = np.where(mask, 100 * np.arange(len(lengths))[:, None] + np.arange(mask.shape[1]) + 1, 0)
    types = mask & (np.arange(mask.shape[1]) >= 2)
    arrays = {"input_ids": ids, "token_type_ids": types.astype(np.int64), "attention_mask": mask}
    return {name: torch.from_numpy(array) for name, array in arrays.items()}


def cost(lengths: list[int], widths: tuple[int, ...], group_cost: int) -> int:
    return sum(min(w for w in widths if w >= length) for length in lengths) + group_cost * len(widths)


@given(LENGTHS, st.integers(0, 30))
def test_no_other_groups_are_cheaper(lengths: list[int], group_cost: int) -> None:
    found = tuple(int(width) for width in group_widths(np.array(lengths), group_cost))
    sizes = sorted(set(lengths))
    choices = [c for n in range(1, len(sizes) + 1) for c in combinations(sizes, n) if c[-1] == sizes[-1]]
    assert found == tuple(sorted(found)) and found[-1] == max(lengths)
    assert cost(lengths, found, group_cost) == min(cost(lengths, widths, group_cost) for widths in choices)


@given(LENGTHS, st.integers(0, 30), st.integers(0, 2))
def test_each_sequence_is_there_once_with_its_positions(lengths: list[int], group_cost: int, first: int) -> None:
    inputs = padded(lengths)
    packed = pack(inputs, group_cost, first)
    widths = [group.width for group in packed["groups"] for _ in range(group.sequences)]
    assert packed["starts"].tolist() == [sum(widths[:i]) for i in range(len(widths))]
    assert packed["input_ids"].shape == packed["position_ids"].shape == (1, sum(widths))
    for i, length in enumerate(lengths):
        place = int(packed["packed_index"][i])
        start, width = int(packed["starts"][place]), widths[place]
        own = slice(start, start + length)
        assert packed["input_ids"][0, own].tolist() == inputs["input_ids"][i, :length].tolist()
        assert packed["token_type_ids"][0, own].tolist() == inputs["token_type_ids"][i, :length].tolist()
        assert packed["position_ids"][0, own].tolist() == list(range(first, first + length))
        assert packed["reads"][start : start + width].tolist() == [True] * length + [False] * (width - length)
    assert [group.padded for group in packed["groups"]] == [
        not part.all() for part in packed["reads"].split([g.sequences * g.width for g in packed["groups"]])
    ]


def states(lengths: list[int], asking: int | None = None) -> tuple[dict[str, Any], list[Tensor]]:
    """A packed batch, and random query, key and value [1, 3, tokens, 4] in float64."""
    torch.manual_seed(0)
    packed = pack(padded(lengths), group_cost=3, first_position=0)
    tokens = len(packed["reads"])
    return packed, [
        torch.randn(1, 3, size, 4, dtype=torch.float64).requires_grad_() for size in (asking or tokens, tokens, tokens)
    ]


def plain_attention(packed: dict[str, Any], sides: list[Tensor], kept: list[Tensor]) -> Tensor:
    """Attention sequence by sequence, by the formula: rows [M, H, D] in the order of the queries. `kept`: the groups'
    dropout masks, if any."""
    query, key, value = (side[0] for side in sides)
    alone = query.shape[1] != key.shape[1]
    results, asked, start = [], 0, 0
    for at, group in enumerate(packed["groups"]):
        for sequence in range(group.sequences):
            span, count = slice(start, start + group.width), 1 if alone else group.width
            scores = query[:, asked : asked + count] @ key[:, span].mT / 2
            weights = scores.masked_fill(~packed["reads"][span], -torch.inf).softmax(-1)
            weights = weights * kept[at][sequence] if kept else weights
            results.append((weights @ value[:, span]).transpose(0, 1))
            asked, start = asked + count, start + group.width
    return torch.cat(results)


@pytest.mark.parametrize("lengths", [[5], [4, 4], [9, 3, 3, 2, 9, 8]])
@pytest.mark.parametrize("cls_alone", [False, True])
@pytest.mark.parametrize("dropout", [0.0, 0.2])
def test_attention_is_softmax_attention_within_a_sequence(
    lengths: list[int], cls_alone: bool, dropout: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    packed, sides = states(lengths, asking=len(lengths) if cls_alone else None)
    assert len(lengths) < 6 or (len(packed["groups"]) > 1 and any(group.padded for group in packed["groups"]))
    kept: list[Tensor] = []

    def mask_of(like: Tensor, p: float) -> Tensor:
        kept.append((torch.rand(like.shape, dtype=like.dtype) >= p).to(like.dtype) / (1 - p))
        return kept[-1]

    monkeypatch.setattr(packing, "dropout_mask", mask_of)
    result, _ = packed_attention(
        nn.Module(), *sides, None, dropout=dropout, groups=packed["groups"], reads=packed["reads"]
    )
    assert bool(kept) is (dropout > 0)
    got = with_gradients(result[0], sides)
    torch.testing.assert_close(got, with_gradients(plain_attention(packed, sides, kept), sides))


@pytest.mark.parametrize("lengths", [[12, 2, 7], [12, 12]])
@pytest.mark.parametrize("dropout", [0.0, 0.2])
def test_in_a_sliding_window_padding_spreads_nothing(
    lengths: list[int], dropout: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Padding far from its sequence has nothing to attend to, and attention to nothing is not a number."""
    packed = pack(padded(lengths), group_cost=1000, first_position=0)
    sides = [torch.randn(1, 3, 12 * len(lengths), 4, dtype=torch.float64).requires_grad_() for _ in range(3)]
    arguments: dict[str, Any] = {"dropout": dropout, "groups": packed["groups"], "reads": packed["reads"]}
    monkeypatch.setattr(packing, "dropout_mask", lambda like, p: torch.ones_like(like))
    result, _ = packed_attention(nn.Module(), *sides, None, sliding_window=4, **arguments)
    right = []
    for place, start in zip(packed["packed_index"].tolist(), packed["starts"].tolist(), strict=True):
        assert start == 12 * place
        q, k, v = (side[0, :, start : start + 12] for side in sides)
        length = lengths[place]  # a single group keeps the order
        near = (torch.arange(12)[:, None] - torch.arange(12)).abs() < 4
        weights = (q @ k.mT / 2).masked_fill(~(near & (torch.arange(12) < length)), -torch.inf)[:, :length].softmax(-1)
        right.append((weights @ v).transpose(0, 1))
    real = packed["reads"]
    assert torch.isfinite(result).all()
    torch.testing.assert_close(with_gradients(result[0, real], sides), with_gradients(torch.cat(right), sides))
    wide, _ = packed_attention(nn.Module(), *sides, None, sliding_window=12, **arguments)
    torch.testing.assert_close(wide, packed_attention(nn.Module(), *sides, None, **arguments)[0])
