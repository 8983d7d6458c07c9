"""When a running training saves its state, and how a training resumes from it."""

from __future__ import annotations

import math
import shutil
import time
from collections.abc import Callable, Iterable, Iterator
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


def trained(
    make: Callable[[], T],
    folder: Path,
    say: Callable[[str], None],
    last: float = math.inf,
    each: Callable[[T], None] = lambda training: None,
) -> T:
    """A training at its end, or after iteration `last`. It goes on from its state in `folder`. `each` is called after
    each iteration, and with a training that goes on."""
    training = resumed_or_new(make, folder, say)
    if training.iteration:
        say(f"going on after iteration {training.iteration}")
        each(training)
    if training.iteration >= last:
        return training
    for _ in iterations(training, folder):
        for note in training.pop_notes():
            say(f"note: {note}")
        each(training)
        if training.iteration == last:
            break
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


def resumed(make: Callable[[], T], states: Iterable[str | Path], note: Callable[[str], None]) -> T:
    """A training that goes on from the first of these states that is sound; from the start if none is.
    It repeats the same steps, so only time is lost. `note` is told of each that is damaged."""
    training = make()
    for state in states:
        if (wrong := _damage(training, state)) is None:
            return training
        note(f"{state} is damaged ({wrong}); it is not used")
        training.close()
        del training  # a device may not have room for both
        release()
        training = make()  # without what the failed load had read
    return training


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
    training = resumed(make, [latest] if latest else [], say)
    if latest and not training.iteration:
        shutil.rmtree(folder)
    return training
