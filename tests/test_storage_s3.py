"""Folders and searches in an S3 bucket, also one whose server hangs: a real HTTP server of S3 (moto)."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path, PurePosixPath

import boto3
import pytest
from botocore.config import Config

from tests.support.builders import tiny_data
from tests.support.commands import SPACE, UNHURRIED, finish, start, wait_for_events
from tests.support.s3_cases import BUCKET, s3, server
from tests.support.terminal import outcomes_of
from tests.support.tracking_cases import assert_complete, fresh_database
from tests.support.trec_folder import write_trec_folder
from trainables.core import storage
from tune_cl.cli import main
from tune_cl.history.journal import read_events
from tune_cl.history.search_folder import existing_search_folder, search_folder_of
from tune_cl.history.state import replay
from tune_cl.ray.tuner import CHECKPOINTS_PER_TRIAL, background_deletion

pytestmark = pytest.mark.slow

__all__ = ["s3", "server"]


def test_a_folder_comes_back_as_it_went(s3: str, tmp_path: Path) -> None:
    (tmp_path / "a" / "deep er").mkdir(parents=True)
    (tmp_path / "a" / "deep er" / "x=1 %.bin").write_bytes(bytes(range(256)) * 5000)
    (tmp_path / "a" / "result.json").write_text("{}")
    address = storage.joined(s3, "my search", "a")
    storage.upload(tmp_path / "a", address, last=("result.json",))
    assert storage.files_below(address) == {"deep er/x=1 %.bin": 1280000, "result.json": 2}
    with storage.fetched(address) as copy:
        assert (copy / "deep er" / "x=1 %.bin").read_bytes() == bytes(range(256)) * 5000
    with storage.fetched(address, "result.json") as part:
        assert [path.name for path in part.iterdir()] == ["result.json"]
    assert not part.exists()
    with pytest.raises(FileNotFoundError), storage.fetched(storage.joined(s3, "nothing")):
        pass
    assert list(storage.states_below(address)) == ["deep er/x=1 %.bin", "result.json"], "the oldest first"
    assert storage.folders_in(address) == ["deep er"]
    gone = storage.joined(address, "gone")
    assert storage.read(gone) is None and storage.size(gone) is None
    storage.remove(gone)
    storage.remove(storage.joined(address, "result.json"))
    assert list(storage.files_below(address)) == ["deep er/x=1 %.bin"]


@pytest.mark.parametrize("in_s3", [True, False])
def test_earlier_checkpoints_are_those_of_the_same_trial(s3: str, tmp_path: Path, in_s3: bool) -> None:
    for name in ("checkpoint_000000", "checkpoint_000002", "checkpoint_000010", "checkpoint_tmp_00", "other"):
        (tmp_path / "trial" / name).mkdir(parents=True)
        (tmp_path / "trial" / name / "state").write_text(name)
    root = str(tmp_path / "trial")
    if in_s3:
        storage.upload(tmp_path / "trial", root := storage.joined(s3, "trial"))
    at = {number: storage.joined(root, f"checkpoint_{number:06d}") for number in (0, 2, 10)}
    assert storage.earlier(at[10]) == [at[2], at[0]] and storage.earlier(at[0]) == []
    assert storage.exists(at[2]) and not storage.exists(storage.joined(root, "checkpoint_000001"))
    for _ in range(2):  # what is gone is not an error that the search would have to tell
        with suppress(FileNotFoundError):
            storage.remove_folder(at[2])
        assert storage.earlier(at[10]) == [at[0]]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tiny_data(queries={"train": 30, "dev": 12, "test": 12}, candidates=5, turns=1)
    return write_trec_folder(made, tmp_path_factory.mktemp("data") / "data")


def test_a_search_goes_on_from_the_storage_alone(
    s3: str, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """On real Ray: stopped by Ctrl-C, the machine lost, then resumed and reported on another one."""
    (tmp_path / "toy.yaml").write_text(UNHURRIED)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{fresh_database(tmp_path) / 'mlflow.db'}")
    limits = ["--trials", "2", "--max-iterations", "4"]
    first, second = tmp_path / "first", tmp_path / "second"
    monkeypatch.setenv("XDG_CACHE_HOME", str(first))
    fresh_database(tmp_path)
    running = start(tmp_path, "run", "toy.yaml", "--data", str(data), "--storage", s3, *limits, "--json")
    search_folder = search_folder_of(s3, "toy")
    wait_for_events(running, search_folder.journal, "result", 2)
    os.killpg(running.pid, signal.SIGINT)
    _, told = finish(running, status=130)
    assert f"resume toy --storage '{s3}'" in told
    shutil.rmtree(first)
    monkeypatch.setenv("XDG_CACHE_HOME", str(second))
    search_folder = existing_search_folder(s3, "toy")
    before = replay(read_events(search_folder.journal))
    assert all(storage.exists(path) for path in list(before.trials["t0000"].checkpoints.values())[-2:])
    capfd.readouterr()
    assert main(["resume", "toy", "--storage", s3, "--json"]) == 0
    document = json.loads(capfd.readouterr().out)
    assert document["storage"] == s3 and outcomes_of(document) == ["completed"] * 2
    after = replay(read_events(search_folder.journal))
    assert after.trials["t0000"].results.items() >= before.trials["t0000"].results.items()
    assert_complete(f"sqlite:///{tmp_path / 'mlflow.db'}", "toy", after)
    assert storage.read(search_folder.below("journal.jsonl")) == search_folder.journal.read_bytes()
    monkeypatch.chdir(tmp_path)
    assert main(["report", "toy", "--storage", s3]) == 0
    assert {"report.html", "trials/t0001/dev.run.txt", "trials/best-ranker/model.safetensors"} <= set(
        storage.files_below(search_folder.below())
    )


# -- a server that hangs: it takes connections and answers none -----------------------------------------------------

CHECKPOINT = b'"event": "checkpoint"'
ATTEMPTS = 3  # of the S3 client per request, some 10 s together


def address_of(port: int, name: str = "frozen") -> str:
    return f"s3://{BUCKET}/{name}?endpoint_override=127.0.0.1:{port}&scheme=http"


@pytest.fixture(scope="module")
def stoppable() -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """A server in a process of its own, and its port."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        patient = Config(retries={"mode": "standard", "total_max_attempts": 30})
        keys = {"aws_access_key_id": "id", "aws_secret_access_key": "key", "region_name": "us-east-1"}
        boto3.client("s3", endpoint_url=f"http://127.0.0.1:{port}", config=patient, **keys).create_bucket(Bucket=BUCKET)
        yield process, port
    finally:
        process.kill()
        process.wait()


