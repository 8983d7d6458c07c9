"""Failures and interruptions on demand."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from trainables.training.trainer import Training


def stopping_after(iterations: int) -> Callable[[Training], dict[str, float]]:
    iterate = Training.iterate

    def until_then(training: Training) -> dict[str, float]:
        if training.iteration == iterations:
            raise KeyboardInterrupt
        return iterate(training)

    return until_then


class Clock:
    """A clock of its own for `time.monotonic`."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now


class ThreeIterations:
    """A training whose saved states say how far it is."""

    iteration = 0

    @property
    def finished(self) -> bool:
        return self.iteration == 3

    def iterate(self) -> dict[str, float]:
        self.iteration += 1
        return {}

    def save(self, folder: Path) -> None:
        (folder / "a").write_text(str(self.iteration))
