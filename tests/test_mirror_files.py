"""Which files of a search's copy go to the storage in S3 and which come from there, and in what order."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import boto3
import pytest

from tests.support.s3_cases import BUCKET, TOLD, Gate, begun, events, in_storage, on_another_machine, opened, s3, server
from trainables.core import storage
from trainables.core.errors import ConfigError, WorkFailed
from tune_cl.history import s3_mirror as mirror
from tune_cl.history.journal import encoded, read_events
from tune_cl.history.search_folder import existing_search_folder, new_search_folder, search_folder_of

pytestmark = pytest.mark.slow

__all__ = ["s3", "server"]


def away(*_: object) -> None:
    raise OSError("no route to host")


def test_a_driver_that_ends_while_the_storage_is_away_no_longer_keeps_others_out(
    s3: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Its process may live on for long, as a notebook's does."""
    search_folder = begun(s3)
    journal = opened(search_folder, every=0.02)
    with monkeypatch.context() as outage:
        outage.setattr(mirror.storage, "write", away)
        journal.append(TOLD)
        journal.close()
    assert "lacks the last changes; tune-cl resume on this machine sends them" in caplog.text
    on_another_machine(monkeypatch, tmp_path / "other")
    with opened(search_folder_of(s3, "toy"), watch=0.5) as second:
        second.append(events(2)[1])
    assert in_storage(search_folder) == events(2)


