"""A search that has ended, and a stand-in for Ray that trains its confirmation in this process."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.builders import tiny_data
from tests.support.journal_events import search_event
from tests.support.trec_folder import write_trec_folder
from trainables.config.keys import TrainingConfig
from trainables.data import load_data
from trainables.ranker_trainable import RankerTrainable
from trainables.training.conclusion import Conclusion
from trainables.training.prepared import prepared_key
from tune_cl.experiment.experiment import Experiment, base_ranker
from tune_cl.experiment.load import load_experiment
from tune_cl.history.journal import Journal, read_events
from tune_cl.history.search_folder import SearchFolder
from tune_cl.history.state import SearchState, replay
from tune_cl.history.tracking_uri import resolve_tracking_uri
from tune_cl.results import Verdict
from tune_cl.search.trials import Plan, Trials
from tune_cl.space.space import Flat
from tune_cl.verdict import retraining
from tune_cl.verdict.confirm import confirm_search
from tune_cl.verdict.retraining import Request
from tune_cl.verdict.trainings import Trainings, values_by_query

SPACE = """
ranker: {name: conv_knrm, vector_size: 8, filters: 4}
curriculum:
  scoring: context_words
  pacing: {choice: [root, linear]}
  n: {choice: [2, 10], when: {curriculum.pacing: root}}
  T: 0.3
training: {lr: {choice: [0.01, 0.02]}, batch_size: 8, batches_per_iteration: 2, max_iterations: 3}
baseline: {curriculum.pacing: none}
seed: 2
"""
ROOT = {"curriculum.pacing": "root", "curriculum.n": 2, "training.lr": 0.02}
LINEAR = {"curriculum.pacing": "linear", "training.lr": 0.01}
BROKEN = {"curriculum.pacing": "root", "curriculum.n": 10, "training.lr": 0.01}
OF_SPACE = LINEAR, ROOT, BROKEN, ROOT  # a failed trial has the highest dev value
BOTH = "t0001", "t0002"
LABELS = ["pacing=root n=2 scoring=context_words lr=0.02", "pacing=linear scoring=context_words lr=0.01"]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tiny_data(queries={"train": 30, "dev": 12, "test": 12}, candidates=5, turns=1)
    return write_trec_folder(made, tmp_path_factory.mktemp("data"))


@pytest.fixture
def search_folder(tmp_path: Path, data: Path) -> SearchFolder:
    return ended_search(tmp_path, data)


def ended_search(
    folder: Path,
    data: Path,
    space: str = SPACE,
    choices: Sequence[Flat] = OF_SPACE,
    options: Sequence[str] = (),
) -> SearchFolder:
    """A search that has ended: the baseline and what else was chosen, four trials at most."""
    folder.mkdir(exist_ok=True)
    (folder / "toy.yaml").write_text(space)
    experiment = load_experiment(str(folder / "toy.yaml"), options, data=str(data))
    search_folder = SearchFolder(folder / "runs", "toy")
    with Journal(search_folder.folder) as journal:
        for event in searched(experiment, search_folder, choices):
            journal.append(event)
    return search_folder


def searched(experiment: Experiment, search_folder: SearchFolder, choices: Sequence[Flat]) -> Iterator[dict[str, Any]]:
    """The journal's events."""
    read = {"name": "toy", "digest": load_data(base_ranker(experiment).data).digest}
    yield search_event(experiment, search_folder.storage, data=read, seed=2, time=1000.0)
    every = [experiment.base.point, *choices]
    for number, (choice, dev) in enumerate(zip(every, [0.5, 0.55, 0.6, 0.9, 0.6], strict=False)):
        arm = "plain" if number == 0 or experiment.config(choice).is_plain else "curriculum"
        params, trial, time = experiment.config(choice).run.in_force(), f"t{number:04d}", 1000.0 + number
        yield {"event": "trial", "trial": trial, "number": number, "params": params, "chosen": choice, "seed": 2,
               "baseline": number == 0, "arm": arm, "time": time}  # fmt: skip
        yield {
            "event": "result",
            "trial": trial,
            "iteration": 1,
            "metrics": {"dev_map": dev, "seconds": 1.0},
            "time": time,
        }
        outcome = "baseline" if number == 0 else "failed" if choice == BROKEN else "completed"
        best = {"iteration": 1, "dev": dev}
        yield {"event": "end", "trial": trial, "outcome": outcome, "best": best, "time": time}
    yield {"event": "search_end", "best": None, "cost": {}, "seconds": 5.0, "time": 1010.0}


