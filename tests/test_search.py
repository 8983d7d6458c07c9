"""The search without Ray: a simulated crew of workers drives it through plans, results, kills and resumes."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tune_cl.experiment import Experiment, load_experiment
from tune_cl.journal import Journal, replay
from tune_cl.search.search import BASELINE, FINISHED, WAIT, Plan, Search

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


@pytest.fixture
def experiment(tmp_path: Path) -> Experiment:
    path = tmp_path / "toy.yaml"
    path.write_text(SPACE)
    return load_experiment(str(path))


def open_journal(folder: Path, experiment: Experiment) -> Journal:
    journal = Journal(folder)
    if not journal.path.stat().st_size:
        journal.append(
            {
                "event": "search",
                "name": "toy",
                "space": "toy",
                "data": {},
                "ranker": "conv_knrm",
                "metric": "map",
                "seed": 0,
                "baseline": BASELINE,
                "yaml": experiment.to_yaml(),
                "storage": str(folder),
                "time": 0.0,
            }
        )
    return journal


class Crew:
    """Deterministic trainings: `checkpoint_every` iterations they save a folder to go on from."""

    def __init__(self, folder: Path, experiment: Experiment, slots: int = 1, kill_after: int | None = None):
        self.folder, self.journal = folder, open_journal(folder, experiment)
        self.search = Search(experiment, self.journal, slots, self.artifacts)
        self.kill_after, self.events, self.iterated = kill_after, 0, 0

    def artifacts(self, trial: str, checkpoint: Path, run: Any) -> Path:
        return self.folder / trial

    def work(self) -> Crew:
        """Round after round over the running trials, one iteration each, until the search has no more."""
        running: list[tuple[Plan, Iterator[bool]]] = []
        try:
            while True:
                plan = self.search.next_trial()
                while isinstance(plan, Plan):
                    running.append((plan, self.training(plan)))
                    plan = self.search.next_trial()
                assert plan == (FINISHED if len(running) < self.search.slots else WAIT)
                if not running:
                    return self
                running = [(plan, training) for plan, training in running if next(training, False)]
        finally:
            self.journal.close()

    def training(self, plan: Plan) -> Iterator[bool]:
        done = int(Path(plan.checkpoint).name) if plan.checkpoint else 0
        delta = plan.run.curriculum.delta
        while True:
            done += 1
            self.iterated += 1
            value = 0.3 + 0.05 * done - (delta - 0.4) ** 2 + random.Random(f"{plan.trial} {done}").random() / 50
            metrics = dict.fromkeys(
                ("train_loss", "available_share", "mean_weight", "samples_per_second", "seconds"), 1.0
            )
            self.tick()
            keep = self.search.result(plan.trial, metrics | {"dev_map": value, "iteration": done})
            path = self.folder / plan.trial / str(done)
            path.mkdir(parents=True, exist_ok=True)
            self.tick()
            self.search.checkpoint(plan.trial, done, str(path))
            self.tick()
            if not keep or done == plan.run.training.max_iterations:
                self.search.ended(plan.trial)
                return
            yield True

    def tick(self) -> None:
        self.events += 1
        if self.kill_after is not None and self.events > self.kill_after:
            raise Killed


def summary(folder: Path) -> dict[str, Any]:
    """All that must not depend on where a search was interrupted."""
    with Journal(folder) as journal:
        state = replay(journal.events())
    return {t.trial: (t.chosen, t.outcome, t.reason, t.dev("map")) for t in state.by_number()}


def test_a_search_runs_its_trials_and_keeps_the_baseline_to_the_end(experiment: Experiment, tmp_path: Path) -> None:
    Crew(tmp_path / "a", experiment).work()
    trials = summary(tmp_path / "a")
    assert len(trials) == 10
    assert trials[BASELINE][1] == "baseline" and len(trials[BASELINE][3]) == 9
    outcomes = [outcome for _, outcome, _, _ in trials.values()]
    assert outcomes.count("stopped_early") >= 3 and outcomes.count("completed") >= 1
    assert all(len(dev) in (2, 4, 8) for _, outcome, _, dev in trials.values() if outcome == "stopped_early")


@pytest.mark.parametrize("kill_after", [0, 1, 2, 3, 13, 27, 28, 29, 40, 55, 60])
def test_a_killed_search_ends_like_an_unbroken_one(experiment: Experiment, tmp_path: Path, kill_after: int) -> None:
    Crew(tmp_path / "whole", experiment).work()
    with pytest.raises(Killed):
        Crew(tmp_path / "cut", experiment, kill_after=kill_after).work()
    Crew(tmp_path / "cut", experiment).work()
    assert summary(tmp_path / "cut") == summary(tmp_path / "whole")


def test_a_search_killed_again_and_again_repeats_at_most_an_iteration_a_kill(
    experiment: Experiment, tmp_path: Path
) -> None:
    whole = Crew(tmp_path / "whole", experiment).work()
    iterated, kills = 0, 0
    while True:
        crew = Crew(tmp_path / "cut", experiment, kill_after=7)
        try:
            crew.work()
        except Killed:
            kills += 1
            iterated += crew.iterated
            continue
        iterated += crew.iterated
        break
    assert kills > 5
    assert summary(tmp_path / "cut") == summary(tmp_path / "whole")
    assert iterated <= whole.iterated + kills


def test_as_many_trials_run_as_there_are_slots(experiment: Experiment, tmp_path: Path) -> None:
    crew = Crew(tmp_path / "a", experiment, slots=3)
    assert [isinstance(crew.search.next_trial(), Plan) for _ in range(4)] == [True, True, True, False]
    crew.journal.close()
    Crew(tmp_path / "b", experiment, slots=3).work()
    assert len(summary(tmp_path / "b")) == 10


def test_a_trial_that_fails_is_recorded_with_its_reason_and_not_done_again(
    experiment: Experiment, tmp_path: Path
) -> None:
    crew = Crew(tmp_path / "a", experiment)
    first, second = crew.search.next_trial(), None
    assert isinstance(first, Plan)
    assert not crew.search.result(first.trial, {"failed": "the training loss became nan", "iteration": 1})
    crew.search.ended(first.trial)
    second = crew.search.next_trial()
    assert isinstance(second, Plan)
    crew.search.failed(second.trial, "its process ended")
    crew.journal.close()
    Crew(tmp_path / "a", experiment).work()
    trials = summary(tmp_path / "a")
    assert trials[first.trial][1:3] == ("failed", "the training loss became nan")
    assert trials[second.trial][1:3] == ("failed", "its process ended")
    assert len(trials) == 10


def test_no_trial_starts_when_the_hours_are_used_up(experiment: Experiment, tmp_path: Path) -> None:
    path = tmp_path / "timed.yaml"
    path.write_text(SPACE)
    timed = load_experiment(str(path), ["search.hours=1e-9"])
    crew = Crew(tmp_path / "a", timed)
    assert crew.search.next_trial() == FINISHED
    crew.journal.close()
