"""Iterations that a search needs to see a dev value (`benchmarks/search_to_target.py`)."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.builders import tiny_data
from tests.support.trec_folder import write_trec_folder

pytestmark = pytest.mark.slow

SCRIPT = Path(__file__).parents[1] / "benchmarks" / "search_to_target.py"


def rows(*arguments: str) -> list[dict]:
    done = subprocess.run([sys.executable, str(SCRIPT), "--json", *arguments], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_random_search_sees_its_own_target_and_is_the_measure() -> None:
    found = rows("--studies", "mediqa-conv_knrm", "--searches", "6")
    whole = found[0]
    assert whole["way"].startswith("random") and len(found) == 4
    assert whole["ratio"] == whole["low"] == whole["high"] == whole["reached"] == 1
    for row in found:
        assert row["target"] == whole["target"] and len(row["each"]) == 6
        assert row["reached"] == sum(count is not None for count in row["each"]) / 6
        if row["reached"] == 1:
            assert row["iterations"] == sum(sorted(row["each"])[2:4]) / 2 and row["low"] <= row["ratio"] <= row["high"]
    assert sum(row["reached"] == 1 for row in found) >= 2
    assert found == rows("--studies", "mediqa-conv_knrm", "--searches", "6")


def test_real_searches_end_with_their_target_or_the_iterations_of_random_search(tmp_path: Path) -> None:
    write_trec_folder(tiny_data(queries={"train": 24, "dev": 12, "test": 4}, candidates=5, turns=1), tmp_path / "data")
    found = rows("--real", "1", "--data", str(tmp_path / "data"), "--dev", "8")
    assert found[0]["reached"] == 1 and found[0]["iterations"] <= 12 * 9 and len(found) == 3
    assert all((row["iterations"] or 0) <= 12 * 9 for row in found)
    assert all((row["iterations"] is None) == (row["reached"] == 0) for row in found)
