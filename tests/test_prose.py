"""Prose on a terminal, and elsewhere."""

from __future__ import annotations

import sys
from io import StringIO

import pytest

from tests.support.terminal import Terminal, result
from trainables.core.prose import wrapped
from tune_cl.cli.search_result import render
from tune_cl.history.state import replay
from tune_cl.search.progress_panel import Panel

SENTENCE = "is -0.0092 map from the baseline; anything from -0.0172 to +0.0011 fits the data, word-by-word, p = 0.076"


@pytest.mark.parametrize("width", [30, 40, 80])
def test_prose_is_broken_between_words(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    lines = wrapped(SENTENCE, Terminal()).splitlines()
    assert len(lines) > 1 and max(map(len, lines)) <= width
    assert " ".join(lines) == SENTENCE and {word for line in lines for word in line.split()} == set(SENTENCE.split())


def test_what_is_longer_than_a_line_stays_whole_and_lines_stay_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "30")
    address = "https://example.org/" + "long-" * 10
    told = wrapped(f"MLflow's runs are in {address} of this machine\nand more", Terminal()).splitlines()
    assert told == ["MLflow's runs are in", address, "of this machine", "and more"]


def test_prose_that_goes_to_no_terminal_is_not_broken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "30")
    assert wrapped(SENTENCE, StringIO()) == SENTENCE


def test_sentences_of_results_are_broken_and_commands_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.setattr(sys, "stdout", Terminal())
    lines = render(result(0.5, 0.4)).splitlines()
    assert max(len(line) for line in lines if "tune-cl" not in line) <= 60
    assert any("confirm x --storage /tmp/runs" in line for line in lines)


def test_notes_beside_the_panel_are_broken_between_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setattr(sys, "stderr", terminal := Terminal())
    event = {"event": "search", "name": "toy", "data": {}, "ranker": "knrm", "rankers": ["knrm"], "metric": "map"}
    event |= {"seed": 0, "baseline": "t0000", "yaml": "", "time": 0.0}
    progress = Panel(30, 10, replay([event]))
    progress.say(f"note: {SENTENCE}")
    lines = terminal.getvalue().splitlines()
    assert max(map(len, lines)) <= 40 and " ".join(lines) == f"note: {SENTENCE}"
