"""The search itself, without Ray: which trial comes next, what a result means, what is recorded.

Every event goes to the journal first, then into `SearchProgress`. A search that stopped is rebuilt by replaying the
journal: sampler, rungs and open trials come out as they were, whatever Ray has saved.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from trainables.config.objective import AnyRun
from trainables.core.errors import DamagedCheckpoint
from trainables.core.storage import exists
from trainables.evaluation.metrics import dev_key
from tune_cl.experiment.arms import ARMS, CURRICULUM, PLAIN
from tune_cl.experiment.experiment import Experiment
from tune_cl.history.journal import Event, Journal
from tune_cl.history.search_folder import TRIALS
from tune_cl.history.state import RAN_TO_THE_END, SearchState, TrialState, as_point, initial_state
from tune_cl.schedulers import Decision
from tune_cl.search.phases import (
    NewTrial,
    Samplers,
    begun_after_plain,
    longest_grace,
    may_be_chosen,
    new_sampler,
    new_scheduler,
    next_new,
    nothing_to_find,
    phases_of,
    tuned,
)
from tune_cl.search.trials import FINISHED, TRACEBACK, WAIT, Plan, reason_of
from tune_cl.space.space import Flat

BASELINE_TRIAL = "t0000"
PAUSED = "paused"  # of a Stop, in place of an outcome
REPORTED = ("train_loss", "available_share", "mean_weight", "samples_per_second", "seconds")
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Stop:
    """The decision to end a trial once it has reported `iteration`."""

    iteration: int
    outcome: str
    reason: str


class SearchProgress:
    """State, samplers and schedulers of a search, as its events have left them. `events`: all events so far, of which
    the first is `search`."""

    def __init__(self, experiment: Experiment, events: Iterator[Event]):
        self.experiment, self.metric = experiment, experiment.base.run.metric
        self.phases = phases_of(experiment)
        self.samplers: Samplers = {arm: new_sampler(experiment, arm) for arm in ARMS}
        self.schedulers = {arm: new_scheduler(experiment) for arm in ARMS}
        self.numbers: dict[str, int] = {}  # of the trials that a sampler knows, as it counts them
        self.scheduled: set[str] = set()  # trials that may be stopped early
        self.stops: dict[str, Stop] = {}
        self.plain_grace = longest_grace(experiment)
        self.state: SearchState = initial_state(next(events))
        for event in events:
            self.apply(event)

    def apply(self, event: Event) -> None:
        """Updates everything with one more event."""
        before = self.state.trials.get(event["trial"] or "") if "trial" in event else None
        was_paused = before is not None and before.paused
        self.state.apply(event)
        match event["event"]:
            case "trial" if before is None:
                self._trial_started(self.state.trials[event["trial"]])
            case "trial" if was_paused:
                self.stops.pop(event["trial"], None)
                self.schedulers[event["arm"]].resumed(event["trial"])
            case "result" if event["trial"] in self.scheduled:
                self._ask_scheduler(self.state.trials[event["trial"]], event)
            case "pause":
                self._tell(self.state.trials[event["trial"]], "stopped_early")  # provisional, until the trial ends
            case "end":
                self._trial_ended(self.state.trials[event["trial"]])

    def next_new(self) -> NewTrial | None:
        """The trial that begins next; None where none is left, or the next phase waits for trials that have not
        ended."""
        new = next_new(self.experiment, self.state, self.samplers, self.phases)
        if new is None:
            for trial in self.state.open_trials():
                self.schedulers[trial.arm].all_started = True
        return new

    def next_paused(self, last: bool) -> str | None:
        """A paused trial that is to go on before any new one starts. `last`: its phase has no new trial, and none
        runs."""
        paused = (self.schedulers[arm].next_paused(last) for arm in ARMS)
        return next((trial for trial in paused if trial), None)

    def _trial_started(self, trial: TrialState) -> None:
        """Tells the sampler and the scheduler of the trial's arm. Those under further seeds, and twins of curricula at
        settings of their own, are neither compared nor learned from: they run to their end."""
        self.schedulers[PLAIN].all_started |= len(tuned(self.state)) >= self.phases.plain
        self.schedulers[CURRICULUM].all_started |= begun_after_plain(self.state) >= self.phases.curricula
        if trial.repeats or (trial.arm == PLAIN and trial.twin):
            return
        number = len(tuned(self.state)) - 1 if trial.arm == PLAIN else len(self.state.trials_of(CURRICULUM))
        if (point := self._searched(trial)) is not None:
            self.samplers[trial.arm].replay(number, point)
            self.numbers[trial.trial] = number
        if trial.trial != BASELINE_TRIAL:
            config, scheduler = self.experiment.config(trial.point), self.schedulers[trial.arm]
            grace = config.grace if trial.arm == CURRICULUM else self.plain_grace
            scheduler.start(trial.trial, grace, config.curriculum_end)
            self.scheduled.add(trial.trial)

    def _searched(self, trial: TrialState) -> Flat | None:
        """What its arm's sampler is told of a trial's values. None for the baseline if no plain trial follows it, or if
        it lies outside of what these search."""
        if trial.arm == CURRICULUM:
            return trial.point
        if trial.trial != BASELINE_TRIAL:
            return {key: trial.point[key] for key in self.experiment.arms.shared_space.parameters if key in trial.point}
        values = as_point(trial.params) | trial.point
        return self.experiment.arms.shared_space.within(values) if self.phases.plain > 1 else None

    def _trial_ended(self, trial: TrialState) -> None:
        if trial.trial in self.scheduled:
            scheduler = self.schedulers[trial.arm]
            scheduler.ended(trial.trial, trial.outcome == "completed")
            if trial.outcome == "failed":
                scheduler.forget(trial.trial)
        self._tell(trial, str(trial.outcome))
        self._compare(trial)

    def _compare(self, trial: TrialState) -> None:
        """Tells the curricula's sampler what a twin reached, once both of a pair have ended."""
        for pair in self.state.pairs():
            ended = pair.curriculum.outcome and pair.twin.outcome not in (None, "failed")
            if trial in (pair.curriculum, pair.twin) and ended and (best := pair.twin.best(self.metric)):
                self.samplers[CURRICULUM].compare(self.numbers[pair.curriculum.trial], best.dev)

    def _ask_scheduler(self, trial: TrialState, event: Event) -> None:
        """Decides what a new result means for its trial."""
        at, value = event["iteration"], event["metrics"][dev_key(self.metric)]
        decision = self.schedulers[trial.arm].on_result(trial.trial, at, value)
        if event.get("done"):  # ended by itself: nothing to stop
            return
        if decision is Decision.PAUSE:
            self.stops[trial.trial] = Stop(at, PAUSED, f"waits at iteration {at}")
        elif decision is Decision.STOP:
            self.stops[trial.trial] = Stop(at, "stopped_early", f"not among the best at iteration {at}")

    def _tell(self, trial: TrialState, outcome: str) -> None:
        """Gives the arm's sampler a trial's curve, if it knows the trial."""
        if trial.trial in self.numbers:
            whole = outcome in RAN_TO_THE_END
            sampler = self.samplers[trial.arm]
            sampler.tell(self.numbers[trial.trial], trial.dev(self.metric), "completed" if whole else outcome)


