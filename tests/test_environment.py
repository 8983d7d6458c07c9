"""No environment variable is written while a thread of ours runs: in the C library before glibc 2.41, another thread
that reads one meanwhile may end the process with SIGSEGV."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from tests.support.builders import tiny_data
from tests.support.commands import SPACE
from tests.support.environment_writes import compiled, written_beside_threads
from tests.support.tracking_cases import fresh_database
from tests.support.trec_folder import write_trec_folder
from tune_cl.ray.environment import TOKEN, own_environment

RUN = "run toy.yaml --name toy --data data --storage runs --trials 5 --max-iterations 2"


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
def test_no_variable_is_written_while_a_thread_of_ours_runs(tmp_path: Path) -> None:
    library = compiled(tmp_path)
    write_trec_folder(tiny_data(queries={"train": 12, "dev": 6, "test": 6}, candidates=4, turns=1), tmp_path / "data")
    (tmp_path / "toy.yaml").write_text(SPACE)
    fresh_database(tmp_path / "runs")
    writes, threads = written_beside_threads(library, tmp_path, *RUN.split())
    assert any("mlflow-writer" in name for name in threads)
    assert writes == []


def test_variables_are_set_once_but_none_that_the_user_has_set(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("TUNE_GLOBAL_CHECKPOINT_S", "CUBLAS_WORKSPACE_CONFIG", TOKEN, "RAY_AUTH_MODE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_TIMEOUT", "60")
    before = dict(os.environ)
    with own_environment():
        inside = dict(os.environ)
        assert inside["TUNE_GLOBAL_CHECKPOINT_S"] == "inf" and inside["MLFLOW_HTTP_REQUEST_TIMEOUT"] == "60"
        assert inside["CUBLAS_WORKSPACE_CONFIG"] == ":4096:8", "read as a process begins to use a GPU"
        assert TOKEN not in inside, "a cluster has a token of its own"
        with own_environment():
            assert dict(os.environ) == inside
        assert dict(os.environ) == inside
    assert dict(os.environ) == before
