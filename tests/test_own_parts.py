"""Parts of a plug-in are tried on a few instances before a search begins."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.builders import tiny_data
from tests.support.plugins import unload
from trainables.config.keys import TrainingRun
from trainables.core.errors import ConfigError
from trainables.core.plugins import load_plugins
from trainables.curriculum.scoring import SCORINGS, Scored
from trainables.training.own_parts import try_parts
from tune_cl.testing.scored_data import scored_of

__all__ = ["unload"]

SOUND = """
import numpy as np
from tune_cl import scoring, pacing

@scoring("by_length", "mine")
def by_length(scored):
    return np.arange(len(scored), dtype=float)

@pacing("steep", "mine")
def steep(fraction, schedule):
    return fraction
"""


@pytest.fixture
def plugin(tmp_path: Path) -> Callable[[str], Path]:
    def load(source: str) -> Path:
        path = tmp_path / "mine.py"
        path.write_text(source)
        load_plugins(path)
        return path

    return load


def test_parts_that_work_pass(plugin: Callable[[str], Path]) -> None:
    plugin(SOUND)
    try_parts({"curriculum": {"scoring": "by_length", "pacing": "steep"}}, TrainingRun(), tiny_data())


@pytest.mark.parametrize(
    ("old", "new", "line", "told"),
    [
        ("len(scored)", "scored.size", 7, "scoring 'by_length' fails on a few instances: AttributeError"),
        ("return fraction", "return fraction / None", 11, "pacing 'steep' fails on a few instances: TypeError"),
    ],
)
def test_one_that_fails_is_told_with_its_line(
    old: str, new: str, line: int, told: str, plugin: Callable[[str], Path]
) -> None:
    path = plugin(SOUND.replace(old, new))
    with pytest.raises(ConfigError) as caught:
        try_parts({"curriculum": {"scoring": "by_length", "pacing": "steep"}}, TrainingRun(), tiny_data())
    assert str(caught.value).startswith(f"error: {path}:{line}: {told}")


def test_what_is_scored_has_a_length() -> None:
    scored = scored_of(tiny_data())
    assert isinstance(scored, Scored) and len(scored) == len(scored.instances) == len(SCORINGS["random"](scored))
