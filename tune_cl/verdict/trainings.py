"""The trainings of a verdict: a contender under a new seed, what it leaves, and how Ray Tune is given them.

A training's folder holds its ranker, and for each split that this was applied to a folder with values by query and
`result.json`, which is written last (`trainables.training.conclusion`). What is there is not trained again, so more
seeds train only what is missing, and a kill at any moment gives the same numbers.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from trainables.config.objective import AnyRun
from trainables.core.errors import WorkFailed
from trainables.core.prose import say
from trainables.core.storage import exists
from trainables.evaluation.per_query import values_file
from trainables.evaluation.trec_files import read_per_query
from trainables.training.checkpoint import read_json
from trainables.training.conclusion import RESULT, Conclusion
from tune_cl.experiment.arms import CURRICULUM
from tune_cl.experiment.experiment import Experiment
from tune_cl.experiment.search_keys import Resources
from tune_cl.history.journal import Journal
from tune_cl.history.search_folder import SearchFolder
from tune_cl.history.state import SearchState, TrialState
from tune_cl.results import CONFIRMATION
from tune_cl.search.remarks import grouped, in_count
from tune_cl.search.trials import FINISHED, WAIT, Plan, reason_of
from tune_cl.verdict.contenders import Contender

if TYPE_CHECKING:
    import pandas as pd

NOISE_SHARE, NOISE_SEED = "data.label_noise.share", "data.label_noise.seed"
CHECKPOINT = "training_checkpoint"  # the event of a training's checkpoint, as `checkpoint` is of a trial's


@dataclass(frozen=True)
class SeedRun:
    """One training, the split that it is judged on, and the folder of all it leaves."""

    contender: Contender
    seed: int
    run: AnyRun
    split: str
    folder: Path

    @property
    def name(self) -> str:
        return f"{self.contender.label}, seed {self.seed}"

    @property
    def trial(self) -> str:
        """Its id beside those of the search's trials."""
        return f"{self.contender.folder}-{self.folder.name}"

    @property
    def is_done(self) -> bool:
        return (self.folder / self.split).exists()


def seed_run(
    experiment: Experiment, contender: Contender, seed: int, split: str, search_folder: SearchFolder
) -> SeedRun:
    """Teachers, random parts and label noise are drawn by the seed."""
    noise = {NOISE_SEED: seed} if draws_noise(experiment) else {}
    run = experiment.config({**contender.point, **noise}).with_seed(seed)
    folder = search_folder.folder.joinpath(CONFIRMATION, contender.folder, f"seed-{seed}")
    return SeedRun(contender, seed, run, split, folder)


def draws_noise(experiment: Experiment) -> bool:
    """Whether training labels are made wrong, which each seed draws anew."""
    return experiment.objective is None and bool(experiment.values(NOISE_SHARE)[0])


def new_seeds(number: int, searched: Collection[int], first: int = 1) -> list[int]:
    """The first `number` seeds from `first` on, without those that were searched with. A higher number only adds seeds
    at the end."""
    return list(islice((seed for seed in count(first) if seed not in searched), number))


# -- what a training has left --------------------------------------------------------------------------------------


def ended_result(folder: Path, split: str) -> dict[str, Any]:
    """The result of a training that has finished."""
    return read_json(folder / split / RESULT)


def values_by_query(folder: Path, split: str, metric: str) -> dict[str, float]:
    """The metric's values by query, in the order of the split. Raises WorkFailed for a function that reported none."""
    path = values_file(folder / split, split)
    if not path.exists():
        raise WorkFailed(f"{folder}: the function reported no {metric} by query, which a paired test needs")
    return read_per_query(path, metric)


def values_frame(runs: Sequence[SeedRun], roles: Mapping[str, str], metric: str) -> pd.DataFrame:
    """Columns label, role, seed, query, value of trainings that have ended. roles: by label. Raises WorkFailed, naming
    the training, for values that are not numbers or are of other queries than the first training's."""
    import pandas as pd

    frames = []
    queries = list(values_by_query(runs[0].folder, runs[0].split, metric))
    for run in runs:
        values = values_by_query(run.folder, run.split, metric)
        if values.keys() != {*queries}:
            raise WorkFailed(f"{run.name} has values of other queries than the first training (see {run.folder})")
        if not np.isfinite(list(values.values())).all():
            raise WorkFailed(f"{run.name}: {metric} on {run.split} is not a number for a query (see {run.folder})")
        label = run.contender.label
        of_run = {"label": label, "role": roles[label], "seed": run.seed, "query": list(values)}
        frames.append(pd.DataFrame(of_run | {"value": list(values.values())}))
    return pd.concat(frames, ignore_index=True)


def failures_in_words(failed: Sequence[tuple[SeedRun, str]]) -> str:
    """Each reason for which trainings failed, once, with how many and where the log of the first is."""
    runs = {run.name: run for run, _ in failed}
    return "; ".join(
        f"{in_count(names)} failed: {reason} (see {runs[names[0]].folder})"
        for reason, names in grouped({run.name: why for run, why in failed}).items()
    )


# -- as trials that Ray Tune runs ----------------------------------------------------------------------------------


@dataclass
class ShownTraining(TrialState):
    """A training as the panel shows it: a trial in words of its own."""

    name: str = ""

    @property
    def words(self) -> str:
        return self.name


@dataclass
class Trainings:
    """No sampler, no scheduler, one round after another.

    rounds       the trainings to do; the next round is asked for when the last one has ended
    checkpoints  addresses by training, oldest first, of earlier sessions too
    ended_with   called as each training ends, with why it failed, or None
    shown        the trainings of this session, numbered, as the panel shows them; `update` is called as they change
    """

    rounds: Iterator[Sequence[SeedRun]]
    journal: Journal
    resources: Resources
    checkpoints: Mapping[str, list[str]]
    ended_with: Callable[[SeedRun, str | None], None]
    shown: SearchState
    update: Callable[[SearchState], None]
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
            str(place), place, {}, run.seed, False, CURRICULUM, name=f"{run.contender.trial} {run.name}"
        )
        self.update(self.shown)
        checkpoints = reversed(self.checkpoints.get(run.trial, ()))
        latest = next((path for path in checkpoints if exists(path)), None)
        conclusion = Conclusion(str(run.folder), run.split)
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
        self.journal.append({"event": CHECKPOINT, **saved, "time": time.time()})

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
