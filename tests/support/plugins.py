"""Plug-ins of tests: a scoring in a file, and a fixture that unloads what a test has loaded."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from trainables.core import plugins
from trainables.core.registry import REGISTRIES

LENGTH = """
import numpy as np
import tune_cl

@tune_cl.scoring("length", source="me")
def length(scored):
    "Characters of the query"
    return scored.of_queries(np.array([len(text) for text in scored.data.query_texts()], float)[scored.split.query])
"""


@pytest.fixture(autouse=True)
def unload() -> Iterator[None]:
    """Each test ends without plug-ins."""
    yield
    forget()


def forget() -> None:
    plugins.LOADED.clear()
    plugins.problem_here = None
    for registry in REGISTRIES:
        registry.remove({entry.module for entry in registry.entries.values() if not entry.built_in})


def written(folder: Path, text: str, name: str = "mine.py") -> str:
    (folder / name).write_text(text)
    return str(folder / name)
