"""What MLflow shows if it is slow, if users delete runs, and if something cannot be stored."""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from alembic.operations.batch import ApplyBatchImpl
from mlflow import MlflowClient
from requests import HTTPError, Response

from tests.support.s3_cases import on_another_machine, s3, server
from tests.support.tracking_cases import (
    Snapshot,
    at_home,
    database,
    delivered,
    delivery_of,
    end_event,
    events,
    expected,
    fresh_database,
    journal_of,
    result_event,
    root,
    search_event,
    snapshot,
    trial_event,
)
from tune_cl.history.journal import Event, Journal
from tune_cl.history.s3_mirror import MirroredJournal
from tune_cl.history.search_folder import SearchFolder, new_search_folder, search_folder_of
from tune_cl.history.tracking_uri import artifact_location, resolve_tracking_uri
from tune_cl.tracking.delivery import Delivery
from tune_cl.tracking.mlflow_store import Refused, RunStore
from tune_cl.tracking.writer import MlflowWriter, finish

pytestmark = pytest.mark.slow

__all__ = ["database", "expected", "s3", "server"]


class TimeIsUp(BaseException):
    """The end of a process that no longer waits for MLflow: nothing catches it."""


class SlowStore(RunStore):
    """Every request takes a second of the `seconds` that its process has left."""

    REQUESTS = (
        "create_experiment", "get_experiment_by_name", "set_experiment_tag", "get_run", "search_runs", "create_run",
        "log_batch", "get_metric_history", "update_run", "set_terminated", "log_artifact", "log_artifacts",
    )  # fmt: skip

    def __init__(self, uri: str, artifacts: str | None, seconds: float):
        super().__init__(uri, artifacts)
        self.now, self.end = 0.0, seconds
        for name in self.REQUESTS:
            setattr(self.client, name, self.slow(getattr(self.client, name)))

    def slow(self, method: Any) -> Any:
        def call(*args: Any, **options: Any) -> Any:
            self.now += 1
            if self.now > self.end:
                raise TimeIsUp
            return method(*args, **options)

        return call


def crowd(space: str, files: Path) -> list[Event]:
    """Twelve trials side by side, each of which leaves a file."""
    files.mkdir(parents=True)
    (files / "run.dev.txt").write_text("q1 Q0 d1 1 0.5 knrm\n")
    trials = [trial_event(number, {"curriculum.n": number}) for number in range(12)]
    results = [result_event(number, iteration, 0.5) for iteration in (1, 2) for number in range(12)]
    interruption = [{"event": "interrupted", "time": 1020.0}, {"event": "session", "number": 2, "time": 1030.0}]
    ends = [end_event(number, "completed", {"iteration": 1, "dev": 0.5}, str(files)) for number in range(12)]
    closing = {"event": "search_end", "best": None, "cost": {}, "seconds": 1.0, "time": 1200.0}
    return [search_event(space), *trials, *results, *interruption, *ends, closing]


def test_a_slow_mlflow_is_told_in_as_many_sittings_as_it_takes(database: Path, tmp_path: Path) -> None:
    """Each session has time for a few requests, fewer than one step would like to make."""
    uri = resolve_tracking_uri(database)
    journal = journal_of(tmp_path / "slow" / "pacing", crowd("slow", tmp_path / "files"))
    for _ in range(40):
        store = SlowStore(uri, artifact_location(uri, database), seconds=40)
        with Journal(journal.parent) as held:
            try:
                delivery = Delivery(held, uri, store, clock=lambda store=store: store.now)
                while delivery.pending():
                    delivery.step()
                break
            except TimeIsUp:
                continue
    else:
        pytest.fail("it begins again and again")
    whole = journal_of(tmp_path / "whole" / "pacing", crowd("whole", tmp_path / "same"))
    delivered(whole, uri)
    assert snapshot(uri, "slow") == snapshot(uri, "whole")


def told_around_a_deletion(folder: Path, uri: str, before: list[Event], after: list[Event]) -> Delivery:
    """Delivers events before and after a user deletes the run of t0001."""
    with Journal(folder) as journal:
        for event in before:
            journal.append(at_home(event, folder))
        delivery = delivery_of(journal, uri)
        while delivery.pending():
            delivery.step()
        delivery.store.delete(delivery.cursor.runs["t0001"])
        for event in after:
            journal.append(at_home(event, folder))
        while delivery.pending():
            delivery.step()
        return delivery


def test_a_run_that_a_user_deleted_keeps_no_other_from_its_results_and_status(database: Path, tmp_path: Path) -> None:
    uri, told = resolve_tracking_uri(database), events("killed", database)
    later = [result_event(1, 1, 0.5), result_event(0, 1, 0.25), {"event": "interrupted", "time": 1020.0}]
    told_around_a_deletion(tmp_path / "pacing", uri, told[:4], later)
    runs = snapshot(uri, "killed")
    assert set(runs) == {"pacing", "t0000 baseline"} and {run["status"] for run in runs.values()} == {"KILLED"}
    assert runs["t0000 baseline"]["metrics"]["dev_mrr_at_10"] == [(1, "0.25")]


