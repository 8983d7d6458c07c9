"""Progress of long work in lines for the user."""

from __future__ import annotations

import time

from trainables.core.prose import counted, say

SECONDS = 5.0  # between two lines; work that takes less says nothing


def time_left(seconds: float) -> str:
    return f"about {seconds / 60:.0f} min left" if seconds >= 90 else f"about {seconds:.0f} s left"


class Countdown:
    """Says on stderr, every SECONDS at most, how much of the work is done, and how long the rest takes at its pace."""

    def __init__(self, verb: str, total: int, noun: str):
        self._verb, self._total, self._noun = verb, total, noun
        self._started = self._said = time.monotonic()

    def tell(self, done: int) -> None:
        """`done`: how much of the total, more than none."""
        now = time.monotonic()
        if now - self._said < SECONDS or done >= self._total:
            return
        seconds = (now - self._started) / done * (self._total - done)
        say(f"{self._verb} {done:,} of {counted(self._total, self._noun)}, {time_left(seconds)}")
        self._said = now
