"""A storage in S3: a real HTTP server for it on this machine (moto), and several machines that use it."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from moto.server import ThreadedMotoServer

from trainables.core import storage
from tune_cl.history import s3_mirror as mirror
from tune_cl.history.journal import Journal, parse
from tune_cl.history.s3_mirror import MirroredJournal
from tune_cl.history.search_folder import SearchFolder, new_search_folder

BUCKET = "searches"
NEVER = 1000.0  # seconds between two sends: the tests send by themselves
TOLD = {"event": "interrupted", "time": 1.0}


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """The query string of addresses on this server."""
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    served = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    served.start()
    host, port = served.get_host_and_port()
    client = boto3.client(
        "s3",
        endpoint_url=f"http://{host}:{port}",
        region_name="us-east-1",
        aws_access_key_id="id",
        aws_secret_access_key="key",
    )
    client.create_bucket(Bucket=BUCKET)
    yield f"endpoint_override={host}:{port}&scheme=http"
    served.stop()


@pytest.fixture
def s3(server: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """A storage of the test's own."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "id")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "key")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setattr(mirror, "CLOSING_SECONDS", 0.0)
    return f"s3://{BUCKET}/{request.node.originalname}?{server}"


def on_another_machine(monkeypatch: pytest.MonkeyPatch, home: Path) -> None:
    """From here on, everything is as on a machine of another name, with a cache of its own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(home))
    monkeypatch.setattr(mirror.socket, "gethostname", lambda: home.name)


def events(count: int) -> list[dict]:
    return [{"event": "note", "trial": "t0001", "text": f"äöü {number}", "time": 0.0} for number in range(count)]


def opened(search_folder: SearchFolder, every: float = NEVER, watch: float = 0.0) -> MirroredJournal:
    assert search_folder.remote_folder
    return MirroredJournal(search_folder.folder, search_folder.remote_folder, watch, every)


def begun(s3: str, name: str = "toy") -> SearchFolder:
    search_folder = new_search_folder(s3, name, "toy")
    with opened(search_folder) as journal:
        journal.append(events(1)[0])
    return search_folder


def in_storage(search_folder: SearchFolder) -> list[dict]:
    lines = (storage.read(search_folder.below("journal.jsonl")) or b"").splitlines(keepends=True)
    return [parse(line, "the storage's journal") for line in lines]


def lease_of(search_folder: SearchFolder) -> dict[str, Any] | None:
    held = storage.read(search_folder.below("driver.json"))
    return None if held is None else json.loads(held)


def lose(journal: MirroredJournal) -> None:
    """Ends a driver as a kill does: it sends nothing more, and its lease stays."""
    journal._end_mirror()
    journal._end_renewal()
    Journal.close(journal)
