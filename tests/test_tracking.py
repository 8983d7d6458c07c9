"""Tracking without a server: its address, the cursor, and the thread that sends."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from mlflow.exceptions import MlflowException, RestException
from mlflow.protos.databricks_pb2 import INVALID_PARAMETER_VALUE
from requests import HTTPError, Response

from tests.support.journal_events import trial
from tests.support.memory_store import Memory
from tests.support.tracking_cases import journal_of, search_event
from trainables.core.errors import ConfigError
from tune_cl.history.journal import CURSOR, Journal
from tune_cl.history.tracking_uri import artifact_location, masked, resolve_tracking_uri
from tune_cl.ray.environment import own_environment
from tune_cl.tracking.cursor import Cursor, load
from tune_cl.tracking.delivery import Delivery
from tune_cl.tracking.mlflow_store import RunStore
from tune_cl.tracking.writer import MlflowWriter, finish


def test_a_cursor_reads_back_as_it_was_for_its_target_and_no_shorter_journal(tmp_path: Path) -> None:
    """A folder that is copied while its search runs may have a journal older than the cursor."""
    journal = tmp_path / "journal.jsonl"
    journal.write_bytes(b"first\nsecond\n")
    artifacts: list[tuple[str, str, str | None]] = [("t0001", "trials/t0001", None), ("search", "best.pt", "model")]
    runs, reached = {"search": "r"}, {"t0001": 3}
    cursor = Cursor("here", offset=13, experiment="1", runs=runs, reached=reached, open=["t0001"], artifacts=artifacts)
    cursor.save(tmp_path)
    assert load(journal, "here") == cursor
    assert load(journal, "there") == Cursor("there")
    journal.write_bytes(b"first\n")
    assert load(journal, "here") == Cursor("here")


TORN = ('{"target": "here", "artifacts": [["t0001"]]}', '{"target": "here", "offset": 5, "artifacts": []}')


@pytest.mark.parametrize("held", ["", "[]", "{}", *TORN, None])
def test_a_cursor_that_cannot_be_read_is_a_fresh_one(held: str | None, tmp_path: Path) -> None:
    if held is not None:
        (tmp_path / CURSOR).write_text(held)
    assert load(tmp_path / "journal.jsonl", "here") == Cursor("here")


# -- the thread that sends ------------------------------------------------------------------------------------------


@pytest.fixture
def writer(tmp_path: Path) -> Iterator[MlflowWriter]:
    """Of a search of which nothing is sent."""
    journal_of(tmp_path / "pacing", [search_event("quickstart")])
    with Journal(tmp_path / "pacing") as journal:
        yield MlflowWriter(journal, "http://me:secret@here")


def test_an_outage_is_said_once_and_over_when_all_is_sent_artifacts_too(
    writer: MlflowWriter, caplog: pytest.LogCaptureFixture
) -> None:
    store = Memory()
    writer._delivery = Delivery(writer.journal, writer.uri, store)
    store.fails = {"tag_experiment"}
    assert not writer.attempt() and not writer.attempt() and writer.trouble == "TimeoutError: away"
    store.fails = {"log_artifact"}  # as behind a proxy that lets no files through
    assert writer.attempt() and not writer.attempt()
    writer.journal.append(trial(0))
    assert writer.attempt() and store.named("t0000"), "an event gets through"
    assert writer.trouble == "TimeoutError: away" and not writer.all_sent()
    store.fails = ()
    assert writer.attempt() and writer.trouble is None and writer.all_sent() and not writer.attempt()
    assert caplog.messages == [
        "tracking waits for MLflow at http://***@here: TimeoutError: away", "tracking goes on after 3 failed attempts"
    ]  # fmt: skip


def test_what_is_unsent_is_said_with_the_command_that_sends_it(
    writer: MlflowWriter, capfd: pytest.CaptureFixture[str]
) -> None:
    """Also by a writer that no start of Ray has started; of a journal that was removed, there is nothing to say."""
    store = Memory()
    store.fails = {"tag_experiment"}
    writer._delivery = Delivery(writer.journal, writer.uri, store)
    finish(writer, "tune-cl resume pacing", timeout=0.5)
    unsent = "2 events have not reached MLflow (TimeoutError: away); send them later with: tune-cl resume pacing\n"
    assert capfd.readouterr().err == unsent
    writer.journal.path.unlink()
    finish(writer, "tune-cl resume pacing")
    assert capfd.readouterr().err == ""


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
        ("http://u:p@ss@host/a and http://token@host", "http://***@host/a and http://***@host"),
        ("postgresql://db/x?sslpassword=p&user=u", "postgresql://db/x?sslpassword=***&user=u"),
        ("sqlite:////tmp/a@b/mlflow.db", "sqlite:////tmp/a@b/mlflow.db"),
        ("mail me@host or http://host/a@b", "mail me@host or http://host/a@b"),
        ("mssql+pyodbc:///?odbc_connect=SERVER%3Dh%3BPWD%3DSEKr", "mssql+pyodbc:///?odbc_connect=***"),
        ("mssql+pyodbc:///?odbc_connect=DRIVER={A B};PWD=SEKr 1a", "mssql+pyodbc:///?odbc_connect=***"),
        ("--tracking-uri=mysql://h/d?charset=utf8&ssl_key=SEKr", "--tracking-uri=mysql://h/d?charset=utf8&ssl_key=***"),
        ("at 'http://h/?sig=SEKr', not http://h:1/?SEKr.", "at 'http://h/?sig=***', not http://h:1/?***."),
        ("x from 'postgresql://usr:SEKr\"1a@127.0.0.1/db'", "x from 'postgresql://***@127.0.0.1/db'"),
        ("in header value: 'Bearer SEKr\\n'", "in header value: 'Bearer ***'"),
    ],
)
def test_masked_hides_credentials_only(text: str, shown: str) -> None:
    assert masked(text) == shown


SECRETS = ["SEKr", *(f"SEKr{sign}1a" for sign in "/@#? :\"'"), "SEKr/1@a#b c"]


@pytest.mark.parametrize("secret", SECRETS)
@pytest.mark.parametrize("address", ["http://us er:{}@host:5000/x", "mysql+pymysql://u:{}@h/d?a=b"])
def test_a_password_of_any_signs_is_hidden(secret: str, address: str) -> None:
    shown = masked(address.format(secret))
    assert all(part not in shown for part in ("SEKr", "1a")) and shown.partition("://")[2].startswith("***@h")
    told = masked(f"OperationalError: cannot reach {address.format(secret)}\nme@host")
    assert "SEKr" not in told and "1a" not in told and told.endswith("\nme@host")


def test_tracking_uri_flag_then_environment_then_storage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    monkeypatch.chdir(tmp_path)
    runs, database = Path("runs"), f"sqlite:///{tmp_path}/runs/mlflow.db"
    assert resolve_tracking_uri(runs) == database
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "sqlite:///rel.db?timeout=3")  # other commands may start elsewhere
    assert resolve_tracking_uri(runs) == f"sqlite:///{tmp_path}/rel.db?timeout=3"
    for same in ("sqlite:////abs/rel.db", "postgresql:///runs", "databricks"):
        assert resolve_tracking_uri(runs, same) == same
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://server:5000")
    for own in ("http://server:5000", database):
        assert resolve_tracking_uri(runs, None, own) == own
    hidden = "postgresql://***@db/x"  # as in a journal: without the secret
    assert resolve_tracking_uri(runs) == resolve_tracking_uri(runs, None, hidden) == "http://server:5000"
    for server in ("http://server:5000", "https://server", "databricks", "databricks://profile"):
        assert artifact_location(server, runs) is None, "the server decides"


@pytest.mark.parametrize(
    ("given", "recorded", "variable", "location"),
    [
        (None, "postgresql://db/x", "", "--tracking-uri"),
        ("foo://server", "", "", "--tracking-uri"),
        ("./mlruns", "", "", "--tracking-uri"),
        ("sqlite://", "", "", "--tracking-uri"),
        ("sqlite:///:memory:", "", "", "--tracking-uri"),
        (None, "", "sqlite:///file:runs?mode=memory&uri=true", "MLFLOW_TRACKING_URI"),
        (None, "", "file:///x", "MLFLOW_TRACKING_URI"),
        (None, "", "", "--storage"),
    ],
)
def test_addresses_that_are_refused(
    given: str | None, recorded: str, variable: str, location: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stranger's, one that MLflow does not know, folders, databases in memory, and a storage whose path MLflow would
    not find."""
    monkeypatch.setenv("MLFLOW_TRACKING_URI", variable)
    for name in ("a?b", "a%20b"):
        with pytest.raises(ConfigError) as refused:
            resolve_tracking_uri(tmp_path / name, given, recorded)
        [problem] = refused.value.problems
        assert problem.location == location and (given or recorded or variable or name) in problem.wrong
    monkeypatch.delenv("MLFLOW_TRACKING_URI")
    assert resolve_tracking_uri(tmp_path / "100% a#b") == f"sqlite:///{tmp_path}/100% a#b/mlflow.db"


@pytest.mark.parametrize(
    ("address", "wrong", "right"),
    [
        ("localhost:5000", "'localhost:5000' lacks http://", "http://localhost:5000"),
        ("me:SEKr@mlflow:5000/x", "'***@mlflow:5000/x' lacks http://", "http://***@mlflow:5000/x"),
    ],
)
def test_a_server_without_a_scheme_is_told_its_address(address: str, wrong: str, right: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as refused:
        resolve_tracking_uri(tmp_path, address)
    [problem] = refused.value.problems
    assert (problem.wrong, problem.right) == (wrong, right)


def test_a_token_is_sent_without_the_end_of_its_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a variable that was read from a file: a header may not hold it."""
    monkeypatch.setenv("MLFLOW_TRACKING_TOKEN", "SEKr\n")
    with own_environment():
        assert os.environ["MLFLOW_TRACKING_TOKEN"] == "SEKr"
