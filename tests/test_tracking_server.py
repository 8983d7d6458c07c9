"""A real tracking server behind a proxy that answers as broken ones do: all arrives, once."""

from __future__ import annotations

import base64
import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from itertools import chain, cycle, repeat
from pathlib import Path
from typing import Any

import pytest

from tests.support.builders import tiny_data
from tests.support.commands import SPACE, finish, start, wait_for_events
from tests.support.faulty_proxy import LOGIN, Fault, Handler, Proxy, answering, hang, in_turn, proxy_before, reset
from tests.support.tiny_ranker import save_tiny_bert
from tests.support.tracking_cases import (
    SECRET,
    Snapshot,
    assert_complete,
    caught_up,
    database,
    events,
    expected,
    fresh_database,
    journal_of,
    snapshot,
)
from tests.support.trec_folder import write_trec_folder
from tune_cl.api.rankers import load_ranker
from tune_cl.cli import main
from tune_cl.history.journal import FILE, read_events
from tune_cl.history.state import replay
from tune_cl.tracking import writer as mlflow_writer
from tune_cl.tracking.layout import search_id

pytestmark = pytest.mark.slow

__all__ = ["database", "expected"]  # fixtures


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
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
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
        with proxy_before(uri) as proxy:
            yield proxy
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


@pytest.fixture
def proxy(made: Proxy, monkeypatch: pytest.MonkeyPatch) -> Proxy:
    """A healthy one at first."""
    made.fault = None
    made.healed.clear()
    monkeypatch.setattr(mlflow_writer, "LONGEST_WAIT", 0.2)
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_TIMEOUT", "2")
    return made


# -- outages --------------------------------------------------------------------------------------------------------

ODD: list[Fault] = [
    reset,
    answering(500, b'{"error_code": "INTERNAL_ERROR", "message": "no"}', "application/json"),
    answering(503, b"<html>try later</html>"),
    answering(200, LOGIN),
    answering(200, b'{"run": {"inf', "application/json"),
]


def passing() -> Fault:
    """Requests for files go another way than the others, first to a login."""
    empty = [answering(200, b"")] * 8  # MLflow's client reads a run without an id
    others = in_turn(chain(empty, cycle(chain.from_iterable([*[None] * 7, fault] for fault in ODD))))
    files = in_turn(chain([answering(200, LOGIN)] * 3, repeat(others)))
    return lambda handler: (files if handler.command == "PUT" else others)(handler)


def test_whatever_a_server_answers_it_gets_all_and_once(
    proxy: Proxy, database: Path, expected: Snapshot, tmp_path: Path
) -> None:
    journal = journal_of(tmp_path / "pacing", events("passing", database))
    proxy.fault = passing()
    assert caught_up(journal, proxy.uri, timeout=120) == 0
    proxy.heal()
    assert snapshot(proxy.uri, "passing") == expected


