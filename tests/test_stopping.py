"""A signal stops a command also where a library swallows the exception that it raises."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import suppress

import pytest

from tune_cl import ray_session as session
from tune_cl.ray_session import ray_session
from tune_cl.stopping import stop_if_asked, stoppable


@pytest.fixture(autouse=True)
def handlers() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    for number, heard in before.items():
        signal.signal(number, heard)


def swallowed(number: int) -> None:
    with suppress(BaseException):  # as `try: import x` with a bare `except:` does
        signal.raise_signal(number)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_raises_and_is_remembered(number: int) -> None:
    with stoppable():
        stop_if_asked()
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(number)
        swallowed(number)
        with pytest.raises(KeyboardInterrupt):
            stop_if_asked()


def test_ray_is_not_started_then(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session.ray, "init", lambda **_: pytest.fail("started"))
    with stoppable():
        swallowed(signal.SIGINT)
        with pytest.raises(KeyboardInterrupt), ray_session(None):
            pass


def test_the_next_command_begins_unasked() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with stoppable():
        swallowed(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert signal.getsignal(signal.SIGTERM) is before
    stop_if_asked()
    with stoppable():
        stop_if_asked()


def test_ctrl_c_stays_ignored_in_a_job_of_the_background() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with stoppable():
        signal.raise_signal(signal.SIGINT)
        stop_if_asked()
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGTERM)
