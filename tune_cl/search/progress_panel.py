"""Shows a running search on stderr: a live panel on a terminal, elsewhere a line for each finished trial."""

from __future__ import annotations

import time
from itertools import islice
from math import inf
from typing import Self

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from trainables.core.prose import counted, say, time_left, visible, wrapped
from trainables.evaluation.metrics import in_words
from tune_cl.experiment.arms import CURRICULUM, PLAIN, Arm
from tune_cl.history.state import RUNNING, Dev, SearchState, TrialState
from tune_cl.space.wording import OF_CURRICULUM

PAUSED = "paused"
KNOWN = 3  # iterations from which on the pace is known
ROWS = 12  # trials of the panel
TRIALS = "trials"
REFRESHES = 2  # of the panel in a second
Ranked = list[tuple[TrialState, Dev]]


class NoPanel:
    """A context; call `update` after each event. Shows nothing; what is said goes where notes go. `trials`: how many
    there will be, of both arms. `noun`: what they are; trainings of a confirmation, whose ends are told elsewhere, are
    not ranked."""

    def __init__(self, trials: int, iterations: int, state: SearchState, noun: str = TRIALS):
        self.trials, self.iterations, self.noun, self.state = trials, iterations, noun, state
        self.started = self.shown_until = time.monotonic()
        self.iterations_before = state.iterations  # of earlier sessions: they say nothing about the pace now

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None: ...

    def say(self, line: str) -> None:
        say(line)

    def update(self, state: SearchState) -> None: ...

    def is_time(self) -> bool:
        """Whether the panel is to be shown again, as for REFRESHES times a second."""
        now = time.monotonic()
        if now < self.shown_until:
            return False
        self.shown_until = now + 1 / REFRESHES
        return True

    def headline(self, state: SearchState, ranked: Ranked) -> str:
        """How much is done, and the best trial of each arm. `ranked`: of `state`."""
        ended = sum(trial.outcome is not None for trial in state.trials.values())
        text = f"{state.name}: {ended} of {self.trials} {self.noun} done, {counted(state.iterations, 'iteration')}"
        over_curricula = any(key.startswith(OF_CURRICULUM) for key in state.opened_in(CURRICULUM))
        names = {PLAIN: "plain", CURRICULUM: "curriculum" if over_curricula else "others"}
        best = [f"{names[trial.arm]} {at.dev:.4f} ({trial.trial})" for trial, at in best_of_arms(ranked)]
        if best and self.noun == TRIALS:
            text += f" · best dev {in_words(state.metric)}: {', '.join(best)}"
        return text

    def time_left(self, state: SearchState) -> str:
        """At this session's pace, if the trials to come take as many iterations as those that have ended."""
        done = state.iterations - self.iterations_before
        if done < KNOWN:
            return "time left: not known yet"
        lengths = [trial.iterations for trial in state.trials.values() if trial.outcome] or [self.iterations]
        missing = self.trials * sum(lengths) / len(lengths) - state.iterations
        return time_left(max(missing, 0.0) * (time.monotonic() - self.started) / done)


class StatusPanel(NoPanel):
    """For a notebook: says the headline now and then, which replaces the line before; at the end without the time
    left."""

    ended = False

    def __exit__(self, *_: object) -> None:
        self.ended = True
        say(self.headline(self.state, self.state.ranked()))

    def update(self, state: SearchState) -> None:
        self.state = state
        if not self.ended and self.is_time():
            say(f"{self.headline(state, state.ranked())} · {self.time_left(state)}")


class Panel(NoPanel):
    """For a terminal, and for a log of it."""

    def __init__(self, trials: int, iterations: int, state: SearchState, noun: str = TRIALS):
        super().__init__(trials, iterations, state, noun)
        self.console = Console(stderr=True, markup=False, emoji=False, highlight=False)
        self.live = None
        if self.console.is_terminal:
            self.live = Live(console=self.console, refresh_per_second=REFRESHES, transient=True)
        self.begun, self.open = len(state.trials), [trial.trial for trial in state.open_trials()]

    def __enter__(self) -> Self:
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
        """Called after every event, so it looks at open trials alone: a search may have thousands."""
        if len(state.trials) > self.begun:
            self.open += islice(state.trials, self.begun, None)
            self.begun = len(state.trials)
        for name in [name for name in self.open if state.trials[name].outcome]:
            self.open.remove(name)
            if self.noun == TRIALS:
                self._say_end(state, state.trials[name])
        if self.live and self.is_time():
            self.live.update(self.panel(state))

    def _say_end(self, state: SearchState, trial: TrialState) -> None:
        """Says how a trial ended; on a terminal a failure alone, for whose reason the panel has no room."""
        after = counted(trial.iterations, "iteration")
        if trial.outcome == "failed":
            self.say(f"{trial.trial} failed after {after}: {trial.reason or 'no reason given'} ({trial.words})")
        elif not self.live:
            self.say(f"{trial.trial} {trial.outcome}: {dev_words(state, trial)} after {after}, {trial.words}")

    def panel(self, state: SearchState) -> Group:
        """The headline and a line for each of the ROWS trials that matter most; rich cuts what the terminal lacks."""
        ranked = state.ranked()
        headline = Text(visible(f"{self.headline(state, ranked)} · {self.time_left(state)}"), style="bold")
        table = Table(box=None, pad_edge=False)
        for column in (self.noun.split()[0].removesuffix("s"), "state", "iter.", f"dev {in_words(state.metric)}"):
            table.add_column(column, no_wrap=True)
        table.add_column("parameters", no_wrap=True, overflow="ellipsis")
        for trial in in_order(state, ranked)[:ROWS]:
            cells = (trial.trial, trial_status(trial), str(trial.iterations), dev_words(state, trial), trial.words)
            table.add_row(*(Text(visible(cell)) for cell in cells))
        return Group(headline, table)


PanelKind = type[NoPanel]


def best_of_arms(ranked: Ranked) -> Ranked:
    """The best trial of each arm, the better one first."""
    best: dict[Arm, tuple[TrialState, Dev]] = {}
    for trial, at in ranked:
        best.setdefault(trial.arm, (trial, at))
    return list(best.values())


def in_order(state: SearchState, ranked: Ranked) -> list[TrialState]:
    """The running trials, the best of each arm, the default, then the others that have ended and those that wait, each
    best first."""
    trials, baseline = state.by_number(), state.baseline_trial()
    reached = {trial.trial: at.dev for trial, at in ranked}
    running = [trial for trial in trials if trial_status(trial) == RUNNING]
    first = [*running, *(trial for trial, _ in best_of_arms(ranked)), *([baseline] if baseline else [])]
    best_first = sorted(trials, key=lambda trial: (trial.outcome is None, -reached.get(trial.trial, -inf)))
    return list({trial.trial: trial for trial in [*first, *best_first]}.values())


def trial_status(trial: TrialState) -> str:
    """How a trial ended; else whether it runs or is paused, waiting to prove worth more iterations."""
    return (trial.outcome or (PAUSED if trial.paused else RUNNING)).replace("_", " ")


def dev_words(state: SearchState, trial: TrialState) -> str:
    at = trial.best(state.metric)
    return f"{at.dev:.4f}" if at else "-"
