"""Counts in sentences for the user."""

from __future__ import annotations


def counted(number: int, noun: str) -> str:
    """A number with its noun: `1 key`, `2 keys`, `2 queries`."""
    ies = noun.endswith("y") and noun[-2] not in "aeiou"
    plural = f"{noun[:-1]}ies" if ies else f"{noun}s"
    return f"{number:,} {noun if number == 1 else plural}"
