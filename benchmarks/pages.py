"""Writes what a benchmark found into its page."""

from __future__ import annotations

from pathlib import Path


def put(page: Path, begin: str, end: str, text: str) -> None:
    """Replaces what stands between the line `begin` of a page and the next `end`. Raises SystemExit without `begin`."""
    before, found, rest = page.read_text().partition(begin)
    if not found:
        raise SystemExit(f"{page}: no line {begin.strip()}")
    page.write_text(f"{before}{found}{text}\n{end}{rest.partition(end)[2]}")
