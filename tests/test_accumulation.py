"""Micro-batches: another amount of memory, the same gradient; and trainings that go on when memory runs out."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from tests.support.builders import tiny_data
from tests.support.training_runs import start_without_dropout
from trainables.config.keys import TrainingConfig
from trainables.core.errors import WorkFailed
from trainables.rankers.bert import Bert
from trainables.rankers.ranker import RankerModule
from trainables.training import accumulation
from trainables.training.device import NO_FIXED_ORDER, repeatable
from trainables.training.memory import Lack, attempt, enough_memory
from trainables.training.prepared import PreparedData, prepare
from trainables.training.trainer import Training

BATCH = 7


def make_run(loss: str = "pairwise", micro_batch: int | None = None, **curriculum: Any) -> TrainingConfig:
    return TrainingConfig.model_validate(
        {
            "ranker": {"name": "bert", "vocabulary_size": 300, "dropout": 0.0},
            "curriculum": {"weighting": "normalized_score", "m": 5} | curriculum,
            "training": {
                "loss": loss,
                "micro_batch": micro_batch,
                "batch_size": BATCH,
                "batches_per_iteration": 2,
                "max_iterations": 3,
                "precision": "fp32",
            },
        }
    )


@pytest.fixture(scope="module")
def prepared() -> PreparedData:
    return prepare(make_run(), tiny_data(queries=10, candidates=4, seed=3))


def gradients(training: Training) -> tuple[float, dict[str, Tensor]]:
    """Loss and gradient of the first batch, in float64."""
    training.module.double()
    batch = next(training.batcher.batches(0, 1))
    loss, _, pairs = training._step(0, batch)
    assert pairs == BATCH * (2 if training.batcher.instances.pairwise else 1)
    return float(loss), {name: p.grad.clone() for name, p in training.module.named_parameters() if p.grad is not None}


def test_only_trainings_ask_for_deterministic_algorithms() -> None:
    """A user's notebook goes on as before."""
    with pytest.raises(KeyError), repeatable(torch.device("cuda")):
        assert torch.are_deterministic_algorithms_enabled()
        raise KeyError
    with repeatable(torch.device("cuda"), strictly=False):
        assert torch.is_deterministic_algorithms_warn_only_enabled()
    assert not torch.are_deterministic_algorithms_enabled()
    assert torch.utils.deterministic.fill_uninitialized_memory


