"""Texts of others (data, ids, YAML files, answers of servers) cannot command the terminal that shows them."""

from __future__ import annotations

import json
import logging
import sys
import unicodedata
from io import StringIO
from pathlib import Path

import pytest

from tests.support.data_folders import trec_files, write_folder
from tests.support.panel_states import state_of, trial
from trainables.core.prose import say, visible
from tune_cl.cli import BAD_INPUT, DONE, FAILED, main
from tune_cl.cli.tables import table
from tune_cl.search.progress_panel import Panel

RED = "\x1b[31m"
EVIL = f"{RED}\x9b31m\u202e[bold]:smile:"
SHOWN = r"\u001b[31m\u009b31m\u202e[bold]:smile:"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A TREC folder whose query ids, document ids and texts all hold EVIL."""
    files = trec_files(runs=False)
    for name, text in files.items():
        for word in ("train-a", "dev-a", "test-a", "d1", "cat"):
            text = text.replace(word, f"{word}{EVIL}")
        files[name] = text
    return write_folder(tmp_path / "data", files)


def printed(capfd: pytest.CaptureFixture[str]) -> str:
    """All that was printed; fails if a character in it commands the terminal."""
    out, err = capfd.readouterr()
    commanding = {letter for letter in out + err if unicodedata.category(letter) == "Cc" or letter == "\u202e"}
    assert commanding <= {"\n", "\t"}
    return out + err


@pytest.mark.parametrize("options", [[], ["--json"]])
def test_a_data_set_is_described_without_its_commands(
    folder: Path, options: list[str], capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(["data", str(folder), *options]) == DONE
    assert SHOWN in printed(capfd)


def test_difficulties_are_shown_without_the_commands_of_texts_and_ids(
    folder: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(["score", str(folder), "context_words", "--output", str(tmp_path / "out.tsv")]) == DONE
    assert f"a{SHOWN}" in printed(capfd)
    assert EVIL in (tmp_path / "out.tsv").read_text()  # a file holds the ids as they are


def test_json_means_what_the_data_holds(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["data", str(folder), "--json"]) == DONE
    example = json.loads(capfd.readouterr().out)["examples"]["test"][0]
    assert example["query"] == f"test-a{EVIL}"


@pytest.mark.parametrize("options", [[], ["--debug"]])
def test_an_error_names_a_key_without_its_commands(
    tmp_path: Path, options: list[str], capfd: pytest.CaptureFixture[str]
) -> None:
    space = tmp_path / "space.yaml"
    space.write_text(f"ranker: conv_knrm\n{json.dumps(EVIL)}: 1\n")
    assert main(["check", str(space), "--data", "docstrings", *options]) == BAD_INPUT
    assert SHOWN in printed(capfd)


def test_an_error_quotes_a_wrong_line_without_its_commands(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with (folder / "qrels.test.txt").open("a") as file:
        file.write(f"test-a 0 d2 {RED}\n")
    assert main(["data", str(folder)]) == BAD_INPUT
    printed(capfd)


def test_work_that_fails_says_why_without_commands(
    folder: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / f"no-folder{RED}" / "x.tsv"
    output.parent.write_text("a file")
    assert main(["score", str(folder), "turns", "--output", str(output)]) in (BAD_INPUT, FAILED)
    printed(capfd)


@pytest.mark.parametrize("terminal", [False, True])
def test_the_progress_of_trials_shows_choices_and_reasons_without_commands(
    terminal: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setattr(sys, "stderr", out := StringIO())
    failed, running = trial(1, 0.2), trial(2, 0.3)
    for events in (failed, running):
        events[0]["chosen"]["curriculum.pacing"] = events[0]["params"]["curriculum.pacing"] = EVIL
    failed.append({"event": "end", "outcome": "failed", "reason": EVIL, "trial": "t0001", "time": 2.0})
    before, after = state_of([trial(0, 0.1)]), state_of([trial(0, 0.1), failed, running])
    progress = Panel(30, 10, before)
    progress.update(after)
    if terminal:
        progress.console.print(progress.panel(after))
    shown = out.getvalue()
    assert f": {SHOWN} (" in shown and shown.count(SHOWN) == (4 if terminal else 2)
    assert visible(shown) == shown


def test_notes_tables_and_warnings_have_no_commands(capfd: pytest.CaptureFixture[str]) -> None:
    say(f"note: {EVIL}")
    print(table(["name", "[red]value"], [[EVIL, 1]]))
    main(["--version"])  # prepares the streams
    assert logging.lastResort
    logging.lastResort.handle(logging.LogRecord("any", logging.WARNING, "", 0, "MLflow says %s", (EVIL,), None))
    out = printed(capfd)
    assert out.count(SHOWN) == 3 and "[red]value" in out


def test_lines_and_tabs_stay() -> None:
    assert visible("a\tb\nc é 日本 \r") == "a\tb\nc é 日本 \\u000d"
