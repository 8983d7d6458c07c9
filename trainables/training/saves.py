"""When the state of a training is written while it goes on."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from trainables.training.checkpoint import save_iteration
from trainables.training.factory import AnyTraining

CHEAP, SHARE = 1.0, 0.1


class Saves:
    """After each iteration, while a save takes CHEAP seconds at most; a dearer one only as often as takes SHARE of the
    time. A training that is killed repeats what it did since, with the same numbers: rare saves cost time then only."""

    def __init__(self) -> None:
        self.took = 0.0  # seconds, the last one
        self.ended = time.monotonic()

    def due(self) -> bool:
        since = time.monotonic() - self.ended
        return self.took <= max(CHEAP, SHARE / (1 - SHARE) * since)

    @contextmanager
    def timed(self) -> Iterator[None]:
        """Around a save."""
        started = time.monotonic()
        yield
        self.ended = time.monotonic()
        self.took = self.ended - started


def iterations(
    training: AnyTraining, folder: Path, saved: Callable[[], None] = lambda: None
) -> Iterator[dict[str, float]]:
    """Trains to the end and gives the metrics of each iteration; its state is in `folder` when saves are due and at the
    end. `saved` is called whenever another one is there, and counts as part of the save."""
    saves = Saves()
    while not training.finished:
        metrics = training.iterate()
        if saves.due() or training.finished:
            with saves.timed():
                save_iteration(folder, training.iteration, training.save)
                saved()
        yield metrics
