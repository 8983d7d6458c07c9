"""What tracking remembers of its own work: a cursor, whose it is, and whether the server is away. No server here."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tune_cl.tracking import layout
from tune_cl.tracking.cursor import FILE, Cursor, load
from tune_cl.tracking.mlflow_writer import MlflowWriter


def test_a_cursor_is_of_one_target_and_of_no_shorter_journal(tmp_path: Path) -> None:
    Cursor("here", offset=100, runs={"search": "r"}).save(tmp_path)
    assert load(tmp_path, "here", 100).runs == {"search": "r"}
    assert load(tmp_path, "here", 99) == Cursor("here")
    assert load(tmp_path, "there", 100) == Cursor("there")


def test_a_cursor_reads_back_as_it_was(tmp_path: Path) -> None:
    """Including what is owed: a list in place of a pair would be owed twice, and never found again."""
    owed: list[tuple[str, str, str | None]] = [("t0001", "trials/t0001", None), ("search", "best.pt", "checkpoint")]
    cursor = Cursor("here", 100, "1", {"search": "r"}, {"t0001": 3}, ["t0001"], owed)
    cursor.save(tmp_path)
    assert load(tmp_path, "here", 100) == cursor


@pytest.mark.parametrize(
    "held",
    [
        "",
        "[]",
        "{}",
        '{"target": "here", "owed": [["t0001"]]}',
        '{"target": "here", "owed": [], "of a newer": 1}',
        None,
    ],
    ids=["empty", "list", "lacks a part", "pairs of one", "newer", "missing"],
)
def test_a_cursor_that_cannot_be_read_is_a_fresh_one(held: str | None, tmp_path: Path) -> None:
    if held is not None:
        (tmp_path / FILE).write_text(held)
    assert load(tmp_path, "here", 100) == Cursor("here")


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
    journal: Any = SimpleNamespace(size=1)
    writer, delivery = MlflowWriter(journal, "http://away"), Away()
    writer._delivery = delivery  # type: ignore[assignment]
    assert [writer.attempt(), writer.attempt()] == [False, False] and writer.trouble == "OSError: away"
    assert writer.attempt() and writer.trouble is None
    assert not writer.attempt() and writer.all_sent()


def test_an_artifact_that_cannot_be_stored_is_said_once_and_no_event_in_between_ends_that(
    caplog: pytest.LogCaptureFixture,
) -> None:
    journal: Any = SimpleNamespace(size=1)
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
