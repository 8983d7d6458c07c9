"""Where a training computes."""

from __future__ import annotations

import socket

import torch

from trainables.errors import WorkFailed


def best_device() -> torch.device:
    """The GPU that this process may use, or else the CPU."""
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def take(threads: int, gpu: bool) -> None:
    """What a trial reserved of a node: from now on this process computes with so many threads. Raises WorkFailed where
    a GPU was reserved and PyTorch sees none: the training would go on on the CPU, without a word."""
    torch.set_num_threads(threads)
    if gpu and not torch.cuda.is_available():
        raise WorkFailed(
            f"the trial reserved a GPU, but PyTorch {torch.__version__} sees none on {socket.gethostname()}: install a "
            "PyTorch and a driver there that fit each other, or train on CPUs with search.resources.gpu=0"
        )
