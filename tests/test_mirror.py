"""Searches in S3: what goes to the storage and comes from there, and who may write it. Outages, lost answers and other
machines; the server of S3 is real (moto)."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import boto3
import pytest

from tests.support.s3_cases import (
    BUCKET,
    TOLD,
    begun,
    events,
    in_storage,
    lease_of,
    lose,
    on_another_machine,
    opened,
    s3,
    server,
)
from trainables.core import storage
from trainables.core.cache import cache_root
from trainables.core.errors import ConfigError, WorkFailed
from tune_cl.history import s3_mirror as mirror
from tune_cl.history.journal import encoded, read_events
from tune_cl.history.search_folder import (
    existing_search_folder,
    new_search_folder,
    resolve_recorded,
    search_folder_of,
)
from tune_cl.report.output import tracked

pytestmark = pytest.mark.slow

__all__ = ["s3", "server"]
Patch = pytest.MonkeyPatch


def failing(function: Callable[..., Any], times: int, error: type[Exception] = OSError, late: bool = False) -> Any:
    """A function of the storage that fails a few times: before or, if `late`, after it took effect."""
    left = [times]

    def call(*arguments: Any) -> Any:
        answer = function(*arguments) if late or not left[0] else None
        if not left[0]:
            return answer
        left[0] -= 1
        raise error("no route to host")

    return call


# -- what goes to the storage ---------------------------------------------------------------------------------------


def test_events_reach_the_storage_while_the_session_runs(s3: str) -> None:
    """Whole lines only."""
    search_folder = new_search_folder(s3, "toy", "toy")
    with opened(search_folder, every=0.05) as journal:
        for event in events(3):
            journal.append(event)
        with journal.path.open("ab") as torn:
            torn.write(b'{"event": "no')
        deadline = time.monotonic() + 30
        while len(in_storage(search_folder)) < 3:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        assert in_storage(search_folder) == events(3)


@pytest.mark.parametrize("name", ["write", "upload_file", "size", "remove"])
@pytest.mark.parametrize("late", [False, True])
def test_an_outage_and_answers_that_are_lost_lose_nothing(
    name: str, late: bool, s3: str, monkeypatch: Patch, caplog: pytest.LogCaptureFixture
) -> None:
    """At each kind of request: it is said once an outage, the next events get through, and the lease is given up. What
    this driver wrote itself is not taken for another driver's."""
    search_folder = begun(s3, f"toy-{name}-{late}")
    monkeypatch.setattr(mirror, "CLOSING_SECONDS", 60.0)
    monkeypatch.setattr(mirror.time, "sleep", lambda seconds: None)  # between attempts
    with opened(search_folder) as journal:
        for outage in (1, 2):
            (search_folder.folder / "report.html").write_text(f"<p>{outage}")
            journal.append(TOLD)
            monkeypatch.setattr(mirror.storage, name, failing(getattr(storage, name), 2, late=late))
            if name != "remove":
                assert not journal.settle() and not journal.settle() and caplog.text.count("out of reach") == outage
            assert journal.settle() and journal.settled == journal.size
    assert in_storage(search_folder) == [*events(1), TOLD, TOLD] and lease_of(search_folder) is None
    assert storage.read(search_folder.below("report.html")) == b"<p>2" and "another driver" not in caplog.text


def test_what_goes_to_the_storage(s3: str, tmp_path: Path) -> None:
    """No hidden files, which are still being written, no links that lead nowhere or to folders, no lock or cursor."""
    search_folder = begun(s3)
    (search_folder.folder / "gone").symlink_to("nothing")
    (search_folder.folder / "folder").symlink_to(tmp_path)
    with opened(search_folder):
        names = (".half.txt", ".tune_cl-1/half.txt", "trials/.tune_cl-2/deep/half.txt", "tracking.json")
        for name in (*names, "trials/whole.txt"):
            (search_folder.folder / name).parent.mkdir(parents=True, exist_ok=True)
            (search_folder.folder / name).touch()
    assert set(storage.files_below(search_folder.below())) == {"journal.jsonl", "trials/whole.txt"}


def test_no_event_comes_before_the_files_it_speaks_of(s3: str, monkeypatch: Patch) -> None:
    """A file and its event that are written during a send wait for the next one. MLflow waits as well: it gets no
    event that a machine that is lost would take with it."""
    search_folder, upload = begun(s3), storage.upload_file
    with opened(search_folder) as journal:
        (search_folder.folder / "large.bin").touch()

        def meanwhile(path: Path, address: str) -> None:
            monkeypatch.setattr(mirror.storage, "upload_file", upload)
            (search_folder.folder / "small.bin").touch()
            journal.append(TOLD)
            upload(path, address)

        monkeypatch.setattr(mirror.storage, "upload_file", meanwhile)
        before = journal.settled
        assert journal.settle() and journal.settled == before < journal.size
        assert set(storage.files_below(search_folder.below())) == {"driver.json", "journal.jsonl", "large.bin"}
        assert in_storage(search_folder) == events(1)
        assert journal.settle() and journal.settled == journal.size
        assert in_storage(search_folder) == [*events(1), TOLD] and storage.exists(search_folder.below("small.bin"))


