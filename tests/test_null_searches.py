"""The level of the whole pipeline, in small: `benchmarks/null_searches.py`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks import null_searches
from tests.support.builders import tiny_data
from tests.support.trec_folder import write_trec_folder

pytestmark = pytest.mark.slow
SMALL = {"batch_size": 8, "batches_per_iteration": 2, "max_iterations": 2}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_trec_folder(tiny_data(queries=30, candidates=5), tmp_path_factory.mktemp("data"))


def test_a_curriculum_that_does_nothing_is_neither_better_nor_worse(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(null_searches.SPACE, "training", null_searches.SPACE["training"] | SMALL)
    monkeypatch.setenv("XDG_CACHE_HOME", "")  # the command sets it: back to what it was afterwards
    command = ["null_searches", str(data), "--quick", "--curricula", "nothing", "--memory", str(tmp_path)]
    monkeypatch.setattr("sys.argv", command)
    assert null_searches.main() == 0
    told = capsys.readouterr().out
    rows = [json.loads(line) for line in (tmp_path / "rows.jsonl").read_text().splitlines()]
    every = [(seed, trials) for seed in (1, 2) for trials in (4, 6, 12)]
    assert [(row["seed"], row["trials"]) for row in rows] == every
    assert {row["verdict"] for row in rows} == {"no difference shown"}
    assert all(row["difference"] <= 0 for row in rows), "its twin is the same training; another opponent is above it"
    assert "| nothing | all | all | 0 of 6 (0.000 to 0.459) | 0 of 6 (0.000 to 0.459) |" in told

    def refused(*_: object) -> None:
        raise AssertionError("a verdict was made again")

    monkeypatch.setattr(null_searches, "confirm_search", refused)
    assert null_searches.main() == 0 and capsys.readouterr().out == told
