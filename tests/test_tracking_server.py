"""The writer against real servers: everything arrives, once, and the driver never waits."""

from __future__ import annotations

import logging
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest

from tests.support.tiny_ranker import save_tiny_bert
from tests.support.tracking_cases import (
    SECRET,
    Server,
    Snapshot,
    caught_up,
    database,
    delivered,
    delivery_of,
    end_event,
    events,
    expected,
    journal_of,
    result_event,
    search_event,
    snapshot,
    trial_event,
)
from tune_cl.api.rankers import load_ranker
from tune_cl.history.journal import Journal, read_events
from tune_cl.history.tracking_uri import resolve_tracking_uri
from tune_cl.tracking import writer as mlflow_writer
from tune_cl.tracking.layout import search_id
from tune_cl.tracking.mlflow_store import RunStore
from tune_cl.tracking.writer import MlflowWriter

pytestmark = pytest.mark.slow

__all__ = ["database", "expected"]  # fixtures


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    running = Server(tmp_path_factory.mktemp("server"))
    running.start()
    yield running
    running.stop()


def test_layout_on_a_server(server: Server, expected: Snapshot, database: Path, tmp_path: Path) -> None:
    journal = journal_of(tmp_path / "pacing", events("layout", database))
    assert caught_up(journal, server.uri) == 0
    runs = snapshot(server.uri, "layout")
    assert set(runs) == {"pacing", "t0000 baseline", "t0001 root 2 turns anti", "t0002 kde m=inf",
                         "t0003 no curriculum", "t0001 seed 8 root 2"}  # fmt: skip
    parent, best, stopped = runs["pacing"], runs["t0001 root 2 turns anti"], runs["t0002 kde m=inf"]
    assert parent["status"] == "FINISHED" and parent["times"] == (1000_000, 1200_000) and parent["parent"] is None
    assert parent["artifacts"] == ["best_checkpoint", "search.yaml"]
    tags = {"kind": "search", "yaml": "seed: 7\n", "data_digest": "sha-1", "versions": "ray 2.60.0, torch 2.13.0"}
    tags |= {
        "git_commit": "c0ffee",
        "forecast.gpu_hours": "1.5",
        "forecast.hours_forecast": "0.5",
        "cost.gpu_hours": "2.5",
        "best_trial": "t0001",
    }
    assert {f"tune_cl.{key}": value for key, value in tags.items()}.items() <= parent["tags"].items()
    assert parent["metrics"] == {"best_dev_mrr_at_10": [(2, "0.75")]}
    assert best["parent"] == "pacing" and best["status"] == "FINISHED" and best["artifacts"] == ["run.dev.txt"]
    assert best["params"] == {"curriculum.pacing": "root", "curriculum.n": "2", "curriculum.scoring": "turns",
                              "curriculum.anti": "true"}  # fmt: skip
    assert best["metrics"]["dev_mrr_at_10"] == [(1, "0.5"), (2, "0.75"), (3, "0.5")]
    assert best["metrics"]["best_dev_mrr_at_10"] == [(2, "0.75")]
    tags = {
        "kind": "trial",
        "search": "pacing",
        "trial_id": "t0001",
        "seed": "7",
        "outcome": "completed",
    }
    assert {f"tune_cl.{key}": value for key, value in tags.items()}.items() <= best["tags"].items()
    assert stopped["metrics"]["dev_mrr_at_10"] == [(1, "nan")] and stopped["params"]["curriculum.m"] == "inf"
    assert runs["t0003 no curriculum"]["status"] == "FAILED"
    assert runs["t0003 no curriculum"]["tags"]["tune_cl.reason"] == "it broke"
    assert runs["t0001 seed 8 root 2"]["tags"]["tune_cl.kind"] == "confirmation"
    assert runs == expected  # the database and the server hold the same