def attempts_at_a_server_that_answers_none() -> int:
    connections = []
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def take() -> None:
            while True:
                connections.append(listening.accept())

        threading.Thread(target=take, daemon=True).start()
        with pytest.raises(OSError, match="NETWORK_CONNECTION"):
            storage.exists(address_of(listening.getsockname()[1]))
    return len(connections)


def test_an_old_checkpoint_is_deleted_when_its_storage_answers_again(
    stoppable: tuple[subprocess.Popen[bytes], int], s3: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """PyArrow by itself would make eleven attempts, for 99 s, in which not even Ctrl-C is noticed."""
    process, address = stoppable[0], address_of(stoppable[1], "deleted")
    (tmp_path / "weights").write_bytes(bytes(1000))
    storage.upload(tmp_path, storage.joined(address, "old"))
    process.send_signal(signal.SIGSTOP)
    with background_deletion() as old:
        old.put(storage.joined(address, "old"))
        old.put(storage.joined(address, "old-that-is-gone"))
        assert attempts_at_a_server_that_answers_none() == ATTEMPTS
        while "cannot be used" not in caplog.text:
            time.sleep(0.05)
        process.send_signal(signal.SIGCONT)
    assert storage.files_below(address) == {} and "could not be deleted" not in caplog.text


def test_a_search_whose_storage_hangs_goes_on_with_it(
    stoppable: tuple[subprocess.Popen[bytes], int], s3: str, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server stops for longer than a client waits, when an old checkpoint is to be deleted."""
    process, address = stoppable[0], address_of(stoppable[1])
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "toy.yaml").write_text(SPACE.replace("max_concurrent: 1", "max_concurrent: 2"))
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{fresh_database(tmp_path) / 'mlflow.db'}")
    options = ["--data", str(data), "--trials", "3", "--max-iterations", "5", "--storage", address, "--json"]
    running = start(tmp_path, "run", "toy.yaml", *options)
    search_folder = search_folder_of(address, "toy")
    wait_for_events(running, search_folder.journal, "checkpoint", 3)
    known = search_folder.journal.read_bytes().count(CHECKPOINT)
    while search_folder.journal.read_bytes().count(CHECKPOINT) < known + 1:  # no sleep: deletions come at once
        assert running.poll() is None
    process.send_signal(signal.SIGSTOP)
    with pytest.raises(OSError, match="NETWORK_CONNECTION"):
        storage.exists(address)
    time.sleep(2.0)  # for clients whose requests began somewhat later
    process.send_signal(signal.SIGCONT)
    out, err = finish(running)
    assert "Traceback" not in err
    document, events = json.loads(out), list(read_events(search_folder.journal))
    assert len(document["trials"]) == 3 and "failed" not in outcomes_of(document)
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
