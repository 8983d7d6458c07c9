"""Tracking without a server: its address, the cursor, and the thread that sends. A delivery stands in for MLflow."""

from __future__ import annotations

import math
import os
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from mlflow.exceptions import MlflowException, RestException
from mlflow.protos.databricks_pb2 import INVALID_PARAMETER_VALUE
from requests import HTTPError, Response

from tests.support.tracking_cases import search_event
from trainables.core.errors import ConfigError
from tune_cl.history.journal import CURSOR, Journal
from tune_cl.history.tracking_uri import artifact_location, masked, resolve_tracking_uri
from tune_cl.tracking import layout
from tune_cl.tracking.cursor import Cursor, load
from tune_cl.tracking.mlflow_store import RunStore
from tune_cl.tracking.writer import MlflowWriter, finish


def test_a_cursor_is_of_one_target_and_no_longer_journal(tmp_path: Path) -> None:
    """A folder that is copied while its search runs may have a journal older than the cursor."""
    journal = tmp_path / "journal.jsonl"
    journal.write_bytes(b"first\nsecond\n")
    Cursor("here", offset=13, runs={"search": "r"}).save(tmp_path)
    assert load(journal, "here").runs == {"search": "r"}
    assert load(journal, "there") == Cursor("there")
    journal.write_bytes(b"first\n")
    assert load(journal, "here") == Cursor("here")


def test_a_cursor_reads_back_as_it_was(tmp_path: Path) -> None:
    """Including the artifacts: a list instead of a tuple would be sent twice, and never removed."""
    artifacts: list[tuple[str, str, str | None]] = [
        ("t0001", "trials/t0001", None),
        ("search", "best.pt", "checkpoint"),
    ]
    journal = tmp_path / "journal.jsonl"
    journal.write_bytes(b"first\n")
    runs, reached = {"search": "r"}, {"t0001": 3}
    cursor = Cursor("here", offset=6, experiment="1", runs=runs, reached=reached, open=["t0001"], artifacts=artifacts)
    cursor.save(tmp_path)
    assert load(journal, "here") == cursor


TORN = ('{"target": "here", "artifacts": [["t0001"]]}', '{"target": "here", "offset": 5, "artifacts": []}')


@pytest.mark.parametrize("held", ["", "[]", "{}", *TORN, None])
def test_a_cursor_that_cannot_be_read_is_a_fresh_one(held: str | None, tmp_path: Path) -> None:
    if held is not None:
        (tmp_path / CURSOR).write_text(held)
    assert load(tmp_path / "journal.jsonl", "here") == Cursor("here")


# -- the thread that sends ------------------------------------------------------------------------------------------


class Away:
    """Stands in for a delivery: each step raises or returns what is `left`."""

    def __init__(self, *left: Any) -> None:
        self.cursor = SimpleNamespace(runs={}, artifacts=[])
        self.left = list(left)

    def step(self) -> bool:
        told = self.left.pop(0)
        if isinstance(told, Exception):
            raise told
        return told

    def pending(self) -> int:
        return len(self.left)


def writer_of(delivery: Away) -> MlflowWriter:
    journal: Any = SimpleNamespace(settled=1, path=Path(__file__))
    writer = MlflowWriter(journal, "http://here")
    writer._delivery = delivery  # type: ignore[assignment]
    return writer


def test_an_outage_is_said_once_and_over_when_all_is_sent(caplog: pytest.LogCaptureFixture) -> None:
    writer = writer_of(Away(OSError("away"), OSError("away"), True, False))
    assert [writer.attempt(), writer.attempt()] == [False, False] and writer.trouble == "OSError: away"
    assert not writer.all_sent() and writer.attempt() and writer.trouble is None
    assert not writer.attempt() and writer.all_sent()
    assert [record.getMessage() for record in caplog.records] == [
        "tracking waits for MLflow at http://here: OSError: away", "tracking goes on after 2 failed attempts"
    ]  # fmt: skip


def test_an_artifact_that_cannot_be_stored_is_said_once_and_no_event_in_between_ends_that(
    caplog: pytest.LogCaptureFixture,
) -> None:
    delivery = Away(OSError("403"), True, OSError("403"), True, OSError("403"), True)
    writer, delivery.cursor.artifacts = writer_of(delivery), ["artifact"]
    assert [writer.attempt() for _ in range(5)] == [False, True, False, True, False]
    assert writer.trouble == "OSError: 403" and not writer.all_sent() and len(caplog.records) == 1
    delivery.cursor.artifacts.clear()  # the last step stores the artifact
    assert writer.attempt() and writer.trouble is None and writer.all_sent()


