"""Shows a running search on stderr: a live panel on a terminal, elsewhere a line for each finished trial."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from math import inf
from statistics import fmean

from rich.console import Console, Group
from rich.constrain import Constrain
from rich.live import Live
from rich.table import Table
from rich.text import Text

from trainables.core.countdown import time_left
from trainables.core.prose import visible, wrapped
from trainables.evaluation.metrics import dev_key
from tune_cl.experiment.experiment import Experiment
from tune_cl.experiment.forecast import Audit
from tune_cl.history.journal import Event
from tune_cl.history.state import RAN_TO_THE_END, RUNNING, Dev, SearchState, TrialState, as_chosen, begun
from tune_cl.samplers import Observation, Outcome
from tune_cl.schedulers import Decision
from tune_cl.search.repeats import Race
from tune_cl.space.wording import curriculum, trial_words

BASELINE_TRIAL = "t0000"
PAUSED = "paused"  # stands in place of an outcome
TOLD: dict[str, Outcome] = {
    "completed": "completed",
    "stopped_early": "pruned",
    "failed": "failed",
}  # outcomes as the sampler calls them


@dataclass(frozen=True)
class Stop:
    """The decision to end a trial once it has reported `iteration`."""

    iteration: int
    outcome: str
    reason: str


class Course:
    """`events`: all events so far, of which the first is `search`."""

    def __init__(self, experiment: Experiment, events: Iterator[Event]):
        search = experiment.search
        self.metric = experiment.metric
        self.experiment = experiment
        self.audit = Audit(search.audit, experiment.seed, experiment.trials, search.reduction_factor)
        self.sampler = experiment.sampler()
        self.scheduler = experiment.scheduler()
        self.race = Race(search.repeats, BASELINE_TRIAL)
        self.stops: dict[str, Stop] = {}
        self.asked: dict[str, int] = {}  # the sampler's number for each trial: 0 for the baseline, none for repeats
        self.state: SearchState = begun(next(events))
        for event in events:
            self.take_in(event)

    def take_in(self, event: Event) -> None:
        """Takes in one more event."""
        kind, trial = event["event"], event.get("trial", BASELINE_TRIAL)
        before = self.state.trials.get(trial)
        was_paused = before is not None and before.paused
        known = kind == "result" and before is not None and event["iteration"] in before.results
        self.state.apply(event)
        if kind == "warm_start":
            observed = [seen | {"chosen": as_chosen(seen["chosen"])} for seen in event["observations"]]
            self.sampler.warm_up([Observation(**seen) for seen in observed])
        elif kind == "trial" and before is None:
            self._begun(self.state.trials[trial])
            self.scheduler.all_begun = self._are_all_begun()
        elif kind == "trial" and was_paused:
            self.stops.pop(trial, None)
            self.scheduler.resumed(trial, event["chosen"])
        elif kind == "result" and not known:
            self._reported(self.state.trials[trial], event)
        elif kind == "pause":
            self._tell(trial, "stopped_early")  # provisional: told again when the trial ends
        elif kind == "end":
            self._over(self.state.trials[trial])

    def _are_all_begun(self) -> bool:
        """Whether no new configuration comes: all trials have begun, repeats included, or the space is used up."""
        combinations = self.experiment.space.combinations()
        used_up = combinations is not None and len(self.asked) > combinations  # the baseline was asked for as well
        return used_up or len(self.state.trials) >= self.experiment.trials

    def _begun(self, trial: TrialState) -> None:
        if self.race.seeds > 1:
            self.race.begun(trial.trial, trial.configuration)
        if trial.repeat_of:
            return
        number = self.asked[trial.trial] = len(self.asked)
        if trial.trial == BASELINE_TRIAL:
            return
        self.sampler.replay(number, trial.chosen)
        grace, end = self.experiment.grace(trial.chosen), self.experiment.curriculum_end(trial.chosen)
        self.scheduler.start(trial.trial, grace, end, trial.chosen)

    def _reported(self, trial: TrialState, event: Event) -> None:
        if self.race.seeds > 1:
            self.race.result(trial.trial, event["iteration"], event["queries"])
        if trial.trial in self.asked and trial.trial != BASELINE_TRIAL and trial.trial not in self.audit.taken:
            self._judge(trial.trial, event)

    def _over(self, trial: TrialState) -> None:
        """A trial ended. Its configuration may train again; the sampler is told of configurations that will not."""
        if trial.trial in self.audit.taken:  # the sampler was told at the stop
            return
        if trial.trial in self.asked and trial.trial != BASELINE_TRIAL:
            self.scheduler.ended(trial.trial, trial.outcome == "completed")
            if trial.outcome == "failed":
                self.scheduler.forget(trial.trial)
        best = trial.best(self.metric) if trial.outcome in RAN_TO_THE_END else None
        iteration = best.iteration + trial.offset if best else None
        if self.race.seeds > 1:
            over = self.race.ended(trial.trial, trial.configuration, iteration)
        else:
            over = [trial.trial] if trial.trial != BASELINE_TRIAL else []
        for configuration in over:  # unless it is named after this trial, its first training ran to the end
            self._tell(configuration, str(trial.outcome) if configuration == trial.trial else "completed")

    def _judge(self, trial: str, event: Event) -> None:
        """Decides what a new result means for its trial."""
        at, value = event["iteration"], event["metrics"][dev_key(self.metric)]
        decision = self.scheduler.judge(trial, at - self.state.trials[trial].offset, value, event.get("queries"))
        if event.get("done") and not self.scheduler.renews:  # ended by itself: nothing to stop
            return
        if decision is Decision.PAUSE:
            self.stops[trial] = Stop(at, PAUSED, f"waits at iteration {at}")
        elif decision is Decision.STOP:
            self._stop(trial, at)

    def _stop(self, trial: str, iteration: int) -> None:
        """Carries out a stop. A trial taken by the audit goes on; for sampler and scheduler it ends here."""
        if self.audit.takes(trial, iteration):
            self.scheduler.ended(trial, completed=False)
            self._tell(trial, "stopped_early")
        else:
            self.stops[trial] = Stop(iteration, "stopped_early", f"not among the best at iteration {iteration}")

    def _tell(self, trial: str, outcome: str) -> None:
        """Tells the sampler about a configuration: its curve, or if it was repeated its trainings' mean best value."""
        dev = self.state.trials[trial].dev(self.metric)
        finals = self.state.finals().get(trial, []) if self.race.seeds > 1 else []
        values = {max(dev): fmean(finals)} if len(finals) > 1 else dev
        self.sampler.tell(self.asked[trial], values, TOLD[outcome])