# -- what comes from there ------------------------------------------------------------------------------------------


def test_another_machine_has_all_but_checkpoints_and_sends_nothing_of_it_back(
    s3: str, server: str, tmp_path: Path, monkeypatch: Patch
) -> None:
    """S3 allows keys that are not paths of files, be it by a slash too many or by malice: these stay there."""
    search_folder = begun(s3)
    kept = ("trials/best-ranker/model.safetensors", "confirmation/default/seed-1/result.json")
    left = ("ray/toy/t0001/checkpoint_000001/state", "confirmation/default/seed-1/ranker/model.safetensors",
            "confirmation/default/seed-2/state.tar", "driver.json")  # fmt: skip
    for name in (*kept, *left):
        storage.write(search_folder.below(*name.split("/")), b"content")
    endpoint = f"http://{parse_qs(server)['endpoint_override'][0]}"
    client = boto3.client("s3", endpoint_url=endpoint, region_name="us-east-1")
    for key in ("/report.html", "a//b.txt", "../outside.txt", "a/../../outside.txt", "./c.txt"):
        client.put_object(Bucket=BUCKET, Key=f"{urlsplit(search_folder.below()).path.strip('/')}/{key}", Body=b"x")
    storage.remove(search_folder.below("driver.json"))
    on_another_machine(monkeypatch, tmp_path / "other")
    copy = existing_search_folder(s3, "toy")
    pulled = {path.relative_to(copy.folder).as_posix() for path in copy.folder.rglob("[!.]*") if path.is_file()}
    assert pulled == {*kept, "journal.jsonl", "journal.lock"} and not (copy.storage / "outside.txt").exists()
    storage.write(search_folder.below(*kept[0].split("/")), b"newer")
    opened(copy).close()
    assert (copy.folder / kept[0]).read_bytes() == b"content"
    assert storage.read(search_folder.below(*kept[0].split("/"))) == b"newer"
    recorded = str(search_folder.folder / "trials" / "best-ranker")
    shutil.rmtree(search_folder.folder)
    assert resolve_recorded(recorded, copy.folder) == copy.folder / "trials" / "best-ranker"


@pytest.mark.parametrize("just_listed", [False, True])
def test_what_is_here_and_unchanged_is_not_fetched_again(
    just_listed: bool, s3: str, tmp_path: Path, monkeypatch: Patch
) -> None:
    """But one that may have been replaced in the second in which it was listed."""
    search_folder, names, fetched = begun(s3, f"toy-{just_listed}"), ["changed.txt", "same.txt"], []
    for name in names:
        (search_folder.folder / name).write_text("old")
    opened(search_folder).close()
    on_another_machine(monkeypatch, tmp_path / "other")
    monkeypatch.setattr(mirror, "SETTLED_NS", 10**15 if just_listed else -(10**9))
    here = existing_search_folder(s3, search_folder.name).folder
    (here / "changed.txt").write_text("mine")
    storage.write(search_folder.below("journal.jsonl"), b"".join(map(encoded, events(2))))
    monkeypatch.setattr(storage, "download", lambda address, folder, names: fetched.extend(names))
    existing_search_folder(s3, search_folder.name)
    assert sorted(fetched) == (names if just_listed else names[:1])


def test_a_copy_left_behind_catches_up_and_one_that_went_its_own_way_is_refused(
    s3: str, tmp_path: Path, monkeypatch: Patch
) -> None:
    """A file that its driver did not get to send goes after all."""
    search_folder, home = begun(s3), cache_root().parent
    (search_folder.folder / "notes.txt").write_text("of this machine")
    on_another_machine(monkeypatch, tmp_path / "other")
    with existing_search_folder(s3, "toy").open() as journal:
        journal.append(events(2)[1])
        ahead = journal.path.read_bytes()
    monkeypatch.setenv("XDG_CACHE_HOME", str(home))
    opened(existing_search_folder(s3, "toy")).close()
    assert search_folder.journal.read_bytes() == ahead
    assert storage.read(search_folder.below("notes.txt")) == b"of this machine"
    search_folder.journal.write_bytes(encoded(TOLD))
    for read in (lambda: existing_search_folder(s3, "toy"), search_folder.open):
        with pytest.raises(ConfigError, match="diverged"):
            read()
    assert storage.read(search_folder.below("journal.jsonl")) == ahead and lease_of(search_folder) is None


