"""The device that a trial reserved, and the memory it took there, by which users choose `search.resources.gpu`."""

from __future__ import annotations

import gc
import os
import platform
import subprocess
import sys
import weakref
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from tests.support.builders import tiny_data
from tests.support.device_state import device_state
from tests.support.tiny_trial import tiny_trial
from tests.support.toy_search import ToyTrainer, experiment
from trainables import ranker_trainable
from trainables.config.keys import TrainingRun
from trainables.config.rules import validated
from trainables.core.errors import WorkFailed
from trainables.data.columns import RankingData, required_split
from trainables.ranker_trainable import RankerTrainable
from trainables.training import device
from trainables.training import pretrained as teacher
from trainables.training.device import best_device, device_memory, limit_process, release
from trainables.training.other_teachers import completed
from trainables.training.prepared import prepare
from trainables.training.trainer import Training
from tune_cl.experiment.experiment import Experiment
from tune_cl.experiment.search_keys import Resources
from tune_cl.history.journal import read_events
from tune_cl.search.driver import REPORTED
from tune_cl.search.trials import Plan

__all__ = ["device_state", "experiment"]  # fixtures
VISIBLE = "CUDA_VISIBLE_DEVICES"
THREADS = torch.get_num_threads()
TREES = TrainingRun.model_validate({"ranker": {"name": "lambdamart"}})
GIB = 2**30


STEPS = """
import resource, torch
from trainables.training.device import keep_freed_memory

assert keep_freed_memory()
for step in range(9):
    if step == 4:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    tensors = [torch.ones(2_000_000) for _ in range(20)]
    del tensors
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


@pytest.mark.slow
@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc has these settings")
def test_memory_that_a_step_frees_serves_the_next_step() -> None:
    """Else the system would clear the 39,000 pages of these tensors again at each step."""
    shown = subprocess.run([sys.executable, "-c", STEPS], capture_output=True, text=True, check=True)
    assert int(shown.stdout) < 4_000


@pytest.fixture
def a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """A GPU that PyTorch sees, as long as it is not hidden."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: os.environ.get(VISIBLE) != "")


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The configuration of a trial that reserves no GPU."""
    return tiny_trial(tmp_path_factory.mktemp("data"), threads=THREADS, gpu=0.0)


def test_the_peak_is_told_where_there_is_a_device(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert device_memory() == {}
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "max_memory_allocated", lambda: 3 * 2**20)
    assert device_memory() == {"device_memory_mib": 3.0}


def test_a_gpu_that_pytorch_does_not_see_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """It does not train on the CPU instead."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    message = r"the trial reserved a GPU, but PyTorch \S+ sees none on \S+: install .* search\.resources\.gpu=0"
    with pytest.raises(WorkFailed, match=message):
        RankerTrainable({"run": TrainingRun(), "threads": torch.get_num_threads(), "gpu": True})
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    limit_process(torch.get_num_threads(), gpu=True)


# -- where a process computes ------------------------------------------------------------------------------------


