"""`tune-cl searches` and `tune-cl ui`: what a storage holds, and its trials in MLflow."""

from __future__ import annotations

import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from tests.support.console import Console
from tests.support.report_cases import Case
from tests.support.tracking_cases import fresh_database


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
    command = f"searches --storage {tmp_path / 'runs'}"
    first, *rest = console.document(command)
    assert first == {"name": "damaged", "data": None, "trials": None, "state": "damaged", "verdict": None}
    assert [list(row.values()) for row in rest] == [
        ["one", rest[0]["data"], 1, "finished", "better"], ["other", rest[0]["data"], 0, "not finished", None]
    ]  # fmt: skip
    shown = console.call(command)
    assert "better" in shown.out and f"{damaged}:1" in shown.err
    assert "tune-cl run" in console.call(f"searches --storage {tmp_path}").out


def test_a_server_has_the_page_of_the_trials(tmp_path: Path, console: Console) -> None:
    Case(tmp_path).write()
    command = f"ui toy --storage {tmp_path / 'runs'} --tracking-uri"
    assert console.document(command, "http://user:hunter2@there/") == {
        "address": "http://***@there/", "tracking_uri": "http://***@there/"
    }  # fmt: skip
    console.refused([f"--storage: no {tmp_path}/none.db"], command, f"sqlite:///{tmp_path}/none.db")
    console.refused(["--tracking-uri: UI own"], command, "databricks")


@pytest.mark.slow
def test_the_ui_shows_a_database_until_it_is_stopped(tmp_path: Path) -> None:
    Case(tmp_path).write()
    command = [sys.executable, "-m", "tune_cl", "ui", "toy", "--storage", str(fresh_database(tmp_path / "runs"))]
    shown = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert shown.stderr
    address = next(line for line in shown.stderr if line.startswith("open ")).removeprefix("open ").strip()
    with urllib.request.urlopen(address) as answer:
        assert "MLflow" in answer.read().decode()
    shown.send_signal(signal.SIGINT)
    assert shown.communicate(timeout=60)[0] == f"{address}\n" and shown.returncode == 0
    with pytest.raises(OSError):
        urllib.request.urlopen(address)
