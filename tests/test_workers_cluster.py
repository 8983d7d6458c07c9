"""Where the processes of trials lie on a cluster."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from ray.cluster_utils import Cluster

from tests.support.toy_trainable import toy_search
from tests.support.toys_grouped import Grouped
from trainables.training.checkpoint import read_json
from tune_cl.experiment.load import load_experiment
from tune_cl.ray.session import ray_session
from tune_cl.ray.slots import Slots

pytestmark = pytest.mark.slow
SEARCH = """
data: docstrings
ranker: conv_knrm
curriculum: {pacing: linear, delta: {uniform: [0.1, 0.9]}}
training: {max_iterations: 3}
search: {trials: 2, resources: {cpu: 0.5, gpu: 1, workers: 4}}
"""


@pytest.fixture
def gpu_nodes() -> Iterator[Cluster]:
    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
    for _ in range(2):
        made.add_node(num_cpus=4, num_gpus=4)
    yield made
    made.shutdown()


def test_the_processes_of_two_trials_lie_on_the_gpus_of_two_nodes(gpu_nodes: Cluster, tmp_path: Path) -> None:
    """Of four GPUs each, as Ray counts them."""
    (tmp_path / "space.yaml").write_text(SEARCH)
    experiment = load_experiment(str(tmp_path / "space.yaml"))
    folder, open_trials = tmp_path / "search", []
    with ray_session(gpu_nodes.address):
        slots = Slots(experiment.search.resources, None, cluster=True)
        toy_search(
            experiment,
            folder,
            slots,
            {"seconds": 0.5},
            lambda state: open_trials.append(len(state.open_trials())),
            toy=Grouped,
        )
    assert max(open_trials) == 2
    for trial in ("t0000", "t0001"):
        places = [read_json(path) for path in sorted((folder / f"{trial}.places").glob("*.json"))]
        assert [place["gpus"] for place in places] == ["0", "1", "2", "3"]
        assert len({place["node"] for place in places}) == 1, "the processes of a trial are on one node if it has room"
