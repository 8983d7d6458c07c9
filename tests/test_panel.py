"""The progress of a search on the terminal: the panel, and the lines above it."""

from __future__ import annotations

import pytest
from rich.console import Console

from tests.support.panel_states import state_of, trial
from tune_cl.history.journal import Event
from tune_cl.history.state import SearchState
from tune_cl.search.progress_panel import Panel
from tune_cl.space.wording import describe


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


@pytest.mark.parametrize(("width", "height"), [(80, 24), (120, 40), (60, 10)])
def test_the_panel_fits_the_terminal_and_leaves_room_behind_it(width: int, height: int) -> None:
    lines = panel(crowd(), width, height)
    assert len(lines) <= height - 3 and max(map(len, lines)) <= width - 3


def test_the_panel_shows_what_runs_the_best_and_the_baseline_before_what_waits() -> None:
    lines = panel(crowd(), 80, 24)
    at = next(place for place, line in enumerate(lines) if line.startswith("trial "))
    rows = [line.split()[:2] for line in lines[at + 1 : -1]]
    assert rows[:5] == [["t0003", "running"], ["t0001", "completed"], ["t0000", "baseline"], ["t0002", "stopped"],
                        ["t0023", "paused"]]  # fmt: skip
    left = len(crowd()) - len(rows)
    assert lines[-1] == f"… and {left} more ({left} paused)"
    assert "0.5000 (t0001)" in (head := "".join(lines[:at])) and "baseline 0.4500" in head
    roomy = panel(crowd(), 120, 40)
    assert not any("more" in line for line in roomy) and sum(line.startswith("t0") for line in roomy) == len(crowd())


def test_a_panel_ranks_the_trials_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is made anew twice a second, on the search's own thread."""
    ranked, asked = SearchState.ranked, []
    monkeypatch.setattr(SearchState, "ranked", lambda state: asked.append(state) or ranked(state))
    panel(crowd(), 120, 40)
    assert len(asked) == 1


def test_a_trial_is_told_by_the_keys_that_the_space_opens() -> None:
    assert any(line.rstrip().endswith(" step delta=0.3 T=0.4") for line in panel(crowd(), 80, 24))
    chosen = {"pacing": "step", "n": None, "delta": 0.3, "T": 0.4, "scoring": "random", "anti": True, "m": 4}
    chosen |= {"weighting": "reciprocal_rank", "objective_switch": "none"}
    told = describe({f"curriculum.{key}": value for key, value in chosen.items()} | {"training.lr": 3e-5})
    assert told == "step random reciprocal_rank m=4 delta=0.3 T=0.4 anti lr=3e-05"
    assert describe({"curriculum.pacing": "none"}) == "no curriculum"
    assert (
        describe({"curriculum.pacing": "root", "curriculum.negatives.pacing": "step"}) == "root negatives.pacing=step"
    )


def test_why_a_trial_failed_is_told_as_it_fails(capfd: pytest.CaptureFixture[str]) -> None:
    failed = trial(1, 0.4, "failed")
    failed[-1] |= {"reason": "the training loss became nan in iteration 3"}
    progress = Panel(3, 10, state_of([]))
    progress.update(state_of([trial(0, 0.5, "completed"), failed]))
    told = " ".join(capfd.readouterr().err.split())
    assert "t0001 failed" in told and "the training loss became nan in iteration 3 (" in told
