"""When a running training saves its state, and how a training resumes from it."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from safetensors import SafetensorError

from trainables.core.storage import fetched
from trainables.training.checkpoint import latest_iteration, save_iteration
from trainables.training.device import release
from trainables.training.progress import Progress

DAMAGED = (FileNotFoundError, NotADirectoryError, ValueError, KeyError, SafetensorError)
"""Errors raised by reading a damaged state. Any other OSError comes from the storage, the disk or the process."""
QUICK = 0.1  # seconds
SHARE = 0.1  # of the time
T = TypeVar("T", bound=Progress)


class Saves:
    """When a running training saves its state: as long as saves take at most SHARE of the time; QUICK ones always. A
    killed training repeats, with the same numbers, what it did since the last one: it only loses time."""

    def __init__(self) -> None:
        self.took = 0.0  # seconds that the last save took
        self.ended = time.monotonic()

    def due(self) -> bool:
        return self.took <= max(QUICK, SHARE / (1 - SHARE) * (time.monotonic() - self.ended))

    @contextmanager
    def timed(self) -> Iterator[None]:
        """Wraps a save and times it."""
        started = time.monotonic()
        yield
        self.ended = time.monotonic()
        self.took = self.ended - started


def trained(make: Callable[[], T], folder: Path, say: Callable[[str], None]) -> T:
    """A training at its end. It goes on from its state in `folder`."""
    training = resumed_or_new(make, folder, say)
    if training.iteration:
        say(f"going on after iteration {training.iteration}")
    for _ in iterations(training, folder):
        for note in training.pop_notes():
            say(f"note: {note}")
    return training


def iterations(training: Progress, folder: Path) -> Iterator[dict[str, float]]:
    """Trains to the end, yielding the metrics of each iteration. The state is saved to `folder` when a save is due and
    at the end."""
    saves = Saves()
    while not training.finished:
        metrics = training.iterate()
        if training.finished or saves.due():
            with saves.timed():
                save_iteration(folder, training.iteration, training.save)
        yield metrics


def resumed(make: Callable[[], T], state: str | Path | None, note: Callable[[str], None]) -> T:
    """A training that goes on from a state, or from the start where there is none or it is damaged, of which `note` is
    told: it repeats the same steps, so only time is lost."""
    training = make()
    wrong = _damage(training, state) if state else None
    if wrong is None:
        return training
    note(f"{state} is damaged ({wrong}); the training starts again")
    training.close()
    del training  # a device may not have room for both
    release()
    return make()  # without what the failed load had read


def _damage(training: Progress, state: str | Path) -> str | None:
    """Loads the state; returns what is wrong with it, or None. The exception itself would keep the training alive."""
    try:
        with fetched(state) as folder:
            training.load(folder)
    except DAMAGED as error:
        return str(error)
    return None


def resumed_or_new(make: Callable[[], T], folder: Path, say: Callable[[str], None]) -> T:
    """A training that goes on from its state in `folder`, as `iterations` leaves it there, or from the start."""
    latest = latest_iteration(folder)
    training = resumed(make, latest, say)
    if latest and not training.iteration:
        shutil.rmtree(folder)
    return training
