"""A training step never waits for the device: each time, a GPU's queue would run dry.

PyTorch's `meta` device has shapes and no numbers: an operation that asks for a number fails there."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from tests.support.builders import tiny_data
from tests.support.pair_data import load_pairs
from tests.support.ranker_cases import CASES, SMALL
from trainables.config.keys import validated
from trainables.data.columns import RankingData
from trainables.rankers.fast.kernels import AT_ONCE
from trainables.rankers.fast.packing import GROUP_COST
from trainables.training.prepared import prepare
from trainables.training.trainer import Training

META = torch.device("meta")


class Copies(TorchDispatchMode):
    """Notes of each copy from the CPU to the device whether the CPU goes on meanwhile."""

    def __init__(self) -> None:
        super().__init__()
        self.goes_on: list[bool] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        if func is torch.ops.aten._to_copy.default and args[0].device.type == "cpu" and result.device == META:
            self.goes_on.append(kwargs.get("non_blocking", False))
        return result


@pytest.fixture(autouse=True)
def like_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replaces autocast, which the meta device lacks, and gives it a GPU's settings."""
    monkeypatch.setattr(torch, "autocast", lambda *_, **__: nullcontext())
    monkeypatch.setitem(GROUP_COST, "meta", GROUP_COST["cuda"])
    monkeypatch.setitem(AT_ONCE, "meta", AT_ONCE["cuda"])


def never_waits(data: RankingData, ranker: dict[str, Any], loss: str) -> bool:
    """Whether a step does not wait for the device; without the optimiser, which still holds the CPU's weights."""
    keys = {"loss": loss, "batch_size": 6, "precision": "fp32"}
    metric = "map" if data.task == "ranking" else "accuracy"
    run = validated({"ranker": SMALL.get(ranker["name"], {}) | ranker, "training": keys, "metric": metric})
    training = Training(run, prepare(run, data), device="cpu")
    training.module.to(META)
    training.device = training.accumulation.device = META
    with Copies() as copies:
        loss_there, _, _ = training._step(0, next(training.batcher.batches(0, 1)))
    assert loss_there.device == META
    return bool(copies.goes_on) and all(copies.goes_on)


@pytest.mark.parametrize("case", CASES)
def test_a_step_asks_the_device_for_no_number(case: str) -> None:
    assert never_waits(tiny_data(queries=8, candidates=4, seed=3), CASES[case], "pairwise")


@pytest.mark.parametrize("loss", ["pointwise", "mse", "hinge", "cross_entropy"])
def test_losses_of_rankings_ask_for_none(loss: str) -> None:
    assert never_waits(tiny_data(queries=8, candidates=4, seed=3), {"name": "embedding"}, loss)


@pytest.mark.parametrize("loss", ["hinge", "cross_entropy"])
def test_losses_of_classes_ask_for_none(loss: str, tmp_path: Path) -> None:
    assert never_waits(load_pairs(tmp_path), {"name": "embedding", "train_vectors": True}, loss)
