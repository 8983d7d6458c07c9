"""The queue between a trial and the workers of its training, without Ray's processes."""

from __future__ import annotations

import asyncio

import pytest

from trainables import command_queue
from trainables.command_queue import BEGIN, Command, CommandQueue
from trainables.core.errors import WorkFailed


def test_workers_that_all_fail_go_on_though_the_next_question_comes_between(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first worker's failure is the answer, so the trial may ask again before the second one has failed."""
    monkeypatch.setattr(command_queue, "GRACE", 0.2)

    async def scene() -> list[bool]:
        queue, first, second = CommandQueue(), Command(1, BEGIN), Command(2, BEGIN)
        asked = asyncio.create_task(queue.ask(first, first))
        await asyncio.sleep(0)
        one = asyncio.create_task(queue.all_fail(0, 2, 1, WorkFailed("nan")))
        await asked
        again = asyncio.create_task(queue.ask(second, second))
        await asyncio.sleep(0.01)
        both = [await queue.all_fail(1, 2, 1, WorkFailed("nan")), await one]
        await queue.end()
        assert await again is None
        return both

    assert asyncio.run(scene()) == [True, True]
