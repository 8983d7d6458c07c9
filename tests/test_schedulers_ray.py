"""Every scheduler runs a small search through Ray: one local Ray for all of them, real trainings."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.builders import tiny_data
from tests.trec_folder import write_trec_folder
from trainables.training.materials import Materials
from tune_cl.experiment import load_experiment
from tune_cl.journal import Journal, replay
from tune_cl.search.artifacts import Artifacts
from tune_cl.search.materials import materials_of
from tune_cl.search.ray_tune import ray_session, run_trials
from tune_cl.search.search import BASELINE, Search

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
    return materials_of(load_experiment(str(folder / "toy.yaml"), data=str(folder / "data")))


@pytest.mark.parametrize("way", WAYS)
def test_a_search_through_ray(folder: Path, materials: dict[str, Materials], way: str) -> None:
    experiment = load_experiment(str(folder / "toy.yaml"), WAYS[way], data=str(folder / "data"))
    begun = {"event": "search", "name": way, "space": "toy", "data": {}, "ranker": "conv_knrm", "metric": "map"}
    begun |= {"seed": 0, "baseline": BASELINE, "yaml": experiment.to_yaml(), "storage": str(folder), "time": 0.0}
    with Journal(folder / way) as journal:
        journal.append(begun)
        search = Search(experiment, journal, 1, Artifacts(folder / way / "trials", materials))
        run_trials(search, materials, folder / way, 1, places=lambda: 1)
        state = replay(journal.events())
    assert state == search.state and len(state.trials) == 7
    outcomes = {trial.outcome for trial in state.by_number()}
    assert outcomes <= {"baseline", "completed", "stopped_early"} and "completed" in outcomes
    for trial in state.by_number():
        assert sorted(trial.results) == list(range(1, trial.iterations + 1))
        if trial.outcome != "stopped_early":
            assert len(trial.dev("map")) == 6
        if way == "scaled" and not trial.baseline:
            assert trial.iterations == {2: 2, 4: 2 + 4, 6: 2 + 4 + 6}[len(trial.dev("map"))]
        assert trial.artifacts and (Path(trial.artifacts) / "dev.run.txt").is_file()
