"""How a benchmark beside another library is started, and where it computes: its options, waiting for a GPU to finish,
and a turn of a training."""

from __future__ import annotations

import argparse
import os
import sys

import torch
import transformers

from trainables.core.machine import CUBLAS
from trainables.training.device import best_device
from trainables.training.trainer import Training


def add_device(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu", help="of us and of the peer")


def peer_parser(document: str | None, repeats: int) -> argparse.ArgumentParser:
    """The options of a benchmark beside another library, which `document` describes."""
    parser = argparse.ArgumentParser(description=document, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data")
    parser.add_argument("--repeats", type=int, default=repeats)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--json", action="store_true")
    return parser


def parsed(parser: argparse.ArgumentParser) -> argparse.Namespace:
    """The options; their number of threads holds from here on, and transformers says nothing but errors."""
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    return options


def required_device(name: str) -> torch.device:
    """The device as trainings set it up, for the peer too. Ends the program if PyTorch lacks the GPU asked for."""
    if name == "cpu":
        return torch.device(name)
    if not torch.cuda.is_available():
        sys.exit(f"error: --device: PyTorch {torch.__version__} sees no GPU; cpu, or a PyTorch and a driver that fit")
    os.environ.update(CUBLAS)
    return best_device()


def finish(device: torch.device) -> None:
    """Waits until the device has finished."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def named(device: torch.device) -> str:
    return torch.cuda.get_device_name(device) if device.type == "cuda" else "CPU"


def train_turn(training: Training) -> dict[str, float]:
    """One iteration's steps, without its dev evaluation; reading the loss waits for the device. Returns metrics."""
    metrics = training._train()
    training.history.append(metrics)  # the next turn draws the next steps' batches
    return metrics
