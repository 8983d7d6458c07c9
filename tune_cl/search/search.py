"""The search itself, without Ray: which trial comes next, what a result means, what is recorded.

All that happens goes to the journal first. A search that stopped is rebuilt by replaying it: sampler, rungs and
open trials come out as they were, whatever Ray had saved.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trainables.config import TrainingRun
from tune_cl.experiment import Experiment
from tune_cl.journal import Event, Journal, SearchState, TrialState, begun
from tune_cl.search.rungs import make_scheduler
from tune_cl.search.samplers import Outcome, make_sampler

WAIT, FINISHED = "wait", "finished"  # in place of a plan: none just now, none any more
BASELINE = "t0000"
TOLD: dict[str, Outcome] = {
    "completed": "completed",
    "stopped_early": "pruned",
    "failed": "failed",
}  # what the sampler calls it
REPORTED = ("train_loss", "available_share", "mean_weight", "samples_per_second", "seconds")


@dataclass(frozen=True)
class Plan:
    """A trial to start or to go on with: its id, full configuration, and the checkpoint folder to go on from."""

    trial: str
    run: TrainingRun
    checkpoint: str | None
    threads: int

    def as_config(self) -> dict[str, Any]:
        """What the trainable and Ray's callbacks get."""
        return {
            "trial": self.trial,
            "run": self.run.model_dump(),
            "checkpoint": self.checkpoint,
            "threads": self.threads,
        }


@dataclass(frozen=True)
class Stop:
    """The decision to end a trial once it has reported `iteration`."""

    iteration: int
    outcome: str
    reason: str


