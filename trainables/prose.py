"""Breaks sentences between words; a terminal would break them inside words and numbers.

For prose only. Commands to copy and addresses have a line of their own, which is printed as it is.
"""

from __future__ import annotations

import sys
from textwrap import TextWrapper
from typing import IO

from rich.console import Console


def wrapped(text: str, stream: IO[str] | None = None) -> str:
    """The text, wrapped to the width of the terminal it goes to (`stream`, by default stdout); unchanged if that is no
    terminal. Words longer than a line stay whole."""
    to = sys.stdout if stream is None else stream
    if not to.isatty():
        return text
    wrapper = TextWrapper(Console(file=to).width, break_long_words=False, break_on_hyphens=False)
    return "\n".join(wrapper.fill(line) for line in text.split("\n"))


def say(text: str) -> None:
    """Prints a note to the user, on stderr."""
    print(wrapped(text, sys.stderr), file=sys.stderr)
