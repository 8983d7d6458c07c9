"""Teachers and pre-trainings that only some trials read: they are trained while the others run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from threading import Event, Thread
from typing import Any

import ray

from trainables.command_queue import new_shelf
from trainables.core.prose import say
from trainables.training.device import Compute
from trainables.training.prepared import PreparedData, reads_trained_parts
from tune_cl.experiment.search_keys import Resources
from tune_cl.ray.concurrency import READ_SECONDS, Capacity
from tune_cl.ray.shared_data import computed, name_of
from tune_cl.search.trials import Plan

MOST_HELD = 8  # trials that wait; a sampler that learns should not propose all of them blindly
WAIT_SECONDS = 0.5
Completed = Mapping[str, PreparedData]


class Later:
    """`work(compute)` trains what is missing and gives the whole data by key; `whole` is told them.

    held   trials that wait for it
    shelf  where their processes find it
    """

    def __init__(self, work: Callable[[Compute], Completed], whole: Callable[[Completed], None], resources: Resources):
        self.held: list[Plan] = []
        self.shelf = new_shelf()
        self._whole, self._resources = whole, resources
        self._stop, self._there = Event(), False
        self._done: Future[Completed] = Future()
        self._thread = Thread(target=self._train, args=(work,), name="teachers", daemon=True)
        self._thread.start()

    def _train(self, work: Callable[[Compute], Completed]) -> None:
        try:
            self._done.set_result(work(self._compute))
        except BaseException as error:  # noqa: BLE001 - raised in the main thread by `is_there`
            self._done.set_exception(error)

    def _compute(self, function: Callable[..., Any], *arguments: Any) -> Any:
        say(f"{name_of(function)}: in a process of its own; trials that do not read it begin meanwhile")
        return computed(function, arguments, self._resources, Capacity(self._resources, say), self._stop)

    def is_there(self) -> bool:
        """Whether all is trained. Raises the error that its training ended with."""
        if not self._there and self._done.done():
            by_key = self._done.result()
            self._whole(by_key)
            ray.get(self.shelf.put.remote([ray.put({key: one.parts for key, one in by_key.items()})]))
            self._there = True
        return self._there

    def may_begin(self, plan: Plan) -> bool:
        return not reads_trained_parts(plan.run) or self.is_there()

    def wait(self) -> None:
        """Waits a little for the end of the training, where there is nothing else to do."""
        self._thread.join(WAIT_SECONDS)

    def end(self) -> None:
        """Stops what is still being trained; it goes on from its state in the cache."""
        self._stop.set()
        self._thread.join(2 * READ_SECONDS)


@contextmanager
def training_later(
    work: Callable[[Compute], Completed] | None, whole: Callable[[Completed], None], resources: Resources
) -> Iterator[Later | None]:
    """What is to be trained beside trials, as long as the block lasts; None if nothing is."""
    if work is None:
        yield None
        return
    later = Later(work, whole, resources)
    try:
        yield later
    finally:
        later.end()
