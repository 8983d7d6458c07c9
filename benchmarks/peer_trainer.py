"""What the benchmarks against trainers of sentence-transformers share: their options, and the time of their steps."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import torch
import transformers
from datasets import Dataset  # pyright: ignore[reportMissingImports]  # of the `bench` extra
from devices import finish


def options_of(kind: Any, folder: Path, batch: int, rate: float, device: torch.device, **more: Any) -> Any:
    """Training arguments of a class of theirs: one pass at a constant rate that writes and reports nothing."""
    return kind(
        output_dir=str(folder),
        per_device_train_batch_size=batch,
        num_train_epochs=1,
        learning_rate=rate,
        lr_scheduler_type="constant",
        use_cpu=device.type == "cpu",
        report_to="none",
        save_strategy="no",
        logging_strategy="no",
        disable_tqdm=True,
        **more,
    )


class Watch(transformers.TrainerCallback):
    """Seconds between the first and the last step."""

    def __init__(self, device: torch.device):
        self.device = device

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        finish(self.device)
        self.started = time.perf_counter()

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        finish(self.device)
        self.seconds = time.perf_counter() - self.started


def trained(kind: Any, model: Any, options: Any, dataset: Dataset, device: torch.device, **more: Any) -> Any:
    """Trains a model by a trainer class of theirs; seconds of its steps, and what `train` returns."""
    watch = Watch(device)
    trainer = kind(model=model, args=options, train_dataset=dataset, callbacks=[watch], **more)
    trainer.remove_callback(transformers.PrinterCallback)  # it writes to stdout
    done = trainer.train()
    return watch.seconds, done
