"""Searches whose storage is an S3 bucket: a real HTTP server of S3 on this machine (moto)."""

from __future__ import annotations

import json
import os
import shutil
import signal
import time
from contextlib import suppress
from pathlib import Path

import pytest

from tests.support.builders import tiny_data
from tests.support.commands import UNHURRIED, finish, start, wait_for_events
from tests.support.confirm_cases import confirm_run
from tests.support.s3_cases import events, on_another_machine, s3, server
from tests.support.trec_folder import write_trec_folder
from trainables.config.keys import TrainingRun
from trainables.core import storage
from trainables.core.cache import cache_root
from trainables.core.errors import ConfigError, WorkFailed
from trainables.training.materials import materials_for
from trainables.training.trainer import Training
from tune_cl.cli import main
from tune_cl.confirmation.training import fetch_results, read_values, result_of
from tune_cl.history import s3_mirror as mirror
from tune_cl.history.journal import parse, read_events
from tune_cl.history.s3_mirror import MirroredJournal
from tune_cl.history.search_folder import (
    SearchFolder,
    existing_search_folder,
    new_search_folder,
    resolve_recorded,
    search_folder_of,
)
from tune_cl.history.state import replay

pytestmark = pytest.mark.slow

__all__ = ["s3", "server"]


def begin(search_folder: SearchFolder, count: int = 3) -> list[dict]:
    """A search with some events and a file."""
    with search_folder.open() as journal:
        for event in events(count):
            journal.append(event)
        (search_folder.folder / "trials" / "t0001").mkdir(parents=True)
        (search_folder.folder / "trials" / "t0001" / "config.yaml").write_text("seed: 1\n")
    return events(count)


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
    for _ in range(2):  # what is gone is no error that the search would have to tell
        with suppress(FileNotFoundError):
            storage.remove_folder(at[2])
        assert storage.earlier(at[10]) == [at[0]]


