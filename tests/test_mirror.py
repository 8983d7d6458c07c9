"""Two drivers of one search in S3: who may send, who must stop, and what neither can overwrite."""

from __future__ import annotations

import json
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.s3_cases import TOLD, Gate, begun, events, in_storage, on_another_machine, opened, s3, server
from trainables.core import storage
from trainables.core.errors import ConfigError, WorkFailed
from tune_cl.history import s3_mirror as mirror
from tune_cl.history.search_folder import SearchFolder, existing_search_folder, new_search_folder, search_folder_of
from tune_cl.report.output import tracked

pytestmark = pytest.mark.slow

__all__ = ["s3", "server"]


def lease_of(search_folder: SearchFolder) -> dict | None:
    held = storage.read(search_folder.below("driver.json"))
    return None if held is None else json.loads(held)


def wait_for_beat(search_folder: SearchFolder) -> int:
    """Waits until the lease is renewed; returns its number of renewals."""
    first, deadline = lease_of(search_folder), time.monotonic() + 30
    assert first is not None
    while (now := lease_of(search_folder)) == first:
        assert time.monotonic() < deadline, "the lease is not renewed"
        time.sleep(0.01)
    assert now is not None and now["token"] == first["token"] and now["beat"] > first["beat"]
    return now["beat"]


def test_a_driver_that_sends_for_long_keeps_its_lease(s3: str, monkeypatch: pytest.MonkeyPatch) -> None:
    search_folder = new_search_folder(s3, "toy", "toy")
    gate = Gate(monkeypatch, "model.safetensors")
    with opened(search_folder, every=0.02) as journal:
        (search_folder.folder / "model.safetensors").write_bytes(b"large")
        journal.append(TOLD)
        assert gate.reached.wait(60)
        wait_for_beat(search_folder)
        gate.opened.set()
    assert in_storage(search_folder) == [TOLD] and lease_of(search_folder) is None


