"""Commands called in this process: their output, read back."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tune_cl.cli import BAD_INPUT, DONE, main

SMALL = [
    "ranker.vector_size=8", "ranker.filters=4", "training.batch_size=8", "training.batches_per_iteration=2",
    "training.max_iterations=3",
]  # fmt: skip


SMALL_OPTIONS = [part for setting in SMALL for part in ("--set", setting)]


def document(capfd: pytest.CaptureFixture[str], *arguments: str) -> Any:
    assert main([*arguments, "--json"]) == DONE
    return json.loads(capfd.readouterr().out)


def assert_refused(capfd: pytest.CaptureFixture[str], arguments: Sequence[str], told: Sequence[str]) -> None:
    """The command ends with exit status 2, one line `error: PLACE: wrong; right` a problem, and nothing written in the
    working folder. `told`: `PLACE: WORDS` of each line, all of which stand in what is said of that place."""
    before = sorted(Path().rglob("*"))
    lines = errors(capfd, *arguments)
    left = list(lines)
    for place, _, words in (one.rpartition(": ") for one in told):
        begin = f"error: {place}: "
        found = [
            line
            for line in left
            if line.startswith(begin) and all(word in line[len(begin) :] for word in words.split())
        ]
        assert found and re.fullmatch(r".+; .+", found[0][len(begin) :]), (place, words, lines)
        left.remove(found[0])
    assert not left and sorted(Path().rglob("*")) == before


def errors(capfd: pytest.CaptureFixture[str], *arguments: str) -> list[str]:
    assert main(list(arguments)) == BAD_INPUT
    shown = capfd.readouterr()
    assert shown.out == ""
    return shown.err.splitlines()
