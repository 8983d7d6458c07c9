"""Which negatives an optimiser step draws: a curriculum over the candidates of each query, beside that over queries."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from trainables.core.registry import Entry, Registry
from trainables.curriculum.pacing import Schedule
from trainables.data.instances import Instances

BEYOND = "beyond the papers"
SCHEDULES: Registry[None] = Registry(
    "curriculum.negatives.schedule",
    Entry("none", None, "the negatives of training.* from the start", "baseline"),
    Entry("ranks", None, "a window of ranks that moves from deep ones to training.negative_ranks", BEYOND),
    Entry("sources", None, "random negatives, then by first stage, then by teacher, up to hard_negatives", BEYOND),
    Entry("groups", None, "loss cl_drd: a growing fraction of each list in the teacher's order", "Zeng et al. 2022"),
)


@dataclass(frozen=True)
class Negatives:
    """The negatives of plain training, which are the same at every step.

    instances  the instances as they are drawn from when the schedule has ended
    schedule   how far the curriculum has come at a step: the end of what its pacing opens
    """

    instances: Instances
    schedule: Schedule

    def at(self, step: int) -> Instances:
        """The instances as an optimiser step (from 0) draws their negatives."""
        return self.instances

    def progress(self, step: int) -> float:
        """The share of the way that lies behind a step, in (0, 1]; 1 at the end."""
        return self.schedule.bounds(step)[1]

    def ordered_share(self, step: int) -> float:
        """The share of each list, the teacher's first, whose order loss cl_drd learns."""
        return 1.0

    def after(self, dev: Sequence[float]) -> Negatives:
        """The negatives once these dev values, one of each iteration so far, are known (`Schedule.after`)."""
        return replace(self, schedule=self.schedule.after(dev))


@dataclass(frozen=True)
class MovingRanks(Negatives):
    """The window of ranks moves in a straight line from `start` to `end`, and with it its width.

    ranked  the instances with all possible negatives of each, the hardest first
    start   first and last rank (from 1) at the beginning; None: the deepest ranks that each instance has
    end     those at the end, as training.negative_ranks
    """

    ranked: Instances
    start: tuple[int, int] | None
    end: tuple[int, int]

    def at(self, step: int) -> Instances:
        if (way := self.progress(step)) == 1:
            return self.instances
        count = self.ranked.below
        low, width = _window(count, *self.end)
        deep = (count - width, width) if self.start is None else _window(count, *self.start)
        below = np.rint(deep[1] + way * (width - deep[1])).astype(np.int64)
        first = np.minimum(np.rint(deep[0] + way * (low - deep[0])).astype(np.int64), count - below)
        return replace(self.ranked, start=self.ranked.start + first, below=below)


def _window(count: np.ndarray, first: int, last: int) -> tuple[np.ndarray, np.ndarray]:
    """Offset and width of ranks `first` to `last` among `count` negatives, int64 [I]; the last one where there are
    fewer."""
    low = np.minimum(first, count) - 1
    return low, np.minimum(last, count) - low


@dataclass(frozen=True)
class GrowingGroups(Negatives):
    """The negatives are always the same, and their order by the teacher becomes finer (Zeng, Zamani & Vinay 2022)."""

    def ordered_share(self, step: int) -> float:
        return self.progress(step)


@dataclass(frozen=True)
class Sources(Negatives):
    """The instances of several sources of negatives, from easy to hard, one after the other: the k-th of K once the way
    exceeds k/K."""

    sources: tuple[Instances, ...]

    def at(self, step: int) -> Instances:
        number = len(self.sources)
        passed = np.ceil(self.progress(step) * number - 1e-9)
        return self.sources[int(min(max(passed, 1), number)) - 1]
