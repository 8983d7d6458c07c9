"""What happens when a device runs out of memory: a smaller attempt, or advice."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

import torch

from trainables.core.errors import WorkFailed

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
    try:
        return work()
    except RuntimeError as error:
        if not out_of_memory(error):
            raise
        lack = Lack(str(error).partition("\n")[0])
    if device.type == "cuda":  # now that the error and the tensors of its frames are gone
        torch.cuda.empty_cache()
    return lack


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
            "smaller training.max_length, or a larger fraction of a GPU (search.resources.gpu) may help"
        ) from error
