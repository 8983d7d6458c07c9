"""Which number format a training uses: the one asked for, or one that hardware and ranker can use."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from trainables.rankers.ranker import RankerModule
from trainables.training.device import choose_precision

CPU = torch.device("cpu")


class Exact(RankerModule):
    def collate(self, *_: object) -> dict[str, Tensor]: ...
    def costs(self, *_: object): ...
    def forward(self, **inputs: Tensor) -> Tensor: ...


class Tolerant(Exact):
    tolerates_bf16 = True


@pytest.mark.parametrize(
    ("requested", "ranker", "native", "dtype", "reason"),
    [
        ("fp32", Tolerant, True, None, "fp32: asked for"),
        ("bf16", Exact, False, torch.bfloat16, "bf16: asked for"),
        ("auto", Exact, True, None, "fp32: bf16 is too coarse for this ranker"),
        ("auto", Tolerant, True, torch.bfloat16, "bf16: cpu computes it natively"),
        ("auto", Tolerant, False, None, "fp32: cpu has no native bf16"),
    ],
)
def test_the_format_and_why(
    requested: str,
    ranker: type[RankerModule],
    native: bool,
    dtype: torch.dtype | None,
    reason: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda: native)
    monkeypatch.setattr(torch.cpu, "_is_amx_tile_supported", lambda: False)
    precision = choose_precision(requested, CPU, ranker())
    assert (precision.dtype, precision.reason) == (dtype, reason)
    with precision.autocast(CPU):
        product = torch.ones(2, 2) @ torch.ones(2, 2)
    assert product.dtype == (dtype or torch.float32)
