"""A scheduler that pauses trials, through one local Ray, with real trainings; tests/test_search.py has the others."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from tests.support.builders import tiny_data
from tests.support.journal_events import search_event
from tests.support.trec_folder import write_trec_folder
from trainables.ranker_trainable import RankerTrainable
from trainables.training.prepared import PreparedData
from tune_cl.experiment.load import load_experiment
from tune_cl.history.journal import Journal
from tune_cl.history.state import SearchState, TrialState, replay
from tune_cl.inputs import RankerArtifacts as Artifacts
from tune_cl.ray import tuner as ray_tune
from tune_cl.ray.shared_data import untrained
from tune_cl.ray.tuner import run_trials
from tune_cl.search.driver import SearchDriver

pytestmark = pytest.mark.slow

SPACE = """
ranker: {name: conv_knrm, vector_size: 8, filters: 4}
curriculum:
  scoring: context_words
  pacing: {choice: [root, linear]}
  delta: {uniform: [0.2, 0.6]}
  T: 0.3
training: {batch_size: 8, batches_per_iteration: 2, max_iterations: 6}
search: {trials: 7, scheduler: model, reduction_factor: 2, first_rung: 2, grace: none}
"""


class Unsaved(RankerTrainable):
    """A training with checkpoints only where it pauses or ends."""

    def train(self) -> dict[str, Any]:
        self.saves.took = math.inf
        return super().train()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, local_ray: str) -> Path:
    """A folder with data and a search space, while a local Ray runs."""
    folder = tmp_path_factory.mktemp("ray")
    write_trec_folder(tiny_data(queries={"train": 30, "dev": 12, "test": 12}, candidates=5, turns=1), folder / "data")
    (folder / "toy.yaml").write_text(SPACE)
    return folder


@pytest.fixture(scope="module")
def prepared(folder: Path) -> dict[str, PreparedData]:
    return untrained(load_experiment(str(folder / "toy.yaml"), data=str(folder / "data")))


def searched(folder: Path, prepared: dict[str, PreparedData], name: str) -> SearchState:
    experiment = load_experiment(str(folder / "toy.yaml"), data=str(folder / "data"))
    with Journal(folder / name) as journal:
        journal.append(search_event(experiment, folder, name))
        search = SearchDriver(experiment, journal, 1, Artifacts(folder / name / "trials", prepared))
        resources, place = experiment.search.resources, str(folder / name)
        run_trials(search, prepared, resources, place, "session-1", concurrency=lambda: 1)
        state = replay(journal.events())
    assert state == search.state
    return state


def test_trials_go_the_same_way_whenever_they_save(
    folder: Path, prepared: dict[str, PreparedData], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Trials pause, and go on when the model of curves asks for them."""
    always = searched(folder, prepared, "Always")
    assert len(always.trials) == 7 and all(trial.outcome and trial.artifacts for trial in always.by_number())
    monkeypatch.setattr(ray_tune, "RankerTrainable", Unsaved)
    state = searched(folder, prepared, "Unsaved")
    assert [curve_of(trial) for trial in state.by_number()] == [curve_of(trial) for trial in always.by_number()]
    assert all(trial.iterations in trial.checkpoints for trial in state.by_number())
    taken = [sum(len(trial.checkpoints) for trial in one.by_number()) for one in (always, state)]
    assert taken[1] < taken[0] / 1.5


def curve_of(trial: TrialState) -> tuple[Any, ...]:
    """What a trial was and found, without times and paths."""
    return trial.trial, trial.params, trial.outcome, trial.dev("map")