def test_each_outage_is_said_once(s3: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    with opened(begun(s3)) as journal:
        for count in (1, 2):
            journal.append(TOLD)
            with monkeypatch.context() as outage:
                outage.setattr(mirror.storage, "write", away)
                assert not journal._attempt() and not journal._attempt()
            assert caplog.text.count("out of reach, trying again: no route to host") == count
            assert journal._attempt()


def test_no_event_comes_before_the_files_it_speaks_of(s3: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file and its event that are written during a send wait for the next one."""
    search_folder = begun(s3)
    gate = Gate(monkeypatch, "large.bin")
    with opened(search_folder) as journal:
        (search_folder.folder / "large.bin").touch()
        sending = threading.Thread(target=journal._attempt, daemon=True)
        sending.start()
        assert gate.reached.wait(60)
        (search_folder.folder / "small.bin").touch()
        journal.append(TOLD)
        gate.opened.set()
        sending.join()
        assert set(storage.files_below(search_folder.below())) == {"driver.json", "journal.jsonl", "large.bin"}
        assert in_storage(search_folder) == events(1)
        assert journal._attempt() and storage.exists(search_folder.below("small.bin"))
        assert in_storage(search_folder) == [*events(1), TOLD]


def test_a_journal_that_has_not_grown_is_not_read(s3: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is looked at every few seconds, and has megabytes in a long search."""
    read = []
    with opened(begun(s3)) as journal:
        content = journal.content
        monkeypatch.setattr(journal, "content", lambda: read.append(journal.size) or content())
        assert journal._attempt() and journal._attempt() and read == []
        journal.append(TOLD)
        assert journal._attempt() and journal._attempt() and len(read) == 1
    assert in_storage(search_folder_of(s3, "toy")) == [*events(1), TOLD]


def test_links_that_lead_nowhere_are_not_sent_and_hold_up_nothing(s3: str) -> None:
    search_folder = begun(s3)
    with opened(search_folder) as journal:
        (search_folder.folder / "gone").symlink_to("nothing")
        (search_folder.folder / "folder").symlink_to(search_folder.folder.parent)
        (search_folder.folder / "z.txt").touch()
        assert journal._attempt()
    assert set(storage.files_below(search_folder.below())) == {"journal.jsonl", "z.txt"}


def test_hidden_files_and_those_in_hidden_folders_are_not_sent(s3: str) -> None:
    """Files that are being written have such names."""
    search_folder = begun(s3)
    with opened(search_folder):
        for name in (".half.txt", ".tune_cl-1/half.txt", "trials/.tune_cl-2/deep/half.txt", "trials/whole.txt"):
            (search_folder.folder / name).parent.mkdir(parents=True, exist_ok=True)
            (search_folder.folder / name).touch()
    assert set(storage.files_below(search_folder.below())) == {"journal.jsonl", "trials/whole.txt"}


def test_checkpoints_are_not_copied_to_machines_that_pull(
    s3: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    search_folder = begun(s3)
    kept = ("trials/best-ranker/model.safetensors", "confirmation/default/seed-1/result.json")
    left = ("ray/toy/t0001/checkpoint_000001/state", "confirmation/default/seed-1/ranker/model.safetensors",
            "confirmation/default/seed-2/state.tar", "driver.json")  # fmt: skip
    for name in (*kept, *left):
        storage.write(search_folder.below(*name.split("/")), b"content")
    on_another_machine(monkeypatch, tmp_path / "other")
    folder = existing_search_folder(s3, "toy").folder
    pulled = {path.relative_to(folder).as_posix() for path in folder.rglob("[!.]*") if path.is_file()}
    assert pulled == {*kept, "journal.jsonl", "journal.lock"}


def test_what_was_pulled_is_not_sent_back(s3: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    search_folder = begun(s3)
    with opened(search_folder) as journal:
        (search_folder.folder / "report.html").write_text("<p>")
        journal.append(TOLD)
    on_another_machine(monkeypatch, tmp_path / "other")
    copy = existing_search_folder(s3, "toy")
    storage.write(search_folder.below("report.html"), b"<p>newer")
    opened(copy).close()
    assert (copy.folder / "report.html").read_text() == "<p>"
    assert storage.read(search_folder.below("report.html")) == b"<p>newer"


def test_what_is_here_and_unchanged_is_not_fetched_again(
    s3: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One of the same size with other content is, and one that may have been replaced in the second it was listed."""
    search_folder = begun(s3)
    names = ["same.txt", "replaced.txt", "changed here.txt", "young.txt"]
    for name in names:
        (search_folder.folder / name).write_text("old")
    with opened(search_folder):
        pass
    times = dict.fromkeys(names, 10**10) | {"young.txt": 19 * 10**9}
    listed, download, got = storage.states_below, storage.download, []
    monkeypatch.setattr(storage, "states_below", lambda address: {
        name: (size, times.get(name, 20 * 10**9)) for name, (size, _) in listed(address).items()
    })  # fmt: skip
    monkeypatch.setattr(storage, "download", lambda address, folder, names: download(address, folder, note(names)))

    def note(names: Iterable[str]) -> list[str]:
        got[:] = sorted(names)
        return got

    on_another_machine(monkeypatch, tmp_path / "other")
    here = existing_search_folder(s3, "toy").folder
    assert got == sorted(names)
    storage.write(search_folder.below("replaced.txt"), b"new")
    times["replaced.txt"] += 10**9
    (here / "changed here.txt").write_text("mine")
    journal = storage.read(search_folder.below("journal.jsonl")) or b""
    storage.write(search_folder.below("journal.jsonl"), journal + encoded(events(2)[1]))
    assert existing_search_folder(s3, "toy").folder == here
    assert got == ["changed here.txt", "replaced.txt", "young.txt"]
    assert [(here / name).read_text() for name in names] == ["old", "new", "old", "old"]


def test_the_note_of_what_was_sent_is_written_when_something_was(s3: str) -> None:
    search_folder = begun(s3)
    with opened(search_folder) as journal:
        (search_folder.folder / "a").touch()
        assert journal._attempt()
        noted = (search_folder.folder / mirror.SENT).stat().st_mtime_ns
        journal.append(events(2)[1])
        assert journal._attempt() and (search_folder.folder / mirror.SENT).stat().st_mtime_ns == noted
        (search_folder.folder / "b").touch()
        assert journal._attempt() and (search_folder.folder / mirror.SENT).stat().st_mtime_ns > noted


def test_a_file_that_the_storage_never_had_is_sent_after_a_pull(
    s3: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """This machine's driver died before it was sent; another machine's driver went on."""
    search_folder = begun(s3)
    (search_folder.folder / "notes.txt").write_text("of this machine")
    with monkeypatch.context() as patch:
        on_another_machine(patch, tmp_path / "other")
        with opened(search_folder_of(s3, "toy")) as journal:
            journal.append(events(2)[1])
    opened(existing_search_folder(s3, "toy")).close()
    assert list(read_events(search_folder.journal)) == events(2)
    assert storage.read(search_folder.below("notes.txt")) == b"of this machine"


def test_a_reader_beside_the_driver_of_this_machine_reads_its_copy(s3: str) -> None:
    search_folder = begun(s3)
    with opened(search_folder) as journal:
        journal.append(TOLD)
        assert in_storage(search_folder) == events(1)
        assert list(read_events(existing_search_folder(s3, "toy").journal)) == [*events(1), TOLD]


def test_a_wrong_name_leaves_no_copy_of_a_search(s3: str) -> None:
    search_folder = begun(s3)
    with pytest.raises(ConfigError, match="no search 'toi'"):
        existing_search_folder(s3, "toi")
    assert [path.name for path in search_folder.storage.iterdir()] == ["toy"]


@pytest.mark.parametrize("resumed", [True, False])
def test_a_search_that_was_deleted_in_the_storage_ends(resumed: bool, s3: str) -> None:
    """Otherwise only its journal would come back, without the files that the journal names."""
    search_folder = begun(s3, f"toy-{resumed}") if resumed else new_search_folder(s3, "toy", "toy")
    with opened(search_folder) as journal:
        journal.append(TOLD)
        assert journal._attempt()
        storage.remove(search_folder.below("journal.jsonl"))
        journal.append(TOLD)
        assert not journal._attempt()
        with pytest.raises(WorkFailed, match=f"stays in the copy {search_folder.folder}"):
            journal.append(TOLD)
    assert storage.files_below(search_folder.below()).keys() <= {"driver.json"}


def test_objects_whose_keys_are_no_paths_of_files_stay_in_the_storage(
    s3: str, server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S3 allows any key, be it by a slash too many or by malice; the search is read all the same."""
    search_folder = begun(s3)
    endpoint = f"http://{parse_qs(server)['endpoint_override'][0]}"
    client = boto3.client("s3", endpoint_url=endpoint, region_name="us-east-1")
    for key in ("sound.txt", "/report.html", "a//b.txt", "../outside.txt", "a/../../outside.txt", "./c.txt"):
        client.put_object(Bucket=BUCKET, Key=f"{urlsplit(search_folder.below()).path.strip('/')}/{key}", Body=b"x")
    on_another_machine(monkeypatch, tmp_path / "other")
    folder = existing_search_folder(s3, "toy").folder
    assert sorted(path.name for path in folder.iterdir() if path.suffix != ".json") == [
        "journal.jsonl", "journal.lock", "sound.txt"
    ]  # fmt: skip
    assert not (folder.parent / "outside.txt").exists()
