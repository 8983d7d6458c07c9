"""`tune-cl list searches`: what a storage holds."""

from __future__ import annotations

from pathlib import Path

from tests.support.console import Console
from tests.support.report_cases import Case


def test_the_searches_of_a_storage_are_listed(tmp_path: Path, console: Console) -> None:
    one, other = Case(tmp_path, "one"), Case(tmp_path, "other")
    one.add([0.5, 0.6], "baseline")
    one.finish()
    one.confirm()
    for case in (one, other):
        case.write()
    damaged = tmp_path / "runs" / "damaged" / "journal.jsonl"
    damaged.parent.mkdir()
    damaged.write_text("{}\n{}\n")
    command = f"list searches --storage {tmp_path / 'runs'}"
    first, *rest = console.document(command)
    assert first == {"name": "damaged", "data": None, "trials": None, "state": "damaged", "verdict": None}
    assert [list(row.values()) for row in rest] == [
        ["one", rest[0]["data"], 1, "finished", "better"], ["other", rest[0]["data"], 0, "not finished", None]
    ]  # fmt: skip
    shown = console.call(command)
    assert "better" in shown.out and f"{damaged}:1" in shown.err
    assert "tune-cl run" in console.call(f"list searches --storage {tmp_path}").out
