"""Shows a running search on stderr: a live panel on a terminal, elsewhere a line for each finished trial."""

from __future__ import annotations

import time
from collections.abc import Iterable
from math import inf
from typing import ClassVar

from rich.console import Console, Group
from rich.constrain import Constrain
from rich.live import Live
from rich.table import Table
from rich.text import Text

from trainables.core.prose import counted, say, time_left, visible, wrapped
from trainables.evaluation.metrics import in_words
from tune_cl.experiment.arms import CURRICULUM, PLAIN, Arm
from tune_cl.history.state import RUNNING, Dev, SearchState, TrialState
from tune_cl.space.wording import OF_CURRICULUM

PAUSED = "paused"
MARGIN = 3  # free columns right of the panel, for the terminal's ^C, and free lines below it
KNOWN = 3  # iterations from which on the pace is known
TRIALS = "trials"
REFRESHES = 2  # of the panel in a second
Ranked = list[tuple[TrialState, Dev]]


class Panel:
    """A context; call `update` after each event. `trials`: how many there will be, of both arms. `noun`: what they are;
    trainings of a confirmation, whose ends are told elsewhere, are not ranked."""

    on_terminal: ClassVar[bool] = True  # whether a terminal shows it live

    def __init__(self, trials: int, iterations: int, state: SearchState, noun: str = TRIALS):
        self.trials, self.iterations, self.noun = trials, iterations, noun
        self.console = Console(stderr=True, markup=False, emoji=False, highlight=False)
        self.started = time.monotonic()
        self.iterations_before = state.iterations  # of earlier sessions: they say nothing about the pace now
        self.seen = 0  # trials looked at so far
        self.reported = {trial.trial for trial in state.trials.values() if trial.outcome}
        self.open: set[str] = set()
        self.live = None
        if self.on_terminal and self.console.is_terminal:
            self.live = Live(console=self.console, refresh_per_second=REFRESHES, transient=True)
        self.shown_until, self.latest = self.started, state

    def __enter__(self) -> Panel:
        if self.live:
            self.live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self.live:
            self.live.stop()

    def say(self, line: str) -> None:
        """Prints a line above the panel."""
        text = wrapped(visible(line), self.console.file)  # rich would break even addresses that are longer than a line
        self.console.print(text, soft_wrap=True)

    def update(self, state: SearchState) -> None:
        """Called after every event, so it does little: the panel, which compares all trials, is rebuilt only when it is
        shown."""
        if len(state.trials) != self.seen:  # looks for new trials only if there are any: a search may have thousands
            self.seen, self.open = len(state.trials), state.trials.keys() - self.reported
        for name in sorted(self.open):
            trial = state.trials[name]
            if trial.outcome:
                self.reported.add(name)
                self.open.remove(name)
                if self.noun != TRIALS:
                    continue
                if trial.outcome == "failed":  # on a terminal too: the panel has no room for the reason
                    why, after = trial.reason or "no reason given", counted(trial.iterations, "iteration")
                    self.say(f"{trial.trial} failed after {after}: {why} ({trial.words})")
                elif not self.live:
                    self.say(
                        f"{trial.trial} {trial.outcome}: {self._value(state, trial)} "
                        f"after {counted(trial.iterations, 'iteration')}, {trial.words}"
                    )
        if self.live and time.monotonic() >= self.shown_until:
            self.live.update(self.panel(state))
            self.shown_until = time.monotonic() + 1 / REFRESHES

    def panel(self, state: SearchState) -> Constrain:
        """The headline and a line for each trial, as far as the terminal has room. Narrower than the terminal: else ^C,
        which the terminal appends to the last line, would wrap it, and the panel could not be wiped off."""
        width, height = self.console.width - MARGIN, self.console.height - MARGIN
        ranked = state.ranked()  # takes the best value of every trial: once for all parts of the panel
        headline = self._headline(state, ranked)
        lines = len(headline.wrap(self.console, width))
        trials = in_order(state, ranked)
        room = max(1, height - lines - 1)  # the column names take a line
        shown = trials if len(trials) <= room else trials[: max(1, room - 1)]
        rest = trials[len(shown) :]
        return Constrain(Group(headline, self._table(state, shown), *([more(rest)] if rest else [])), width)

    def _headline(self, state: SearchState, ranked: Ranked) -> Text:
        ended = sum(trial.outcome is not None for trial in state.trials.values())
        text = f"{state.name}: {ended} of {self.trials} {self.noun} done, {counted(state.iterations, 'iteration')}"
        over_curricula = any(key.startswith(OF_CURRICULUM) for key in state.opened_in(CURRICULUM))
        names = {PLAIN: "plain", CURRICULUM: "curriculum" if over_curricula else "others"}
        best = [f"{names[trial.arm]} {at.dev:.4f} ({trial.trial})" for trial, at in best_of_arms(ranked)]
        if best and self.noun == TRIALS:
            text += f" · best dev {in_words(state.metric)}: {', '.join(best)}"
        return Text(visible(text) + f" · {self._time_left(state)}", style="bold")

    def _time_left(self, state: SearchState) -> str:
        """Time left at this session's pace, if the trials to come take as many iterations as those that have ended."""
        done = state.iterations - self.iterations_before
        lengths = [trial.iterations for trial in state.trials.values() if trial.outcome] or [self.iterations]
        open_trials = [trial for trial in state.trials.values() if trial.outcome is None]
        mean = sum(lengths) / len(lengths)
        missing = (self.trials - len(state.trials)) * mean + sum(
            max(0.0, mean - trial.iterations) for trial in open_trials
        )
        if done < KNOWN:
            return "time left: not known yet"
        seconds = missing * (time.monotonic() - self.started) / done
        return time_left(max(seconds, 0.0))

    def _table(self, state: SearchState, trials: Iterable[TrialState]) -> Table:
        grid = Table(box=None, pad_edge=False)
        noun = self.noun.split()[0].removesuffix("s")
        for column in (noun, "state", "iter.", f"dev {in_words(state.metric)}", "parameters"):
            grid.add_column(column, no_wrap=column != "parameters")
        for trial in trials:
            params = Text(visible(trial.words), no_wrap=True, overflow="ellipsis")  # the only column that is cut to fit
            cells = (trial.trial, trial_status(trial), str(trial.iterations), self._value(state, trial))
            grid.add_row(*(Text(visible(cell)) for cell in cells), params)
        return grid

    @staticmethod
    def _value(state: SearchState, trial: TrialState) -> str:
        at = trial.best(state.metric)
        return f"{at.dev:.4f}" if at else "-"


