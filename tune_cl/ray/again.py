"""Trials whose processes were killed: which are tried again, and how many run at a time from then on."""

from __future__ import annotations

import math
import re
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from ray.exceptions import OutOfMemoryError, RayActorError

from trainables.core.errors import last_line
from trainables.core.memory_kill import MemoryKill
from trainables.core.prose import counted

NO_MEMORY = re.compile(r"MemoryError|(can't|Cannot) allocate memory")


@dataclass
class Again:
    """Trials that are to be tried again, as where several need more memory than the machine has.

    A trial that Ray has ended for lack of memory is tried again with fewer beside it: `at_most` run from then on. One
    that was killed again, or for another reason, is tried once more while no other runs.

    running   Ray's ids of all trials that run
    waiting   configurations of trials to try again, and whether alone
    """

    running: set[str] = field(default_factory=set)
    waiting: list[tuple[dict[str, Any], bool]] = field(default_factory=list)
    at_most: float = math.inf
    _killed: Counter[str] = field(default_factory=Counter)  # how often for lack of memory, by our ids
    _had_turn: set[str] = field(default_factory=set)  # our ids of those that were tried alone, or are to be
    _alone: str | None = None  # Ray's id of the one that was tried alone last
    _last: tuple[str, int] = "", 0  # what Ray said of its last kill for memory, and how many trials ran then

    @property
    def has_room(self) -> bool:
        """Whether another trial may begin now."""
        alone = self._alone in self.running or any(alone for _, alone in self.waiting[:1])
        return len(self.running) < (1 if alone else self.at_most)

    def next(self, ray_trial: str) -> dict[str, Any]:
        """The configuration of the next one to try again."""
        config, alone = self.waiting.pop(0)
        self._alone = ray_trial if alone else self._alone
        return config

    def takes(self, config: dict[str, Any], failure: Exception) -> str | None:
        """Whether a trial that has just failed is tried again, as words on how; None if it is not: it was not killed,
        or has been tried alone."""
        name, kill = config["trial"], MemoryKill.of(str(failure))
        if not (kill or _was_killed(failure)):
            return None
        if kill and self._runs_fewer(kill, str(failure), name):
            self.waiting.append((config, False))
            return (
                f"it goes on from its last checkpoint; from now on {counted(int(self.at_most), 'trial')} at a time "
                f"(with search.max_concurrent={self.at_most}, or fewer threads a trial, a search begins so)"
            )
        if name in self._had_turn:
            return None
        self._had_turn.add(name)
        self.waiting.append((config, True))
        return "it is tried once more, alone"

    def _runs_fewer(self, kill: MemoryKill, said: str, name: str) -> bool:
        """Lowers `at_most` to as many trials as Ray left running. False if the trial ran alone, or was killed for
        memory before. Ray says the same of each process that it ends at once."""
        if said != self._last[0]:
            self._last = said, len(self.running) + 1
        ran = self._last[1]
        self._killed[name] += 1
        if ran == 1 or self._killed[name] > 1:
            return False
        self.at_most = min(self.at_most, max(1, ran - max(1, len(kill.processes))))
        return True


def _was_killed(failure: Exception) -> bool:
    """Whether a trial's process ended without an error of its own, or for want of memory."""
    died = isinstance(failure, RayActorError | OutOfMemoryError) and not getattr(failure, "actor_init_failed", False)
    return died or NO_MEMORY.search(last_line(failure)) is not None