def test_a_driver_that_pulls_for_long_keeps_its_lease(s3: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    search_folder, beats = begun(s3), []
    on_another_machine(monkeypatch, tmp_path / "other")
    download = storage.download

    def long(*arguments: object) -> None:
        beats.append(wait_for_beat(search_folder))
        download(*arguments)  # pyright: ignore[reportArgumentType]

    monkeypatch.setattr(mirror.storage, "download", long)
    opened(search_folder_of(s3, "toy"), every=0.02).close()
    assert len(beats) == 1 and in_storage(search_folder) == events(1)


def test_a_driver_that_was_suspended_while_it_sent_leaves_the_journal_of_the_next(
    s3: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    search_folder = begun(s3)
    gate = Gate(monkeypatch, "config.yaml")
    journal = opened(search_folder)  # renews its lease only every NEVER seconds: the whole machine sleeps
    journal.append(TOLD)
    (search_folder.folder / "config.yaml").write_text("seed: 1\n")
    sending = threading.Thread(target=journal._attempt, daemon=True)
    sending.start()
    assert gate.reached.wait(60)
    with monkeypatch.context() as patch:
        on_another_machine(patch, tmp_path / "other")
        with opened(search_folder_of(s3, "toy"), watch=0.1) as second:
            second.append(events(2)[1])
    assert in_storage(search_folder) == events(2)
    gate.opened.set()
    sending.join()
    assert in_storage(search_folder) == events(2)
    with pytest.raises(WorkFailed, match=f"another driver has taken over .* stays in the copy {search_folder.folder}"):
        journal.append(TOLD)
    journal.close()
    assert in_storage(search_folder) == events(2) and lease_of(search_folder) is None
    assert "another driver has taken over" in caplog.text and "tune-cl resume on this machine" not in caplog.text


def test_a_driver_that_slept_while_it_renewed_its_lease_leaves_the_journal_of_the_next(
    s3: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lease looks like its own again; the journal does not."""
    search_folder = begun(s3)
    with opened(search_folder) as journal:
        journal.append(TOLD)
        with monkeypatch.context() as patch:
            on_another_machine(patch, tmp_path / "other")
            second = opened(search_folder_of(s3, "toy"), watch=0.1)
        second.append(events(2)[1])
        assert second._attempt()
        journal._lease.renew(taking=True)  # it had checked the lease before it slept, and writes now
        assert not journal._attempt()
        with pytest.raises(WorkFailed, match="another driver has taken over"):
            journal.append(TOLD)
    second.close()
    assert in_storage(search_folder) == events(2)


def test_a_send_whose_answer_was_lost_is_not_taken_for_another_drivers(
    s3: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    search_folder, write = begun(s3), storage.write

    def lost(address: str, content: bytes) -> None:
        write(address, content)
        raise OSError("no route to host")

    with opened(search_folder) as journal:
        journal.append(TOLD)
        with monkeypatch.context() as outage:
            outage.setattr(mirror.storage, "write", lost)
            assert not journal._attempt()
        journal.append(TOLD)
        assert journal._attempt()
    assert in_storage(search_folder) == [*events(1), TOLD, TOLD]


def test_a_driver_that_died_on_this_machine_is_not_outwaited(s3: str) -> None:
    """The lock of the copy's journal shows that it is gone."""
    search_folder = begun(s3)
    with opened(search_folder):
        left = storage.read(search_folder.below("driver.json")) or b""
    storage.write(search_folder.below("driver.json"), left)
    with opened(search_folder) as journal:
        journal.append(TOLD)
    assert in_storage(search_folder) == [*events(1), TOLD]


def test_a_lease_is_renewed_after_an_outage(s3: str, monkeypatch: pytest.MonkeyPatch) -> None:
    search_folder, away = begun(s3), threading.Event()

    def lost(address: str, content: bytes) -> None:
        away.set()
        raise OSError("no route to host")

    with opened(search_folder, every=0.02):
        with monkeypatch.context() as outage:
            outage.setattr(mirror.storage, "write", lost)
            assert away.wait(60)
        wait_for_beat(search_folder)


def test_a_search_whose_copy_cannot_be_kept_any_more_ends(s3: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """This is no outage, so waiting would not help; nor may the search run on while nothing reaches the storage."""
    search_folder = begun(s3)
    journal = opened(search_folder, every=0.05)

    def broken(*_: object) -> None:
        raise ValueError("an answer that nobody knows")

    with monkeypatch.context() as patch, pytest.raises(WorkFailed, match=r"s3://.*: an answer that nobody knows"):
        patch.setattr(mirror.storage, "size", broken)
        for _ in range(200):
            journal.append(TOLD)
            time.sleep(0.05)
    journal.close()
    assert len(in_storage(search_folder)) > 1 and lease_of(search_folder) is None


def test_a_release_whose_answer_was_lost_is_one(
    s3: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    search_folder, remove = begun(s3), storage.remove

    def lost(address: str) -> None:
        monkeypatch.setattr(mirror.storage, "remove", remove)
        remove(address)
        raise OSError("no route to host")

    monkeypatch.setattr(mirror.storage, "remove", lost)
    monkeypatch.setattr(mirror, "CLOSING_SECONDS", 60.0)
    with opened(search_folder) as journal:
        journal.append(TOLD)
    assert [told.getMessage()[-16:] for told in caplog.records] == ["no route to host"] and lease_of(
        search_folder
    ) is None
    assert in_storage(search_folder) == [*events(1), TOLD]


def test_a_lease_that_another_took_since_its_release_stays(s3: str, monkeypatch: pytest.MonkeyPatch) -> None:
    search_folder, remove, theirs = (
        begun(s3),
        storage.remove,
        {"holder": "other", "token": "other", "process": "process 1 on other"},
    )

    def lost(address: str) -> None:
        monkeypatch.setattr(mirror.storage, "remove", remove)
        storage.write(address, json.dumps(theirs).encode())
        raise OSError("no route to host")

    with opened(search_folder) as journal:
        journal.append(TOLD)
        monkeypatch.setattr(mirror.storage, "remove", lost)
        monkeypatch.setattr(mirror, "CLOSING_SECONDS", 60.0)
    assert lease_of(search_folder) == theirs and in_storage(search_folder) == [*events(1), TOLD]


def test_a_lease_is_renewed_and_released_by_its_holder_alone(s3: str) -> None:
    """A driver that slept may wake with the renewal of its lease, before it looks at anything else."""
    address = storage.joined(s3, "lease", "driver.json")
    first, second = (mirror.Lease(address, holder) for holder in ("first", "second"))
    first.acquire("toy", watch=0.05)
    second.acquire("toy", watch=0.05)
    taken = storage.read(address)
    assert not first.renew() and first.lost
    first.release()
    assert taken is not None and storage.read(address) == taken
    storage.remove(address)
    assert not second.renew() and second.lost and storage.read(address) is None


def test_a_driver_that_is_refused_leaves_the_lease_to_its_holder(
    s3: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    search_folder = begun(s3)
    with opened(search_folder) as journal:
        held = lease_of(search_folder)
        with monkeypatch.context() as patch:
            on_another_machine(patch, tmp_path / "other")
            with pytest.raises(ConfigError, match="in use by process"):
                opened(search_folder_of(s3, "toy"), watch=0.0)
        assert held is not None and lease_of(search_folder) == held
        journal.append(TOLD)
        assert journal._attempt()
    assert in_storage(search_folder) == [*events(1), TOLD] and lease_of(search_folder) is None


def test_a_driver_that_loses_its_lease_while_it_sends_sends_no_further_file(
    s3: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[str] = []
    with opened(begun(s3)) as journal:
        for name in ("a.txt", "b.txt"):
            (journal.path.parent / name).touch()

        def send(path: Path, address: str) -> None:
            sent.append(path.name)
            journal._lease.lost = True  # as the thread that renews it finds out meanwhile

        monkeypatch.setattr(mirror.storage, "upload_file", send)
        assert not journal._attempt()
    assert len(sent) == 1


def test_a_name_that_another_machine_took_is_taken(s3: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begun(s3)
    on_another_machine(monkeypatch, tmp_path / "other")
    with pytest.raises(ConfigError, match="--name: a search 'toy' exists in s3://"):
        new_search_folder(s3, "toy", "toy")
    assert new_search_folder(s3, None, "toy").name == "toy-2"


def test_a_report_does_not_look_whether_another_machine_s_driver_lives(
    s3: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with opened(begun(s3)):
        on_another_machine(monkeypatch, tmp_path / "other")
        search_folder = existing_search_folder(s3, "toy")
        tracked(replace(search_folder, tracking_uri="sqlite://"), search_folder.folder / "report.html", "<html>")
    told = capsys.readouterr().err
    assert told.startswith("not logged to MLflow: search 'toy' is in use by process ") and "looking" not in told


def test_a_copy_that_may_not_be_written_is_the_cache_s_fault(s3: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(folder: Path) -> None:
        raise PermissionError(13, "Permission denied", str(folder))

    begun(s3)
    monkeypatch.setattr(mirror, "Journal", refuse)
    with pytest.raises(ConfigError, match=r"XDG_CACHE_HOME: '.*/toy' cannot be written to \(Permission denied\); "):
        existing_search_folder(s3, "toy")


def test_a_run_that_was_stopped_before_its_first_event_leaves_no_search(
    s3: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    search_folder = new_search_folder(s3, "toy", "toy")
    opened(search_folder).close()
    assert storage.files_below(search_folder.below()) == {}
    storage.write(search_folder.below("journal.jsonl"), b"")  # as earlier versions left it
    for name in ("here", "other"):
        on_another_machine(monkeypatch, tmp_path / name)
        with pytest.raises(ConfigError, match=r"no search 'toy' in s3://.*; tune-cl run starts one"):
            existing_search_folder(s3, "toy")
        assert new_search_folder(s3, "toy", "toy") == search_folder_of(s3, "toy")
    with opened(search_folder_of(s3, "toy")) as journal:
        journal.append(TOLD)
    with pytest.raises(ConfigError, match="a search 'toy' exists in s3://"):
        new_search_folder(s3, "toy", "toy")
    assert in_storage(search_folder) == [TOLD]
