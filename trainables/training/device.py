"""Where a training computes."""

from __future__ import annotations

import ctypes
import gc
import os
import platform
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeVar

import torch

from trainables.core.errors import WorkFailed
from trainables.core.machine import CUBLAS
from trainables.rankers.ranker import RankerModule

T = TypeVar("T")
Compute = Callable[..., Any]
"""`here`, or a function used in its place."""

CONTEXT = 600 * 2**20  # bytes of GPU memory, roughly, that a process takes besides its tensors
SMALLEST = 0.01  # share of a GPU's memory that any process may take
NO_FIXED_ORDER = " does not have a deterministic implementation"  # PyTorch's error, behind the operation's name
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # glibc's malloc.h

_reserved: float | None = None  # GPUs that this process's trial reserved; None: there are no reservations


def best_device() -> torch.device:
    """The accelerator that this process may use (CUDA, MPS on a Mac, ...), or else the CPU. Trials that reserve no GPU
    train on the CPU, although Ray leaves GPUs visible to them."""
    accelerator = torch.accelerator.current_accelerator(check_available=True)
    if _reserved == 0 or accelerator is None:
        return torch.device("cpu")
    if accelerator.type == "cuda":
        # cuDNN's attention makes a new plan for each shape, and our shapes change at each step (not measured here).
        torch.backends.cuda.enable_cudnn_sdp(False)
        torch.backends.cudnn.allow_tf32 = False  # so that fp32 means fp32 in convolutions and LSTMs
    return accelerator


@contextmanager
def repeatable(device: torch.device, strictly: bool = True) -> Iterator[None]:
    """In the block, a GPU repeats its numbers bit by bit: operations that would add in the order in which their threads
    end take another algorithm. One that has none raises an error (`NO_FIXED_ORDER`), unless not `strictly`."""
    if device.type != "cuda":
        yield
        return
    before = torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()
    memory: Any = torch.utils.deterministic
    filled, memory.fill_uninitialized_memory = memory.fill_uninitialized_memory, False  # with NaN, which takes time
    torch.use_deterministic_algorithms(True, warn_only=not strictly)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(before[0], warn_only=before[1])
        memory.fill_uninitialized_memory = filled


@cache
def keep_freed_memory() -> bool:
    """From now on this process keeps the memory that tensors free, for the tensors of its next step. Returns whether
    its C library can do that: glibc, which else gives large blocks back to the system, and this fills them with zeros
    when the next step asks for them again."""
    if platform.libc_ver()[0] != "glibc":
        return False
    library = ctypes.CDLL(None)
    accepted = [library.mallopt(_MMAP_THRESHOLD, 2**30), library.mallopt(_TRIM_THRESHOLD, 2**31 - 1)]
    return accepted == [1, 1]


def limit_process(threads: int, gpu: float, on_cpu: bool = False) -> None:
    """Limits this process to what a trial reserved on a node: `threads` threads, and a GPU if `gpu` is not 0. A share
    of a GPU is a share of its memory too, CUDA's own part included. `on_cpu`: leaves reserved GPUs unused. Raises
    WorkFailed if a GPU is to be used but PyTorch sees none: the training would silently run on the CPU."""
    global _reserved
    if not gpu and os.environ.get("CUDA_VISIBLE_DEVICES") != "":  # no write beside threads of a trial before
        # Ray leaves GPUs visible, and PyTorch's optimizers create a CUDA context on a GPU that they see.
        os.environ["CUDA_VISIBLE_DEVICES"] = ""
    _reserved = gpu = 0 if on_cpu else gpu
    if gpu and not CUBLAS.keys() <= os.environ.keys():  # a trial's first; a Ray that is not ours lacks it
        os.environ.update(CUBLAS)
    torch.set_num_threads(threads)
    if gpu and not torch.cuda.is_available():
        raise WorkFailed(
            f"the trial reserved a GPU, but PyTorch {torch.__version__} sees none on {socket.gethostname()}: install a "
            "PyTorch and a driver there that fit each other, or train on CPUs with search.resources.gpu=0"
        )
    if 0 < gpu < 1:  # other trials on the device cannot get what this one's allocator holds back
        total = torch.cuda.get_device_properties(0).total_memory
        torch.cuda.set_per_process_memory_fraction(max(SMALLEST, gpu - CONTEXT / total))


def here(function: Callable[..., T], *arguments: Any) -> T:
    """Computes in this process; functions used in its place compute elsewhere, on copies of the arguments."""
    return function(*arguments)


def release() -> None:
    """Frees unused GPU memory for other processes; the caller must have dropped what it held on the GPU."""
    if best_device().type == "cuda":
        gc.collect()
        torch.cuda.empty_cache()


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
        return Precision(None, "fp32: bf16 is too coarse for this ranker")
    if _has_bf16(device):
        return Precision(torch.bfloat16, f"bf16: {device.type} computes it natively")
    return Precision(None, f"fp32: {device.type} has no native bf16")


def _has_bf16(device: torch.device) -> bool:
    if device.type == "cuda":
        return torch.cuda.is_bf16_supported(including_emulation=False)
    return device.type == "cpu" and (torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported())