class StatusPanel(Panel):
    """For a notebook: says the headline now and then, which replaces the line before."""

    on_terminal = False
    ended = False  # without an error: fewer trials than planned may have been enough

    def __exit__(self, kind: object, *_: object) -> None:
        self.ended = kind is None
        self._show()

    def say(self, line: str) -> None:
        say(line)

    def update(self, state: SearchState) -> None:
        self.latest = state
        if time.monotonic() >= self.shown_until:
            self._show()
            self.shown_until = time.monotonic() + 1 / REFRESHES

    def _show(self) -> None:
        say(self._headline(self.latest, self.latest.ranked()).plain)

    def _time_left(self, state: SearchState) -> str:
        """Nothing is left once all trials have ended: the line stays as the last one said."""
        ended = sum(trial.outcome is not None for trial in state.trials.values())
        return "done" if self.ended or ended >= self.trials else super()._time_left(state)


class NoPanel(Panel):
    """For callers who want no progress: nothing is shown; what is said goes where notes go."""

    on_terminal = False

    def say(self, line: str) -> None:
        say(line)

    def update(self, state: SearchState) -> None:
        """Shows nothing."""


PanelKind = type[Panel]


def best_of_arms(ranked: Ranked) -> Ranked:
    """The best trial of each arm, the better one first."""
    best: dict[Arm, tuple[TrialState, Dev]] = {}
    for trial, at in ranked:
        best.setdefault(trial.arm, (trial, at))
    return list(best.values())


def in_order(state: SearchState, ranked: Ranked) -> list[TrialState]:
    """The running trials, the best of each arm, the default, then the others that have ended and those that wait at a
    rung, each best first; those that failed, and those under further seeds, are the last. `ranked`: of `state`."""
    trials, baseline = state.by_number(), state.baseline_trial()
    reached = {trial.trial: at.dev for trial, at in ranked}
    running = [trial for trial in trials if trial_status(trial) == RUNNING]
    first = [*running, *(trial for trial, _ in best_of_arms(ranked)), *([baseline] if baseline else [])]
    best_first = sorted(trials, key=lambda trial: (trial.outcome is None, -reached.get(trial.trial, -inf)))
    return list({trial.trial: trial for trial in [*first, *best_first]}.values())


def trial_status(trial: TrialState) -> str:
    """How a trial ended; else whether it runs or is paused, waiting to prove worth more iterations."""
    return (trial.outcome or (PAUSED if trial.paused else RUNNING)).replace("_", " ")


def more(trials: list[TrialState]) -> str:
    """The line that stands for trials not shown."""
    paused = sum(trial_status(trial) == PAUSED for trial in trials)
    return f"… and {len(trials)} more" + (f" ({paused} paused)" if paused else "")
