"""The trainings of a confirmation, as trials that Ray Tune runs: no sampler, no scheduler, one round after another."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from trainables.core.prose import say
from trainables.core.storage import is_there
from trainables.training.conclusion import Conclusion
from tune_cl.confirmation.request import SeedRun
from tune_cl.experiment.experiment import CURRICULUM
from tune_cl.experiment.search_keys import Resources
from tune_cl.history.events import TrainingCheckpointEvent
from tune_cl.history.journal import Journal
from tune_cl.history.state import SearchState, TrialState
from tune_cl.search.remarks import grouped, in_count
from tune_cl.search.trials import FINISHED, WAIT, Plan, reason_of

Ended = Callable[[SeedRun, str | None], None]
Update = Callable[[SearchState], None]
CHECKPOINT = "training_checkpoint"  # the event of a training's checkpoint, as `checkpoint` is of a trial's


def failures_in_words(failed: Sequence[tuple[SeedRun, str]]) -> str:
    """Each reason for which trainings failed, once, with how many and where the log of the first is."""
    runs = {run.name: run for run, _ in failed}
    return "; ".join(
        f"{in_count(names)} failed: {reason} (see {runs[names[0]].folder})"
        for reason, names in grouped({run.name: why for run, why in failed}).items()
    )


@dataclass
class ShownTraining(TrialState):
    """A training as the panel shows it: a trial in words of its own."""

    name: str = ""

    @property
    def words(self) -> str:
        return self.name


@dataclass
class Trainings:
    """rounds       the trainings to do; the next round is asked for when the last one has ended
    checkpoints  addresses by training, oldest first, of earlier sessions too
    ended_with   called as each training ends, with why it failed, or None
    shown        the trainings of this session, numbered, as the panel shows them; `update` is called as they change
    """

    rounds: Iterator[Sequence[SeedRun]]
    journal: Journal
    resources: Resources
    checkpoints: Mapping[str, list[str]]
    ended_with: Ended
    shown: SearchState
    update: Update
    concurrent: int = 1
    waiting: list[SeedRun] = field(default_factory=list)
    running: dict[str, SeedRun] = field(default_factory=dict)
    reasons: dict[str, str] = field(default_factory=dict)  # why trainings fail that are about to end
    just_ended: list[str] = field(default_factory=list)  # since `unneeded` was asked

    def next_trial(self) -> Plan | str:
        """The next training; WAIT if there is none right now, FINISHED if there are no more."""
        if len(self.running) >= self.concurrent:
            return WAIT
        while not self.waiting:
            if self.running:
                return WAIT
            following = next(self.rounds, None)
            if following is None:
                return FINISHED
            self.waiting = list(following)
        return self._plan(self.waiting.pop(0))

    def _plan(self, run: SeedRun) -> Plan:
        self.running[run.trial] = run
        place = len(self.shown.trials) + 1
        self.shown.trials[run.trial] = ShownTraining(
            str(place), place, {}, run.seed, False, CURRICULUM, name=f"{run.configuration.trial} {run.name}"
        )
        self.update(self.shown)
        latest = next(filter(is_there, reversed(self.checkpoints.get(run.trial, ()))), None)
        conclusion = Conclusion(run.address, run.split)
        return Plan(run.trial, run.run, latest, self.resources.threads, self.resources.gpu, conclusion=conclusion)

    def result(self, trial: str, metrics: dict[str, Any]) -> bool:
        """Notes a failure; returns whether the training may go on."""
        if "failed" in metrics:
            self.reasons[trial] = reason_of(metrics, self.running[trial].folder)
            return False
        if "seconds" in metrics:  # an iteration; a training that is only applied to another split reports none
            now, at = time.time(), metrics["iteration"]
            self.shown.apply({"event": "result", "trial": trial, "iteration": at, "metrics": metrics, "time": now})
            self.update(self.shown)
        return True

    def note(self, trial: str, text: str) -> None:
        say(f"note: {self.running[trial].name}: {text}")

    def machine(self, trial: str, text: str) -> None:
        """What a training computes with is known from the search."""

    def checkpoint(self, trial: str, iteration: int, path: str) -> None:
        saved = {"training": trial, "iteration": iteration, "path": path}
        self.journal.append(cast(TrainingCheckpointEvent, {"event": CHECKPOINT, **saved, "time": time.time()}))

    def ended(self, trial: str) -> None:
        self._end(trial, self.reasons.pop(trial, None))

    def failed(self, trial: str, reason: str) -> None:
        """Its process failed more often than it may be retried."""
        self._end(trial, reason)

    def _end(self, trial: str, reason: str | None) -> None:
        self.just_ended.append(trial)
        self.ended_with(self.running.pop(trial), reason)
        outcome = "failed" if reason else "completed"
        self.shown.apply({"event": "end", "trial": trial, "outcome": outcome, "time": time.time()})
        self.update(self.shown)

    def recorded(self) -> Mapping[str, list[str]]:
        """Addresses of all checkpoints of earlier sessions, by training."""
        return self.checkpoints

    def unneeded(self) -> list[str]:
        """Trainings that have ended since the last call: their rankers are elsewhere."""
        ended, self.just_ended = self.just_ended, []
        return ended
