"""Tracking behind a proxy that answers what a broken server, or a proxy before it, may answer. See faulty_proxy.py."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from itertools import chain, cycle
from pathlib import Path
from typing import Any

import pytest
from mlflow.entities import Run
from mlflow.tracking import MlflowClient

from tests.support.builders import tiny_data
from tests.support.commands import SPACE, finish, start, wait_for_events
from tests.support.faulty_proxy import LOGIN, Fault, Handler, Proxy, answering, hang, in_turn, proxy_before, reset
from tests.support.tracking_cases import Server, Snapshot, caught_up, database, events, expected, journal_of, snapshot
from tests.support.trec_folder import write_trec_folder
from tune_cl.history.journal import FILE, read_events
from tune_cl.history.state import SearchState, replay
from tune_cl.tracking import writer as mlflow_writer

pytestmark = pytest.mark.slow

__all__ = ["database", "expected"]  # fixtures
FAULTS: list[Fault] = [
    reset,
    answering(500, b'{"error_code": "INTERNAL_ERROR", "message": "no"}', "application/json"),
    answering(503, b"<html>try later</html>"),
    answering(200, LOGIN),
    answering(200, b'{"run": {"inf', "application/json"),
]
SOUND = 7  # requests between two faults


@pytest.fixture(scope="module")
def proxy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxy]:
    server = Server(tmp_path_factory.mktemp("server"))
    server.start()
    try:
        with proxy_before(server.uri) as made:
            yield made
    finally:
        server.stop()


@pytest.fixture(autouse=True)
def healthy_at_first(proxy: Proxy, monkeypatch: pytest.MonkeyPatch) -> None:
    proxy.fault = None
    monkeypatch.setattr(mlflow_writer, "LONGEST_WAIT", 0.2)


def test_a_server_that_fails_again_and_again_gets_all_and_once(
    proxy: Proxy, database: Path, expected: Snapshot, tmp_path: Path
) -> None:
    journal = journal_of(tmp_path / "pacing", events("flaky", database))
    proxy.fault = in_turn(cycle(chain.from_iterable([*[None] * SOUND, fault] for fault in FAULTS)))
    assert caught_up(journal, proxy.uri, timeout=120) == 0
    proxy.fault = None
    assert snapshot(proxy.uri, "flaky") == expected


def test_an_answer_without_content_is_no_run(proxy: Proxy, database: Path, expected: Snapshot, tmp_path: Path) -> None:
    """MLflow's client takes an empty answer for a run without an id, of which nothing would ever arrive."""
    journal = journal_of(tmp_path / "pacing", events("empty", database))
    proxy.fault = in_turn([answering(200, b"")] * 8)
    assert caught_up(journal, proxy.uri) == 0
    assert snapshot(proxy.uri, "empty") == expected


def test_an_artifact_that_a_login_page_took_is_sent_again(
    proxy: Proxy, database: Path, expected: Snapshot, tmp_path: Path
) -> None:
    """Requests for files go another way than the others, and once to a page that answers 200."""
    swallow = in_turn([answering(200, LOGIN)] * 3)
    journal = journal_of(tmp_path / "pacing", events("login", database))
    proxy.fault = lambda handler: swallow(handler) if handler.command == "PUT" else Handler.forward(handler)
    assert caught_up(journal, proxy.uri) == 0
    assert snapshot(proxy.uri, "login") == expected


def test_a_search_before_a_frozen_server_ends_and_resume_completes_mlflow(proxy: Proxy, tmp_path: Path) -> None:
    """MLflow takes requests and answers none for the whole search."""
    made = tiny_data(queries={"train": 30, "dev": 12, "test": 12}, candidates=5, turns=1)
    write_trec_folder(made, tmp_path / "data")
    (tmp_path / "frozen.yaml").write_text(SPACE)
    proxy.fault = hang
    answered, journal = proxy.answered, tmp_path / "runs" / "frozen" / FILE
    address = ["--storage", "runs", "--tracking-uri", proxy.uri, "--json"]
    running = start(
        tmp_path, "run", "frozen.yaml", "--data", "data", "--trials", "2", "--max-iterations", "4", *address
    )
    wait_for_events(running, journal, "artifact", 1)  # the last event: the report
    assert proxy.answered == answered and proxy.faulty > 0
    running.send_signal(signal.SIGTERM)  # or it would wait half a minute for MLflow
    _, said = finish(running, status=130)
    assert "tune-cl resume frozen" in said.splitlines()[-1]
    proxy.heal()
    document = json.loads(finish(start(tmp_path, "resume", "frozen", *address))[0])
    state = replay(read_events(journal))
    assert document["trials"] == len(state.trials) == 2 and document["errored"] == 0
    assert_complete(proxy.uri, "frozen", state)


def assert_complete(uri: str, space: str, state: SearchState) -> None:
    """Checks that MLflow has every trial's parameters, values, files and end, once, and the search's."""
    client = MlflowClient(uri)
    experiment = client.get_experiment_by_name(space)
    assert experiment is not None
    runs: list[Run] = list(client.search_runs([experiment.experiment_id]))
    assert {run.info.status for run in runs} == {"FINISHED"} and len(runs) == len(state.trials) + 1
    by_trial = {run.data.tags.get("tune_cl.trial_id"): run for run in runs}
    for trial in state.by_number():
        run = by_trial[trial.trial]
        points: list[Any] = client.get_metric_history(run.info.run_id, "dev_map")
        assert [(point.step, point.value) for point in points] == sorted(trial.dev("map").items())
        assert set(run.data.params) == set(trial.params) and run.data.tags["tune_cl.outcome"] == trial.outcome
        assert {file.path for file in client.list_artifacts(run.info.run_id)} >= {"dev.run.txt", "config.yaml"}
    left = {file.path for file in client.list_artifacts(by_trial[None].info.run_id)}
    assert left == {"report.html", "search.yaml", "best_checkpoint"}
