"""A search as it runs, on stderr: a live panel on a terminal, one line a finished trial elsewhere."""

from __future__ import annotations

import time
from typing import Any

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from tune_cl.state import SearchState, TrialState

CURRICULUM_KEYS = (
    "ranker.name",
    "curriculum.pacing",
    "curriculum.n",
    "curriculum.scoring",
    "curriculum.weighting",
    "curriculum.m",
    "curriculum.anti",
    "curriculum.subset",
    "curriculum.objective_switch",
    "curriculum.switch",
    "training.lr",
)
SHOWN = 12
REFRESHES = 2  # of the panel, a second


class Progress:
    """`update` with each event's state; use as a context. `trials`: how many there will be, the baseline included."""

    def __init__(self, trials: int, iterations: int, state: SearchState):
        self.trials, self.iterations = trials, iterations
        self.console = Console(stderr=True)
        self.started = time.monotonic()
        self.iterations_before = state.iterations  # of earlier sessions, which say nothing about the pace now
        self.known = 0  # trials looked at so far
        self.told = {trial.trial for trial in state.trials.values() if trial.outcome}
        self.open: set[str] = set()
        self.live = (
            Live(console=self.console, refresh_per_second=REFRESHES, transient=True)
            if self.console.is_terminal
            else None
        )
        self.shown_until = self.started

    def __enter__(self) -> Progress:
        if self.live:
            self.live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self.live:
            self.live.stop()

    def say(self, line: str) -> None:
        """A line above the panel."""
        self.console.print(line, highlight=False, markup=False, soft_wrap=True)

    def update(self, state: SearchState) -> None:
        """Called after every event, so it does little: the panel, which compares all trials, is made anew only when it
        is shown."""
        if len(state.trials) != self.known:  # else the open ones are the same: long searches have thousands
            self.known, self.open = len(state.trials), state.trials.keys() - self.told
        for trial in [state.trials[name] for name in sorted(self.open)]:
            if trial.outcome:
                self.told.add(trial.trial)
                self.open.remove(trial.trial)
                if not self.live:
                    self.say(
                        f"{trial.trial} {trial.outcome}: {self._value(state, trial)} "
                        f"after {trial.iterations} iterations, {label(trial)}"
                    )
        if self.live and time.monotonic() >= self.shown_until:
            self.live.update(Group(self._headline(state), self._table(state)))
            self.shown_until = time.monotonic() + 1 / REFRESHES

    def _headline(self, state: SearchState) -> Text:
        ended = sum(trial.outcome is not None for trial in state.trials.values())
        text = f"{state.name}: {ended} of {self.trials} trials done, {state.iterations} iterations"
        best, baseline = state.best(), state.baseline_trial()
        if best:
            text += f" · best dev {state.metric} {best[1].dev:.4f} ({best[0].trial})"
        if baseline and (at := baseline.best(state.metric)):
            text += f" · baseline {at.dev:.4f}"
        return Text(text + f" · {self._left(state)}", style="bold")

    def _left(self, state: SearchState) -> str:
        """Time left at the pace so far, if the trials to come take as many iterations as those that have ended."""
        done = state.iterations - self.iterations_before
        lengths = [trial.iterations for trial in state.trials.values() if trial.outcome] or [self.iterations]
        open_trials = [trial for trial in state.trials.values() if trial.outcome is None]
        mean = sum(lengths) / len(lengths)
        missing = (self.trials - len(state.trials)) * mean + sum(
            max(0.0, mean - trial.iterations) for trial in open_trials
        )
        if not done:
            return "time left: not known yet"
        seconds = missing * (time.monotonic() - self.started) / done
        return f"about {seconds / 60:.0f} min left" if seconds >= 90 else f"about {seconds:.0f} s left"

    def _table(self, state: SearchState) -> Table:
        grid = Table(box=None, pad_edge=False)
        for column in ("trial", "state", "iteration", f"best {state.metric}", "parameters"):
            grid.add_column(column, no_wrap=column != "parameters")
        running = [trial for trial in state.by_number() if trial.outcome is None]
        ended = [trial for trial in state.by_number() if trial.outcome]
        best_first = sorted(ended, key=lambda trial: -_dev(state, trial))
        for trial in (running + best_first)[:SHOWN]:
            grid.add_row(
                trial.trial, trial.outcome or "running", str(trial.iterations), self._value(state, trial), label(trial)
            )
        return grid

    @staticmethod
    def _value(state: SearchState, trial: TrialState) -> str:
        at = trial.best(state.metric)
        return f"{at.dev:.4f}" if at else "-"


def _dev(state: SearchState, trial: TrialState) -> float:
    at = trial.best(state.metric)
    return at.dev if at else float("-inf")


def label(trial: TrialState) -> str:
    """The trial's choices in a line."""
    again = f", again with seed {trial.seed}" if trial.repeat_of else ""
    return ("baseline: no curriculum" if trial.baseline else describe(trial.params)) + again


def describe(params: dict[str, Any]) -> str:
    """The ranker and curriculum of flat parameters in a line: those in force, without their section."""
    known = {key: params[key] for key in CURRICULUM_KEYS if params.get(key) not in (None, "none", False)}
    parts = [f"{key.split('.')[-1]} {_short(value)}" for key, value in known.items() if key != "ranker.name"]
    return ", ".join([str(params.get("ranker.name", "")), *parts]).removeprefix(", ")


def _short(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)