def test_a_run_that_a_user_deleted_keeps_the_search_from_no_end(
    database: Path, expected: Snapshot, tmp_path: Path
) -> None:
    uri, told = resolve_tracking_uri(database), events("ended", database)
    at = next(number for number, event in enumerate(told) if event["event"] == "search_end")
    told_around_a_deletion(tmp_path / "pacing", uri, told[:at], told[at:])
    assert snapshot(uri, "ended") == {name: run for name, run in expected.items() if name != "t0001 root 2 turns anti"}


def test_the_end_of_a_deleted_trial_is_told_and_then_forgotten(
    database: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    uri = resolve_tracking_uri(database)
    told = [search_event("forgotten"), trial_event(0, {}), trial_event(1, root(2))]
    later = [end_event(1, "completed", None), {"event": "session", "number": 2, "time": 1200.0}]
    told_around_a_deletion(tmp_path / "pacing", uri, told, later)
    [refusal] = caplog.messages
    assert refusal.startswith("MLflow refuses event 'end' of t0001")
    assert snapshot(uri, "forgotten")["t0000 baseline"]["status"] == "RUNNING"


def test_an_artifact_that_cannot_be_stored_keeps_back_no_other_and_no_result(
    database: Path, expected: Snapshot, tmp_path: Path
) -> None:
    """It is tried again later."""
    attempts = []

    class Narrow(RunStore):
        def log_artifact(self, run: str, path: Path, folder: str | None) -> None:
            if path.name == "search.yaml":  # the first one owed
                attempts.append(path)
                raise ConnectionError("no answer")
            super().log_artifact(run, path, folder)

    uri, told = resolve_tracking_uri(database), events("narrow", database)
    with Journal(tmp_path / "pacing") as journal:
        journal.append(told[0])
        delivery = delivery_of(journal, uri, Narrow)
        for event in told[1:]:
            journal.append(at_home(event, tmp_path / "pacing"))
            assert delivery.step(), "an artifact goes before an event"
        for _ in range(3):
            with pytest.raises(ConnectionError):
                delivery.step()
        assert [Path(path).name for _, path, _ in delivery.cursor.owed] == ["search.yaml"] and len(attempts) == 3
    parent = expected["pacing"] | {"artifacts": ["best_checkpoint"]}
    assert snapshot(uri, "narrow") == expected | {"pacing": parent}
    delivered(journal.path, uri)
    assert snapshot(uri, "narrow") == expected


def test_a_clock_before_1970_loses_no_point_and_leaves_no_run_open(
    database: Path, expected: Snapshot, tmp_path: Path
) -> None:
    """The clock is set back amid the search: MLflow refuses points from before 1970."""
    uri, jumped = resolve_tracking_uri(database), 1012.0
    told = [event | {"time": event["time"] - 5000} if event.get("time", 0) > jumped else event
            for event in events("early", database)]  # fmt: skip
    delivered(journal_of(tmp_path / "pacing", told), uri)
    runs = snapshot(uri, "early")
    assert {name: run | {"times": ...} for name, run in runs.items()} == {
        name: run | {"times": ...} for name, run in expected.items()
    }
    assert all(end == 1 for _, end in (run["times"] for run in runs.values()))


@pytest.mark.parametrize(("status", "refused"), [(413, Refused), (503, HTTPError)])
def test_a_file_too_large_for_the_server_is_not_tried_again(
    status: int, refused: type[Exception], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As refused by a proxy before the server."""
    response = Response()
    response.status_code = status
    store = RunStore("http://127.0.0.1:1", None)
    monkeypatch.setattr(store.client, "log_artifact", lambda *_: response.raise_for_status())
    (tmp_path / "large").write_text("x")
    with pytest.raises(refused):
        store.log_artifact("run", tmp_path / "large", None)


def test_what_a_lost_machine_told_beyond_its_journal_is_not_told_twice(
    s3: str, database: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its last events reached MLflow but not the bucket: another machine makes them again, some of them different."""
    uri = resolve_tracking_uri(database)
    head = [search_event("lost"), trial_event(1, {"n": 1}), result_event(1, 1, 0.5)]
    tail = [result_event(1, 2, 0.75), result_event(1, 3, 0.5), trial_event(2, {"n": 2}), result_event(2, 1, 0.5)]
    tail += [trial_event(3, {"n": 3}), result_event(3, 1, 0.5)]
    search_folder = new_search_folder(s3, "pacing", "pacing")
    first = mirrored(search_folder)
    tell(first, uri, head)
    assert first._attempt()
    tell(first, uri, tail)
    first._closing.set()  # the machine is lost
    first._lease.rest()
    on_another_machine(monkeypatch, tmp_path / "other")
    with mirrored(search_folder_of(s3, "pacing")) as journal:
        assert [event["event"] for event in journal.events()] == ["search", "trial", "result"]
        again = [trial_event(1, {"n": 1}), *tail[:2], trial_event(2, {"n": 4}), tail[3], *tail[4:]]
        delivery = tell(journal, uri, [event | {"time": event["time"] + 100} for event in again])
        tell(journal, uri, [result_event(1, 4, 0.5), result_event(3, 2, 0.5)], delivery)
        monkeypatch.setattr(delivery.store, "steps", lambda *_: pytest.fail("it asks at each batch"))
        tell(journal, uri, [result_event(1, 5, 0.5), result_event(2, 2, 0.5), result_event(3, 3, 0.5)], delivery)
    runs = {name.partition(" ")[0]: run for name, run in snapshot(uri, "lost").items()}
    steps = {name: [step for step, _ in run["metrics"].get("dev_mrr_at_10", [])] for name, run in runs.items()}
    assert steps == {"pacing": [], "t0001": [1, 2, 3, 4, 5], "t0002": [1, 2], "t0003": [1, 2, 3]}
    assert runs["t0002"]["params"] == {"n": "4"}
    first._lease.lost = True
    first.close()


def mirrored(search_folder: SearchFolder) -> MirroredJournal:
    assert search_folder.remote_folder
    return MirroredJournal(search_folder.folder, search_folder.remote_folder, watch=0.1, every=1000.0)


def tell(journal: Journal, uri: str, told: list[Event], delivery: Delivery | None = None) -> Delivery:
    """Appends events one by one, and sends each to MLflow before the next one is appended."""
    for event in told:
        journal.append(event)
        delivery = delivery or delivery_of(journal, uri)
        while delivery.pending():
            delivery.step()
    assert delivery is not None
    return delivery


@pytest.mark.parametrize("options", ["", "?timeout=3"])
def test_a_database_whose_creation_is_cut_short_is_created_again(
    options: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a kill or a full disk: MLflow would not go on with half of its tables, ever."""

    def half(self: Any, operations: Any) -> None:
        self._transfer_elements_to_new_table()
        operations.create_table(self.new_table)
        raise OSError("cut short")

    uri = f"sqlite:///{tmp_path}/storage/mlflow.db{options}"
    with monkeypatch.context() as patch, pytest.raises(OSError, match="cut short"):
        patch.setattr(ApplyBatchImpl, "_create", half)
        RunStore(uri, None)
    made = RunStore(uri, None).experiment("pacing")
    assert RunStore(uri, None).experiment("pacing") == made
    assert [path.name for path in (tmp_path / "storage").iterdir()] == ["mlflow.db"]


def test_what_a_database_refuses_is_said_once_in_its_own_words(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    """MLflow would print a traceback at each attempt, and SQLAlchemy puts advice to programmers before the reason."""
    uri = resolve_tracking_uri(fresh_database(tmp_path))
    with closing(sqlite3.connect(tmp_path / "mlflow.db")) as broken:
        broken.execute("DROP TABLE runs")
    with Journal(tmp_path / "pacing") as journal:
        journal.append(search_event("never"))
        writer = MlflowWriter(journal, uri)
        assert not writer.attempt() and not writer.attempt()
    assert [record.getMessage() for record in caplog.records] == [
        f"tracking waits for MLflow at {uri}: OperationalError: no such table: runs"
    ]
    assert "Traceback" not in capfd.readouterr().err


def test_a_writer_that_was_stopped_before_it_started_hides_no_exception(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def interrupted(_: threading.Thread) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(threading.Thread, "start", interrupted)
    with Journal(tmp_path / "pacing") as journal:
        journal.append(search_event("never"))
        writer = MlflowWriter(journal, resolve_tracking_uri(tmp_path))
        with pytest.raises(KeyboardInterrupt):
            writer.start()
        finish(writer, "tune-cl resume pacing")
    assert capfd.readouterr().err == (
        "1 events have not reached MLflow (there was no time); send them later with: tune-cl resume pacing\n"
    )
    assert "MLFLOW_HTTP_REQUEST_TIMEOUT" not in os.environ


def test_a_writer_whose_journal_was_removed_hides_no_exception(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with Journal(tmp_path / "pacing") as journal:
        journal.append(search_event("gone"))
        writer = MlflowWriter(journal, resolve_tracking_uri(fresh_database(tmp_path / "database")))
        writer.delivery()
        journal.path.unlink()
        finish(writer, "tune-cl resume pacing")
    assert capfd.readouterr().err == ""


def test_a_search_whose_user_asks_for_system_metrics_has_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_ENABLE_SYSTEM_METRICS_LOGGING", "true")
    monkeypatch.setenv("MLFLOW_SYSTEM_METRICS_SAMPLING_INTERVAL", "0.2")
    uri = resolve_tracking_uri(fresh_database(tmp_path))
    with Journal(tmp_path / "pacing") as journal:
        journal.append(search_event("watched"))
        writer = MlflowWriter(journal, uri, poll=0.1)
        writer.start()
        deadline = time.monotonic() + 60
        while not (writer.run_id and system_metrics(uri, writer.run_id)) and time.monotonic() < deadline:
            time.sleep(0.2)
        assert writer.run_id and "system/cpu_utilization_percentage" in system_metrics(uri, writer.run_id)
        assert writer.close() == 0 and writer.trouble is None


def system_metrics(uri: str, run: str) -> list[str]:
    return [name for name in MlflowClient(uri).get_run(run).data.metrics if name.startswith("system/")]