@dataclass
class SearchDriver:
    """`artifacts(trial, checkpoint folder, run)` writes a finished trial's files and returns their folder, or raises
    DamagedCheckpoint; `watch(state)` is called after every event."""

    experiment: Experiment
    journal: Journal
    concurrent: int
    artifacts: Callable[[str, str, AnyRun], Path]
    watch: Callable[[SearchState], None] = lambda state: None

    def __post_init__(self) -> None:
        self.running: set[str] = set()
        self.ended_by: str | None = None
        self.progress = SearchProgress(self.experiment, self.journal.events())
        self.with_checkpoints = [trial.trial for trial in self.state.by_number() if trial.outcome]  # and have ended
        self.ended_since = True  # a trial, since `unneeded` was asked, which Ray Tune does in each of its steps
        self.waiting = [trial for trial in self.state.open_trials() if not trial.paused]

    @property
    def state(self) -> SearchState:
        """What the events so far have left."""
        return self.progress.state

    # -- what Tune asks ------------------------------------------------------------------------------------------

    def next_trial(self) -> Plan | str:
        """The next plan; WAIT if there is none right now, FINISHED if there are no more."""
        if len(self.running) >= self.concurrent:
            return WAIT
        while self.waiting:
            trial = self.waiting.pop(0)
            stop = self.progress.stops.get(trial.trial)
            if stop and stop.iteration <= self.last_checkpoint(trial)[1]:  # killed between the decision and its record
                self.ended(trial.trial)
            else:
                return self._go_on(trial)
        return self._new_or_paused()

    def _new_or_paused(self) -> Plan | str:
        """A paused trial that may go on, else a new one. The next phase begins once all trials have ended."""
        new = self._new()
        if not self.ended_by and (paused := self.progress.next_paused(last=False)):
            still_saves = paused in self.running  # Tune asks for further trials as soon as it has passed a result on
            return WAIT if still_saves else self._go_on(self.state.trials[paused])
        if new is not None:
            return self._begin(new)
        if self.running:  # their results may decide what comes next
            return WAIT
        if not self.ended_by and (paused := self.progress.next_paused(last=True)):
            return self._go_on(self.state.trials[paused])
        waiting = self.state.open_trials()
        for trial in waiting:
            self._end(trial.trial, "stopped_early", self.ended_by or f"did not go on from iteration {trial.iterations}")
        return self._new_or_paused() if waiting and not self.ended_by else FINISHED

    def _new(self) -> NewTrial | None:
        """The next new trial, unless a budget is used up or nothing is to be found."""
        if self.state.trials and not self.ended_by:
            self.ended_by = used_up(self.experiment, self.state)
        if self.ended_by:
            return None
        new = self.progress.next_new()
        self.ended_by = new and nothing_to_find(self.experiment, self.state, self.progress.phases, new)
        return None if self.ended_by else new

    def result(self, trial: str, metrics: dict[str, Any]) -> bool:
        """Records one iteration's metrics, unless they are recorded already; returns whether the trial may go on."""
        iteration = metrics["iteration"]
        if "failed" in metrics:
            self.progress.stops[trial] = Stop(iteration, "failed", reason_of(metrics, self._files(trial)))
        elif iteration not in self.state.trials[trial].results:
            event = {"event": "result", "trial": trial, "iteration": iteration, "metrics": self._recorded(metrics)}
            self.record(event | ({"done": True} if metrics.get("done") else {}))
            if trial != BASELINE_TRIAL and not metrics.get("done") and (end := used_up(self.experiment, self.state)):
                self.progress.stops.setdefault(trial, Stop(iteration, "stopped_early", end))
        return not (trial in self.progress.stops and self.progress.stops[trial].iteration <= iteration)

    def note(self, trial: str, text: str) -> None:
        """Records something about a trial that the user should know."""
        self.record({"event": "note", "trial": trial, "text": text})
        log.warning("%s: %s", trial, text)

    def machine(self, trial: str, text: str) -> None:
        """Records what a trial computes with."""
        self.record({"event": "machine", "trial": trial, "text": text})

    def checkpoint(self, trial: str, iteration: int, path: str) -> None:
        self.record({"event": "checkpoint", "trial": trial, "iteration": iteration, "path": path})

    def ended(self, trial: str) -> None:
        """A trial ended by itself or by a decision, or paused."""
        stop = self.progress.stops.get(trial)
        if stop and stop.outcome == PAUSED:
            self.running.discard(trial)
            self.record({"event": "pause", "trial": trial, "iteration": stop.iteration, "reason": stop.reason})
            return
        outcome = stop.outcome if stop else "baseline" if self.state.trials[trial].baseline else "completed"
        self._end(trial, outcome, stop.reason if stop else None)

    def failed(self, trial: str, reason: str) -> None:
        """A trial's process failed more often than it may be retried."""
        self._end(trial, "failed", reason)

    def recorded(self) -> dict[str, list[str]]:
        """Addresses of the checkpoints of earlier sessions, by trial."""
        return {trial.trial: trial.saved for trial in self.state.by_number()}

    def unneeded(self) -> list[str]:
        """Trials that have ended since the last call, or before, and of which none will be the search's best: its
        ranker is copied from its checkpoint when the search ends."""
        if not self.ended_since:
            return []
        self.ended_since = False
        kept = may_be_chosen(self.state, self.progress.phases)
        unneeded = [name for name in self.with_checkpoints if name not in kept]
        self.with_checkpoints = [name for name in self.with_checkpoints if name in kept]
        return unneeded

    # -- inside --------------------------------------------------------------------------------------------------

    def _recorded(self, metrics: dict[str, Any]) -> dict[str, float]:
        """The metrics of a result: all that a user's function reported, or those that every ranker reports."""
        keys = (dev_key(self.experiment.base.run.metric), *REPORTED)
        reported = metrics["reported"] if "reported" in metrics else {key: metrics[key] for key in keys}
        return {key: float(value) for key, value in reported.items()}

    def _files(self, trial: str) -> Path:
        return self.journal.path.parent / TRIALS / trial

    def _begin(self, new: NewTrial) -> Plan:
        """Records a new trial; returns its plan."""
        number, run = len(self.state.trials), new.config.with_seed(new.seed)
        event = {"event": "trial", "trial": trial_id(number), "number": number, "baseline": number == 0}
        event |= {"params": run.in_force(), "chosen": new.config.point, "seed": new.seed, "arm": new.arm}
        self.record(event | new.fields)
        return self._plan(trial_id(number), None)

    def _go_on(self, trial: TrialState) -> Plan:
        """Records that a trial goes on from its last checkpoint; returns its plan."""
        keys = ("trial", "number", "params", "seed", "baseline", "arm")
        self.record({"event": "trial", **{key: getattr(trial, key) for key in keys}, "chosen": trial.point})
        return self._plan(trial.trial, self.last_checkpoint(trial)[0])

    def _plan(self, trial: str, checkpoint: str | None) -> Plan:
        self.running.add(trial)
        resources = self.experiment.search.resources
        return Plan(trial, self.run_of(self.state.trials[trial]), checkpoint, resources.threads, resources.gpu)

    def run_of(self, trial: TrialState) -> AnyRun:
        """A trial's training."""
        return self.experiment.config(trial.point).with_seed(trial.seed)

    @staticmethod
    def checkpoints(trial: TrialState) -> Iterator[tuple[str, int]]:
        """A trial's checkpoints that still exist, each with its iteration, newest first."""
        for iteration, path in sorted(trial.checkpoints.items(), reverse=True):
            if exists(path):
                yield path, iteration

    @classmethod
    def last_checkpoint(cls, trial: TrialState) -> tuple[str | None, int]:
        """The newest of `checkpoints`; without one, None and 0."""
        return next(cls.checkpoints(trial), (None, 0))

    def from_sound_checkpoint(self, trial: TrialState, write: Callable[[str], Path | None]) -> str | None:
        """What `write` makes of the trial's newest sound checkpoint, else None; a note names each damaged one."""
        for checkpoint, _ in self.checkpoints(trial):
            try:
                written = write(checkpoint)
                return str(written) if written else None
            except DamagedCheckpoint as damage:
                self.note(
                    trial.trial, f"{damage}; the trial's files come from the checkpoint before it, if there is one"
                )
        return None

    def _end(self, trial: str, outcome: str, reason: str | None) -> None:
        state = self.state.trials[trial]
        run, folder = self.run_of(state), None
        if outcome != "failed":
            folder = self.from_sound_checkpoint(state, lambda checkpoint: self.artifacts(trial, checkpoint, run))
        elif (self._files(trial) / TRACEBACK).exists():
            folder = str(self._files(trial))
        best = None if outcome == "failed" else state.best(self.experiment.base.run.metric)
        self.running.discard(trial)
        event = {"event": "end", "trial": trial, "outcome": outcome, "reason": reason, "artifacts": folder}
        self.record(event | {"best": asdict(best) if best else None})
        self.with_checkpoints.append(trial)
        self.ended_since = True

    def record(self, fields: Mapping[str, Any]) -> None:
        """Appends an event to the journal, of now if it has no `time`, and updates the state with it."""
        event = {"time": time.time(), **fields}
        self.journal.append(event)
        self.progress.apply(event)
        self.watch(self.state)


def used_up(experiment: Experiment, state: SearchState) -> str | None:
    """Whether the hours are used up, in words: then running trials stop at their next result, except the baseline, and
    no further trial starts. None while some are left."""
    limit = experiment.search.hours
    used = state.seconds_until(time.time()) / 3600
    return "search.hours are used up" if limit is not None and used >= limit else None


def trial_id(number: int) -> str:
    """t0000 is the baseline."""
    return f"t{number:04d}"
