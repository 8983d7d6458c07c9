"""Search-space files written for a test, and the problems found in them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from textwrap import dedent

import pytest

from trainables.core.errors import ConfigError
from tune_cl.experiment.load import load_experiment

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


def problems(space: str, *overrides: str) -> dict[str, str]:
    """By place: what is wrong and what would be right."""
    with pytest.raises(ConfigError) as caught:
        load_experiment(space, overrides)
    found = {problem.location: f"{problem.wrong}; {problem.right}" for problem in caught.value.problems}
    assert len(found) == len(caught.value.problems)
    return found
