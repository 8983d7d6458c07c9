"""The post between a trial and the workers of its training, without Ray's processes."""

from __future__ import annotations

import asyncio

import pytest

from trainables import post as post_module
from trainables.core.errors import WorkFailed
from trainables.post import BEGIN, Command, Post


def test_workers_that_all_fail_go_on_though_the_next_question_comes_between(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first worker's failure is the answer, so the trial may ask again before the second one has failed."""
    monkeypatch.setattr(post_module, "GRACE", 0.2)

    async def scene() -> list[bool]:
        post, first, second = Post(), Command(1, BEGIN), Command(2, BEGIN)
        asked = asyncio.create_task(post.ask(first, first))
        await asyncio.sleep(0)
        one = asyncio.create_task(post.all_fail(0, 2, 1, WorkFailed("nan")))
        await asked
        again = asyncio.create_task(post.ask(second, second))
        await asyncio.sleep(0.01)
        both = [await post.all_fail(1, 2, 1, WorkFailed("nan")), await one]
        await post.end()
        assert await again is None
        return both

    assert asyncio.run(scene()) == [True, True]
