"""What a process remembers about its device."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from trainables.training import device


@pytest.fixture(autouse=True)
def device_state(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Resets what a process remembers about its device; restores it afterwards."""
    monkeypatch.setattr(device, "_reserved", None)
    planned, coarse = torch.backends.cuda.cudnn_sdp_enabled(), torch.backends.cudnn.allow_tf32
    torch.backends.cuda.enable_cudnn_sdp(True)
    torch.backends.cudnn.allow_tf32 = True
    yield
    torch.backends.cuda.enable_cudnn_sdp(planned)
    torch.backends.cudnn.allow_tf32 = coarse
