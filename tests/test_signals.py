"""A signal stops a command also where a library swallows the exception that it raises."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from trainables.training import saves
from tune_cl.process import SIGNALS, stop_if_asked, stoppable
from tune_cl.ray import session
from tune_cl.ray.session import ray_session


@pytest.fixture(autouse=True)
def handlers() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in SIGNALS}
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # under `nohup` it is ignored
    yield
    for number, heard in before.items():
        signal.signal(number, heard)


def swallowed(number: int) -> None:
    with suppress(BaseException):  # as `try: import x` with a bare `except:` does
        signal.raise_signal(number)


@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_raises_and_is_remembered(number: int) -> None:
    with stoppable():
        stop_if_asked()
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(number)
        swallowed(number)
        with pytest.raises(KeyboardInterrupt):
            stop_if_asked()


def test_a_signal_that_is_ignored_stays_so() -> None:
    """As SIGHUP under `nohup`, and Ctrl-C in what a shell started in the background."""
    for number in (signal.SIGHUP, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)
    with stoppable():
        for number in (signal.SIGHUP, signal.SIGINT):
            signal.raise_signal(number)
        stop_if_asked()


def test_ray_is_not_started_then(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session.ray, "init", lambda **_: pytest.fail("started"))
    with stoppable():
        swallowed(signal.SIGINT)
        with pytest.raises(KeyboardInterrupt), ray_session(None):
            pass


def test_a_training_ends_at_its_next_iteration_then(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    training = SimpleNamespace(iteration=0, finished=False, pop_notes=lambda: swallowed(signal.SIGTERM) or ())
    monkeypatch.setattr(saves, "iterations", lambda *_: iter([{}, {}]))
    train = import_module("tune_cl.api.train")  # the package has a function of this name
    monkeypatch.setattr(train, "_progress", lambda *_: "")
    with stoppable(), pytest.raises(KeyboardInterrupt):
        train._train(cast(Any, training), tmp_path)


def test_the_next_command_begins_unasked() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with stoppable():
        swallowed(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert signal.getsignal(signal.SIGTERM) is before
    stop_if_asked()
    with stoppable():
        stop_if_asked()
