"""A search whose trainings are a formula, in this process, and which can be killed at any event."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.journal_events import search_event
from tune_cl.experiment.experiment import Experiment
from tune_cl.experiment.load import load_experiment
from tune_cl.history.journal import Journal
from tune_cl.history.state import replay
from tune_cl.search.driver import SearchDriver
from tune_cl.search.trials import FINISHED, WAIT, Plan

SPACE = """
data: docstrings
ranker: conv_knrm
curriculum:
  pacing: {choice: [linear, root, geometric]}
  n: {choice: [2, 5], when: {curriculum.pacing: root}}
  delta: {uniform: [0.1, 0.9]}
  T: 0.2
training: {max_iterations: 9}
search: {searcher: tpe, startup_trials: 3, trials: 10, scheduler: asha, reduction_factor: 2, grace: 2}
"""


class Killed(Exception):
    """The driver died."""


def toy(folder: Path, *options: str, space: str = SPACE) -> Experiment:
    """The experiment of a space's text, with `--set` options."""
    path = folder / "toy.yaml"
    path.write_text(space)
    return load_experiment(str(path), options)


@pytest.fixture
def experiment(tmp_path: Path) -> Experiment:
    return toy(tmp_path)


def open_journal(folder: Path, experiment: Experiment) -> Journal:
    journal = Journal(folder)
    if not journal.path.stat().st_size:
        journal.append(search_event(experiment, folder))
    return journal


class ToyTrainer:
    """Deterministic trainings, which save a folder every `checkpoint_every` iterations to go on from."""

    def __init__(
        self,
        folder: Path,
        experiment: Experiment,
        concurrent: int = 1,
        kill_after: int | None = None,
    ):
        self.folder, self.journal = folder, open_journal(folder, experiment)
        self.search = SearchDriver(experiment, self.journal, concurrent, self.artifacts)
        self.kill_after, self.events, self.iterated = kill_after, 0, 0
        self.running: dict[str, Iterator[bool]] = {}

    def artifacts(self, trial: str, checkpoint: Path, run: Any) -> Path:
        return self.folder / trial

    def work(self) -> ToyTrainer:
        """Makes one iteration of every running trial, round after round, until the search has no more."""
        try:
            while True:
                answer = self.ask()
                assert answer == (WAIT if self.running else FINISHED)
                if not self.running:
                    return self
                for trial, training in list(self.running.items()):
                    if not next(training, False):
                        del self.running[trial]
        finally:
            self.journal.close()

    def ask(self) -> Plan | str:
        """Takes up trials until the search has none at the moment."""
        while isinstance(answer := self.search.next_trial(), Plan):
            assert answer.trial not in self.running, "a trial that still runs was begun again"
            self.running[answer.trial] = self.training(answer)
        return answer

    def training(self, plan: Plan) -> Iterator[bool]:
        done = int(Path(plan.checkpoint).name) if plan.checkpoint else 0
        while True:
            done = min(done + 1, self.length(plan))  # killed at the end: the last iteration once more
            self.iterated += 1
            value = self.value(plan, done)
            metrics: dict[str, Any] = dict.fromkeys(
                ("train_loss", "available_share", "mean_weight", "samples_per_second", "seconds"), 1.0
            )
            self.tick()
            metrics |= {"dev_map": value, "iteration": done, "done": done == self.length(plan)}
            keep = self.search.result(plan.trial, metrics)
            self.ask()  # like Tune, which fills a free place before the trial just heard of has saved and left
            path = self.folder / plan.trial / str(done)
            path.mkdir(parents=True, exist_ok=True)
            self.tick()
            self.search.checkpoint(plan.trial, done, str(path))
            self.tick()
            if not keep or done == self.length(plan):
                self.search.ended(plan.trial)
                return
            yield True

    def length(self, plan: Plan) -> int:
        """The iteration with which the training ends."""
        return plan.run.training.max_iterations

    def value(self, plan: Plan, done: int) -> float:
        """The trial's dev value after `done` iterations."""
        delta = plan.run.curriculum.delta
        return 0.3 + 0.05 * done - (delta - 0.4) ** 2 + random.Random(f"{plan.trial} {done}").random() / 50

    def tick(self) -> None:
        self.events += 1
        if self.kill_after is not None and self.events > self.kill_after:
            raise Killed


def summary(folder: Path) -> dict[str, Any]:
    """All that must not depend on where a search was interrupted."""
    with Journal(folder) as journal:
        state = replay(journal.events())
    return {t.trial: (t.point, t.outcome, t.reason, t.dev("map")) for t in state.by_number()}
