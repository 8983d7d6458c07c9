"""When a running training saves its state, and how a training resumes from it."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from lightgbm.basic import LightGBMError
from safetensors import SafetensorError

from trainables.storage import patiently
from trainables.training.checkpoint import latest_iteration, save_iteration
from trainables.training.device import release
from trainables.training.factory import AnyTraining

DAMAGED = (FileNotFoundError, NotADirectoryError, ValueError, KeyError, SafetensorError, LightGBMError)
"""Errors raised by reading a damaged state. Any other OSError comes from the storage, the disk or the process."""
CHEAP, SHARE = 1.0, 0.1
T = TypeVar("T", bound=AnyTraining)


class Saves:
    """Says when a save is due: after each iteration if saves take at most CHEAP seconds, else so rarely that they take
    SHARE of the time. A killed training repeats, with the same numbers, what it did since: it only loses time."""

    def __init__(self) -> None:
        self.took = 0.0  # seconds that the last save took
        self.ended = time.monotonic()

    def due(self) -> bool:
        since = time.monotonic() - self.ended
        return self.took <= max(CHEAP, SHARE / (1 - SHARE) * since)

    @contextmanager
    def timed(self) -> Iterator[None]:
        """Wraps a save and times it."""
        started = time.monotonic()
        yield
        self.ended = time.monotonic()
        self.took = self.ended - started


def iterations(
    training: AnyTraining, folder: Path, saved: Callable[[], None] = lambda: None
) -> Iterator[dict[str, float]]:
    """Trains to the end, yielding the metrics of each iteration. The state is saved to `folder` when a save is due and
    at the end. `saved` is called after each save, and its time counts as part of the save."""
    saves = Saves()
    while not training.finished:
        metrics = training.iterate()
        if saves.due() or training.finished:
            with saves.timed():
                save_iteration(folder, training.iteration, training.save)
                saved()
        yield metrics


def taken_up(make: Callable[[], T], folder: Path, say: Callable[[str], None]) -> T:
    """A training that resumes from its last state in `folder`, if there is one. If that is damaged, `say` reports it,
    the folder is removed, and the training starts again: it repeats what it did."""
    training, latest = make(), latest_iteration(folder)
    if latest is None or (wrong := _damage(training, latest)) is None:
        return training
    say(f"{latest} is damaged ({wrong}); the training starts again")
    shutil.rmtree(folder)
    del training  # a device may not have room for both
    release()
    return make()


def _damage(training: AnyTraining, state: Path) -> str | None:
    """Loads the state; returns what is wrong with it, or None. The exception itself would keep the training alive."""
    try:
        patiently(lambda: training.load(state))
    except DAMAGED as error:
        return str(error)
    return None
