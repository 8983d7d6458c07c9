"""A batch's gradient, computed in as many parts as memory requires; the sum is the gradient of the whole batch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

import torch
from torch import Tensor, nn

from trainables.errors import WorkFailed

Result = TypeVar("Result")

OUT_OF_MEMORY = (
    "CUDA error: out of memory",
    "CUBLAS_STATUS_ALLOC_FAILED",
    "CUBLAS_STATUS_NOT_INITIALIZED",  # other processes have filled the device before the first product
    "CUDNN_STATUS_ALLOC_FAILED",
    "CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED",
    "unable to find an engine to execute this computation",  # what remains when none of cuDNN's algorithms has room
)
"""Messages of CUDA, and of libraries that bypass PyTorch's allocator; the last one can have other causes too."""


@dataclass(frozen=True)
class Lack:
    """A device had too little memory; `words` is its message."""

    words: str


def attempt(work: Callable[[], Result], device: torch.device) -> Result | Lack:
    """What the work returns, or a Lack if the device has too little memory for it; the memory is free again then."""
    if isinstance(result := _unless_out_of_memory(work), Lack) and device.type == "cuda":
        torch.cuda.empty_cache()
    return result


def _unless_out_of_memory(work: Callable[[], Result]) -> Result | Lack:
    try:
        return work()
    except RuntimeError as error:
        if not out_of_memory(error):
            raise
        return Lack(str(error).partition("\n")[0])


def out_of_memory(error: RuntimeError) -> bool:
    """Whether the error means that a device lacks memory."""
    return isinstance(error, torch.OutOfMemoryError) or any(words in str(error) for words in OUT_OF_MEMORY)


@contextmanager
def enough_memory(device: torch.device) -> Iterator[None]:
    """For work that would not fit with a smaller batch either: raises WorkFailed with advice if memory runs out."""
    try:
        yield
    except RuntimeError as error:
        if not out_of_memory(error):
            raise
        raise WorkFailed(
            f"the ranker, or what its optimiser keeps, does not fit in the memory of {device}; a smaller ranker, a "
            "smaller training.max_length, or a larger share of a GPU (search.resources.gpu) may help"
        ) from error


class Accumulation:
    """Sums a batch's gradient over micro-batches of at most `samples` samples (None: the whole batch at once).

    When the device runs out of memory, `samples` is halved for good and the batch is repeated. Parts draw other dropout
    masks than the whole batch would; all else is the same up to rounding. `notes` tells the user once that memory ran
    out; whoever reports on a training takes them, since a process on a cluster has no terminal.
    """

    def __init__(self, samples: int | None, device: torch.device):
        self.samples, self.device = samples, device
        self.told = False
        self.notes: list[str] = []

    def backward(self, module: nn.Module, size: int, loss_of: Callable[[slice], Tensor]) -> Tensor:
        """Sums loss_of(part) over the parts of a batch of `size` samples. Leaves the sum's gradient in the module's
        parameters and returns the sum, detached. Raises WorkFailed if not even one sample fits."""
        state = self._random_state()
        while isinstance(loss := attempt(lambda: self._sum(module, size, loss_of), self.device), Lack):
            self._halve(size, loss)
            self._set_random_state(state)
        return loss

    def _sum(self, module: nn.Module, size: int, loss_of: Callable[[slice], Tensor]) -> Tensor:
        """One attempt, with parts of `samples` samples."""
        module.zero_grad(set_to_none=True)
        step = min(self.samples or size, size)
        total = torch.zeros((), device=self.device)
        for start in range(0, size, step):
            loss = loss_of(slice(start, min(start + step, size)))
            loss.backward()
            total = total + loss.detach()
        return total

    def _halve(self, size: int, lack: Lack) -> None:
        samples = min(self.samples or size, size)
        if samples == 1:
            raise WorkFailed(
                f"one sample's gradient does not fit in the memory of {self.device} ({lack.words}); "
                "a smaller training.max_length, or for bert ranker.checkpointing: true, may help"
            )
        self.samples = (samples + 1) // 2
        if not self.told:
            self.told = True
            self.notes.append(
                f"{self.device} is out of memory with {samples} samples at a time: going on with {self.samples} "
                f"(training.micro_batch), or fewer; batches, loss and gradient stay the same"
            )

    def _random_state(self) -> list[Tensor]:
        """The state that dropout draws from: that of the CPU's generator, and of the GPU's if the device is one."""
        own = [torch.cuda.get_rng_state(self.device)] if self.device.type == "cuda" else []
        return [torch.get_rng_state(), *own]

    def _set_random_state(self, state: list[Tensor]) -> None:
        torch.set_rng_state(state[0])
        if len(state) > 1:
            torch.cuda.set_rng_state(state[1], self.device)