def test_a_reader_beside_the_driver_of_this_machine_reads_its_copy(s3: str) -> None:
    search_folder = begun(s3)
    with opened(search_folder) as journal:
        journal.append(TOLD)
        assert in_storage(search_folder) == events(1)
        assert list(read_events(existing_search_folder(s3, "toy").journal)) == [*events(1), TOLD]
    with pytest.raises(ConfigError, match="no search 'toi'"):
        existing_search_folder(s3, "toi")
    assert [path.name for path in search_folder.storage.iterdir()] == ["toy"], "a wrong name leaves no copy"


# -- who may write --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["upload_file", "download"])
def test_a_driver_that_sends_or_fetches_for_long_keeps_its_lease(
    name: str, s3: str, tmp_path: Path, monkeypatch: Patch
) -> None:
    """Also after an outage of the lease's own requests."""
    search_folder = begun(s3, f"toy-{name}")
    slow, write, beats = getattr(storage, name), storage.write, []

    def long(*arguments: Any) -> None:
        beats.append(first := lease_of(search_folder))
        monkeypatch.setattr(mirror.storage, "write", failing(write, 2))
        deadline = time.monotonic() + 30
        while (now := lease_of(search_folder)) == first:
            assert time.monotonic() < deadline, "the lease is not renewed"
            time.sleep(0.01)
        assert now and first and now["token"] == first["token"]
        monkeypatch.setattr(mirror.storage, "write", write)
        slow(*arguments)

    monkeypatch.setattr(mirror.storage, name, long)
    on_another_machine(monkeypatch, tmp_path / "other")
    search_folder = search_folder_of(s3, f"toy-{name}")
    with opened(search_folder, every=0.02) as journal:
        (search_folder.folder / "model.safetensors").write_bytes(b"large")
        journal.append(TOLD)
    assert beats and in_storage(search_folder) == [*events(1), TOLD] and lease_of(search_folder) is None


@pytest.mark.parametrize("wake", ["sends", "renews", "ends"])
def test_one_driver_at_a_time(
    wake: str, s3: str, tmp_path: Path, monkeypatch: Patch, caplog: pytest.LogCaptureFixture
) -> None:
    """A second one is refused while the first lives. If that sleeps with its machine, the second takes over, and what
    the first does when it wakes up changes nothing."""
    search_folder = begun(s3, wake)
    with opened(search_folder, every=0.05) as alive, monkeypatch.context() as patch:
        on_another_machine(patch, tmp_path / "other")
        for watch in (5.0, 0.0):
            with pytest.raises(ConfigError, match="in use by process"):
                opened(search_folder_of(s3, wake), watch=watch)
        alive.append(events(2)[1])
    first = opened(search_folder)  # renews its lease only every NEVER seconds
    first.append(TOLD)
    (search_folder.folder / "config.yaml").write_text("seed: 1\n")
    with monkeypatch.context() as patch:
        on_another_machine(patch, tmp_path / "other")
        second = opened(search_folder_of(s3, wake), watch=0.1)
    second.append(events(3)[2])
    assert second.settle()
    if wake == "renews":  # it had checked the lease before it slept, and writes now: it looks like its own again
        first._lease._write()
    if wake != "ends":
        assert not first.settle()
        with pytest.raises(WorkFailed, match=f"stays in the copy {search_folder.folder}"):
            first.append(TOLD)
    else:
        first._lease.renew()
    first.close()
    assert lease_of(search_folder), "it is the other's to release"
    assert "another driver has taken over" in caplog.text and "tune-cl resume on this machine" not in caplog.text
    second.close()
    assert in_storage(search_folder) == events(3)


def test_a_driver_that_loses_its_lease_while_it_sends_sends_nothing_more(
    s3: str, tmp_path: Path, monkeypatch: Patch
) -> None:
    """As that of a machine that slept amid an upload."""
    search_folder, upload, sent = begun(s3), storage.upload_file, []
    first = opened(search_folder)
    for name in ("a.txt", "b.txt"):
        (search_folder.folder / name).touch()

    def sleep(path: Path, address: str) -> None:
        sent.append(path.name)
        with monkeypatch.context() as patch:
            patch.setattr(mirror.storage, "upload_file", upload)
            on_another_machine(patch, tmp_path / "other")
            with opened(search_folder_of(s3, "toy"), watch=0.1) as second:
                second.append(events(2)[1])
        first._lease.renew()  # as the thread that renews it does

    monkeypatch.setattr(mirror.storage, "upload_file", sleep)
    assert not first.settle() and len(sent) == 1
    first.close()
    assert in_storage(search_folder) == events(2) and lease_of(search_folder) is None


