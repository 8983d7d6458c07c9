"""The console as scripts use it: exit statuses, one JSON document on stdout, help, lists; any encoding.

What is refused is in test_bad_configuration.py.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from inspect import cleandoc
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.builders import tiny_data
from tests.support.commands import ROOT
from tests.support.console import SMALL_OPTIONS, Console
from tests.support.trec_folder import write_trec_folder
from trainables.core.errors import DataError, Interrupted, Problem, WorkFailed
from tune_cl.cli import COMMANDS, DONE, Parser, command_of, parser_of
from tune_cl.cli.look import kinds
from tune_cl.experiment.load import SpaceOptions, requested_experiment


def raising(error: BaseException) -> Callable[[object], Any]:
    def execute(options: object) -> None:
        raise error

    return execute


def stopped_while_stopping(options: object) -> None:
    try:
        raise Interrupted("stopped; go on with: x") from None
    finally:
        raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("execute", "status", "told"),
    [
        (lambda options: [], 0, ""),
        (raising(WorkFailed("the teacher failed")), 1, "error: the teacher failed"),
        (raising(RuntimeError("a bug")), 1, "error: RuntimeError: a bug; --debug shows where"),
        (raising(DataError(Problem("a.tsv:3", "no tab", "a tab"))), 2, "error: a.tsv:3: no tab; a tab"),
        (raising(Interrupted("stopped; go on with: x")), 130, "stopped; go on with: x"),
        (stopped_while_stopping, 130, "stopped; go on with: x"),
    ],
)
def test_exit_statuses(
    execute: Callable[[object], Any], status: int, told: str, monkeypatch: pytest.MonkeyPatch, console: Console
) -> None:
    monkeypatch.setattr("tune_cl.cli.look.ListCommand.execute", staticmethod(execute))
    shown = console.call("list rankers --json", status=status)
    assert shown == ("" if status else "[]\n", told and f"{told}\n")


def test_a_stopped_command_can_be_copied_and_shows_no_password(
    monkeypatch: pytest.MonkeyPatch, console: Console
) -> None:
    monkeypatch.setattr("tune_cl.cli.search.RunCommand.execute", staticmethod(raising(KeyboardInterrupt())))
    monkeypatch.setattr("shutil.which", str)
    told = console.call("run 'my space.yaml' --tracking-uri http://me:word@host:5000", status=130).err
    assert told.endswith(" tune-cl run 'my space.yaml' --tracking-uri http://***@host:5000\n")


def test_json_has_no_number_that_is_none(monkeypatch: pytest.MonkeyPatch, console: Console) -> None:
    found = {"a": float("nan"), "b": [float("inf"), -float("inf")], "c": (np.float32(0.5), np.int64(3)), 4: None}
    monkeypatch.setattr("tune_cl.cli.look.ListCommand.execute", staticmethod(lambda options: found))
    assert console.document("list rankers") == {"a": None, "b": ["inf", "-inf"], "c": [0.5, 3], "4": None}


@pytest.mark.parametrize("kind", kinds())
def test_list_names_what_there_is(kind: str, console: Console) -> None:
    rows = console.document(f"list {kind}")
    assert rows and all(row.keys() == {"name", "summary", "source"} and row["name"] for row in rows)
    assert all("first 10" in row["summary"] for row in rows if row["name"].endswith("@10")), "a metric and its cut"


@pytest.mark.parametrize("name", COMMANDS)
def test_the_help_of_a_command_is_whole(name: str) -> None:
    command = command_of(name)
    command.add_arguments(parser := Parser(prog=name))
    told = {action.dest: action.help or "" for action in parser._actions}
    assert all(told.values()), "every argument has a text"
    assert all("ir_datasets:NAME" in told[key] for key in told.keys() & {"data"})
    assert all("(default " in told[key] for key in told.keys() & {"split"})
    head, *lines = cleandoc(command.__doc__ or "").split("\n\n")[0].splitlines()
    assert (head == "Examples:" and lines) or head.startswith(f"Example: tune-cl {name} ")
    assert all(line.startswith(f"  tune-cl {name} ") for line in lines)


def test_options_are_keys_of_the_experiment() -> None:
    def experiment(*given: str) -> Any:
        options = parser_of("check", command_of("check")).parse_args(["quickstart", *given])
        return requested_experiment(options.space, SpaceOptions(**SpaceOptions.given(options)), options.overrides)

    made = experiment("--trials", "7", "--max-iterations", "3", "--seed", "5", "--ranker", "knrm")
    run = made.base.run
    assert (made.trials, run.training.max_iterations, made.seed, run.ranker.name) == (7, 3, 5, "knrm")
    assert experiment("--seed", "5", "--set", "seed=9", "--set", "seed=8").seed == 8, "the last one counts"


# -- as a process --------------------------------------------------------------------------------------------------


def tune_cl(folder: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[bytes]:
    given = {key: value for key, value in os.environ.items() if key != "COLUMNS"}
    return subprocess.run(
        [sys.executable, "-m", "tune_cl", *arguments],
        cwd=folder, env=given | {"PYTHONPATH": str(ROOT)} | environment, capture_output=True,
    )  # fmt: skip


@pytest.mark.smoke
@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_a_result_is_shown_in_any_encoding(encoding: str, tmp_path: Path) -> None:
    done = tune_cl(tmp_path, "list", "scorings", PYTHONIOENCODING=encoding)
    assert done.returncode == DONE and b"context_words" in done.stdout and done.stderr == b""


@pytest.mark.smoke
def test_list_in_a_pipe_is_a_line_an_entry(console: Console) -> None:
    shown = tune_cl(console.folder, "list", "rankers").stdout.decode().splitlines()
    assert [line.split()[0] for line in shown[2:]] == [row["name"] for row in console.document("list rankers")]


@pytest.mark.smoke
def test_stdout_holds_the_json_alone_whatever_libraries_print(tmp_path: Path) -> None:
    write_trec_folder(tiny_data(queries={"train": 30, "dev": 12, "test": 12}, candidates=5, turns=1), tmp_path / "data")
    done = tune_cl(tmp_path, "train", "--data", "data", *SMALL_OPTIONS, "--json")
    assert done.returncode == DONE, done.stderr
    assert json.loads(done.stdout)["dev_best"] > 0 and b"iteration 3/3" in done.stderr