@pytest.mark.parametrize("removed", [False, True])
def test_a_writer_that_was_stopped_before_it_started_hides_no_exception(
    removed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Nor does one whose journal was removed."""

    def interrupted(_: threading.Thread) -> None:
        raise KeyboardInterrupt

    with Journal(tmp_path / "pacing") as journal:
        journal.append(search_event("never"))  # which starts a thread, too
        monkeypatch.setattr(threading.Thread, "start", interrupted)
        writer = MlflowWriter(journal, "sqlite://")
        with pytest.raises(KeyboardInterrupt):
            writer.start()
        if removed:
            journal.path.unlink()
        finish(writer, "tune-cl resume pacing")
    unsent = "1 events have not reached MLflow (there was no time); send them later with: tune-cl resume pacing\n"
    assert capfd.readouterr().err == ("" if removed else unsent)
    assert "MLFLOW_HTTP_REQUEST_TIMEOUT" not in os.environ


@pytest.mark.parametrize(("status", "refused"), [(413, True), (503, False)])
def test_a_file_too_large_for_the_server_is_not_tried_again(status: int, refused: bool) -> None:
    """As refused by a proxy before the server."""
    response = Response()
    response.status_code = status
    store = RunStore("http://127.0.0.1:1", None)
    assert (store.refusal(HTTPError(response=response)) is not None) == refused
    denied = {"error_code": "INVALID_PARAMETER_VALUE", "message": "too long"}
    assert "too long" in (store.refusal(RestException(denied)) or "")
    assert store.refusal(MlflowException("no", error_code=INVALID_PARAMETER_VALUE)) is None, "a proxy's answer"


# -- its address ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("postgresql://u:p@db:5432/x", "postgresql://***@db:5432/x"),
        ("http://u:p@ss@host/a and http://token@host", "http://***@host/a and http://***@host"),
        ("postgresql://db/x?password=p&ssl=on", "postgresql://db/x?password=***&ssl=on"),
        ("sqlite:////tmp/a@b/mlflow.db", "sqlite:////tmp/a@b/mlflow.db"),
        ("mail me@host or http://host/a@b", "mail me@host or http://host/a@b"),
        ("postgresql://db/x?sslpassword=p&user=u", "postgresql://db/x?sslpassword=***&user=u"),
    ],
)
def test_masked_hides_credentials_only(text: str, shown: str) -> None:
    assert masked(text) == shown


SECRETS = ["SEKr", *(f"SEKr{sign}1a" for sign in "/@#? :\"'"), "SEKr/1@a#b c"]


@pytest.mark.parametrize("secret", SECRETS)
@pytest.mark.parametrize(
    "address", ["http://us er:{}@host:5000/x", "postgresql://usr:{}@host/db", "mysql+pymysql://u:{}@h/d?a=b"]
)
def test_a_password_of_any_signs_is_hidden(secret: str, address: str) -> None:
    shown = masked(address.format(secret))
    assert all(part not in shown for part in ("SEKr", "1a")) and shown.partition("://")[2].startswith("***@h")
    if '"' not in secret:
        told = masked(f"OperationalError: cannot reach {address.format(secret)}\nme@host")
        assert "SEKr" not in told and "1a" not in told and told.endswith("\nme@host")


def test_tracking_uri_flag_then_environment_then_storage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    monkeypatch.chdir(tmp_path)
    assert resolve_tracking_uri(Path("runs")) == f"sqlite:///{tmp_path}/runs/mlflow.db"
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "sqlite:///rel.db?timeout=3")  # other commands may start elsewhere
    assert resolve_tracking_uri(Path("runs")) == f"sqlite:///{tmp_path}/rel.db?timeout=3"
    in_memory = ("sqlite://", "sqlite:///:memory:", "sqlite:///file:runs?mode=memory&uri=true")
    for same in ("sqlite:////abs/rel.db", *in_memory, "postgresql:///runs", "databricks"):
        assert resolve_tracking_uri(Path("runs"), same) == same
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://server:5000")
    for own in ("http://server:5000", f"sqlite:///{tmp_path}/runs/mlflow.db"):
        assert resolve_tracking_uri(Path("runs"), None, own) == own
    hidden = "postgresql://***@db/x"  # as in a journal: without the secret
    assert (
        resolve_tracking_uri(Path("runs")) == resolve_tracking_uri(Path("runs"), None, hidden) == "http://server:5000"
    )
    for server in ("http://server:5000", "https://server", "databricks", "databricks://profile"):
        assert artifact_location(server, Path("runs")) is None, "the server decides"


@pytest.mark.parametrize(
    ("given", "recorded", "variable", "location"),
    [
        (None, "postgresql://db/x", "", "--tracking-uri"),
        ("foo://server", "", "", "--tracking-uri"),
        ("./mlruns", "", "", "--tracking-uri"),
        (None, "", "file:///x", "MLFLOW_TRACKING_URI"),
        (None, "", "", "--storage"),
    ],
)
def test_addresses_that_are_refused(
    given: str | None, recorded: str, variable: str, location: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stranger's, one that MLflow does not know, folders, and a storage whose path MLflow would not find."""
    monkeypatch.setenv("MLFLOW_TRACKING_URI", variable)
    for name in ("a?b", "a%20b"):
        with pytest.raises(ConfigError) as refused:
            resolve_tracking_uri(tmp_path / name, given, recorded)
        [problem] = refused.value.problems
        assert problem.location == location and (given or recorded or variable or name) in problem.wrong
    monkeypatch.delenv("MLFLOW_TRACKING_URI")
    assert resolve_tracking_uri(tmp_path / "100% a#b") == f"sqlite:///{tmp_path}/100% a#b/mlflow.db"


@pytest.mark.parametrize(
    ("value", "shown"),
    [(True, "true"), (None, "null"), (math.inf, "inf"), (0.001, "0.001"), ([1, 2], "[1, 2]"), ("a", "a")],
)
def test_parameter_values_read_as_yaml(value: object, shown: str) -> None:
    assert layout.parameters({"key": value}) == {"key": shown}


@pytest.mark.parametrize("key", ["name", "storage", "time"])
def test_a_search_is_told_from_others_by_name_storage_and_time(key: str) -> None:
    search = {"name": "a", "storage": "runs", "time": 1.0}
    assert layout.search_id(search) == layout.search_id(dict(search)) != layout.search_id(search | {key: 2.0})