def test_a_search_before_a_frozen_server_ends_and_resume_completes_mlflow(
    proxy: Proxy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """MLflow takes requests and answers none for the whole search."""
    data = tiny_data(queries={"train": 30, "dev": 12, "test": 12}, candidates=5, turns=1)
    write_trec_folder(data, tmp_path / "data")
    (tmp_path / "frozen.yaml").write_text(SPACE)
    proxy.fault = hang
    answered, journal = proxy.answered, tmp_path / "runs" / "frozen" / FILE
    address = ["--storage", "runs", "--tracking-uri", proxy.uri, "--json"]
    limits = ["--trials", "2", "--max-iterations", "4"]
    running = start(tmp_path, "run", "frozen.yaml", "--data", "data", *limits, *address)
    wait_for_events(running, journal, "artifact", 1)  # the last event: the report
    assert proxy.answered == answered and proxy.faulty > 0
    running.send_signal(signal.SIGTERM)  # or it would wait half a minute for MLflow
    _, said = finish(running, status=130)
    assert "tune-cl resume frozen" in said.splitlines()[-1]
    proxy.heal()
    monkeypatch.chdir(tmp_path)
    capfd.readouterr()
    assert main(["resume", "frozen", *address]) == 0
    document = json.loads(capfd.readouterr().out)
    state = replay(read_events(journal))
    assert document["trials"] == len(state.trials) == 2 and document["errored"] == 0
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
    expected: Snapshot,
    database: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """It stands in MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD, or in the address, which MLflow's client
    prints with each run that ends."""
    proxy.fault, answered = behind_a_login, proxy.answered
    told = events("secured", database)
    half = next(number for number, event in enumerate(told) if event["event"] == "interrupted")
    journal = journal_of(tmp_path / "runs" / "pacing", told[:half])
    assert caught_up(journal, proxy.uri, timeout=3) > 0 and proxy.answered == answered
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_TIMEOUT", "60")
    with monkeypatch.context() as patch:
        patch.setenv("MLFLOW_TRACKING_USERNAME", "me")
        patch.setenv("MLFLOW_TRACKING_PASSWORD", SECRET)
        assert caught_up(journal, proxy.uri) == 0 and os.environ["MLFLOW_TRACKING_PASSWORD"] == SECRET
    journal_of(journal.parent, told[half:])
    assert caught_up(journal, proxy.uri.replace("//", f"//me:{SECRET}@")) == 0
    proxy.heal()
    assert snapshot(proxy.uri, "secured") == expected
    files = [path for path in (tmp_path / "runs").rglob("*") if path.is_file()]
    assert len(files) > 3 and [path for path in files if SECRET.encode() in path.read_bytes()] == []
    assert SECRET not in "".join(capfd.readouterr()) + caplog.text


# -- what a server shows --------------------------------------------------------------------------------------------


def test_the_promised_names_are_there(expected: Snapshot) -> None:
    """Tags, metrics and artifacts of what every server above holds, too."""
    runs = expected
    root, kde = "t0001 pacing=root n=2 scoring=turns anti=true", "t0002 weighting=kde m=inf"
    assert set(runs) == {"pacing", "t0000 plain, default", root, kde,
                         "t0003 no curriculum", "t0001 seed 8 root 2"}  # fmt: skip
    parent, best, stopped = runs["pacing"], runs[root], runs[kde]
    failed, confirmed = runs["t0003 no curriculum"], runs["t0001 seed 8 root 2"]
    assert parent["status"] == "FINISHED" and parent["times"] == (1000_000, 1200_000) and parent["parent"] is None
    assert parent["artifacts"] == ["best_checkpoint", "search.yaml"]
    assert parent["metrics"] == {"best_dev_mrr_at_10": [(2, "0.75")]}
    assert tags_of(parent).items() >= {
        "kind": "search", "yaml": "seed: 7\n", "data_digest": "sha-1", "versions": "ray 2.60.0, torch 2.13.0",
        "git_commit": "c0ffee", "forecast.gpu_hours": "1.5", "forecast.hours_forecast": "0.5", "cost.gpu_hours": "2.5",
        "best_trial": "t0001",
    }.items()  # fmt: skip
    assert best["parent"] == "pacing" and best["status"] == "FINISHED" and best["artifacts"] == ["run.dev.txt"]
    assert best["params"] == {"curriculum.pacing": "root", "curriculum.n": "2", "curriculum.scoring": "turns",
                              "curriculum.anti": "true"}  # fmt: skip
    assert best["metrics"]["dev_mrr_at_10"] == [(1, "0.5"), (2, "0.75"), (3, "0.5")]
    assert best["metrics"]["best_dev_mrr_at_10"] == [(2, "0.75")]
    told = {"kind": "trial", "search": "pacing", "trial_id": "t0001", "seed": "7", "outcome": "completed"}
    assert tags_of(best).items() >= told.items()
    assert stopped["metrics"]["dev_mrr_at_10"] == [(1, "nan")] and stopped["params"]["curriculum.m"] == "inf"
    assert failed["status"] == "FAILED" and tags_of(failed)["reason"] == "it broke"
    assert tags_of(confirmed)["kind"] == "confirmation" and confirmed["times"] == (1297_000, 1300_000)


def tags_of(run: dict[str, Any]) -> dict[str, str]:
    return {key.removeprefix("tune_cl."): value for key, value in run["tags"].items()}


def test_the_best_ranker_is_a_model_that_can_be_registered(
    proxy: Proxy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import mlflow
    import pandas as pd

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("MLFLOW_TRACKING_URI", proxy.uri)
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_TIMEOUT", "60")
    journal = journal_of(tmp_path / "pacing", events("model", tmp_path / "pacing"))
    folder = save_tiny_bert(tmp_path / "pacing" / "best-ranker")
    best = {"trial_id": "t0001", "params": {}, "dev": 0.75, "iteration": 2}
    end = {"event": "search_end", "best": best, "cost": {}, "seconds": 1.0, "time": 1300.0, "checkpoint": str(folder)}
    journal_of(tmp_path / "pacing", [end])
    assert caught_up(journal, proxy.uri) == 0
    identity = search_id(next(read_events(journal)))
    own = f"tags.`tune_cl.kind` = 'search' and tags.`tune_cl.search_id` = '{identity}'"
    [run] = mlflow.search_runs(search_all_experiments=True, filter_string=own, output_format="list")
    [data] = run.inputs.dataset_inputs
    assert (data.dataset.name, data.dataset.digest) == ("docstrings", "sha-1")
    model = mlflow.pyfunc.load_model(f"runs:/{run.info.run_id}/best_checkpoint")
    pairs = pd.DataFrame({"query": ["w1 w2", "w3"], "document": ["w1", "w3 w4"]})
    expected = load_ranker(folder).predict(list(pairs.itertuples(index=False, name=None)))
    assert model.predict(pairs) == pytest.approx(expected)
    assert model.metadata.signature is not None and list(model.input_example.columns) == ["query", "document"]
    registered = mlflow.register_model(f"runs:/{run.info.run_id}/best_checkpoint", "best")
    again = mlflow.pyfunc.load_model(f"models:/best/{registered.version}")
    assert again.predict(pairs) == pytest.approx(expected)
    assert not [path for path in folder.rglob("*") if path.suffix == ".pkl"]
