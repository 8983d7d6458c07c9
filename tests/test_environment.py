"""No environment variable is written while a thread of ours runs: in the C library before glibc 2.41, another thread
that reads one meanwhile may end the process with SIGSEGV."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.support.builders import tiny_data
from tests.support.commands import SPACE
from tests.support.environment_writes import compiled, written_beside_threads
from tests.support.tracking_cases import fresh_database
from tests.support.trec_folder import write_trec_folder

STEPS = {
    "run": "run toy.yaml --name toy --data data --storage runs --trials 5 --max-iterations 2",
    "confirm": "confirm toy --storage runs --top 1 --seeds 1",
    "effects": "effects toy --storage runs --seeds 1",
}


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
def test_no_variable_is_written_while_a_thread_of_ours_runs(tmp_path: Path) -> None:
    library = compiled(tmp_path)
    write_trec_folder(tiny_data(queries={"train": 12, "dev": 6, "test": 6}, candidates=4, turns=1), tmp_path / "data")
    (tmp_path / "toy.yaml").write_text(SPACE)
    fresh_database(tmp_path / "runs")
    for command in STEPS.values():
        writes, threads = written_beside_threads(library, tmp_path, *command.split())
        assert any("mlflow-writer" in name for name in threads)
        assert writes == []
