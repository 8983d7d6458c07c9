"""Commands called in this process: their output, read back."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tune_cl.cli import BAD_INPUT, DONE, main

SMALL = [
    "ranker.vector_size=8", "ranker.filters=4", "training.batch_size=8", "training.batches_per_iteration=2",
    "training.max_iterations=3",
]  # fmt: skip


SMALL_OPTIONS = [part for setting in SMALL for part in ("--set", setting)]
SMALL_TRAINING = " ".join(SMALL_OPTIONS)


def document(capfd: pytest.CaptureFixture[str], *arguments: str) -> Any:
    assert main([*arguments, "--json"]) == DONE
    return json.loads(capfd.readouterr().out)


def errors(capfd: pytest.CaptureFixture[str], *arguments: str) -> list[str]:
    assert main(list(arguments)) == BAD_INPUT
    shown = capfd.readouterr()
    assert shown.out == ""
    return shown.err.splitlines()
