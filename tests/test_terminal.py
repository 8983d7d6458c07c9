"""What a terminal shows: prose broken between words, tables, the panel of a search; and no text of others (data, ids,
YAML files, answers of servers) can command it."""

from __future__ import annotations

import json
import re
import sys
import time
import unicodedata
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from tests.support.data_folders import trec_files, write_folder
from tests.support.panel_states import state_of, trial
from tests.support.terminal import Terminal
from trainables.core import prose
from trainables.core.prose import phase, visible, wrapped
from tune_cl.cli import BAD_INPUT, DONE, main
from tune_cl.cli.tables import table
from tune_cl.history.journal import Event
from tune_cl.search.progress_panel import Panel, StatusPanel

Capture = pytest.CaptureFixture[str]
SENTENCE = "is -0.0092 map from the baseline; anything from -0.0172 to +0.0011 fits the data, word-by-word, p = 0.076"

# -- prose ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("width", [30, 40, 80])
def test_prose_is_broken_between_words_on_a_terminal_alone(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    lines = wrapped(SENTENCE, Terminal()).splitlines()
    assert len(lines) > 1 and max(map(len, lines)) <= width and " ".join(lines) == SENTENCE
    assert wrapped(SENTENCE, StringIO()) == SENTENCE


def test_a_phase_that_lasts_is_named_and_its_seconds_follow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", shown := StringIO())
    with phase("short"):
        pass
    assert not shown.getvalue()
    monkeypatch.setattr(prose, "PHASE_SECONDS", 0.01)
    with phase("reading x"):
        deadline = time.monotonic() + 60
        while "reading x ...\n" not in shown.getvalue():
            assert time.monotonic() < deadline
            time.sleep(0.001)
    assert re.fullmatch(r"reading x \.\.\.\nreading x: \d+\.\d s\n", shown.getvalue())


# -- tables --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("width", [20, 60, 100])
def test_words_numbers_and_intervals_are_never_broken(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    interval, spread = "+0.0123 [-0.0100, +0.0346]", "0.4670 ± 0.0070"
    label = "pacing=root n=10 scoring=response_words weighting=normalized_score m=4"
    headings = ["configuration", "mean ± sd", "difference [95 %]", "p adjusted"]
    monkeypatch.setenv("COLUMNS", str(width))
    rows = [(label, spread, interval, "0.1234"), ("BM25 over words (first stage)", "0.5", "", "")]
    shown = table(headings, rows)
    assert shown == table([*headings, ""], [(*row, "") for row in rows]), "without a heading and a text, no column"
    assert interval in shown and spread in shown and all(word in shown.split() for word in label.split())
    assert max(map(len, shown.splitlines())) <= max(width, 90)


# -- the panel of a search -----------------------------------------------------------------------------------------


def panel(trials: list[list[Event]], width: int, height: int) -> list[str]:
    """The lines of the panel on a terminal of that size."""
    state = state_of(trials)
    progress = Panel(30, 10, state)
    progress.console = Console(width=width, height=height)
    with progress.console.capture() as captured:
        progress.console.print(progress.panel(state))
    return captured.get().rstrip("\n").split("\n")


def crowd() -> list[list[Event]]:
    """One trial that runs, three that have ended, 20 that wait."""
    paused = [trial(number, 0.1 + number / 100, paused=True) for number in range(4, 24)]
    ended = [trial(1, 0.50, "completed"), trial(2, 0.20, "stopped_early")]
    return [trial(0, 0.45, "baseline"), *ended, trial(3, 0.3), *paused]


def test_the_panel_shows_what_runs_the_best_and_the_baseline_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tune_cl.search.progress_panel.ROWS", 5)
    lines = panel(crowd(), 80, 24)
    at = next(place for place, line in enumerate(lines) if line.startswith("trial "))
    rows = [line.split()[:2] for line in lines[at + 1 :]]
    assert rows == [["t0003", "running"], ["t0001", "completed"], ["t0000", "baseline"], ["t0002", "stopped"],
                    ["t0023", "paused"]]  # fmt: skip
    assert all(word in "".join(lines[:at]) for word in ("0.5000", "(t0001)", "0.4500"))


def test_the_time_left_is_known_after_three_iterations_and_trainings_are_told_elsewhere(capfd: Capture) -> None:
    progress = Panel(9, 10, state_of([]), "trainings")
    progress.console = Console(width=80, height=24)
    for count, known in ((2, False), (3, True)):
        state = state_of([trial(number, 0.4, "completed") for number in range(count)])
        progress.update(state)
        with progress.console.capture() as captured:
            progress.console.print(progress.panel(state))
        shown = captured.get()
        assert f"{count} of 9" in shown and "best" not in shown
        assert bool(re.search(r"\d+ s left", shown)) == known
    assert not capfd.readouterr().err


# -- texts of others -----------------------------------------------------------------------------------------------

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


def printed(capfd: Capture) -> str:
    """All that was printed; fails if a character in it commands the terminal."""
    shown = "".join(capfd.readouterr())
    commanding = {letter for letter in shown if unicodedata.category(letter) == "Cc" or letter == "\u202e"}
    assert commanding <= {"\n", "\t"}
    return shown


def test_results_are_shown_without_commands_and_files_and_json_mean_what_the_data_holds(
    folder: Path, tmp_path: Path, capfd: Capture
) -> None:
    assert main(["data", str(folder)]) == DONE
    assert SHOWN in printed(capfd)
    assert main(["data", str(folder), "--json"]) == DONE
    document = printed(capfd).splitlines()[-1]
    assert SHOWN in document and json.loads(document)["examples"]["test"][0]["query"] == f"test-a{EVIL}"
    assert main(["score", str(folder), "context_words", "--output", str(tmp_path / "out.tsv")]) == DONE
    assert printed(capfd) and EVIL in (tmp_path / "out.tsv").read_text()


def test_errors_are_shown_without_commands(folder: Path, tmp_path: Path, capfd: Capture) -> None:
    (tmp_path / "space.yaml").write_text(f"ranker: conv_knrm\n{json.dumps(EVIL)}: 1\n")
    for options in ([], ["--debug"]):
        assert main(["check", str(tmp_path / "space.yaml"), "--data", "docstrings", *options]) == BAD_INPUT
        assert SHOWN in printed(capfd)
    output = tmp_path / f"no-folder{RED}" / "x.tsv"
    output.parent.write_text("a file")
    assert main(["score", str(folder), "turns", "--output", str(output)]) == BAD_INPUT
    printed(capfd)
    with (folder / "qrels.test.txt").open("a") as file:
        file.write(f"test-a 0 d2 {RED}\n")
    assert main(["data", str(folder)]) == BAD_INPUT
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
    before, after = state_of([trial(0, 0.1)]), state_of([trial(0, 0.1, "completed"), failed, running])
    progress = Panel(30, 10, before)
    progress.update(after)
    if terminal:
        progress.console.print(progress.panel(after))
    shown = out.getvalue()
    assert f": {SHOWN} (" in shown and "t0001 failed" in shown and shown.count(SHOWN) == (4 if terminal else 2)
    assert visible(shown) == shown


def test_the_line_of_a_notebook_ends_without_time_left(capfd: Capture) -> None:
    state = state_of([trial(number, 0.4, "completed") for number in range(3)])
    with StatusPanel(5, 10, state_of([])) as progress:
        progress.update(state)
    last = capfd.readouterr().err.strip().splitlines()[-1]
    assert "left" not in last and "3 of 5 trials done" in last
