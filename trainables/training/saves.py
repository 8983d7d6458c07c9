"""When the state of a training is written while it goes on, and how it is taken up again."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from lightgbm.basic import LightGBMError
from safetensors import SafetensorError

from trainables.storage import patiently
from trainables.training.checkpoint import latest_iteration, save_iteration
from trainables.training.device import release
from trainables.training.factory import AnyTraining

DAMAGED = (FileNotFoundError, NotADirectoryError, ValueError, KeyError, SafetensorError, LightGBMError)
"""What reading a damaged state raises. Any other OSError is of the storage, the disk or the process."""
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


def taken_up(make: Callable[[], AnyTraining], folder: Path, say: Callable[[str], None]) -> AnyTraining:
    """A training that goes on from its last state in `folder`, where there is one. A damaged one is said and removed,
    and the training starts again: it repeats what it did."""
    training, latest = make(), latest_iteration(folder)
    if latest is None or (wrong := _damage(training, latest)) is None:
        return training
    say(f"{latest} is damaged ({wrong}); the training starts again")
    shutil.rmtree(folder)
    del training  # a device may not hold both
    release()
    return make()


def _damage(training: AnyTraining, state: Path) -> str | None:
    """Loads the state; what is wrong with it, None where it is whole. The exception would keep the training alive."""
    try:
        patiently(lambda: training.load(state))
    except DAMAGED as error:
        return str(error)
    return None