class LocalTrainer:
    """Trains in this process, one by one. `fails`: why trainings fail, by name; `left`: trainings until Ctrl-C."""

    fails: dict[str, str] = {}  # noqa: RUF012 - set by a test
    left: int = 1000
    trained: list[str] = []  # noqa: RUF012 - cleared by the fixture

    @classmethod
    def run_trials(
        cls,
        trials: Trainings,
        prepared: dict[str, Any],
        resources: Any,
        storage: str,
        name: str,
        concurrency: Any,
    ) -> None:
        while isinstance(plan := trials.next_trial(), Plan):
            if cls.left == 0:
                raise KeyboardInterrupt
            cls.left -= 1
            run = trials.running[plan.trial].name
            if run in cls.fails:
                trials.failed(plan.trial, cls.fails[run])
                continue
            train_here(trials, plan, prepared, Path(storage) / name)
            cls.trained.append(run)


def here(plan: Plan, prepared: dict[str, Any]) -> RankerTrainable:
    """The trial of a plan, in this process."""

    class Here(RankerTrainable):
        def setup(self, config: dict[str, Any]) -> None:
            super().setup(config, prepared)

    return Here(plan.as_config())


def train_here(trials: Trials, plan: Plan, prepared: dict[str, Any], folder: Path) -> None:
    """What Ray Tune does with a trial, in this process."""

    training, goes_on = here(plan, prepared), True
    while goes_on:
        result = training.train()
        goes_on = trials.result(plan.trial, result) and not result["done"]
        if "note" in result:
            trials.note(plan.trial, result["note"])
        if goes_on:
            path = folder / plan.trial / f"checkpoint_{result['iteration']:06d}"
            path.mkdir(parents=True)
            training.save(str(path))
            trials.checkpoint(plan.trial, result["iteration"], str(path))
    training.cleanup()
    trials.ended(plan.trial)


def read_values(folder: Path, split: str, metric: str) -> np.ndarray:
    """The metric's value of each query after a training, float64 [Q]."""
    return np.array(list(values_by_query(folder, split, metric).values()))


def confirm_run(run: TrainingConfig, prepared: Any, folder: str | Path, split: str) -> list[str]:
    """One training of a confirmation, in this process; returns its notes."""

    plan = Plan("t", run, None, 1, 0, Conclusion(str(folder), split))
    training, notes, result = here(plan, {prepared_key(run): prepared}), [], {"done": False}
    while not result["done"]:
        result = training.train()
        notes += [result["note"]] if "note" in result else []
    training.cleanup()
    return notes


class NoWriter:
    trouble = None

    def __init__(self, journal: Journal, uri: str):
        self.journal = journal

    def start(self) -> None:
        assert self.journal.path.exists()

    def close(self, timeout: float) -> int:
        return 0


@contextmanager
def local_trainer() -> Iterator[type[LocalTrainer]]:
    """The trainer that stands in for Ray; MLflow is left out."""

    @contextmanager
    def no_ray(address: str | None) -> Iterator[None]:
        yield

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(retraining, "run_trials", LocalTrainer.run_trials)
        patch.setattr(retraining, "ray_session", no_ray)
        patch.setattr(retraining, "MlflowWriter", NoWriter)
        for name, value in (("fails", {}), ("left", 1000), ("trained", [])):
            patch.setattr(LocalTrainer, name, value)
        yield LocalTrainer


@pytest.fixture
def trainer() -> Iterator[type[LocalTrainer]]:
    with local_trainer() as own:
        yield own


@dataclass(frozen=True)
class Confirmed:
    """A search with its verdict: both curricula with their opponents, two seeds. `trained`: in this order."""

    search_folder: SearchFolder
    verdict: Verdict
    trained: list[str]


@pytest.fixture(scope="module")
def confirmed(tmp_path_factory: pytest.TempPathFactory, data: Path) -> Confirmed:
    search_folder = ended_search(tmp_path_factory.mktemp("confirmed"), data)
    with local_trainer() as own:
        return Confirmed(search_folder, confirm(search_folder, seeds=2, trials=BOTH), list(own.trained))


@pytest.fixture
def confirmed_folder(confirmed: Confirmed, tmp_path: Path) -> SearchFolder:
    """A copy of the confirmed search, for a test to go on with."""
    storage = tmp_path / "confirmed"
    shutil.copytree(confirmed.search_folder.storage, storage)
    return SearchFolder(storage, "toy")


def tracked(search_folder: SearchFolder) -> SearchFolder:
    return replace(search_folder, tracking_uri=resolve_tracking_uri(search_folder.storage))


def confirm(search_folder: SearchFolder, **options: Any) -> Verdict:
    return confirm_search(tracked(search_folder), Request(**options), None)


def state_of(search_folder: SearchFolder) -> SearchState:
    return replay(read_events(search_folder.journal))
