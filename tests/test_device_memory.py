"""The device that a trial reserved, and the memory it took there, by which users choose `search.resources.gpu`."""

from __future__ import annotations

import gc
import os
import platform
import resource
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from tests.support.device_state import device_state
from tests.support.tiny_trial import config_of, tiny_trial
from tests.support.toy_search import experiment
from trainables import ranker_trainable
from trainables.config.keys import TrainingConfig
from trainables.core.errors import WorkFailed
from trainables.ranker_trainable import RankerTrainable
from trainables.training import device
from trainables.training.device import best_device, limit_process
from trainables.training.trainer import Training

__all__ = ["device_state", "experiment"]  # fixtures
VISIBLE = "CUDA_VISIBLE_DEVICES"
THREADS = torch.get_num_threads()


class Gpu:
    """A GPU of 60 GiB that PyTorch sees as long as it is there and not hidden; notes what it is asked for."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch):
        self.there = True
        self.asked: list[Any] = []
        cuda = torch.cuda
        monkeypatch.setattr(cuda, "is_available", lambda: self.there and os.environ.get(VISIBLE) != "")
        visible = torch.device("cuda")
        monkeypatch.setattr(
            torch.accelerator, "current_accelerator", lambda **_: visible if cuda.is_available() else None
        )
        monkeypatch.setattr(cuda, "get_device_properties", lambda _: SimpleNamespace(total_memory=60 * 2**30))
        monkeypatch.setattr(cuda, "set_per_process_memory_fraction", self.asked.append)
        for name in ("empty_cache", "max_memory_allocated", "reset_peak_memory_stats"):
            monkeypatch.setattr(cuda, name, lambda name=name: self.asked.append(name))


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> Gpu:
    return Gpu(monkeypatch)


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The configuration of a trial that reserves no GPU."""
    return tiny_trial(tmp_path_factory.mktemp("data"), threads=THREADS, gpu=0.0)


def test_a_gpu_that_pytorch_does_not_see_is_an_error(gpu: Gpu) -> None:
    """It does not train on the CPU instead."""
    gpu.there = False
    message = r"the trial reserved a GPU, but PyTorch \S+ sees none on \S+: install .* search\.resources\.gpu=0"
    with pytest.raises(WorkFailed, match=message):
        RankerTrainable(config_of(TrainingConfig(), THREADS, 1))


def test_a_share_of_a_gpu_is_a_share_of_its_memory(gpu: Gpu, monkeypatch: pytest.MonkeyPatch) -> None:
    """The share includes what CUDA itself takes beside the tensors."""
    for change in (monkeypatch.setenv, lambda name, _: monkeypatch.delenv(name)):
        change("CUBLAS_WORKSPACE_CONFIG", "")
    for share in (1, 4, 0.25, 0.015, 0):
        limit_process(THREADS, share)
    assert gpu.asked == [pytest.approx(0.25 - 600 / 1024 / 60), 0.01]
    assert os.environ["CUBLAS_WORKSPACE_CONFIG"] == ":4096:8", "so that its sums repeat"


def test_a_trial_that_reserves_no_gpu_trains_on_the_cpu(
    gpu: Gpu, config: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ray leaves the node's GPUs visible to it. CUDA must not even be asked for its memory or for its stream, as
    PyTorch's optimizers do if they see a GPU: that would begin a context there."""
    monkeypatch.delattr(torch.accelerator, "current_stream")
    assert best_device().type == "cuda", "nobody divides the machine: `tune-cl train`"
    assert not torch.backends.cuda.cudnn_sdp_enabled() and not torch.backends.cudnn.allow_tf32
    trainable = RankerTrainable(config)
    assert isinstance(trainable.training, Training) and trainable.training.device.type == "cpu"
    trainable.step()
    assert trainable.reset_config(config) and gpu.asked == []


def trainings() -> int:
    """How many are in memory."""
    gc.collect()
    return sum(type(one) is Training for one in gc.get_objects())


def test_the_last_training_is_gone_before_the_next_is_made(
    config: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    before, seen = trainings(), []
    monkeypatch.setattr(ranker_trainable, "release", lambda: seen.append(trainings() - before))
    trainable = RankerTrainable(config)
    trainable.step()
    trainable.reset_config(config)
    assert seen == [0]


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc has these settings")
def test_memory_that_a_step_of_a_training_frees_serves_the_next_step(config: dict[str, Any]) -> None:
    """Else the system would clear the 39,000 pages of these tensors again at each step."""
    device.keep_freed_memory.cache_clear()
    RankerTrainable(config)
    assert device.keep_freed_memory.cache_info().currsize == 1 and device.keep_freed_memory()
    cleared: list[int] = []
    for _ in range(9):
        tensors = [torch.ones(2_000_000) for _ in range(20)]
        del tensors
        cleared.append(resource.getrusage(resource.RUSAGE_SELF).ru_minflt)
    assert cleared[-1] - cleared[3] < 4_000