def test_a_driver_that_died_is_outwaited_but_on_its_own_machine(s3: str, tmp_path: Path, monkeypatch: Patch) -> None:
    """There the lock of the copy's journal shows that it is gone."""
    search_folder = begun(s3)
    lose(opened(search_folder))
    lose(opened(search_folder, watch=1000.0))
    on_another_machine(monkeypatch, tmp_path / "other")
    with pytest.raises(ConfigError, match="in use by process"):
        opened(search_folder_of(s3, "toy"), watch=0.0)
    with opened(search_folder_of(s3, "toy"), watch=0.2) as second:
        second.append(events(2)[1])
    assert in_storage(search_folder) == events(2)


def test_a_driver_that_ends_while_the_storage_is_away_no_longer_keeps_others_out(
    s3: str, tmp_path: Path, monkeypatch: Patch, caplog: pytest.LogCaptureFixture
) -> None:
    """Its process may live on for long, as a notebook's does. On this machine, the next one sends what it left."""
    search_folder = begun(s3)
    journal = opened(search_folder, every=0.02)
    with monkeypatch.context() as outage:
        outage.setattr(mirror.storage, "write", failing(storage.write, 10**6))
        journal.append(events(2)[1])
        journal.close()
    assert "lacks the last changes; tune-cl resume on this machine sends them" in caplog.text
    held = lease_of(search_folder)
    time.sleep(0.2)
    assert lease_of(search_folder) == held is not None and in_storage(search_folder) == events(1)
    opened(search_folder).close()
    assert in_storage(search_folder) == events(2)


def test_a_search_whose_copy_cannot_be_kept_any_more_ends(s3: str, monkeypatch: Patch) -> None:
    """This is not an outage, so waiting would not help; nor may the search run on while nothing reaches the storage."""
    with opened(begun(s3)) as journal:
        with monkeypatch.context() as patch:
            patch.setattr(mirror.storage, "size", failing(storage.size, 1, ValueError))
            journal.append(TOLD)
            assert not journal.settle()
        with pytest.raises(WorkFailed, match=r"s3://.*: no route to host"):
            journal.append(TOLD)
    assert in_storage(search_folder_of(s3, "toy")) == [*events(1), TOLD]


def test_a_search_that_was_deleted_in_the_storage_ends(s3: str) -> None:
    """Otherwise only its journal would come back, without the files that the journal names."""
    search_folder = begun(s3)
    with opened(search_folder) as journal:
        journal.append(TOLD)
        assert journal.settle()
        storage.remove(search_folder.below("journal.jsonl"))
        journal.append(TOLD)
        assert not journal.settle()
        with pytest.raises(WorkFailed, match=f"stays in the copy {search_folder.folder}"):
            journal.append(TOLD)
    assert storage.files_below(search_folder.below()).keys() <= {"driver.json"}


# -- names ----------------------------------------------------------------------------------------------------------


def test_a_name_is_taken_from_the_first_event_on(s3: str, tmp_path: Path, monkeypatch: Patch) -> None:
    """On every machine; a run that was stopped before leaves no search."""
    search_folder = new_search_folder(s3, "toy", "toy")
    opened(search_folder).close()
    assert storage.files_below(search_folder.below()) == {}
    storage.write(search_folder.below("journal.jsonl"), b"")  # as earlier versions left it
    for name in ("here", "other"):
        on_another_machine(monkeypatch, tmp_path / name)
        with pytest.raises(ConfigError, match=r"no search 'toy' in s3://"):
            existing_search_folder(s3, "toy")
        assert new_search_folder(s3, "toy", "toy") == search_folder_of(s3, "toy")
    with opened(search_folder_of(s3, "toy")) as journal:
        journal.append(TOLD)
    for name in ("other", "third"):
        on_another_machine(monkeypatch, tmp_path / name)
        with pytest.raises(ConfigError, match="--name: a search 'toy' exists in s3://"):
            new_search_folder(s3, "toy", "toy")
        assert new_search_folder(s3, None, "toy").name == "toy-2"


@pytest.mark.parametrize(
    ("bucket", "wrong"), [("no-such-bucket", "there is no bucket"), ("id:secret@searches", "has a key")]
)
def test_bad_addresses(s3: str, bucket: str, wrong: str) -> None:
    with pytest.raises(ConfigError, match=wrong) as refused:
        search_folder_of(f"s3://{bucket}/x?{s3.partition('?')[2]}", "toy")
    assert "secret" not in str(refused.value)


def test_a_report_does_not_look_whether_another_machine_s_driver_lives(
    s3: str, tmp_path: Path, monkeypatch: Patch, capsys: pytest.CaptureFixture[str]
) -> None:
    with opened(begun(s3)):
        on_another_machine(monkeypatch, tmp_path / "other")
        search_folder = existing_search_folder(s3, "toy")
        tracked(replace(search_folder, tracking_uri="sqlite://"), search_folder.folder / "report.html", "<html>")
    told = capsys.readouterr().err
    assert told.startswith("not logged to MLflow: search 'toy' is in use by process ") and "looking" not in told