def test_a_session_leaves_all_of_it_in_the_storage(s3: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    search_folder = new_search_folder(s3, "toy", "toy")
    known = begin(search_folder)
    assert set(storage.files_below(search_folder.below())) == {
        "journal.jsonl",
        "trials/t0001/config.yaml",
    }  # no lease is left
    on_another_machine(monkeypatch, tmp_path / "other")
    with pytest.raises(ConfigError, match="a search 'toy' exists in s3://"):
        new_search_folder(s3, "toy", "toy")
    assert new_search_folder(s3, None, "toy").name == "toy-2"
    again = existing_search_folder(s3, "toy")
    assert again.folder != search_folder.folder and (again.folder / "trials" / "t0001" / "config.yaml").is_file()
    with again.open() as journal:
        assert list(journal.events()) == known
        journal.append({"event": "interrupted", "time": 1.0})
    recorded = str(search_folder.folder / "trials" / "t0001")
    shutil.rmtree(search_folder.folder)
    assert resolve_recorded(recorded, again.folder) == again.folder / "trials" / "t0001"


def test_a_copy_left_behind_catches_up_and_one_that_went_its_own_way_is_refused(
    s3: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    search_folder = new_search_folder(s3, "toy", "toy")
    begin(search_folder)
    first = search_folder.journal.read_bytes()
    home = cache_root().parent
    on_another_machine(monkeypatch, tmp_path / "other")
    with existing_search_folder(s3, "toy").open() as journal:
        journal.append({"event": "interrupted", "time": 1.0})
        ahead = journal.path.read_bytes()
    monkeypatch.setenv("XDG_CACHE_HOME", str(home))
    assert existing_search_folder(s3, "toy").journal.read_bytes() == ahead
    search_folder.journal.write_bytes(first + b'{"event": "interrupted", "time": 2.0}\n')
    with pytest.raises(ConfigError, match="diverged"):
        existing_search_folder(s3, "toy")
    with pytest.raises(ConfigError, match="diverged"):
        search_folder.open()
    assert storage.read(search_folder.below("journal.jsonl")) == ahead
    shutil.rmtree(search_folder.folder)
    existing_search_folder(s3, "toy").open().close()  # the refused driver left no lease


def test_events_reach_the_storage_while_the_session_runs(s3: str, tmp_path: Path) -> None:
    search_folder = new_search_folder(s3, "toy", "toy")
    assert search_folder.remote_folder
    with MirroredJournal(search_folder.folder, search_folder.remote_folder, every=0.05) as journal:
        for event in events(3):
            journal.append(event)
        with journal.path.open("ab") as torn:
            torn.write(b'{"event": "no')
        sent = b""
        while sent.count(b"\n") < 3:
            time.sleep(0.05)
            sent = storage.read(search_folder.below("journal.jsonl")) or b""
        assert [parse(line, "") for line in sent.splitlines(keepends=True)] == events(3)


def test_a_second_driver_is_refused_and_a_dead_one_outwaited(
    s3: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    search_folder = new_search_folder(s3, "toy", "toy")
    assert search_folder.remote_folder
    with MirroredJournal(search_folder.folder, search_folder.remote_folder, every=0.05) as journal:
        on_another_machine(monkeypatch, tmp_path / "other")
        second = search_folder_of(s3, "toy")
        with pytest.raises(ConfigError, match="in use by process"):
            second.open(watch=5.0)
        with pytest.raises(ConfigError, match="in use by process"):
            second.open(watch=0)
        journal._closing.set()  # the first driver's process is stopped, and no longer renews its lease
        journal._thread.join()
        journal._lease.rest()
        with second.open(watch=0.2) as taken:
            taken.append({"event": "interrupted", "time": 1.0})
            taken_over = taken.path.read_bytes()
        journal._attempt()  # the process wakes up
        with pytest.raises(WorkFailed, match="another driver has taken over"):
            journal.append({"event": "interrupted", "time": 2.0})
    assert storage.read(search_folder.below("journal.jsonl")) == taken_over


def test_an_outage_loses_nothing(s3: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    search_folder = new_search_folder(s3, "toy", "toy")

    def away(*_: object) -> None:
        raise OSError("no route to host")

    with search_folder.open() as journal:
        with monkeypatch.context() as outage:
            outage.setattr(mirror.storage, "write", away)
            journal.append(events(1)[0])
            assert not journal._attempt() and not journal._attempt()
        assert storage.read(search_folder.below("journal.jsonl")) is None
    assert caplog.text.count("out of reach") == 1
    assert parse(storage.read(search_folder.below("journal.jsonl")) or b"", "") == events(1)[0]


@pytest.mark.parametrize(
    ("address", "wrong"),
    [
        ("s3://no-such-bucket/x", "there is no bucket 'no-such-bucket'"),
        ("s3://id:secret@searches/x", "has a key in it"),
    ],
)
def test_bad_addresses(s3: str, address: str, wrong: str) -> None:
    with pytest.raises(ConfigError, match=wrong) as refused:
        search_folder_of(f"{address}?{s3.partition('?')[2]}", "toy")
    assert "secret" not in str(refused.value)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tiny_data(queries={"train": 30, "dev": 12, "test": 12}, candidates=5, turns=1)
    return write_trec_folder(made, tmp_path_factory.mktemp("data") / "data")


def test_a_training_of_a_confirmation_leaves_its_ranker_and_results_in_s3(
    s3: str, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = TrainingRun.model_validate(
        {
            "data": {"source": str(data)},
            "ranker": {"name": "conv_knrm", "vector_size": 8, "filters": 4},
            "training": {"batch_size": 8, "batches_per_iteration": 2, "max_iterations": 3},
        }
    )
    materials = materials_for(run, {})
    address = storage.joined(s3, "seed-1")
    confirm_run(run, materials, address, "test")
    confirm_run(run, materials, str(tmp_path / "whole"), "test")
    monkeypatch.setattr(Training, "iterate", lambda training: pytest.fail("trained again"))
    confirm_run(run, materials, address, "dev")
    fetch_results(address, tmp_path / "here")
    assert result_of(tmp_path / "here", "dev") and not (tmp_path / "here" / "ranker").exists()
    ours, whole = (read_values(tmp_path / folder, "test", "map") for folder in ("here", "whole"))
    assert (ours == whole).all()


def test_a_search_goes_on_from_the_storage_alone(
    s3: str, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On real Ray: stopped by Ctrl-C, the machine lost, then resumed and reported on another one."""
    (tmp_path / "toy.yaml").write_text(UNHURRIED)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path / 'mlflow.db'}")
    limits = ["--trials", "2", "--max-iterations", "4"]
    first, second = tmp_path / "first", tmp_path / "second"
    monkeypatch.setenv("XDG_CACHE_HOME", str(first))
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
    out, _ = finish(start(tmp_path, "resume", "toy", "--storage", s3, "--json"))
    document = json.loads(out)
    assert (document["storage"], document["trials"], document["errored"]) == (s3, 2, 0)
    after = replay(read_events(search_folder.journal))
    assert after.trials["t0000"].results.items() >= before.trials["t0000"].results.items()
    assert storage.read(search_folder.below("journal.jsonl")) == search_folder.journal.read_bytes()
    monkeypatch.chdir(tmp_path)
    assert main(["report", "toy", "--storage", s3]) == 0
    assert {"report.html", "trials/t0001/dev.run.txt", "trials/best-ranker/model.safetensors"} <= set(
        storage.files_below(search_folder.below())
    )
