"""A training that is saved and goes on, against one that is not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from trainables.training.trainer import Training


def resumes_exactly(new: Callable[[], Training], folder: Path) -> Training:
    """Asserts that a training saved in `folder` after its first iteration has an unbroken one's loss in the second.
    Returns the unbroken one, after two iterations."""
    unbroken, first, second = new(), new(), new()
    losses = [unbroken.iterate()["train_loss"] for _ in range(2)]
    assert first.iterate()["train_loss"] == losses[0]
    folder.mkdir()
    first.save(folder)
    second.load(folder)
    assert second.iterate()["train_loss"] == losses[1]
    return unbroken
