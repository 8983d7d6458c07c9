"""Search-space files written for a test."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from textwrap import dedent

import pytest

OPEN = "training.lr: {loguniform: [1e-5, 1e-3]}\n"


Write = Callable[[str], str]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Writes a search-space file; returns its path."""

    def write(text: str) -> str:
        path = tmp_path / "mine.yaml"
        path.write_text(dedent(text), encoding="utf-8")
        return str(path)

    return write
