"""What is trained once for many trainings, a teacher or a pre-training: it is in the cache, and while it is trained its
state is too, so that one that was killed goes on."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from trainables.config import DataConfig, TrainingRun
from trainables.data.cache import cached_in_sittings
from trainables.prose import say
from trainables.training.device import best_device
from trainables.training.materials import Materials

if TYPE_CHECKING:
    from trainables.training.training import Training


def trained_once(
    kind: str, key: str, doing: str, plain: TrainingRun, materials: Materials, leave: Callable[[Training, Path], None]
) -> Path:
    """The entry `key` of this machine's cache, with what `leave` writes of the training `plain` when it has ended.

    `key` identifies configuration and data. `doing`: what the user is told while it is trained.
    """

    def build(entry: Path, state: Path) -> None:
        training = _ended(doing, plain, materials, state)
        leave(training, entry)

    return cached_in_sittings(kind, key, build)


def _ended(doing: str, plain: TrainingRun, materials: Materials, state: Path) -> Training:
    """The training at its end; it goes on from `state`."""
    # Here, because a training may itself need a teacher, or start from a pre-training.
    from trainables.training.saves import iterations, taken_up
    from trainables.training.training import Training

    what = f"{plain.ranker['name']}, at most {plain.training.max_iterations} iterations"
    say(f"{doing} ({what}, on {best_device()})")
    # The key fixes the data's content: a state made of the same data under other keys of `data` is a state of this one.
    run = plain.model_copy(update={"data": DataConfig()})
    training = taken_up(lambda: Training(run, materials), state, say)
    if training.iteration:
        say(f"going on after iteration {training.iteration}")
    for _ in iterations(training, state):
        for note in training.take_notes():
            say(f"note: {note}")
    return training
