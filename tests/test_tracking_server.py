"""A real tracking server behind a proxy that answers as broken ones do: all arrives, once."""

from __future__ import annotations

import base64
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from tests.support.builders import tiny_data
from tests.support.commands import SPACE, finish, start, wait_for_events
from tests.support.faulty_proxy import Fault, Handler, Proxy, answering, break_off, hang
from tests.support.terminal import outcomes_of
from tests.support.tiny_ranker import save_tiny_bert
from tests.support.tracking_cases import (
    SECRET,
    assert_complete,
    caught_up,
    fresh_database,
    in_mlflow,
    journal_of,
    promised,
    recorded,
    search_event,
)
from tests.support.trec_folder import write_trec_folder
from tune_cl.api.rankers import load_ranker
from tune_cl.cli import main
from tune_cl.history.journal import FILE, read_events
from tune_cl.history.state import replay
from tune_cl.tracking import writer as mlflow_writer

pytestmark = pytest.mark.slow


def healthy(uri: str) -> bool:
    try:
        with urllib.request.urlopen(f"{uri}/health", timeout=5) as answer:
            return answer.status == 200
    except OSError:
        return False


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxy]:
    """A proxy before a tracking server on this machine that has its own database."""
    folder = fresh_database(tmp_path_factory.mktemp("server"))
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    options = ["--backend-store-uri", f"sqlite:///{folder}/mlflow.db", "--workers", "1", "--host", "127.0.0.1"]
    options += ["--artifacts-destination", str(folder / "artifacts"), "--port", str(port)]
    environment = os.environ | {"MLFLOW_DISABLE_TELEMETRY": "true", "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}
    with (folder / "server.log").open("ab") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "mlflow", "server", *options],
            stdout=output, stderr=output, start_new_session=True, env=environment,
        )  # fmt: skip
    try:
        deadline, uri = time.monotonic() + 120, f"http://127.0.0.1:{port}"
        while not healthy(uri):
            assert process.poll() is None and time.monotonic() < deadline, "the server did not start"
            time.sleep(0.2)
        with Proxy(uri) as proxy:
            threading.Thread(target=proxy.serve_forever, args=(0.05,), daemon=True).start()
            yield proxy
            proxy.shutdown()
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


@pytest.fixture
def proxy(made: Proxy, monkeypatch: pytest.MonkeyPatch) -> Iterator[Proxy]:
    """A healthy one at first."""
    made.healed.clear()
    monkeypatch.setattr(mlflow_writer, "LONGEST_WAIT", 0.2)
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_TIMEOUT", "2")
    yield made
    made.heal()


# -- outages --------------------------------------------------------------------------------------------------------

LOGIN = answering(200, b"<html><body><form action=/login>Please sign in</form></body></html>")
EMPTY = answering(200, b"")  # MLflow's client reads a run without an id
ODD: list[Fault] = [
    break_off,
    answering(500, b'{"error_code": "INTERNAL_ERROR", "message": "no"}', "application/json"),
    answering(503, b"<html>try later</html>"),
    LOGIN,
    answering(200, b'{"run": {"inf', "application/json"),
]