def test_outage_neither_stops_the_driver_nor_loses_results(
    tmp_path: Path,
    expected: Snapshot,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The server is away at the start, comes, freezes in the middle (requests arrive, answers do not), goes on."""
    server = Server(tmp_path / "server")
    uri = server.uri.replace("//", f"//user:{SECRET}@")
    told = events("outage", tmp_path / "pacing")  # its artifacts lie below the search's folder
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_TIMEOUT", "2")
    monkeypatch.setattr(mlflow_writer, "LONGEST_WAIT", 1.0)
    try:
        with Journal(tmp_path / "pacing") as journal, caplog.at_level(logging.DEBUG):
            writer = MlflowWriter(journal, uri, poll=0.1)
            writer.start()
            for event in told[:2]:
                journal.append(event)  # waits for no server: none is there yet
            until(lambda: writer.trouble is not None)
            server.start()
            until(lambda: writer.pending() == 0)
            server.signal(signal.SIGSTOP)
            for event in told[2:]:
                journal.append(event)
            until(lambda: writer.trouble is not None)
            server.signal(signal.SIGCONT)
            assert writer.close(timeout=60) == 0
        assert os.environ["MLFLOW_HTTP_REQUEST_TIMEOUT"] == "2" and "MLFLOW_HTTP_REQUEST_MAX_RETRIES" not in os.environ
        assert snapshot(server.uri, "outage") == expected
        assert "tracking waits for MLflow" in caplog.text
        ours = [record.getMessage() for record in caplog.records if record.name.startswith("tune_cl")]
        assert SECRET not in "\n".join(ours)
        assert SECRET not in (tmp_path / "pacing" / "tracking.json").read_text()
    finally:
        server.stop()


def test_server_killed_in_the_middle_of_a_batch_ends_up_with_each_point_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SIGKILL while requests with many points arrive, then a restart."""
    server = Server(tmp_path / "server")
    monkeypatch.setattr(mlflow_writer, "LONGEST_WAIT", 1.0)
    trials = [trial_event(number, {}) for number in range(30)]
    results = [result_event(number, iteration, iteration / 100) for number in range(30) for iteration in range(1, 21)]
    server.start()
    try:
        with Journal(tmp_path / "pacing") as journal:
            for event in [search_event("killed"), *trials, *results[:300]]:
                journal.append(event)
            writer = MlflowWriter(journal, server.uri, poll=0.1)
            writer.start()
            until(lambda: known_runs(server) >= 12, seconds=120)
            server.stop()
            for event in results[300:]:
                journal.append(event)
            until(lambda: writer.trouble is not None, seconds=120)
            server.start()
            assert writer.close(timeout=240) == 0
        found = snapshot(server.uri, "killed")
        assert len(found) == 1 + len(trials)
        for name, run in found.items():
            points = [] if name == "pacing" else [(at, repr(at / 100)) for at in range(1, 21)]
            assert run["metrics"].get("dev_mrr_at_10", []) == points, name
    finally:
        server.stop()


def known_runs(server: Server) -> int:
    """Runs in the server's database by now."""
    with closing(sqlite3.connect(f"file:{server.folder}/server.db?mode=ro", uri=True)) as database:
        return database.execute("SELECT COUNT(*) FROM runs").fetchone()[0]


def until(condition: Any, seconds: float = 30) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited too long"
        time.sleep(0.05)


def test_closing_in_an_outage_says_what_is_left_and_the_next_start_sends_it(
    server: Server, database: Path, expected: Snapshot, tmp_path: Path
) -> None:
    away = Server(tmp_path / "away")
    journal = journal_of(tmp_path / "pacing", events("closing", database))
    assert caught_up(journal, away.uri, timeout=3) == len(list(read_events(journal)))
    away.port, away.uri = server.port, server.uri
    assert caught_up(journal, away.uri) == 0
    assert snapshot(server.uri, "closing") == expected


def test_a_run_whose_creation_was_not_answered_is_not_made_twice(database: Path, tmp_path: Path) -> None:
    """Checked while the search runs: at its end strays are dropped."""

    class Deaf(RunStore):
        heard: list[Any] = []  # noqa: RUF012 - of one test

        def create(self, *request: Any) -> str:  # pyright: ignore[reportIncompatibleMethodOverride]
            run = super().create(*request)
            if request not in self.heard:
                self.heard.append(request)
                raise TimeoutError
            return run

    uri = resolve_tracking_uri(database)
    told = [event for event in events("deaf", database) if event["event"] not in ("search_end", "confirmation")]
    with Journal(tmp_path / "pacing") as journal:
        journal.append(told[0])
        delivery = delivery_of(journal, uri, Deaf)
        for event in told[1:]:
            journal.append(event)
            with suppress(TimeoutError):
                delivery.step()
        while delivery.pending():
            with suppress(TimeoutError):
                delivery.step()
    assert len(Deaf.heard) == 5 == len(snapshot(uri, "deaf"))


def test_of_an_iteration_reported_twice_the_first_stays(database: Path, tmp_path: Path) -> None:
    uri = resolve_tracking_uri(database)
    told = [search_event("twice"), trial_event(0, {}), result_event(0, 1, 0.3), result_event(0, 1, 0.9)]
    delivered(journal_of(tmp_path / "pacing", told), uri)
    assert [value for _, value in snapshot(uri, "twice")["t0000 baseline"]["metrics"]["dev_mrr_at_10"]] == ["0.3"]


def test_the_last_result_of_a_batch_is_not_sent_again(database: Path, tmp_path: Path) -> None:
    """Two results went in one request; nothing is in doubt, for the whole journal was written after the start."""
    uri = resolve_tracking_uri(database)
    with Journal(tmp_path / "pacing") as journal:
        journal.append(search_event("batch"))
        delivery = delivery_of(journal, uri)
        for results in ([(1, 0.1), (2, 0.2)], [(2, 0.9), (3, 0.3)]):
            journal.append(trial_event(0, {}))
            for iteration, dev in results:
                journal.append(result_event(0, iteration, dev))
            while delivery.pending():
                delivery.step()
    points = snapshot(uri, "batch")["t0000 baseline"]["metrics"]["dev_mrr_at_10"]
    assert points == [(1, "0.1"), (2, "0.2"), (3, "0.3")]


def test_a_confirmation_begins_as_long_before_its_end_as_it_took(database: Path, tmp_path: Path) -> None:
    """A confirmation has one value of each metric, at step 0."""
    uri = resolve_tracking_uri(database)
    confirmed = [event for event in events("confirmed", tmp_path) if event["event"] in ("search", "confirmation")]
    delivered(journal_of(tmp_path / "pacing", confirmed), uri)
    run = snapshot(uri, "confirmed")["t0001 seed 8 root 2"]
    assert run["times"] == (1297_000, 1300_000) and run["metrics"]["test_mrr_at_10"] == [(0, "0.5")]


def test_a_trial_that_goes_on_after_an_interruption_runs_and_its_best_is_at_its_iteration(
    database: Path, tmp_path: Path
) -> None:
    uri, folder = resolve_tracking_uri(database), tmp_path / "pacing"
    stopped = [search_event("again"), trial_event(0, {}), result_event(0, 1, 0.3), result_event(0, 2, 0.2)]
    delivered(journal_of(folder, [*stopped, {"event": "interrupted", "time": 1020.0}]), uri)
    assert snapshot(uri, "again")["t0000 baseline"]["status"] == "KILLED"
    delivered(journal_of(folder, [trial_event(0, {})]), uri)
    assert snapshot(uri, "again")["t0000 baseline"]["status"] == "RUNNING"
    ended = delivered(journal_of(folder, [end_event(0, "baseline", {"iteration": 1, "dev": 0.3})]), uri)
    assert ended.cursor.open == [], "another session leaves its status alone"
    run = snapshot(uri, "again")["t0000 baseline"]
    assert run["status"] == "FINISHED" and run["metrics"]["best_dev_mrr_at_10"] == [(1, "0.3")]


def test_fresh_database_is_made_quietly_beside_the_runs(tmp_path: Path) -> None:
    """In a process of its own, started elsewhere: nothing on stderr, nothing in the working directory."""
    journal = journal_of(tmp_path / "runs" / "pacing", events("fresh", tmp_path))
    (tmp_path / "elsewhere").mkdir()
    program = (
        "import sys, pathlib; from tune_cl.history.journal import Journal; "
        "from tune_cl.tracking.writer import MlflowWriter; "
        "assert 'mlflow' not in sys.modules, 'the driver would wait for the import'; "
        "writer = MlflowWriter(Journal(pathlib.Path(sys.argv[1]).parent), sys.argv[2]); writer.start(); "
        "sys.exit(writer.close())"
    )
    uri = resolve_tracking_uri(tmp_path / "runs")
    done = subprocess.run(
        [sys.executable, "-c", program, str(journal), uri], cwd=tmp_path / "elsewhere", capture_output=True, text=True,
        env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[1])}, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert not list((tmp_path / "elsewhere").iterdir())
    kept = sorted(path.name for path in (tmp_path / "runs" / "mlartifacts").glob("*/artifacts/*"))
    assert kept == ["best_checkpoint", "run.dev.txt", "search.yaml"]


def test_the_best_ranker_is_a_model_that_can_be_registered(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import mlflow
    import pandas as pd

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("MLFLOW_TRACKING_URI", server.uri)
    journal = journal_of(tmp_path / "pacing", events("model", tmp_path / "pacing"))
    folder = save_tiny_bert(tmp_path / "pacing" / "best-ranker")
    best = {"trial_id": "t0001", "params": {}, "dev": 0.75, "iteration": 2}
    end = {"event": "search_end", "best": best, "cost": {}, "seconds": 1.0, "time": 1300.0, "checkpoint": str(folder)}
    journal_of(tmp_path / "pacing", [end])
    assert caught_up(journal, server.uri) == 0
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
