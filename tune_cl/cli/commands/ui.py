"""Examples:
  tune-cl ui quickstart
  tune-cl ui --storage /shared/runs

Starts MLflow's UI for the search's database, or that of the storage, on this machine alone, and opens the table of the
trials; Ctrl-C ends it. Of a search that a server tracks it shows the address there."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
import webbrowser
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO

from trainables.core.errors import ConfigError, Problem, WorkFailed
from trainables.core.prose import say
from tune_cl.history.search_folder import (
    DEFAULT_STORAGE,
    STORAGE_HELP,
    existing_search_folder,
    search_folder_of,
    with_tracking,
)
from tune_cl.history.tracking_uri import DATABASES, SQLITE, masked, resolve_tracking_uri
from tune_cl.search_document import recorded_view

HOST = "127.0.0.1"
OWN = {"MLFLOW_DISABLE_TELEMETRY": "true", "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}  # the UI alone is wanted


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", nargs="?", help="of a search (default: all in the storage)")
    parser.add_argument("--storage", default=DEFAULT_STORAGE, help=STORAGE_HELP)
    parser.add_argument(
        "--tracking-uri", help="MLflow (default: $MLFLOW_TRACKING_URI, else a SQLite file in the storage)"
    )


def execute(options: Namespace) -> dict[str, str]:
    """Shows the page until Ctrl-C. Raises ConfigError if there is nothing to show, WorkFailed if MLflow ends itself."""
    uri, view = _shown(options)
    if uri.startswith("http"):
        address = f"{masked(uri).rstrip('/')}/{view}"
        _show(address)
        return {"address": address, "tracking_uri": masked(uri)}
    _require_database(uri)
    with TemporaryFile() as log, _server(uri, log) as (process, server):
        address = f"{server}/{view}"
        _await(process, server, log)
        _show(address)
        say("Ctrl-C ends it")
        try:
            process.wait()
        except KeyboardInterrupt:
            return {"address": address, "tracking_uri": masked(uri)}
        raise WorkFailed(f"MLflow's UI has ended: {_last_line(log)}")


def _shown(options: Namespace) -> tuple[str, str]:
    """The tracking address, and the page below that of its server."""
    if options.name is None:
        return resolve_tracking_uri(search_folder_of(options.storage, "").storage, options.tracking_uri), ""
    search_folder = with_tracking(existing_search_folder(options.storage, options.name), options.tracking_uri)
    return search_folder.tracking_uri, recorded_view(search_folder)[1] or ""


def _require_database(uri: str) -> None:
    if not uri.startswith(DATABASES):
        raise ConfigError(Problem("--tracking-uri", f"{masked(uri)} has a UI of its own", "the address of a database"))
    if uri.startswith(SQLITE) and not Path(uri.removeprefix(SQLITE)).exists():
        wrong = f"there is no {uri.removeprefix(SQLITE)}"
        raise ConfigError(Problem("--storage", wrong, "the storage of a search, or --tracking-uri"))


@contextmanager
def _server(uri: str, log: IO[bytes]) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    """MLflow on a free port of this machine, and its address. In a session of its own: Ctrl-C reaches it through us."""
    with socket.socket() as free:
        free.bind((HOST, 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "mlflow", "ui", "--host", HOST, "--port", str(port), "--workers", "1"]
    environment = os.environ | OWN | {"MLFLOW_BACKEND_STORE_URI": uri}  # no argument: others could read its password
    process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True, env=environment)
    try:
        yield process, f"http://{HOST}:{port}"
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGTERM)
            process.wait()


def _await(process: subprocess.Popen[bytes], server: str, log: IO[bytes]) -> None:
    """Waits until MLflow answers; raises WorkFailed if it ends instead."""
    say("starting MLflow's UI, which takes some seconds")
    while process.poll() is None:
        try:
            with urllib.request.urlopen(f"{server}/health", timeout=5):
                return
        except OSError:
            time.sleep(0.2)
    raise WorkFailed(f"MLflow's UI did not start: {_last_line(log)}")


def _last_line(log: IO[bytes]) -> str:
    log.seek(0)
    lines = log.read().decode(errors="replace").strip().splitlines()
    return lines[-1] if lines else "it said nothing"


def _show(address: str) -> None:
    """Prints the address and, for somebody at a display, opens it."""
    say(f"open {address}", whole=True)
    at_display = sys.platform == "darwin" or os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    if at_display and sys.stderr.isatty():
        webbrowser.open(address)


def render(document: dict[str, str]) -> str:
    return document["address"]
