"""What strangers hand in cannot run code, and secrets stay where they are."""

from __future__ import annotations

import base64
import http.client
import os
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.support.tracking_cases import (
    SECRET,
    Server,
    caught_up,
    events,
    fresh_database,
    journal_of,
    snapshot,
    undisturbed,
)
from tune_cl.cli import main

pytestmark = pytest.mark.slow

HOSTILE = (
    "!!python/object/apply:os.mkdir [{planted}]",
    "!!python/object/new:os.mkdir [{planted}]",
    "!!python/name:os.mkdir",
    "!!python/module:os",
    "!!python/tuple [{planted}]",
)


@pytest.mark.parametrize("attack", HOSTILE)
@pytest.mark.parametrize("where", ["file", "option"])
def test_yaml_cannot_run_code(attack: str, where: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    planted = tmp_path / "planted"
    space = tmp_path / "space.yaml"
    tree = "training: {lr: {choice: [0.1, 0.2]}}\n"
    space.write_text(tree + (f"seed: {attack.format(planted=planted)}\n" if where == "file" else ""))
    options = [] if where == "file" else ["--set", f"seed={attack.format(planted=planted)}"]
    assert main(["check", str(space), *options]) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"error: {space}:2: " if where == "file" else "error: --set seed:1: "), error
    assert "could not determine a constructor" in error and not planted.exists()


class Guard(ThreadingHTTPServer):
    """A proxy with basic auth before a tracking server: lets through requests with the user and password."""

    def __init__(self, server: Server):
        super().__init__(("127.0.0.1", 0), Door)
        self.server = server
        self.refused = self.let_in = 0

    @property
    def uri(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class Door(BaseHTTPRequestHandler):
    server: Guard  # pyright: ignore[reportIncompatibleVariableOverride]

    def pass_on(self) -> None:
        expected = "Basic " + base64.b64encode(f"me:{SECRET}".encode()).decode()
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if self.headers.get("Authorization") != expected:
            self.server.refused += 1
            self.answer(401, b"", "text/plain")
            return
        self.server.let_in += 1
        upstream = http.client.HTTPConnection("127.0.0.1", self.server.server.port)
        headers = {key: value for key, value in self.headers.items() if key not in ("Host", "Authorization")}
        upstream.request(self.command, self.path, body, headers)
        got = upstream.getresponse()
        self.answer(got.status, got.read(), got.getheader("Content-Type") or "application/json")

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = pass_on

    def answer(self, status: int, body: bytes, kind: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Logs nothing: requests are counted instead."""


@pytest.fixture
def guard(tmp_path: Path) -> Iterator[Guard]:
    server = Server(tmp_path / "server")
    server.start()
    made = Guard(server)
    threading.Thread(target=made.serve_forever, daemon=True).start()
    try:
        yield made
    finally:
        made.shutdown()
        made.server_close()
        server.stop()


def test_a_server_with_basic_auth_gets_everything_and_the_password_stays_out(
    guard: Guard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD open the server; no file and no log line has them."""
    database = fresh_database(tmp_path / "database")
    expected = undisturbed(database)
    journal = journal_of(tmp_path / "runs" / "pacing", events("secured", database))
    assert caught_up(journal, guard.uri, timeout=3) > 0 and guard.refused and not guard.let_in
    monkeypatch.setenv("MLFLOW_TRACKING_USERNAME", "me")
    monkeypatch.setenv("MLFLOW_TRACKING_PASSWORD", SECRET)
    assert caught_up(journal, guard.uri) == 0 and guard.let_in
    assert snapshot(guard.server.uri, "secured") == expected
    files = [path for folder in ("runs", "server") for path in (tmp_path / folder).rglob("*") if path.is_file()]
    assert len(files) > 5
    assert [path for path in files if SECRET.encode() in path.read_bytes()] == []
    assert SECRET not in caplog.text and os.environ["MLFLOW_TRACKING_PASSWORD"] == SECRET


def test_a_password_in_the_address_is_not_printed(
    guard: Guard, tmp_path: Path, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    """MLflow's client would print the address with each run that ends."""
    journal = journal_of(tmp_path / "runs" / "pacing", events("secured", fresh_database(tmp_path / "database")))
    assert caught_up(journal, guard.uri.replace("//", f"//me:{SECRET}@")) == 0 and guard.let_in
    assert SECRET not in "".join(capfd.readouterr()) + caplog.text
