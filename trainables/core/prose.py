"""Text for a terminal: sentences broken between words, and no character that would command the terminal.

A terminal would break sentences inside words and numbers. `wrapped` is for prose only: commands to copy and addresses
have a line of their own, which is printed as it is.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from textwrap import TextWrapper
from threading import Timer
from typing import IO

# Control characters (ASCII, and C1, where U+009B begins a command as ESC [ does), marks that reverse the direction of
# what follows, and separators that some terminals take for the end of a line.
COMMANDING = {*range(0x20), *range(0x7F, 0xA0), 0x61C, 0x200E, 0x200F, *range(0x2028, 0x202F), *range(0x2066, 0x206A)}
ESCAPES = {code: f"\\u{code:04x}" for code in COMMANDING - {ord("\n"), ord("\t")}}


def visible(text: str) -> str:
    """The text with what would command the terminal as `\\u001b`, which JSON reads as the same character. Ends of lines
    and tabs stay. What others wrote (data, ids, YAML files, the answers of servers) may hold anything."""
    return text.translate(ESCAPES)


def wrapped(text: str, stream: IO[str] | None = None) -> str:
    """The text, wrapped to the width of the terminal it goes to (`stream`, by default stdout); unchanged if that is no
    terminal. Words longer than a line stay whole."""
    to = sys.stdout if stream is None else stream
    if not to.isatty():
        return text
    from rich.console import Console  # takes long to import, and only a terminal needs it

    wrapper = TextWrapper(Console(file=to).width, break_long_words=False, break_on_hyphens=False)
    return "\n".join(wrapper.fill(line) for line in text.split("\n"))


Listener = Callable[[str], None]
_listeners: list[Listener] = []  # the last one hears what is said


@contextmanager
def heard_by(listener: Listener) -> Iterator[None]:
    """Lets `listener` have what is said meanwhile, by any thread, instead of stderr."""
    _listeners.append(listener)
    try:
        yield
    finally:
        _listeners.remove(listener)


def say(text: str, whole: bool = False) -> None:
    """Prints a note to the user, on stderr. `whole`: with a command to copy in it, so that lines stay as they are."""
    text = visible(text)
    if _listeners:
        _listeners[-1](text)
    else:
        print(text if whole else wrapped(text, sys.stderr), file=sys.stderr)


PHASE_SECONDS = 0.5  # after which a phase is named: shorter ones, and bad input found at once, need no name


@contextmanager
def phase(what: str) -> Iterator[None]:
    """Names a part of the work on stderr while it lasts, and says its seconds as it ends."""
    start = time.monotonic()
    timer = Timer(PHASE_SECONDS, say, [f"{what} ...", True])
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
    seconds = time.monotonic() - start
    if seconds > PHASE_SECONDS:
        say(f"{what}: {seconds:.1f} s")


def counted(number: int, noun: str) -> str:
    """A number with its noun: `1 key`, `2 keys`, `2 queries`."""
    ies = noun.endswith("y") and noun[-2] not in "aeiou"
    plural = f"{noun[:-1]}ies" if ies else f"{noun}s"
    return f"{number:,} {noun if number == 1 else plural}"


def short(value: object) -> str:
    """A parameter's value: floats have three significant digits, for 0.00003 is not 0.0000."""
    return f"{value:.3g}" if isinstance(value, float) else str(value)


PROGRESS_SECONDS = 5.0  # between two lines of progress; shorter work prints none


def time_left(seconds: float) -> str:
    """The remaining time in words: `about 3 min left`, `about 2 h 10 min left`."""
    return f"about {duration(seconds)} left"


def duration(seconds: float) -> str:
    """Seconds in at most two units: `45 s`, `3 min`, `2 h 10 min`, `3 d 4 h`."""
    minutes, hours = round(seconds / 60), round(seconds / 3600)
    if hours >= 24:
        return f"{hours // 24} d {hours % 24} h"
    if minutes >= 60:
        return f"{minutes // 60} h {minutes % 60} min"
    return f"{minutes} min" if seconds >= 90 else f"{seconds:.0f} s"


class Countdown:
    """Progress of long work: prints on stderr, at most every PROGRESS_SECONDS, how much is done and how long the rest
    takes at this pace."""

    def __init__(self, verb: str, total: int, noun: str):
        self._verb, self._total, self._noun = verb, total, noun
        self._started = self._said = time.monotonic()

    def tell(self, done: int) -> None:
        """Prints a line if it is time for one. `done`: how much of the total, above 0."""
        now = time.monotonic()
        if now - self._said < PROGRESS_SECONDS or done >= self._total:
            return
        seconds = (now - self._started) / done * (self._total - done)
        say(f"{self._verb} {done:,} of {counted(self._total, self._noun)}, {time_left(seconds)}")
        self._said = now
