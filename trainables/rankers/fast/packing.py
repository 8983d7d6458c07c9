"""Encoders that compute little padding: the sequences of a batch lie one after the other, as one row of tokens.

All layers except attention treat each token by itself. Attention works on groups of sequences of similar length, each
padded only to the longest of its group. The last layer of BERT and its kin computes only [CLS]: no other position's
query, output or feed-forward part reaches [CLS] there.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import AttentionInterface, AttentionMaskInterface, PreTrainedModel

from trainables.rankers.fast.cpu import dropout_mask, rows

# Their attention can read keys and values from elsewhere (cross-attention), with no norm in front of it.
CLS_ALONE = frozenset({"bert", "camembert", "electra", "roberta", "xlm-roberta"})
# They take positions as an input, and their attention is a function that is chosen by name.
PACKED = CLS_ALONE | {"albert", "distilbert", "modernbert"}
ATTENTION = "packed"
# Tokens that take as long as one more group. A GPU waits for the launches of the group's 33 operations a layer: on an
# H200, BERT-base trains 128 pairs of WikiQA in 52 ms with 2,048, in 41 with 8,192 or with one group of all.
GROUP_COST = {"cpu": 32, "cuda": 8192}


class Group(NamedTuple):
    """Sequences that are attended together."""

    sequences: int
    width: int  # tokens of each
    padded: bool  # whether some have padding


def group_widths(lengths: np.ndarray, group_cost: int) -> np.ndarray:
    """Widths, int [G] ascending, of the groups with the fewest tokens in all, where each group also counts as
    `group_cost` tokens. A sequence belongs to the first group that is at least as wide as it is long."""
    sizes, counts = np.unique(lengths, return_counts=True)
    before = np.concatenate([[0], np.cumsum(counts)])  # sequences shorter than each size
    best, start = np.zeros(len(sizes) + 1, np.int64), np.zeros(len(sizes) + 1, np.int64)
    for end, size in enumerate(sizes, 1):
        costs = best[:end] + (before[end] - before[:end]) * size
        start[end] = costs.argmin()
        best[end] = costs[start[end]] + group_cost
    ends, end = [], len(sizes)
    while end:
        ends.append(end - 1)
        end = start[end]
    return sizes[ends[::-1]]


def pack(padded: dict[str, Tensor], group_cost: int, first_position: int) -> dict[str, Any]:
    """Inputs for an encoder that `pack_encoder` changed, from `input_ids`, `attention_mask` and possibly
    `token_type_ids` [P, L] of P sequences; inputs of one dimension stay. Of the T tokens that are left: `input_ids`,
    `token_type_ids` and `position_ids` int64 [1, T], `reads` bool [T], false for padding. `groups`: a tuple of Group.
    `starts` int64 [P]: where each packed sequence begins; `packed_index` int64 [P]: the packed index of each sequence
    of `padded`."""
    mask = padded["attention_mask"].numpy()
    lengths = mask.sum(1)
    widths = group_widths(lengths, group_cost)
    of_group = np.searchsorted(widths, lengths)
    order = np.argsort(of_group, kind="stable")
    members = np.split(order, np.cumsum(np.bincount(of_group))[:-1])
    groups = tuple(
        Group(len(at), int(width), bool((lengths[at] < width).any())) for at, width in zip(members, widths, strict=True)
    )

    def flat(tensor: np.ndarray) -> Tensor:
        parts = [tensor[at, :width].ravel() for at, width in zip(members, widths, strict=True)]
        return torch.from_numpy(np.concatenate(parts))

    others = {name: tensor for name, tensor in padded.items() if name != "attention_mask"}
    positions = np.broadcast_to(np.arange(mask.shape[1]) + first_position, mask.shape)
    row_widths = widths[of_group[order]]
    return {
        **{name: flat(tensor.numpy())[None] if tensor.ndim == 2 else tensor for name, tensor in others.items()},
        "position_ids": flat(positions)[None],
        "reads": flat(mask),
        "groups": groups,
        "starts": torch.from_numpy(np.cumsum(row_widths) - row_widths),
        "packed_index": torch.from_numpy(np.argsort(order)),
    }


def unpacked(padded: dict[str, Tensor]) -> dict[str, Tensor]:
    """Inputs for an encoder as transformers has it: some calculate with the mask, and none refuses integers."""
    return padded | {"attention_mask": padded["attention_mask"].long()}


def packed_attention(
    _: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    dropout: float = 0.0,
    scaling: float | None = None,
    sliding_window: int | None = None,
    *,
    groups: tuple[Group, ...],
    reads: Tensor,
    **__: Any,
) -> tuple[Tensor, None]:
    """Attention of query [1, H, M, D] over key and value [1, H, T, D], each sequence's over itself: [1, M, H, D]. M is
    T, or the number of sequences if only their first tokens are queries. With `sliding_window`, a token reads only
    tokens less than that far away. `attention_mask` is None."""
    tokens = [group.sequences * group.width for group in groups]
    asking = tokens if query.shape[2] == key.shape[2] else [group.sequences for group in groups]
    # Squeezed and, for one group, not split: the gradient of an index or of a part would be a copy of the whole.
    sides = ((query.squeeze(0), asking), (key.squeeze(0), tokens), (value.squeeze(0), tokens))
    parts = [side.split(sizes, 1) if len(groups) > 1 else (side,) for side, sizes in sides]
    outputs = []
    for group, *states, mask in zip(groups, *parts, reads.split(tokens), strict=True):
        q, k, v = (state.unflatten(1, (group.sequences, -1)).transpose(0, 1) for state in states)
        reading = _reading(group, mask, sliding_window)
        outputs.append(_attention(q, k, v, reading, dropout, scaling).transpose(1, 2).flatten(0, 1))
    return (torch.cat(outputs) if len(outputs) > 1 else outputs[0]).unsqueeze(0), None


def _reading(group: Group, mask: Tensor, window: int | None) -> Tensor | None:
    """Which tokens read which, bool [N, 1, 1 or L, L] or [L, L]; None if all read all."""
    reading = mask.view(group.sequences, 1, 1, group.width) if group.padded else None
    if window is None or group.width <= window:
        return reading
    positions = torch.arange(group.width, device=mask.device)
    distance = (positions[:, None] - positions).abs()
    near = distance < window
    # Padding far from its sequence reads itself: attention to nothing would be NaN, and NaN spreads.
    return near if reading is None else (reading & near) | (distance == 0)


def _attention(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, dropout: float, scaling: float | None) -> Tensor:
    """Attention [N, H, M, D] of q [N, H, M, D] over k and v [N, H, L, D] where the mask is true, which is bool and
    broadcasts to [N, H, M, L]; each query reads at least one key."""
    if dropout == 0 or q.device.type != "cpu":
        return functional.scaled_dot_product_attention(q, k, v, mask, dropout, scale=scaling)
    scores = (q * (scaling or q.shape[-1] ** -0.5)) @ k.transpose(2, 3)
    if mask is not None:
        scores = scores.add_(torch.zeros_like(mask, dtype=scores.dtype).masked_fill_(~mask, -torch.inf))
    weights = scores.softmax(-1).to(v.dtype)
    return weights * dropout_mask(weights, dropout) @ v


def _no_mask(*_: Any, **__: Any) -> None:
    """No mask: the groups say what is read."""


AttentionInterface.register(ATTENTION, packed_attention)
AttentionMaskInterface.register(ATTENTION, _no_mask)


def pack_encoder(encoder: PreTrainedModel, cls_alone: bool = True) -> None:
    """Makes an encoder of `PACKED` read what `pack` gives, and return `last_hidden_state` [1, T, D].

    With `cls_alone`, for encoders of `CLS_ALONE` it is [1, P, D]: the last layer's attention becomes the architecture's
    own cross-attention, with the same weights under the same names, from [CLS] to all positions.
    """
    encoder.set_attn_implementation(ATTENTION)
    if not cls_alone or encoder.config.model_type not in CLS_ALONE:
        return
    last: Any = encoder.get_submodule("encoder.layer")[-1]  # pyright: ignore[reportIndexIssue]
    with torch.device("meta"):
        attention = type(last.attention)(encoder.config, is_cross_attention=True)
    attention.load_state_dict(last.attention.state_dict(), assign=True)
    attention.register_forward_pre_hook(_ask_for_cls, with_kwargs=True)
    last.attention = attention


def _ask_for_cls(_: nn.Module, args: tuple[Tensor, None], kwargs: dict[str, Any]) -> tuple[Any, Any]:
    """From self-attention's arguments (states [1, T, D]) to those of cross-attention."""
    states, _mask = args
    return (rows(states[0], kwargs["starts"])[None],), kwargs | {"encoder_hidden_states": states}


def unpack_output(encoder: PreTrainedModel) -> None:
    """Makes a packed encoder give [CLS] vectors as a batch of one token each, [P, 1, D], in the order before packing:
    poolers and heads of transformers read the first token of a sequence."""
    stack = getattr(encoder, "encoder", None) or getattr(encoder, "transformer", None) or encoder
    stack.register_forward_hook(_in_order, with_kwargs=True)


def _in_order(_: nn.Module, __: Any, kwargs: dict[str, Any], output: Any) -> Any:
    output.last_hidden_state = cls_vectors(output.last_hidden_state, kwargs["starts"], kwargs["packed_index"])[:, None]
    return output


def cls_vectors(states: Tensor, starts: Tensor, ranks: Tensor) -> Tensor:
    """[CLS] vectors [P, D], in the order before packing, from a packed encoder's `last_hidden_state`."""
    tokens = ranks if states.shape[1] == len(starts) else starts[ranks]
    return rows(states[0], tokens)
