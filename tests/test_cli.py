"""The console as scripts use it: exit statuses, one JSON document on stdout, help, lists.

What is refused is in test_bad_configuration.py.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.builders import tiny_data
from tests.support.commands import ROOT
from tests.support.console import SMALL_OPTIONS, Console, parsed
from tests.support.report_cases import Case
from tests.support.trec_folder import write_trec_folder
from trainables.core.errors import DataError, Interrupted, Problem, WorkFailed
from tune_cl.api import listing
from tune_cl.cli import DONE, plain
from tune_cl.cli.commands import FUNCTIONS, command
from tune_cl.cli.texts import TEXTS


def raising(error: BaseException) -> Callable[[object], Any]:
    def parts(kind: object) -> None:
        raise error

    return parts


def stopped_while_stopping(kind: object) -> None:
    try:
        raise Interrupted("stopped; go on with: x") from None
    finally:
        raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("parts", "status", "told"),
    [
        (lambda kind: [], 0, ""),
        (raising(WorkFailed("the teacher failed")), 1, "error: the teacher failed"),
        (raising(RuntimeError("a bug")), 1, "error: RuntimeError: a bug; --debug shows where"),
        (raising(DataError(Problem("a.tsv:3", "no tab", "a tab"))), 2, "error: a.tsv:3: no tab; a tab"),
        (raising(Interrupted("stopped; go on with: x")), 130, "stopped; go on with: x"),
        (stopped_while_stopping, 130, "stopped; go on with: x"),
    ],
)
def test_exit_statuses(
    parts: Callable[[object], Any], status: int, told: str, monkeypatch: pytest.MonkeyPatch, console: Console
) -> None:
    monkeypatch.setattr(listing, "parts", parts)
    shown = console.call("list rankers --json", status=status)
    assert shown == ("" if status else "[]\n", told and f"{told}\n")
    if status == 1:
        assert "Traceback" in console.call("list rankers --debug", status=status).err


def test_a_stopped_command_can_be_copied_and_shows_no_password(
    monkeypatch: pytest.MonkeyPatch, console: Console
) -> None:
    monkeypatch.setattr("tune_cl.api.start.requested_experiment", lambda *_, **__: raising(KeyboardInterrupt())(None))
    monkeypatch.setattr("shutil.which", str)
    told = console.call("run 'my space.yaml' --tracking-uri http://me:word@host:5000", status=130).err
    assert told.endswith(" tune-cl run 'my space.yaml' --tracking-uri http://***@host:5000\n")


def test_json_has_no_number_that_is_none() -> None:
    found = {"a": float("nan"), "b": [float("inf"), -float("inf")], "c": (0.5, 3), 4: None}
    assert plain(found) == {"a": None, "b": ["inf", "-inf"], "c": [0.5, 3], "4": None}


@pytest.mark.parametrize("kind", listing.PLACES)
def test_list_names_what_there_is(kind: str, console: Console) -> None:
    rows = [listing.Part.model_validate(row) for row in console.document(f"list {kind}")]
    assert rows == listing.parts(kind) and all(row.name and row.summary for row in rows)


def test_the_searches_of_a_storage_are_listed(tmp_path: Path, console: Console) -> None:
    one, other = Case(tmp_path, "one"), Case(tmp_path, "other")
    one.add([0.5, 0.6], "baseline")
    one.finish()
    for case in (one, other):
        case.write()
    damaged = tmp_path / "runs" / "damaged" / "journal.jsonl"
    damaged.parent.mkdir()
    damaged.write_text("{}\n{}\n")
    command = f"list searches --storage {tmp_path / 'runs'}"
    first, *rest = console.document(command)
    assert first == {"name": "damaged", "data": None, "trials": None, "state": "damaged", "verdict": None}
    assert [[row["name"], row["trials"], row["state"]] for row in rest] == [
        ["one", 1, "finished"], ["other", 0, "not finished"]
    ]  # fmt: skip
    shown = console.call(command)
    assert "finished" in shown.out and str(damaged) in shown.err
    assert "tune-cl run" in console.call(f"list searches --storage {tmp_path}").out


# -- arguments -----------------------------------------------------------------------------------------------------


def test_every_command_has_a_text_and_help_with_examples(console: Console) -> None:
    assert TEXTS.keys() == FUNCTIONS.keys()
    for name in FUNCTIONS:
        shown = console.call(f"{name} --help").out
        assert f"\n  tune-cl {name} " in shown and "--json" in shown and len(shown.split("\n\n")) > 3
        assert all(parameter.help for parameter in command(name).params), name


def test_options_have_the_values_that_are_typed() -> None:
    given = parsed(["run", "--json", "q.yaml", "--trials", "7", "--set", "a=1", "--plugin", "p.py", "--set", "b=2"])
    assert (given["space"], given["trials"], given["overrides"]) == ("q.yaml", 7, ("a=1", "b=2"))
    assert given["storage"] == "./tune_cl_runs" and given["data"] is None


def test_the_home_folder_is_that_of_the_user(console: Console, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(console.folder / "home"))
    write_trec_folder(tiny_data(queries=4, candidates=3, turns=1), console.folder / "data")
    console.call("score data random --output=~/d.tsv")
    assert (console.folder / "home" / "d.tsv").is_file() and not Path("~").exists()


# -- as a process --------------------------------------------------------------------------------------------------


def tune_cl_process(folder: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[bytes]:
    given = {key: value for key, value in os.environ.items() if key != "COLUMNS"}
    return subprocess.run(
        [sys.executable, "-m", "tune_cl", *arguments],
        cwd=folder, env=given | {"PYTHONPATH": str(ROOT)} | environment, capture_output=True,
    )  # fmt: skip


@pytest.mark.smoke
def test_list_in_a_pipe_is_a_line_an_entry_and_columns_of_0_are_unknown(console: Console) -> None:
    names = [row["name"] for row in console.document("list rankers")]
    for environment in ({}, {"COLUMNS": "0"}):
        shown = tune_cl_process(console.folder, "list", "rankers", **environment).stdout.decode().splitlines()
        assert [line.split()[0] for line in shown[2:]] == names


@pytest.mark.smoke
def test_help_is_there_at_once_and_versions_are_told(tmp_path: Path) -> None:
    began = time.monotonic()
    program = "import sys, tune_cl.cli; assert not {'torch', 'ray', 'mlflow', 'pandas', 'numpy'} & sys.modules.keys()"
    assert subprocess.run([sys.executable, "-c", program], env=os.environ | {"PYTHONPATH": str(ROOT)}).returncode == 0
    assert time.monotonic() - began < 10  # on a busy machine
    shown = tune_cl_process(tmp_path, "--help").stdout.decode()
    assert all(f"\n  {name} " in shown for name in FUNCTIONS)
    shown = tune_cl_process(tmp_path, "--version").stdout.decode()
    assert all(word in shown for word in ("tune-cl ", "torch ", "ray ", "Python ", "CPU", "GPU"))


@pytest.mark.smoke
def test_stdout_holds_the_json_alone_whatever_libraries_print(tmp_path: Path) -> None:
    write_trec_folder(tiny_data(queries={"train": 30, "dev": 12, "test": 12}, candidates=5, turns=1), tmp_path / "data")
    done = tune_cl_process(tmp_path, "train", "--data", "data", *SMALL_OPTIONS, "--json")
    assert done.returncode == DONE, done.stderr
    assert json.loads(done.stdout)["dev_best"] > 0 and b"iteration 3/3" in done.stderr