def test_an_operation_without_a_fixed_order_is_named_and_the_batch_is_repeated(
    prepared: PreparedData, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a GPU, where some operations of PyTorch refuse deterministic algorithms. Dropout repeats, too."""
    strictly: list[bool] = []  # of each attempt

    def noted(device: torch.device, **options: bool) -> AbstractContextManager[None]:
        strictly.append(options["strictly"])
        return nullcontext()

    expected = Training(make_run(), prepared, "cpu").iterate()["train_loss"]
    monkeypatch.setattr(accumulation, "repeatable", noted)
    training = Training(make_run(), prepared, "cpu")
    forward = training._forward

    def refused_at_first(rows: np.ndarray) -> Tensor:
        scores = forward(rows)  # has drawn from the generator
        if strictly == [True]:
            raise RuntimeError(f"cumsum_cuda_kernel{NO_FIXED_ORDER}, but you set ...")
        return scores

    monkeypatch.setattr(training, "_forward", refused_at_first)
    assert training.iterate()["train_loss"] == expected
    assert strictly == [True, False, False], "both steps, the first of them twice"
    assert ["nearly" in note for note in training.pop_notes() if note.startswith("cumsum_cuda_kernel, which")] == [True]


@pytest.mark.parametrize("micro_batch", [1, 3, 100])
@pytest.mark.parametrize("reference", ["paper", "code"])
@pytest.mark.parametrize("loss", ["pairwise", "pointwise"])
def test_micro_batches_leave_loss_and_gradient_alone(
    loss: str, reference: str, micro_batch: int, prepared: PreparedData
) -> None:
    weights = start_without_dropout(make_run(loss), prepared).curriculum.weigher
    batch = next(start_without_dropout(make_run(loss), prepared).batcher.batches(0, 1))
    assert np.ptp(weights(batch, 0)) > 0, "all samples count alike"
    whole = gradients(start_without_dropout(make_run(loss, reference=reference), prepared))
    parts = gradients(start_without_dropout(make_run(loss, micro_batch, reference=reference), prepared))
    assert parts[0] == pytest.approx(whole[0], rel=1e-6)
    assert parts[1].keys() == whole[1].keys()
    for name, gradient in whole[1].items():
        torch.testing.assert_close(parts[1][name], gradient, rtol=1e-7, atol=1e-12, msg=name)


class SmallDevice(RankerModule):
    """Scores as the ranker inside does, but has no memory for more than `room` pairs at a time."""

    def __init__(self, inside: RankerModule, room: int):
        super().__init__()
        self.inside, self.room = inside, room
        self.sizes: list[int] = []

    def collate(self, *pairs: Any) -> dict[str, Any]:
        return self.inside.collate(*pairs)

    def costs(self, *pairs: Any) -> np.ndarray:
        return self.inside.costs(*pairs)

    def forward(self, **inputs: Any) -> Tensor:
        size = len(inputs["packed_index"])
        self.sizes.append(size)
        torch.rand(1)  # advances the random state before memory runs out
        if size > self.room:
            raise torch.OutOfMemoryError("tried to allocate 1 PiB")
        return self.inside(**inputs)


def on_small_device(run: TrainingConfig, prepared: PreparedData, room: int) -> tuple[Training, SmallDevice]:
    training = Training(run, prepared, device="cpu")
    module = SmallDevice(training.module, room)
    training.module = training.batcher.module = module
    return training, module


TOLD = "cpu is out of memory with 7 samples at a time: going on with 4 (training.micro_batch), or fewer; batches, "


def test_out_of_memory_halves_the_micro_batch_and_changes_no_number(prepared: PreparedData, tmp_path: Path) -> None:
    small, module = on_small_device(make_run(), prepared, room=4)
    asked, _ = on_small_device(make_run(micro_batch=2), prepared, room=1000)
    for training in (small, asked):
        training.iterate()
        training.iterate()
    assert [row["train_loss"] for row in small.history] == [row["train_loss"] for row in asked.history]
    np.testing.assert_allclose(small.best_scores, asked.best_scores, rtol=1e-5)  # batches of another size for scoring
    assert module.sizes[:4] == [14, 8, 4, 4]  # two documents per sample: 7, 4, then 2 samples
    assert small.accumulation.samples == 2
    [note] = small.pop_notes()
    assert note == TOLD + "loss and gradient stay the same"
    small.save(tmp_path)
    again, module = on_small_device(make_run(), prepared, room=4)
    again.load(tmp_path)
    again.iterate()
    assert module.sizes[0] == 4, "a resumed training tried a larger one again"


def test_where_not_even_one_sample_fits_the_work_fails(prepared: PreparedData) -> None:
    training, _ = on_small_device(make_run(), prepared, room=1)
    told = r"one sample's gradient does not fit in the memory of cpu \(tried to allocate 1 PiB\); a smaller train"
    with pytest.raises(WorkFailed, match=told):
        training.iterate()


def test_scoring_goes_on_in_smaller_batches(prepared: PreparedData) -> None:
    training, module = on_small_device(make_run(), prepared, room=3)
    expected = Training(make_run(), prepared, device="cpu").score(training.dev)
    np.testing.assert_allclose(training.score(training.dev), expected, rtol=1e-5, atol=1e-6)
    too_large = [place for place, size in enumerate(module.sizes) if size > 3]
    assert too_large and too_large == list(range(len(too_large))), "what proved too large was tried again"
    module.room = 0
    with pytest.raises(WorkFailed, match=r"one pair does not fit in the memory of cpu \(tried to allocate 1 PiB\)"):
        training.score(training.dev)


@pytest.mark.parametrize(
    ("error", "lacks"),
    [
        (torch.OutOfMemoryError("tried to allocate 1 PiB"), True),
        (torch.AcceleratorError("CUDA error: out of memory\nSearch for `cudaErrorMemoryAllocation'"), True),
        (RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"), True),
        (RuntimeError("CUDA error: CUBLAS_STATUS_NOT_INITIALIZED when calling `cublasCreate(handle)`"), True),
        (RuntimeError("cuDNN error: CUDNN_STATUS_ALLOC_FAILED"), True),
        (RuntimeError("cuDNN error: CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED"), True),
        (RuntimeError("GET was unable to find an engine to execute this computation"), True),
        (torch.AcceleratorError("CUDA error: device-side assert triggered"), False),
        (RuntimeError("mat1 and mat2 shapes cannot be multiplied"), False),
        (ValueError("CUDA error: out of memory"), False),
    ],
)
def test_what_is_out_of_memory(error: Exception, lacks: bool) -> None:
    """Other errors are passed on: a smaller batch would not mend them."""

    def work() -> None:
        raise error

    device = torch.device("cpu")
    if lacks:
        assert attempt(work, device) == Lack(str(error).partition("\n")[0])
        with pytest.raises(WorkFailed, match="does not fit in the memory of cpu"), enough_memory(device):
            work()
        return
    with pytest.raises(type(error)) as caught:
        attempt(work, device)
    assert caught.value is error
    with pytest.raises(type(error)) as caught, enough_memory(device):
        work()
    assert caught.value is error


def no_room(*_: Any, **__: Any) -> None:
    raise torch.OutOfMemoryError("tried to allocate 1 PiB")


def test_where_the_ranker_or_its_moments_do_not_fit_the_work_fails(
    prepared: PreparedData, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With advice, and as a trial's result: a trial that raises would be tried again."""
    message = (
        "the ranker, or what its optimiser keeps, does not fit in the memory of cpu; a smaller ranker, .*resources"
    )
    training = Training(make_run(), prepared, device="cpu")
    monkeypatch.setattr(training.optimizer, "step", no_room)
    with pytest.raises(WorkFailed, match=message):
        training.iterate()
    monkeypatch.setattr(SmallDevice, "to", no_room)
    monkeypatch.setattr(Bert, "build", lambda *_: SmallDevice(training.module, 1))
    with pytest.raises(WorkFailed, match=message):
        Training(make_run(), prepared, device="cpu")