def in_trouble() -> Fault:
    """Requests for files go another way than the others, first to a login. Later, each eighth request fails."""
    files, others = count(), count()

    def fault(handler: Handler) -> None:
        if handler.command == "PUT" and next(files) < 3:
            return LOGIN(handler)
        number = next(others)
        if number < 8:
            return EMPTY(handler)
        return handler.forward() if number % 8 else ODD[number // 8 % len(ODD)](handler)

    return fault


def test_whatever_a_server_answers_it_gets_all_and_once(proxy: Proxy, tmp_path: Path) -> None:
    journal = journal_of(tmp_path / "pacing", recorded("passing"))
    proxy.fault = in_trouble()
    assert caught_up(journal, proxy.uri, timeout=120) == 0 and proxy.faulty > 8 * len(ODD)
    proxy.heal()
    assert in_mlflow(proxy.uri, "passing") == promised(tmp_path)


def test_a_search_before_a_frozen_server_ends_and_resume_completes_mlflow(
    proxy: Proxy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """MLflow takes requests and answers none for the whole search."""
    data = tiny_data(queries={"train": 30, "dev": 12, "test": 12}, candidates=5, turns=1)
    write_trec_folder(data, tmp_path / "data")
    (tmp_path / "frozen.yaml").write_text(SPACE)
    proxy.fault, before, journal = hang, proxy.faulty, tmp_path / "runs" / "frozen" / FILE
    address = ["--storage", "runs", "--tracking-uri", proxy.uri, "--json"]
    limits = ["--trials", "2", "--max-iterations", "4"]
    running = start(tmp_path, "run", "frozen.yaml", "--data", "data", *limits, *address)
    wait_for_events(running, journal, "artifact", 1)  # the last event: the report
    assert proxy.faulty > before
    running.send_signal(signal.SIGTERM)  # or it would wait half a minute for MLflow
    _, said = finish(running, status=130)
    assert "tune-cl resume frozen" in said.splitlines()[-1]
    proxy.heal()
    monkeypatch.chdir(tmp_path)
    capfd.readouterr()
    assert main(["resume", "frozen", *address]) == 0
    document = json.loads(capfd.readouterr().out)
    state = replay(read_events(journal))
    assert len(state.trials) == 2 and outcomes_of(document) == ["completed"] * 2
    assert_complete(proxy.uri, "frozen", state)


# -- passwords ------------------------------------------------------------------------------------------------------

CREDENTIALS = base64.b64encode(f"me:{SECRET}".encode()).decode()


def behind_a_login(handler: Handler) -> None:
    """Basic authentication before the server."""
    if handler.headers.get("Authorization") == f"Basic {CREDENTIALS}":
        handler.forward()
    else:
        handler.answer(401, b"", [])


def test_a_server_behind_a_login_gets_everything_and_the_password_stays_out(
    proxy: Proxy,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """It stands in MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD, or in the address, which MLflow's client
    prints with each run that ends."""
    proxy.fault = behind_a_login
    told = recorded("secured")
    half = next(number for number, event in enumerate(told) if event["event"] == "interrupted")
    journal = journal_of(tmp_path / "runs" / "pacing", told[:half])
    assert caught_up(journal, proxy.uri, timeout=3) == half
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_TIMEOUT", "60")
    with monkeypatch.context() as patch:
        patch.setenv("MLFLOW_TRACKING_USERNAME", "me")
        patch.setenv("MLFLOW_TRACKING_PASSWORD", SECRET)
        assert caught_up(journal, proxy.uri) == 0 and os.environ["MLFLOW_TRACKING_PASSWORD"] == SECRET
    journal_of(journal.parent, told[half:])
    assert caught_up(journal, proxy.uri.replace("//", f"//me:{SECRET}@")) == 0
    proxy.heal()
    assert in_mlflow(proxy.uri, "secured") == promised(tmp_path)
    files = [path for path in (tmp_path / "runs").rglob("*") if path.is_file()]
    assert len(files) > 3 and [path for path in files if SECRET.encode() in path.read_bytes()] == []
    assert SECRET not in "".join(capfd.readouterr()) + caplog.text


# -- the model ------------------------------------------------------------------------------------------------------


def test_the_best_ranker_is_a_model_that_can_be_registered(
    proxy: Proxy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import mlflow
    import pandas as pd

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("MLFLOW_TRACKING_URI", proxy.uri)
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_TIMEOUT", "60")
    folder = save_tiny_bert(tmp_path / "pacing" / "best-ranker")
    best = {"trial_id": "t0001", "params": {}, "dev": 0.75, "iteration": 2}
    end = {"event": "search_end", "best": best, "cost": {}, "seconds": 1.0, "time": 1300.0, "checkpoint": str(folder)}
    assert caught_up(journal_of(tmp_path / "pacing", [search_event("model"), end]), proxy.uri) == 0
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
