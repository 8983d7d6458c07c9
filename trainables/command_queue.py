"""Passes commands from the process of a trial to the workers of its training, and frees what these reserved; gives the
processes of trials what is trained while other trials run.

This module imports neither PyTorch nor what does: the actors would load it for seconds each time that workers start.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
import ray
from ray.exceptions import RayActorError
from ray.util import remove_placement_group
from ray.util.placement_group import PlacementGroup
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

IDLE = 30.0  # seconds without a command, after which the workers end and leave their cores to others
GRACE = 10.0  # seconds in which all workers fail if it is not one of them alone
BEGIN = "begin"


@dataclass(frozen=True)
class Group:
    """The processes of one training, and what each reserves."""

    workers: int
    cpu: float
    gpu: float
    threads: int


@dataclass(frozen=True)
class Command:
    """Command `number`: what to do, after so many iterations of the training."""

    number: int
    name: str
    iterations: int = 0
    arguments: tuple[Any, ...] = ()


@dataclass(frozen=True)
class ProgressReport:
    """How far the workers' training has come; the fields of Progress."""

    history: list[dict[str, float]]
    best_iteration: int
    dev_values: np.ndarray
    machine: str
    notes: list[str]


class CommandQueue:
    """Passes commands to the workers and the answer back. An answer of None: the workers have ended."""

    def __init__(self) -> None:
        self.news = asyncio.Condition()
        self.first = self.last = Command(0, BEGIN)
        self.reply: asyncio.Future[Any] | None = None
        self.failed: dict[int, set[int]] = {}  # number of a command -> ranks that failed at it
        self.settled = 0  # number of a command that failed: nobody does it again
        self.starts = 0  # of the workers
        self.ended = False

    async def ask(self, first: Command, command: Command) -> Any:
        """The answer to a command, and how often the workers have started. `first`: what began the training."""
        async with self.news:
            if self.ended:
                return None
            self.first, self.last = first, command
            self.reply = asyncio.get_running_loop().create_future()
            self.news.notify_all()
        return await self.reply

    async def next(self, rank: int, after: int) -> Command | None:
        """What a worker does after command `after` (0: it has just started). None: it ends."""
        self.starts += not (rank or after)
        after = max(after, self.settled)
        async with self.news:
            with suppress(TimeoutError):
                await asyncio.wait_for(self.news.wait_for(lambda: self.ended or self.last.number > after), IDLE)
            self.ended = self.ended or self.last.number <= after
        if self.ended:
            await self.end()
            return None
        return self.first if self.first.number > after else self.last

    async def answer(self, number: int, value: Any) -> None:
        if number == self.last.number and self.reply and not self.reply.done():
            self.reply.set_result((value, self.starts))

    async def all_fail(self, rank: int, workers: int, number: int, error: Exception) -> bool:
        """Answers with an error. Returns whether all workers fail at the command; else some may wait for others."""
        await self.answer(number, error)
        async with self.news:
            self.settled = max(self.settled, number)
            failed = self.failed.setdefault(number, set())
            failed.add(rank)
            self.news.notify_all()
            with suppress(TimeoutError):
                await asyncio.wait_for(self.news.wait_for(lambda: len(failed) == workers), GRACE)
            return len(failed) == workers

    async def ends(self) -> None:
        """Returns when the workers end."""
        async with self.news:
            await self.news.wait_for(lambda: self.ended)

    async def end(self) -> None:
        async with self.news:
            self.ended = True
            self.news.notify_all()
        if self.reply and not self.reply.done():
            self.reply.set_result(None)


class Cleaner:
    """Frees what workers reserved when the process that asked them has died. It must outlive that process.

    Ray keeps the reservation as long as the job, and its own cleaner asks the state API, which needs a dashboard.
    """

    async def watch(self, queue: Any, reserved: PlacementGroup) -> None:
        try:
            await queue.ends.remote()
        except RayActorError:  # the queue died with its owner
            remove_placement_group(reserved)


def new_cleaner() -> Any:
    """For the process that outlives those which have workers."""
    return ray.remote(num_cpus=0)(Cleaner).remote()


class Shelf:
    """An actor with room for one value, which is put there once."""

    def __init__(self) -> None:
        self.filled = asyncio.Event()
        self.value: Any = None

    async def put(self, value: Any) -> None:
        self.value = value
        self.filled.set()

    async def take(self) -> Any:
        """The value, as soon as it is there."""
        await self.filled.wait()
        return self.value


def new_shelf() -> Any:
    """A shelf on the node of this process, with which it ends."""
    here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
    return ray.remote(num_cpus=0)(Shelf).options(scheduling_strategy=here).remote()
