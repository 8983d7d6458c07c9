"""Faults on real Ray, counted exactly: processes that die, trials that cannot start, nodes that go and come."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import ray
from ray.cluster_utils import Cluster

from tests.toy_trainable import steps_of, toy_search
from tune_cl.experiment import Experiment, load_experiment
from tune_cl.journal import SearchState
from tune_cl.search.places import READ_SECONDS, Places
from tune_cl.search.ray_tune import ray_session

SPACE = """
data: docstrings
ranker: conv_knrm
curriculum: {pacing: linear, delta: {uniform: [0.1, 0.9]}}
training: {max_iterations: 6}
search: {searcher: random, trials: 7}
"""
FAULTS = {"t0001": "killed", "t0002": "raises", "t0003": "nan"}


@pytest.fixture
def experiment(tmp_path: Path) -> Experiment:
    path = tmp_path / "toy.yaml"
    path.write_text(SPACE)
    return load_experiment(str(path))


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    """A head without trial slots and a worker."""
    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
    made.add_node(num_cpus=1)
    try:
        yield made
    finally:
        made.shutdown()


def test_trials_go_on_where_processes_and_nodes_die(cluster: Cluster, experiment: Experiment, tmp_path: Path) -> None:
    """The second node comes while the search runs and gets a trial; the first is lost later."""
    first = next(node for node in cluster.worker_nodes)
    folder, at_once, lost = tmp_path / "search", [], []

    def watch(state: SearchState) -> None:
        at_once.append(len(state.open_trials()))
        if state.iterations == 2 and len(cluster.worker_nodes) == 1 and not lost:
            cluster.add_node(num_cpus=1)
        if max(at_once) == 2 and state.iterations >= 20 and not lost:
            lost.append(first)
            cluster.remove_node(first, allow_graceful=False)

    with ray_session(cluster.address):
        places = Places(experiment.search.resources, experiment.search.max_concurrent, cluster=True)
        assert places() == 1
        state = toy_search(experiment, folder, places, {"seconds": READ_SECONDS / 10, "faults": FAULTS}, watch)
    assert lost and max(at_once) == 2
    outcomes = {trial.trial: trial.outcome for trial in state.by_number()}
    assert outcomes == {"t0000": "baseline"} | {
        f"t000{n}": "failed" if n in (2, 3) else "completed" for n in range(1, 7)
    }
    for trial in state.by_number():
        expected = {"t0002": [], "t0003": [1]}.get(trial.trial, [1, 2, 3, 4, 5, 6])
        assert sorted(trial.results) == expected, trial.trial
    assert steps_of(folder, "t0001") == [1, 2, 3, 3, 4, 5, 6]  # the lost step, and no other, was made again
    assert "there is no such model" in str(state.trials["t0002"].reason)
    assert state.trials["t0003"].reason == "the training loss became nan"
    repeated = sum(len(steps_of(folder, trial)) for trial in outcomes if trial not in FAULTS) - 4 * 6
    assert 0 <= repeated <= 2  # of the one trial that the lost node had


def test_a_local_ray_refuses_those_without_its_token(tmp_path: Path) -> None:
    """Ray on Linux listens on every interface; the token keeps others out."""
    program = "import ray, sys; ray.init(sys.argv[1], logging_level=50)"
    with ray_session(None):
        address = ray.get_runtime_context().gcs_address
        stranger = os.environ | {"HOME": str(tmp_path), "RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": "0" * 32}
        done = subprocess.run(
            [sys.executable, "-c", program, address], env=stranger, capture_output=True, text=True, check=False
        )
    assert done.returncode != 0 and "AuthenticationError" in done.stderr, done.stderr
