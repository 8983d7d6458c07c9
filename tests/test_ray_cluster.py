"""A Ray cluster of several nodes on this machine: trials, and what they share, on nodes that come and go."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from ray.cluster_utils import Cluster

from tests.support.builders import tiny_data
from tests.support.toy_search import toy
from tests.support.toy_trainable import SPACE, steps_of, toy_search
from tests.support.trec_folder import write_trec_folder
from tune_cl.experiment.search_keys import Resources
from tune_cl.history.state import SearchState
from tune_cl.ray import concurrency as places_module
from tune_cl.ray.concurrency import Concurrency
from tune_cl.ray.session import ray_session
from tune_cl.ray.shared_data import completed, on_cluster, untrained
from tune_cl.ray.workarounds import reread_token

pytestmark = pytest.mark.slow
FAULTS = {"t0001": "raises", "t0002": "nan"}


@pytest.fixture(scope="module")
def node_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("node")


@pytest.fixture(scope="module")
def cluster(node_cache: Path) -> Iterator[Cluster]:
    """A head that holds no trial, and a node of two CPUs and one GPU, which need not be real, with a cache of its own.
    The home may hold no token."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_AUTH_MODE", "token")
        patch.setenv("RAY_AUTH_TOKEN", "a" * 64)
        reread_token()
        made = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
        try:
            with patch.context() as of_node:
                of_node.setenv("XDG_CACHE_HOME", str(node_cache))
                made.add_node(num_cpus=2, num_gpus=1)
            yield made
        finally:
            made.shutdown()


TAUGHT = """
data: FOLDER
ranker: {name: knrm, vector_size: 8}
curriculum: {pacing: linear, scoring: {choice: [model_loss, turns]}}
training: {max_iterations: 1, batches_per_iteration: 1, batch_size: 4}
search: {trials: 2, resources: {cpu: 2}}
"""


def test_what_trials_share_is_trained_where_they_are(
    cluster: Cluster, node_cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The head, with the driver, trains no teacher; the node has neither files nor the driver's cache."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "driver"))
    data = write_trec_folder(tiny_data(queries=5, candidates=4, turns=1), tmp_path / "data")
    experiment = toy(tmp_path, space=TAUGHT.replace("FOLDER", str(data)))
    known, resources = untrained(experiment), experiment.search.resources
    [made] = completed(experiment, known, on_cluster(cluster.address, resources)).values()
    assert (node_cache / "tune_cl" / "teacher").exists() and not (tmp_path / "driver" / "tune_cl" / "teacher").exists()
    [again] = completed(experiment, known, on_cluster("10.0.0.7:6379", resources)).values()  # the cache has it
    assert np.array_equal(again.teachers["teacher"], made.teachers["teacher"])


def test_trials_share_a_gpu_and_go_on_where_a_node_is_lost(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second node comes while the search runs and gets a trial; the first, with two trials, is lost later."""
    monkeypatch.setattr(places_module, "READ_SECONDS", 0.5)  # so that the new node is seen well before the end
    experiment, resources = toy(tmp_path, space=SPACE), Resources(cpu=1, gpu=0.5)
    experiment = replace(experiment, search=experiment.search.model_copy(update={"resources": resources}))
    [first] = cluster.worker_nodes
    folder, at_once, lost = tmp_path / "search", [], []

    def watch(state: SearchState) -> None:
        at_once.append(len(state.open_trials()))
        if state.iterations == 2 and len(cluster.worker_nodes) == 1 and not lost:
            cluster.add_node(num_cpus=1, num_gpus=1)
        if max(at_once) == 3 and state.iterations >= 20 and not lost:
            lost.append(first)
            cluster.remove_node(first, allow_graceful=False)

    with ray_session(cluster.address):
        places = Concurrency(resources, experiment.search.max_concurrent, cluster=True)
        assert places() == 2
        state = toy_search(experiment, folder, places, {"seconds": 0.1, "faults": FAULTS}, watch)
    assert lost and max(at_once) == 3
    assert {file.read_text() for file in folder.glob("*.gpus")} == {"0"}
    for trial in state.by_number():
        steps = {"t0001": 0, "t0002": 1}.get(trial.trial, 6)
        outcome = "baseline" if trial.trial == "t0000" else "completed" if steps == 6 else "failed"
        assert (trial.outcome, sorted(trial.results)) == (outcome, [*range(1, steps + 1)]), trial.reason
    assert "there is no such model" in str(state.trials["t0001"].reason)
    assert state.trials["t0002"].reason == "the training loss became nan"
    repeated = sum(len(steps_of(folder, trial)) for trial in state.trials if trial not in FAULTS) - 5 * 6
    assert 0 <= repeated <= 4  # by the two trials on the lost node
