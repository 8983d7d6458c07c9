"""A real tracking server that goes away and comes back: all arrives, once, and its best ranker is a model."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.tiny_ranker import save_tiny_bert
from tests.support.tracking_cases import (
    caught_up,
    fresh_database,
    in_mlflow,
    journal_of,
    promised,
    recorded,
    search_event,
)
from tune_cl.api.rankers import load_ranker
from tune_cl.tracking import writer as mlflow_writer

pytestmark = pytest.mark.slow


class Server:
    """A tracking server on this machine with a database of its own."""

    def __init__(self, folder: Path):
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        self.folder, self.uri = folder, f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        options = ["--backend-store-uri", f"sqlite:///{self.folder}/mlflow.db", "--workers", "1"]
        options += ["--artifacts-destination", str(self.folder / "artifacts"), "--port", str(self.port)]
        environment = os.environ | {"MLFLOW_DISABLE_TELEMETRY": "true", "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}
        with (self.folder / "server.log").open("ab") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "mlflow", "server", "--host", "127.0.0.1", *options],
                stdout=output, stderr=output, start_new_session=True, env=environment,
            )  # fmt: skip
        deadline = time.monotonic() + 120
        while not self.is_healthy():
            assert self.process.poll() is None and time.monotonic() < deadline, "the server did not start"
            time.sleep(0.2)

    def is_healthy(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.uri}/health", timeout=5) as answer:
                return answer.status == 200
        except OSError:
            return False

    def signal(self, number: signal.Signals) -> None:
        os.killpg(self.process.pid, number)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    server = Server(fresh_database(tmp_path_factory.mktemp("server")))
    server.start()
    yield server
    server.signal(signal.SIGKILL)
    server.process.wait()


def test_a_server_that_hangs_then_dies_then_comes_back_gets_all_and_once(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mlflow_writer, "LONGEST_WAIT", 0.2)
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_TIMEOUT", "2")
    events = recorded("away")
    parts = events[:7], events[7:14], events[14:20], events[20:]
    journal = journal_of(tmp_path / "pacing", parts[0])
    assert caught_up(journal, server.uri) == 0
    server.signal(signal.SIGSTOP)
    journal_of(journal.parent, parts[1])
    assert caught_up(journal, server.uri, timeout=5) > 0
    server.signal(signal.SIGCONT)
    server.signal(signal.SIGKILL)
    server.process.wait()
    journal_of(journal.parent, parts[2])
    assert caught_up(journal, server.uri, timeout=3) > 0
    server.start()
    journal_of(journal.parent, parts[3])
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_TIMEOUT", "60")
    assert caught_up(journal, server.uri) == 0
    assert in_mlflow(server.uri, "away") == promised(tmp_path)


def test_the_best_ranker_is_a_model_that_can_be_registered(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import mlflow
    import pandas as pd

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("MLFLOW_TRACKING_URI", server.uri)
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_TIMEOUT", "60")
    folder = save_tiny_bert(tmp_path / "pacing" / "best-ranker")
    best = {"trial_id": "t0001", "params": {}, "dev": 0.75, "iteration": 2}
    end = {"event": "search_end", "best": best, "cost": {}, "seconds": 1.0, "time": 1300.0, "checkpoint": str(folder)}
    assert caught_up(journal_of(tmp_path / "pacing", [search_event("model"), end]), server.uri) == 0
    [run] = mlflow.search_runs(experiment_names=["model"], output_format="list")
    model = mlflow.pyfunc.load_model(f"runs:/{run.info.run_id}/best_checkpoint")
    pairs = pd.DataFrame({"query": ["w1 w2", "w3"], "document": ["w1", "w3 w4"]})
    expected = load_ranker(folder).predict(list(pairs.itertuples(index=False, name=None)))
    assert model.predict(pairs) == pytest.approx(expected)
    assert model.metadata.signature is not None and list(model.input_example.columns) == ["query", "document"]
    registered = mlflow.register_model(f"runs:/{run.info.run_id}/best_checkpoint", "best")
    again = mlflow.pyfunc.load_model(f"models:/best/{registered.version}")
    assert again.predict(pairs) == pytest.approx(expected)
    assert not [path for path in folder.rglob("*") if path.suffix == ".pkl"]