@dataclass
class Search:
    """`artifacts(trial, checkpoint folder, run)` writes a finished trial's files and returns their folder;
    `watch(state)` is told after every event."""

    experiment: Experiment
    journal: Journal
    slots: int
    artifacts: Callable[[str, Path, TrainingRun], Path]
    watch: Callable[[SearchState], None] = lambda state: None

    def __post_init__(self) -> None:
        self.running: set[str] = set()
        self.stops: dict[str, Stop] = {}
        self.started = time.monotonic()
        self.sampler = make_sampler(self.experiment)
        self.scheduler = make_scheduler(self.experiment)
        events = list(self.journal.events())
        self.state: SearchState = begun(events[0])
        for event in events[1:]:
            self._take_in(event)
        self.waiting = self.state.open_trials()

    # -- what Tune asks ------------------------------------------------------------------------------------------

    def next_trial(self) -> Plan | str:
        """The next plan; WAIT while as many run as may, FINISHED when there are no more."""
        if len(self.running) >= self.slots:
            return WAIT
        while self.waiting:
            trial = self.waiting.pop(0)
            checkpoint, iteration = self.last_checkpoint(trial)
            stop = self.stops.get(trial.trial)
            if stop and stop.iteration <= iteration:  # killed between the decision and its record
                self.ended(trial.trial)
                continue
            return self._plan(trial.number, trial.chosen, checkpoint)
        number = len(self.state.trials)
        if number >= self.experiment.trials or self._out_of_time():
            return FINISHED
        choice = self.sampler.ask(number) if number else self.experiment.baseline_choice()
        return FINISHED if choice is None else self._plan(number, choice, None)

    def result(self, trial: str, metrics: dict[str, Any]) -> bool:
        """Records one iteration's metrics; whether the trial may go on. A repeated iteration is not recorded again."""
        iteration = metrics["iteration"]
        if "failed" in metrics:
            self.stops[trial] = Stop(iteration, "failed", metrics["failed"])
        elif iteration not in self.state.trials[trial].results:
            kept = {key: float(metrics[key]) for key in self._metric_names}
            self.record({"event": "result", "trial": trial, "iteration": iteration, "metrics": kept})
            if self._out_of_time() and trial != BASELINE:
                self.stops.setdefault(trial, Stop(iteration, "stopped_early", "search.hours are used up"))
        return not (trial in self.stops and self.stops[trial].iteration <= iteration)

    def checkpoint(self, trial: str, iteration: int, path: str) -> None:
        self.record({"event": "checkpoint", "trial": trial, "iteration": iteration, "path": path})

    def ended(self, trial: str) -> None:
        """A trial came to its end, by itself or by a decision."""
        stop = self.stops.get(trial)
        outcome = stop.outcome if stop else "baseline" if trial == BASELINE else "completed"
        self._end(trial, outcome, stop.reason if stop else None)

    def failed(self, trial: str, reason: str) -> None:
        """A trial's process failed more often than it is retried."""
        self._end(trial, "failed", reason)

    # -- inside --------------------------------------------------------------------------------------------------

    @property
    def _metric_names(self) -> tuple[str, ...]:
        return (f"dev_{self.experiment.metric}", *REPORTED)

    def _plan(self, number: int, choice: dict[str, Any], checkpoint: str | None) -> Plan:
        run = self.experiment.training_run(choice)
        self.record(
            {
                "event": "trial",
                "trial": trial_id(number),
                "number": number,
                "params": run.in_force(),
                "chosen": choice,
                "seed": run.seed,
                "baseline": number == 0,
            }
        )
        self.running.add(trial_id(number))
        return Plan(trial_id(number), run, checkpoint, max(1, int(self.experiment.search.resources.cpu)))

    @staticmethod
    def last_checkpoint(trial: TrialState) -> tuple[str | None, int]:
        """The newest checkpoint that is still there, and its iteration."""
        for iteration, path in sorted(trial.checkpoints.items(), reverse=True):
            if Path(path).is_dir():
                return path, iteration
        return None, 0

    def _out_of_time(self) -> bool:
        hours = self.experiment.search.hours
        return hours is not None and time.monotonic() - self.started >= hours * 3600

    def _end(self, trial: str, outcome: str, reason: str | None) -> None:
        state = self.state.trials[trial]
        checkpoint, _ = self.last_checkpoint(state)
        folder = None
        if checkpoint and outcome != "failed":
            folder = str(self.artifacts(trial, Path(checkpoint), self.experiment.training_run(state.chosen)))
        best = None if outcome == "failed" else state.best(self.experiment.metric)
        self.running.discard(trial)
        self.record(
            {
                "event": "end",
                "trial": trial,
                "outcome": outcome,
                "reason": reason,
                "artifacts": folder,
                "best": {"iteration": best.iteration, "dev": best.dev} if best else None,
            }
        )

    def record(self, event: Event) -> None:
        """Appends an event to the journal and takes it in."""
        event = {**event, "time": time.time()}
        self.journal.append(event)
        self._take_in(event)
        self.watch(self.state)

    def _take_in(self, event: Event) -> None:
        """State, sampler and scheduler are functions of the events, live and on replay alike."""
        trial = event.get("trial", BASELINE)
        begun_before = trial in self.state.trials
        known = event["event"] == "result" and event["iteration"] in self.state.trials[trial].results
        self.state.apply(event)
        if trial == BASELINE:
            return
        if event["event"] == "trial" and not begun_before:
            self.sampler.replay(event["number"], event["chosen"])
            self.scheduler.start(trial, self.experiment.grace(event["chosen"]))
        elif event["event"] == "result" and not known:
            value = event["metrics"][f"dev_{self.experiment.metric}"]
            if not self.scheduler.keep(trial, event["iteration"], value):
                reason = f"not among the best at iteration {event['iteration']}"
                self.stops[trial] = Stop(event["iteration"], "stopped_early", reason)
        elif event["event"] == "end":
            state = self.state.trials[trial]
            self.sampler.tell(state.number, state.dev(self.experiment.metric), TOLD[event["outcome"]])


def trial_id(number: int) -> str:
    """t0000 is the baseline."""
    return f"t{number:04d}"
