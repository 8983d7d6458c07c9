"""Where a training computes."""

from __future__ import annotations

import gc
import os
import socket
from collections.abc import Callable
from typing import Any, TypeVar

import torch

from trainables.errors import WorkFailed

T = TypeVar("T")
Compute = Callable[..., Any]
"""`here`, or what takes its place."""

CONTEXT = 600 * 2**20  # bytes of a GPU that a process takes beside its tensors, about
SMALLEST = 0.01  # of a GPU: what any process may take of it

_reserved: float | None = None  # GPUs that this process's trial computes with; None: nobody divides the machine


def best_device() -> torch.device:
    """The GPU that this process may use, or else the CPU. Ray leaves GPUs visible to trials that reserve none: those
    train on the CPU."""
    if _reserved == 0 or not torch.cuda.is_available():
        return torch.device("cpu")
    # cuDNN's attention plans anew for each shape, and ours change at each step (not measured here).
    torch.backends.cuda.enable_cudnn_sdp(False)
    torch.backends.cudnn.allow_tf32 = False  # convolutions and LSTMs: fp32 is fp32
    return torch.device("cuda")


def take(threads: int, gpu: float, on_cpu: bool = False) -> None:
    """What a trial reserved of a node: from now on this process computes with so many threads, on a GPU if `gpu` is not
    0; a share of one is a share of its memory too, with CUDA's own part in it. `on_cpu`: it leaves what it reserved of
    GPUs unused. Raises WorkFailed where a GPU is to be used and PyTorch sees none: the training would go on on the CPU,
    without a word."""
    global _reserved
    if not gpu:  # Ray leaves GPUs visible, and PyTorch's optimizers begin a CUDA context on one that they see
        os.environ["CUDA_VISIBLE_DEVICES"] = ""
    _reserved = gpu = 0 if on_cpu else gpu
    torch.set_num_threads(threads)
    if gpu and not torch.cuda.is_available():
        raise WorkFailed(
            f"the trial reserved a GPU, but PyTorch {torch.__version__} sees none on {socket.gethostname()}: install a "
            "PyTorch and a driver there that fit each other, or train on CPUs with search.resources.gpu=0"
        )
    if 0 < gpu < 1:  # what a trial's allocator holds back, the others on the device could not get
        total = torch.cuda.get_device_properties(0).total_memory
        torch.cuda.set_per_process_memory_fraction(max(SMALLEST, gpu - CONTEXT / total))


def here(function: Callable[..., T], *arguments: Any) -> T:
    """Computes in this process; what takes its place computes elsewhere, on copies of the arguments."""
    return function(*arguments)


def release() -> None:
    """Gives GPU memory that nothing uses any more to other processes; the caller has dropped what was on the GPU."""
    if best_device().type == "cuda":
        gc.collect()
        torch.cuda.empty_cache()
