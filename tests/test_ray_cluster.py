"""Ray clusters of several nodes on this machine: trials, and what they share, on nodes that come
and go."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import ray
from ray.cluster_utils import Cluster

from tests.support.builders import tiny_data
from tests.support.toy_trainable import SPACE, steps_of, toy_search
from tests.support.trec_folder import write_trec_folder
from tune_cl.experiment.experiment import Experiment
from tune_cl.experiment.load import load_experiment
from tune_cl.experiment.search_keys import Resources
from tune_cl.history.state import SearchState
from tune_cl.ray import concurrency as places_module
from tune_cl.ray.concurrency import Concurrency
from tune_cl.ray.session import ray_session
from tune_cl.ray.shared_data import completed, on_cluster, untrained

pytestmark = pytest.mark.slow
FAULTS = {"t0001": "killed", "t0002": "raises", "t0003": "nan"}


@pytest.fixture
def space(tmp_path: Path) -> Path:
    path = tmp_path / "toy.yaml"
    path.write_text(SPACE)
    return path


@pytest.fixture
def experiment(space: Path) -> Experiment:
    return load_experiment(str(space))


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """A head that holds no trial, and a worker; before it this process had a local Ray. The home may hold no token."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_AUTH_MODE", "token")
        patch.setenv("RAY_AUTH_TOKEN", "a" * 64)
        with ray_session(None):
            ray.get(ray.remote(lambda: None).remote())
        made = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
        made.add_node(num_cpus=1)
        try:
            yield made
        finally:
            made.shutdown()


@contextmanager
def nodes(cluster: Cluster, count: int, **resources: int) -> Iterator[None]:
    """Further nodes for a while."""
    added = [cluster.add_node(**resources) for _ in range(count)]
    try:
        yield
    finally:
        for node in added:
            cluster.remove_node(node)


def counting(counts: list[int]) -> Callable[[SearchState], None]:
    """Notes how many trials are open at each event."""
    return lambda state: counts.append(len(state.open_trials()))


def test_trials_share_the_gpus_of_a_node(cluster: Cluster, experiment: Experiment, tmp_path: Path) -> None:
    """Ray's own count of GPUs: no real ones are needed. The node has two, and a trial takes half of one."""
    resources, folder, at_once = Resources(cpu=1, gpu=0.5), tmp_path / "search", []
    search = experiment.search.model_copy(update={"resources": resources, "trials": 5})
    experiment = replace(experiment, search=search)
    with nodes(cluster, 1, num_cpus=4, num_gpus=2), ray_session(cluster.address):
        concurrency = Concurrency(resources, None, cluster=True)
        state = toy_search(experiment, folder, concurrency, {"seconds": 0.3}, counting(at_once))
    assert [trial.outcome for trial in state.by_number()] == ["baseline", *["completed"] * 4]
    assert max(at_once) == 4
    assert sorted(file.read_text() for file in folder.glob("*.gpus")) == ["0", "0", "1", "1"]


TAUGHT = """
data: FOLDER
ranker: {name: knrm, vector_size: 8}
curriculum: {pacing: linear, scoring: {choice: [model_loss, turns]}}
training: {max_iterations: 1, batches_per_iteration: 1, batch_size: 4, pretrain_data: OTHER, pretrain_iterations: 1}
search: {trials: 2, resources: {cpu: 2}}
"""


def test_what_trials_share_is_trained_where_they_are(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """The head, with the driver, trains neither teacher nor pre-training; nodes have neither files nor the cache."""
    space = TAUGHT
    for name, queries in (("FOLDER", 5), ("OTHER", 6)):
        data = tiny_data(queries=queries, candidates=4, turns=1)
        space = space.replace(name, str(write_trec_folder(data, tmp_path / name)))
    (tmp_path / "toy.yaml").write_text(space)
    experiment = load_experiment(str(tmp_path / "toy.yaml"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "node"))
    with nodes(cluster, 1, num_cpus=2):  # the other node has room for one trial
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "driver"))
        known = untrained(experiment)
        there = on_cluster(cluster.address, experiment.search.resources)
        [made] = completed(experiment, known, there).values()
    assert "teacher" in made.teachers and made.start
    told = "scores of teacher: computed on the cluster; the trials begin when it is there"
    assert capfd.readouterr().err.splitlines().count(told) == 1
    trained = {name: {path.name for path in (tmp_path / name / "tune_cl").iterdir()} for name in ("node", "driver")}
    assert {"teacher", "pretrained"} <= trained["node"] and "teacher" not in trained["driver"]
    nobody = on_cluster("10.0.0.7:6379", experiment.search.resources)
    [again] = completed(experiment, known, nobody).values()  # the cache has it all
    assert np.array_equal(again.teachers["teacher"], made.teachers["teacher"])


def test_trials_go_on_where_processes_and_nodes_die(
    cluster: Cluster, experiment: Experiment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second node comes while the search runs and gets a trial; the first is lost later."""
    monkeypatch.setattr(places_module, "READ_SECONDS", 0.5)  # so that the new node is seen well before the end
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
        places = Concurrency(experiment.search.resources, experiment.search.max_concurrent, cluster=True)
        assert places() == 1
        state = toy_search(experiment, folder, places, {"seconds": 0.1, "faults": FAULTS}, watch)
    assert lost and max(at_once) == 2
    outcomes = {trial.trial: trial.outcome for trial in state.by_number()}
    assert outcomes == {"t0000": "baseline"} | {
        f"t000{n}": "failed" if n in (2, 3) else "completed" for n in range(1, 7)
    }, "\n".join(f"{trial.trial}: {trial.reason}" for trial in state.by_number())
    for trial in state.by_number():
        expected = {"t0002": [], "t0003": [1]}.get(trial.trial, [1, 2, 3, 4, 5, 6])
        assert sorted(trial.results) == expected, trial.trial
    assert steps_of(folder, "t0001") == [1, 2, 3, 3, 4, 5, 6]  # the lost step was made again, and no other
    assert "there is no such model" in str(state.trials["t0002"].reason)
    assert state.trials["t0003"].reason == "the training loss became nan"
    repeated = sum(len(steps_of(folder, trial)) for trial in outcomes if trial not in FAULTS) - 4 * 6
    assert 0 <= repeated <= 2  # by the only trial on the lost node
