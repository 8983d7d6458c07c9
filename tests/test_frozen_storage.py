"""A storage server that hangs (moto's process is stopped): it takes connections and answers none."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

import boto3
import pytest
from botocore.config import Config

from tests.support.builders import tiny_data
from tests.support.commands import SPACE, finish, start, wait_for_events
from tests.support.trec_folder import write_trec_folder
from trainables.core import storage
from tune_cl.history.journal import read_events
from tune_cl.history.search_folder import search_folder_of
from tune_cl.history.state import replay
from tune_cl.ray.tuner import CHECKPOINTS_PER_TRIAL, background_deletion

pytestmark = pytest.mark.slow

BUCKET = "searches"
CHECKPOINT = b'"event": "checkpoint"'
ATTEMPTS = 3  # of the S3 client per request, some 10 s together


@pytest.fixture(autouse=True)
def keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "id")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "key")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")


@pytest.fixture
def listening() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as made:
        yield made


def address_of(port: int) -> str:
    return f"s3://{BUCKET}/frozen?endpoint_override=127.0.0.1:{port}&scheme=http"


@pytest.fixture
def server(keys: None, listening: socket.socket) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    """An S3 server in a process of its own, and the address of a storage on it."""
    port = listening.getsockname()[1]
    listening.close()
    process = subprocess.Popen(
        [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        patient = Config(retries={"mode": "standard", "total_max_attempts": 30})
        client = boto3.client("s3", endpoint_url=f"http://127.0.0.1:{port}", region_name="us-east-1", config=patient)
        client.create_bucket(Bucket=BUCKET)
        yield process, address_of(port)
    finally:
        process.kill()
        process.wait()


def test_a_request_that_nobody_answers_fails_after_three_attempts(listening: socket.socket) -> None:
    """PyArrow would make eleven attempts, for 99 s, in which not even Ctrl-C is noticed."""
    connections = []

    def take() -> None:
        while True:
            connections.append(listening.accept())

    threading.Thread(target=take, daemon=True).start()
    with pytest.raises(OSError, match="NETWORK_CONNECTION"):
        storage.exists(address_of(listening.getsockname()[1]))
    assert len(connections) == ATTEMPTS


def test_an_old_checkpoint_is_deleted_when_its_storage_answers_again(
    server: tuple[subprocess.Popen[bytes], str], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    process, s3 = server
    (tmp_path / "weights").write_bytes(bytes(1000))
    storage.upload(tmp_path, storage.joined(s3, "old"))
    process.send_signal(signal.SIGSTOP)
    with background_deletion() as old:
        old.put(storage.joined(s3, "old"))
        old.put(storage.joined(s3, "old-that-is-gone"))
        while "out of reach" not in caplog.text:
            time.sleep(0.05)
        process.send_signal(signal.SIGCONT)
    assert storage.files_below(s3) == {} and "could not be deleted" not in caplog.text


def test_a_search_whose_storage_hangs_goes_on_with_it(
    server: tuple[subprocess.Popen[bytes], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server stops for longer than a client waits, when an old checkpoint is to be deleted."""
    process, s3 = server
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    made = tiny_data(queries={"train": 30, "dev": 12, "test": 12}, candidates=5, turns=1)
    write_trec_folder(made, tmp_path / "data")
    (tmp_path / "toy.yaml").write_text(SPACE.replace("max_concurrent: 1", "max_concurrent: 2"))
    options = ["--data", "data", "--trials", "3", "--max-iterations", "5", "--storage", s3, "--json"]
    running = start(tmp_path, "run", "toy.yaml", *options)
    search_folder = search_folder_of(s3, "toy")
    wait_for_events(running, search_folder.journal, "checkpoint", 3)
    known = search_folder.journal.read_bytes().count(CHECKPOINT)
    while search_folder.journal.read_bytes().count(CHECKPOINT) < known + 1:  # no sleep: deletions come at once
        assert running.poll() is None
    process.send_signal(signal.SIGSTOP)
    with pytest.raises(OSError, match="NETWORK_CONNECTION"):
        storage.exists(s3)
    time.sleep(2.0)  # for clients whose requests began somewhat later
    process.send_signal(signal.SIGCONT)
    out, err = finish(running)
    assert "Traceback" not in err
    document, events = json.loads(out), list(read_events(search_folder.journal))
    assert (document["trials"], document["errored"]) == (3, 0)
    results = [(event["trial"], event["iteration"]) for event in events if event["event"] == "result"]
    assert len(results) == len(set(results)) == document["iterations"]
    for trial in replay(events).by_number():
        assert sorted(trial.results) == list(range(1, trial.iterations + 1)) and trial.outcome != "failed"
    assert storage.read(search_folder.below("journal.jsonl")) == search_folder.journal.read_bytes()
    checkpoints = defaultdict(set)
    for file in map(PurePosixPath, storage.files_below(search_folder.below("ray"))):
        if file.match("*/*/checkpoint_*/*"):
            checkpoints[file.parts[1]].add(file.parts[2])
    assert checkpoints and all(len(kept) <= CHECKPOINTS_PER_TRIAL for kept in checkpoints.values()), checkpoints
