"""Which floating-point format the forward pass runs in, and why."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from trainables.rankers.base import RankerModule


@dataclass(frozen=True)
class Precision:
    """`dtype` None = plain float32; otherwise the autocast type. `reason` is for the log."""

    dtype: torch.dtype | None
    reason: str

    def autocast(self, device: torch.device) -> torch.autocast:
        return torch.autocast(device.type, dtype=self.dtype or torch.bfloat16, enabled=self.dtype is not None)


def choose_precision(requested: str, device: torch.device, module: RankerModule) -> Precision:
    """fp32 or bf16 as requested; auto: bf16 if the ranker tolerates it and the hardware has it."""
    if requested == "fp32":
        return Precision(None, "fp32: asked for")
    if requested == "bf16":
        return Precision(torch.bfloat16, "bf16: asked for")
    if not module.tolerates_bf16:
        return Precision(None, "fp32: this ranker needs the precision")
    if _has_bf16(device):
        return Precision(torch.bfloat16, f"bf16: {device.type} computes it natively")
    return Precision(None, f"fp32: {device.type} has no native bf16")


def _has_bf16(device: torch.device) -> bool:
    if device.type == "cuda":
        return torch.cuda.is_bf16_supported(including_emulation=False)
    return device.type == "cpu" and (torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported())
