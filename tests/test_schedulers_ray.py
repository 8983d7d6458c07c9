"""Every scheduler runs a small search through Ray: one local Ray for all, real trainings."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.builders import tiny_data
from tests.trec_folder import write_trec_folder
from trainables.ranker_trainable import RankerTrainable
from trainables.training.materials import Materials
from tune_cl.experiment import load_experiment
from tune_cl.journal import Journal
from tune_cl.ray_session import ray_session
from tune_cl.search import ray_tune
from tune_cl.search.artifacts import Artifacts
from tune_cl.search.leftovers import KEPT
from tune_cl.search.materials import untrained
from tune_cl.search.ray_tune import run_trials
from tune_cl.search.search import BASELINE_TRIAL, Search
from tune_cl.state import SearchState, TrialState, replay

SPACE = """
ranker: {name: conv_knrm, vector_size: 8, filters: 4}
curriculum:
  scoring: context_words
  pacing: {choice: [root, linear]}
  delta: {uniform: [0.2, 0.6]}
  T: 0.3
training: {batch_size: 8, batches_per_iteration: 2, max_iterations: 6}
search: {trials: 7, reduction_factor: 2, first_rung: 2, grace: none}
"""


class Unsaved(RankerTrainable):
    """A training that never asks for a checkpoint."""

    def get_auto_filled_metrics(self, *arguments: Any, **options: Any) -> dict[str, Any]:
        return super().get_auto_filled_metrics(*arguments, **options) | {"should_checkpoint": False}


WAYS = {
    "promotion": ["search.scheduler=asha", "search.promotion=true"],
    "scaled": ["search.scheduler=asha", "search.grace=scaled", "search.compare=paired"],
    "hyperband": ["search.scheduler=hyperband"],
    "pbt": ["search.scheduler=pbt"],
    "median": ["search.scheduler=median"],
    "model": ["search.scheduler=model", "search.promotion=false"],
    "freeze-thaw": ["search.scheduler=model"],
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with data and a search space, while a local Ray runs."""
    folder = tmp_path_factory.mktemp("ray")
    write_trec_folder(tiny_data(queries={"train": 30, "dev": 12, "test": 12}, candidates=5, turns=1), folder / "data")
    (folder / "toy.yaml").write_text(SPACE)
    with ray_session(None):
        yield folder


@pytest.fixture(scope="module")
def materials(folder: Path) -> dict[str, Materials]:
    return untrained(load_experiment(str(folder / "toy.yaml"), data=str(folder / "data")))


def searched(folder: Path, materials: dict[str, Materials], way: str, name: str) -> SearchState:
    experiment = load_experiment(str(folder / "toy.yaml"), WAYS[way], data=str(folder / "data"))
    begun = {"event": "search", "name": name, "space": "toy", "data": {}, "metric": "map"}
    begun |= {"ranker": "conv_knrm", "rankers": ["conv_knrm"]}
    begun |= {"seed": 0, "baseline": BASELINE_TRIAL, "yaml": experiment.to_yaml(), "storage": str(folder), "time": 0.0}
    with Journal(folder / name) as journal:
        journal.append(begun)
        search = Search(experiment, journal, 1, Artifacts(folder / name / "trials", materials))
        run_trials(search, materials, str(folder / name), 1, places=lambda: 1)
        state = replay(journal.events())
    assert state == search.state
    return state


@pytest.mark.parametrize("way", WAYS)
def test_a_search_through_ray(folder: Path, materials: dict[str, Materials], way: str) -> None:
    state = searched(folder, materials, way, way)
    assert len(state.trials) == 7
    outcomes = {trial.outcome for trial in state.by_number()}
    assert outcomes <= {"baseline", "completed", "stopped_early"} and "completed" in outcomes
    for trial in state.by_number():
        assert sorted(trial.results) == list(range(1, trial.iterations + 1))
        if trial.outcome != "stopped_early":
            assert len(trial.dev("map")) == 6
        if way == "scaled" and not trial.baseline:
            assert trial.iterations == {2: 2, 4: 2 + 4, 6: 2 + 4 + 6}[len(trial.dev("map"))]
        assert trial.artifacts and (Path(trial.artifacts) / "dev.run.txt").is_file()
    best = state.best()
    assert best is not None
    left = {trial.trial: sum(Path(path).is_dir() for path in trial.checkpoints.values()) for trial in state.by_number()}
    assert 1 <= left.pop(best[0].trial) <= KEPT + 1 and not any(left.values()), "of the others nothing is read any more"


@pytest.mark.parametrize("way", ["pbt", "freeze-thaw"])
def test_trials_that_save_only_when_they_pause_or_end_go_the_same_way(
    folder: Path, materials: dict[str, Materials], way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    always = searched(folder, materials, way, f"{way} saves always")
    monkeypatch.setattr(ray_tune, "RankerTrainable", Unsaved)
    seldom = searched(folder, materials, way, f"{way} saves seldom")
    assert [curve_of(trial) for trial in seldom.by_number()] == [curve_of(trial) for trial in always.by_number()]
    saves = [sum(len(trial.checkpoints) for trial in state.by_number()) for state in (always, seldom)]
    assert saves[1] < saves[0] / 1.5 and all(trial.iterations in trial.checkpoints for trial in seldom.by_number())


def curve_of(trial: TrialState) -> tuple[Any, ...]:
    """What a trial was and found, without times and paths."""
    return trial.trial, trial.params, trial.outcome, trial.dev("map")
