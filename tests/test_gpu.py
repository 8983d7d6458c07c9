"""On a real GPU: the numbers of a CPU, no waiting, and memory that runs out. What a CPU can show of this is in
test_device_memory.py, test_device_waits.py and test_accumulation.py."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml
from torch import Tensor

from tests.support import commands
from tests.support.builders import tiny_data
from tests.support.commands import SPACE, finish
from tests.support.ranker_cases import CASES, NETWORKS, SMALL
from tests.support.terminal import outcomes_of
from tests.support.training_runs import start_without_dropout
from tests.support.trec_folder import write_trec_folder
from trainables.config.keys import TrainingConfig, validated
from trainables.core.machine import CUBLAS
from trainables.training import device
from trainables.training.device import CONTEXT, SMALLEST, limit_process
from trainables.training.prepared import PreparedData, prepare
from trainables.training.trainer import Training
from tune_cl.history.journal import read_events

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="PyTorch sees no GPU here")
GPU = None  # the device that a training takes by default


@pytest.fixture(autouse=True)
def all_of_its_memory(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """As in a process that does not share its GPU, with the environment of our commands."""
    for name, value in CUBLAS.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(device, "_reserved", None)
    yield
    torch.cuda.set_per_process_memory_fraction(1.0)
    torch.cuda.empty_cache()


def run_of(ranker: dict[str, Any], **training: Any) -> TrainingConfig:
    keys = {"loss": "pairwise", "batch_size": 16, "batches_per_iteration": 2, "max_iterations": 3, "precision": "fp32"}
    ranker = SMALL.get(ranker["name"], {}) | ranker
    return validated({"ranker": ranker, "training": keys | training, "metric": "map"})


def gradients(run: TrainingConfig, prepared: PreparedData, on: str | None) -> tuple[float, dict[str, Tensor]]:
    """Loss and gradient of the first batch, on the CPU, in float64: in float32 some gradients are mere rounding."""
    training = start_without_dropout(run, prepared, on)
    training.module.double()
    if training.batcher.features is not None:
        training.batcher.features = training.batcher.features.double()
    if training.batcher.first_stage is not None:
        training.batcher.first_stage = training.batcher.first_stage.astype(np.float64)
    loss, _, _ = training._step(0, next(training.batcher.batches(0, 1)))
    named = training.module.named_parameters()
    return float(loss), {name: p.grad.cpu() for name, p in named if p.grad is not None}


def prepared_case(ranker: dict[str, Any]) -> tuple[TrainingConfig, PreparedData]:
    run = run_of(ranker)
    return run, prepare(run, tiny_data(queries=12, candidates=6, seed=3))


@pytest.fixture(params=CASES)
def case(request: pytest.FixtureRequest) -> tuple[TrainingConfig, PreparedData]:
    return prepared_case(CASES[request.param])


def test_loss_and_gradient_are_those_of_a_cpu(case: tuple[TrainingConfig, PreparedData]) -> None:
    (here, expected), (there, found) = gradients(*case, "cpu"), gradients(*case, GPU)
    assert there == pytest.approx(here, rel=1e-6)
    assert found.keys() == expected.keys()
    for name, gradient in expected.items():
        rounding = 1e-8 if gradient.dtype == torch.float64 else 1e-4 * float(gradient.abs().max())
        torch.testing.assert_close(found[name], gradient, rtol=1e-5, atol=rounding, msg=name)


def test_scores_are_those_of_a_cpu(case: tuple[TrainingConfig, PreparedData]) -> None:
    here, there = (start_without_dropout(*case, on) for on in ("cpu", GPU))
    np.testing.assert_allclose(there.score(there.dev), here.score(here.dev), rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("precision", ["fp32", "auto"])
def test_a_step_never_waits(case: tuple[TrainingConfig, PreparedData], precision: str) -> None:
    run, prepared = case
    training = Training(run_of(run.ranker.model_dump(), precision=precision), prepared, GPU)
    first, second = training.batcher.batches(0, 2)
    training._step(0, first)  # makes plans and allocates memory
    torch.cuda.set_sync_debug_mode("error")
    try:
        training._step(1, second)
    finally:
        torch.cuda.set_sync_debug_mode("default")


@pytest.mark.parametrize("ranker", NETWORKS)
def test_a_training_goes_on_as_if_unbroken_there_and_on_a_cpu(ranker: str, tmp_path: Path) -> None:
    run, prepared = prepared_case(CASES[ranker])
    case = run_of(run.ranker.model_dump()), prepared
    whole, broken = start_without_dropout(*case, GPU), start_without_dropout(*case, GPU)
    expected = [whole.iterate()["train_loss"] for _ in range(3)]
    broken.iterate()
    assert {tensor.device.type for tensor in broken.best_weights.values()} == {"cuda"}
    broken.save(tmp_path)
    for on in (GPU, "cpu"):
        again = start_without_dropout(*case, on)
        again.load(tmp_path)
        rounding = {"rel": 0.0, "abs": 0.0} if on == GPU else {"rel": 5e-3}
        assert [again.iterate()["train_loss"] for _ in range(2)] == pytest.approx(expected[1:], **rounding)


def test_bf16_is_taken_where_the_gpu_computes_it_and_changes_scores_little() -> None:
    run = run_of({"name": "bert"}, precision="auto")
    prepared = prepare(run, tiny_data(queries=12, candidates=6, seed=3))
    chosen, plain = (
        start_without_dropout(run, prepared, GPU),
        start_without_dropout(run_of({"name": "bert"}), prepared, GPU),
    )
    assert (chosen.precision.dtype is torch.bfloat16) == torch.cuda.is_bf16_supported(including_emulation=False)
    np.testing.assert_allclose(chosen.score(chosen.dev), plain.score(plain.dev), atol=0.05)
    assert chosen.iterate()["train_loss"] == pytest.approx(plain.iterate()["train_loss"], abs=0.05)


def peak(run: TrainingConfig, prepared: PreparedData) -> tuple[int, float, Training]:
    """The most bytes that an iteration had, its loss, and the training."""
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    training = start_without_dropout(run, prepared, GPU)
    loss = training.iterate()["train_loss"]
    return torch.cuda.max_memory_reserved(), loss, training


def test_where_memory_runs_out_the_micro_batch_is_halved_and_the_loss_stays() -> None:
    ranker = {"name": "bert", "dropout": 0.0}
    data = tiny_data(queries={"train": 200, "dev": 12, "test": 12}, candidates=8, seed=3)  # scoring needs less
    run = run_of(ranker, batch_size=1024, batches_per_iteration=1)
    prepared = prepare(run, data)
    whole, expected, _ = peak(run, prepared)
    in_parts_of = run_of(ranker, batch_size=1024, batches_per_iteration=1, micro_batch=32)
    least, in_parts, _ = peak(in_parts_of, prepared)
    assert in_parts == pytest.approx(expected, rel=1e-3)
    assert whole > 2 * least, "nothing to save"
    total = torch.cuda.get_device_properties(0).total_memory
    torch.cuda.set_per_process_memory_fraction((whole + least) / 2 / total)
    most, loss, training = peak(run, prepared)
    assert most < whole and loss == pytest.approx(expected, rel=1e-3)
    assert training.accumulation.samples in (32, 64, 128, 256, 512)
    assert "out of memory with 1024 samples at a time: going on with" in "".join(training.pop_notes())


def test_a_share_of_a_gpu_is_a_share_of_its_memory() -> None:
    total, free = torch.cuda.get_device_properties(0).total_memory, torch.cuda.mem_get_info()[0]
    limit_process(torch.get_num_threads(), 0.2)
    allowed = int(0.2 * total) - CONTEXT
    if free < 1.2 * allowed:
        pytest.skip("others use this GPU")
    kept = torch.cuda.memory_reserved()  # left by earlier trainings: cuBLAS keeps its workspaces
    torch.empty(allowed - kept - 64 * 2**20, dtype=torch.uint8, device="cuda")
    with pytest.raises(torch.OutOfMemoryError):
        torch.empty(allowed + 64 * 2**20, dtype=torch.uint8, device="cuda")


def searched(place: Path, name: str, *overrides: str) -> tuple[dict[str, Any], list[dict[str, Any]], str]:
    """A search over `place`/toy.yaml: its document, the results in its journal, and what it told on the terminal."""
    keys = [part for override in ("search.resources.cpu=1", *overrides) for part in ("--set", override)]
    arguments = ["run", "toy.yaml", "--data", "data", "--name", name, "--json", *keys]
    out, told = finish(commands.start(place, *arguments))
    events = read_events(place / "tune_cl_runs" / name / "journal.jsonl")
    return json.loads(out), [event for event in events if event["event"] == "result"], told


def losses(results: list[dict[str, Any]]) -> dict[tuple[str, int], float]:
    return {(result["trial"], result["iteration"]): result["metrics"]["train_loss"] for result in results}


@pytest.mark.slow
def test_trials_share_a_gpu_and_with_too_little_memory_find_the_same(tmp_path: Path) -> None:
    """Real searches."""
    data = tiny_data(queries={"train": 200, "dev": 12, "test": 12}, candidates=8, turns=1)
    write_trec_folder(data, tmp_path / "data")
    ranker = {"name": "conv_knrm", "kernels_learned": False}  # has no dropout, and does not amplify rounding
    space = yaml.safe_load(SPACE) | {"ranker": ranker}
    space["training"] = {"batch_size": 1024, "batches_per_iteration": 2, "max_iterations": 2, "precision": "fp32"}
    space["search"] |= {"searcher": "random", "scheduler": "none", "trials": 2, "max_concurrent": 2}
    (tmp_path / "toy.yaml").write_text(yaml.safe_dump(space))
    total = torch.cuda.get_device_properties(0).total_memory
    document, whole, told = searched(tmp_path, "whole", "search.resources.gpu=0.25")
    assert len(document["trials"]) == 2 and "failed" not in outcomes_of(document)
    assert "out of memory" not in told
    run = validated({"ranker": ranker, "training": space["training"] | {"loss": "pairwise"}})
    allowed = 0.6 * peak(run, prepare(run, data))[0]
    if allowed / total < SMALLEST:
        pytest.skip("a hundredth of this GPU's memory is enough for the whole batch")
    _, halved, told = searched(tmp_path, "halved", f"search.resources.gpu={(allowed + CONTEXT) / total:.5f}")
    assert told.count("out of memory with 1024 samples at a time: going on with 512") == 2, "once a trial"
    assert losses(halved) == pytest.approx(losses(whole), rel=1e-3)