MARGIN = 3  # free columns right of the panel, for the terminal's ^C, and free lines below it
REFRESHES = 2  # of the panel in a second
Ranked = list[tuple[TrialState, Dev]]


class Panel:
    """A context; call `update` after each event. `trials`: how many there will be, the baseline included."""

    def __init__(self, trials: int, iterations: int, state: SearchState):
        self.trials, self.iterations = trials, iterations
        self.console = Console(stderr=True, markup=False, emoji=False, highlight=False)
        self.started = time.monotonic()
        self.iterations_before = state.iterations  # of earlier sessions: they say nothing about the pace now
        self.known = 0  # trials looked at so far
        self.told = {trial.trial for trial in state.trials.values() if trial.outcome}
        self.open: set[str] = set()
        self.live = (
            Live(console=self.console, refresh_per_second=REFRESHES, transient=True)
            if self.console.is_terminal
            else None
        )
        self.shown_until = self.started

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
        if len(state.trials) != self.known:  # looks for new trials only if there are any: a search may have thousands
            self.known, self.open = len(state.trials), state.trials.keys() - self.told
        for trial in [state.trials[name] for name in sorted(self.open)]:
            if trial.outcome:
                self.told.add(trial.trial)
                self.open.remove(trial.trial)
                if trial.outcome == "failed":  # on a terminal too: the panel has no room for the reason
                    why = trial.reason or "no reason given"
                    self.say(f"{trial.trial} failed after {trial.iterations} iterations: {why} ({label(trial)})")
                elif not self.live:
                    self.say(
                        f"{trial.trial} {trial.outcome}: {self._value(state, trial)} "
                        f"after {trial.iterations} iterations, {label(trial)}"
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
        told = len(headline.wrap(self.console, width))
        trials = in_order(state, ranked)
        room = max(1, height - told - 1)  # the column names take a line
        shown = trials if len(trials) <= room else trials[: max(1, room - 1)]
        rest = trials[len(shown) :]
        return Constrain(Group(headline, self._table(state, shown), *([more(rest)] if rest else [])), width)

    def _headline(self, state: SearchState, ranked: Ranked) -> Text:
        ended = sum(trial.outcome is not None for trial in state.trials.values())
        text = f"{state.name}: {ended} of {self.trials} trials done, {state.iterations} iterations"
        best, baseline = next(iter(ranked), None), state.baseline_trial()
        if best:
            name = "the baseline" if best[0].baseline else best[0].trial
            text += f" · best dev {state.metric} {best[1].dev:.4f} ({name})"
        if baseline and not (best and best[0].baseline) and (at := baseline.best(state.metric)):
            text += f" · baseline {at.dev:.4f}"
        return Text(visible(text) + f" · {self._left(state)}", style="bold")

    def _left(self, state: SearchState) -> str:
        """Time left at this session's pace, if the trials to come take as many iterations as those that have ended."""
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
        return time_left(seconds)

    def _table(self, state: SearchState, trials: Iterable[TrialState]) -> Table:
        grid = Table(box=None, pad_edge=False)
        for column in ("trial", "state", "iter.", f"best {state.metric}", "parameters"):
            grid.add_column(column, no_wrap=column != "parameters")
        for trial in trials:
            params = Text(
                visible(label(trial)), no_wrap=True, overflow="ellipsis"
            )  # the only column that is cut to fit
            cells = (trial.trial, standing(trial), str(trial.iterations), self._value(state, trial))
            grid.add_row(*(Text(visible(cell)) for cell in cells), params)
        return grid

    @staticmethod
    def _value(state: SearchState, trial: TrialState) -> str:
        at = trial.best(state.metric)
        return f"{at.dev:.4f}" if at else "-"


def in_order(state: SearchState, ranked: Ranked) -> list[TrialState]:
    """The running trials, the best one, the baseline, then the others that have ended and those that wait at a rung,
    each best first; those that failed are the last that have ended. `ranked`: of `state`."""
    trials, baseline = state.by_number(), state.baseline_trial()
    reached = {trial.trial: at.dev for trial, at in ranked}
    running = [trial for trial in trials if standing(trial) == RUNNING]
    first = [*running, *(trial for trial, _ in ranked[:1]), *([baseline] if baseline else [])]
    best_first = sorted(trials, key=lambda trial: (trial.outcome is None, -reached.get(trial.trial, -inf)))
    return list({trial.trial: trial for trial in [*first, *best_first]}.values())


def standing(trial: TrialState) -> str:
    """How a trial ended; else whether it runs or is paused, waiting to prove worth more iterations."""
    return (trial.outcome or (PAUSED if trial.paused else RUNNING)).replace("_", " ")


def more(trials: list[TrialState]) -> str:
    """The line that stands for trials not shown."""
    paused = sum(standing(trial) == PAUSED for trial in trials)
    return f"… and {len(trials)} more" + (f" ({paused} paused)" if paused else "")


def label(trial: TrialState) -> str:
    """The trial's choices on one line."""
    again = f", again with seed {trial.seed}" if trial.repeat_of else ""
    if trial.baseline:
        return f"baseline: {curriculum(trial.params) or 'no curriculum'}{again}"
    return trial_words(trial.chosen, trial.params) + again