def test_a_trial_that_reserves_no_gpu_trains_on_the_cpu(
    a_gpu: None, config: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ray leaves the node's GPUs visible to it. CUDA must not even be asked for its memory or for its stream, as
    PyTorch's optimizers do if they see a GPU: that would begin a context there."""
    cuda = torch.device("cuda")
    monkeypatch.setattr(
        torch.accelerator, "current_accelerator", lambda **_: cuda if torch.cuda.is_available() else None
    )
    monkeypatch.delattr(torch.accelerator, "current_stream")
    assert best_device().type == "cuda", "nobody divides the machine: `tune-cl train`"
    for name in ("reset_peak_memory_stats", "max_memory_allocated", "empty_cache"):
        monkeypatch.delattr(torch.cuda, name)
    trainable = RankerTrainable(config)
    assert isinstance(trainable.training, Training) and trainable.training.device.type == "cpu"
    assert "device_memory_mib" not in trainable.step()
    assert trainable.reset_config(config)
    monkeypatch.setattr(device, "_reserved", None)


def test_trials_are_told_the_share(experiment: Experiment, tmp_path: Path) -> None:
    resources = Resources(gpu=0.25)
    shared = replace(experiment, search=experiment.search.model_copy(update={"resources": resources}))
    plan = ToyTrainer(tmp_path, shared).search.next_trial()
    assert isinstance(plan, Plan) and plan.as_config()["gpu"] == 0.25


def test_trees_take_no_gpu_that_is_reserved(monkeypatch: pytest.MonkeyPatch) -> None:
    """The GPU need not even be visible. The next trial in this process gets it."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    seen: list[str] = []
    monkeypatch.setattr(ranker_trainable, "make_training", lambda *_: seen.append(best_device().type))
    monkeypatch.setattr(ranker_trainable, "shared_for", lambda *_: None)
    trainable = RankerTrainable({"run": TREES, "threads": THREADS, "gpu": 1.0, "checkpoint": None})
    monkeypatch.setattr(torch.cuda, "is_available", lambda: os.environ.get(VISIBLE) != "")
    monkeypatch.setattr(torch.cuda, "reset_peak_memory_stats", lambda: None)
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: None)
    trainable.reset_config({"run": TrainingRun(), "threads": THREADS, "gpu": 1.0, "checkpoint": None})
    assert seen == ["cpu", "cuda"]


def test_a_gpu_is_told_how_to_compute(a_gpu: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """No plans for each shape of attention, and full-precision fp32; a trial on the CPU sets nothing."""
    monkeypatch.setattr(device, "_reserved", 0)
    best_device()
    assert torch.backends.cuda.cudnn_sdp_enabled() and torch.backends.cudnn.allow_tf32
    monkeypatch.setattr(device, "_reserved", 1)
    best_device()
    assert not torch.backends.cuda.cudnn_sdp_enabled() and not torch.backends.cudnn.allow_tf32


# -- trials that share a GPU -------------------------------------------------------------------------------------


def test_a_share_of_a_gpu_is_a_share_of_its_memory(a_gpu: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """The share includes what CUDA itself takes beside the tensors."""
    fractions: list[float] = []
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: SimpleNamespace(total_memory=60 * GIB))
    monkeypatch.setattr(torch.cuda, "set_per_process_memory_fraction", fractions.append)
    for gpu in (1, 4, 0.25, 0.015, 0):
        limit_process(THREADS, gpu)
    assert fractions == [pytest.approx(0.25 - 600 / 1024 / 60), 0.01]


def test_memory_is_given_back_where_there_is_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: calls.append("emptied"))
    for available, reserved in ((False, None), (True, 0), (True, 0.5), (True, None)):
        monkeypatch.setattr(torch.cuda, "is_available", lambda available=available: available)
        monkeypatch.setattr(device, "_reserved", reserved)
        release()
        calls.append(f"{available} {reserved}")
    assert calls == ["False None", "True 0", "emptied", "True 0.5", "emptied", "True None"]


class Alive:
    """Counts the trainings that are still in memory, whenever memory is given back."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *modules: Any):
        self.trainings: weakref.WeakSet[Training] = weakref.WeakSet()
        self.seen: list[int] = []
        made = Training._moving_average
        monkeypatch.setattr(
            Training, "_moving_average", lambda training: (self.trainings.add(training), made(training))[1]
        )
        for module in modules:
            monkeypatch.setattr(module, "release", self.count)

    def count(self) -> None:
        gc.collect()
        self.seen.append(len(self.trainings))


def test_the_last_training_is_gone_before_the_next_is_made(
    config: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    alive = Alive(monkeypatch, ranker_trainable)
    trainable = RankerTrainable(config)
    trainable.step()
    trainable.reset_config(config)
    assert alive.seen == [0]
    trainable.step()
    damaged = tmp_path / "checkpoint_000001"
    damaged.mkdir()
    trainable.save_checkpoint(str(damaged))
    (damaged / "weights.safetensors").write_bytes(b"")
    trainable.load_checkpoint(str(damaged))  # the training begins anew
    assert alive.seen == [0, 0] and trainable.step()["iteration"] == 1


# -- what the driver trains --------------------------------------------------------------------------------------


def small_run(**training: Any) -> TrainingRun:
    keys = {"max_iterations": 2, "batches_per_iteration": 2, "batch_size": 4, "pretrain_iterations": 2}
    ranker = {"name": "conv_knrm", "vector_size": 8, "filters": 4}
    return validated(
        {"ranker": ranker, "training": keys | training, "curriculum": {"scoring": "model_loss", "pacing": "root"}}
    )


@pytest.fixture(scope="module")
def data() -> RankingData:
    return tiny_data(queries=9, candidates=3, seed=41)


def test_the_teacher_says_where_it_is_trained_and_leaves_the_device(
    data: RankingData, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    alive = Alive(monkeypatch, teacher)
    teacher.teacher_scores(small_run(), data, required_split(data, "train"))
    assert "training the teacher (conv_knrm, at most 2 iterations, on cpu)\n" in capsys.readouterr().err
    assert alive.seen == [0]


def test_a_training_has_its_process_keep_freed_memory(data: RankingData) -> None:
    device.keep_freed_memory.cache_clear()
    Training(small_run(), completed(small_run(), prepare(small_run(), data)))
    assert device.keep_freed_memory.cache_info().currsize == 1


# -- what it computes with ---------------------------------------------------------------------------------------


def test_trials_of_a_ranker_that_compute_with_something_else_are_told_once(
    experiment: Experiment, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    trainer = ToyTrainer(tmp_path, experiment)
    trainer.search.next_trial()
    for machine in ("precision: bf16", "precision: bf16"):
        trainer.search.machine("t0000", machine)
    trainer.journal.close()
    for _ in range(2):  # resumed on another machine
        trainer = ToyTrainer(tmp_path, experiment)
        trainer.search.machine("t0000", "precision: fp32")
        trainer.journal.close()
    told = [event["text"] for event in read_events(trainer.journal.path) if event["event"] == "machine"]
    assert told == ["precision: bf16"] * 2 + ["precision: fp32"] * 2
    assert caplog.text.count("compute with 'precision: bf16' and 'precision: fp32'") == 1


# -- in the results ----------------------------------------------------------------------------------------------


def test_it_is_a_metric_of_the_trial(experiment: Experiment, tmp_path: Path) -> None:
    trainer = ToyTrainer(tmp_path, experiment)
    trainer.search.next_trial()
    metrics = dict.fromkeys(REPORTED, 1.0) | {"dev_map": 0.5, "time_this_iter_s": 2.0}
    trainer.search.result("t0000", metrics | {"iteration": 1})
    trainer.search.result("t0000", metrics | {"iteration": 2, "device_memory_mib": 812})
    trainer.journal.close()
    first, second = [event["metrics"] for event in read_events(trainer.journal.path) if event["event"] == "result"]
    assert set(first) == {"dev_map", *REPORTED}
    assert second == first | {"device_memory_mib": 812.0}
