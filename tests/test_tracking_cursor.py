"""What tracking remembers of its own work: a cursor, whose it is, and whether the server is away. No server here."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tune_cl.history.journal import CURSOR
from tune_cl.tracking import layout
from tune_cl.tracking.cursor import Cursor, load
from tune_cl.tracking.writer import MlflowWriter


def test_a_cursor_is_of_one_target_and_no_longer_journal(tmp_path: Path) -> None:
    """A folder that is copied while its search runs may have a journal older than the cursor."""
    journal = tmp_path / "journal.jsonl"
    journal.write_bytes(b"first\nsecond\n")
    Cursor("here", offset=13, runs={"search": "r"}).save(tmp_path)
    assert load(journal, "here").runs == {"search": "r"}
    assert load(journal, "there") == Cursor("there")
    journal.write_bytes(b"first\n")
    assert load(journal, "here") == Cursor("here")


def test_a_cursor_reads_back_as_it_was(tmp_path: Path) -> None:
    """Including the artifacts: a list instead of a tuple would be sent twice, and never removed."""
    owed: list[tuple[str, str, str | None]] = [("t0001", "trials/t0001", None), ("search", "best.pt", "checkpoint")]
    journal = tmp_path / "journal.jsonl"
    journal.write_bytes(b"first\n")
    runs, reached = {"search": "r"}, {"t0001": 3}
    cursor = Cursor("here", offset=6, experiment="1", runs=runs, reached=reached, open=["t0001"], owed=owed)
    cursor.save(tmp_path)
    assert load(journal, "here") == cursor


@pytest.mark.parametrize(
    "held",
    [
        "",
        "[]",
        "{}",
        '{"target": "here", "owed": [["t0001"]]}',
        '{"target": "here", "offset": 5, "owed": []}',
        None,
    ],
    ids=["empty", "list", "lacks a part", "pairs of one", "older", "missing"],
)
def test_a_cursor_that_cannot_be_read_is_a_fresh_one(held: str | None, tmp_path: Path) -> None:
    if held is not None:
        (tmp_path / CURSOR).write_text(held)
    assert load(tmp_path / "journal.jsonl", "here") == Cursor("here")


@pytest.mark.parametrize("key", ["name", "storage", "time"])
def test_a_search_is_told_from_others_by_name_storage_and_time(key: str) -> None:
    search = {"name": "a", "storage": "runs", "time": 1.0}
    assert layout.search_id(search) == layout.search_id(dict(search)) != layout.search_id(search | {key: 2.0})


class Away:
    """Stands in for a delivery: two steps in an outage, one that sends, one that finds nothing left to send."""

    def __init__(self) -> None:
        self.cursor = SimpleNamespace(runs={}, owed=[])
        self.left: list[Any] = [OSError("away"), OSError("away"), True, False]

    def step(self) -> bool:
        told = self.left.pop(0)
        if isinstance(told, Exception):
            raise told
        return told

    def pending(self) -> int:
        return len(self.left)


def test_an_outage_that_is_over_is_forgotten() -> None:
    journal: Any = SimpleNamespace(size=1, path=Path(__file__))
    writer, delivery = MlflowWriter(journal, "http://away"), Away()
    writer._delivery = delivery  # type: ignore[assignment]
    assert [writer.attempt(), writer.attempt()] == [False, False] and writer.trouble == "OSError: away"
    assert writer.attempt() and writer.trouble is None
    assert not writer.attempt() and writer.all_sent()


def test_an_artifact_that_cannot_be_stored_is_said_once_and_no_event_in_between_ends_that(
    caplog: pytest.LogCaptureFixture,
) -> None:
    journal: Any = SimpleNamespace(size=1, path=Path(__file__))
    writer, delivery = MlflowWriter(journal, "http://here"), Away()
    writer._delivery = delivery  # type: ignore[assignment]
    refused, sent = OSError("403"), True
    delivery.left, delivery.cursor.owed = [refused, sent, refused, sent, refused, sent], ["artifact"]
    assert [writer.attempt() for _ in range(5)] == [False, True, False, True, False]
    assert writer.trouble == "OSError: 403" and not writer.all_sent()
    delivery.cursor.owed.clear()  # the last step stores the artifact
    assert writer.attempt() and writer.trouble is None and writer.all_sent()
    said = [record.getMessage() for record in caplog.records]
    assert said == [
        "tracking waits for MLflow at http://here: OSError: 403",
        "tracking goes on after 3 failed attempts",
    ]
