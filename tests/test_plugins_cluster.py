"""Parts of one's own on a Ray cluster of two nodes besides the head: files travel, packages must be there."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import ray
from ray.cluster_utils import Cluster

from tests.support.plugins import LENGTH, unload, written
from trainables.core.errors import WorkFailed
from trainables.core.plugins import load_plugins
from tune_cl.ray.session import ray_session

pytestmark = pytest.mark.slow
__all__ = ["unload"]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
    made.add_node(num_cpus=1)
    made.add_node(num_cpus=1)
    yield made
    made.shutdown()


def names_there() -> tuple[list[str], str]:
    from trainables.curriculum.scoring import SCORINGS

    return list(SCORINGS), ray.get_runtime_context().get_node_id()


def test_a_file_is_loaded_on_each_node_though_none_has_it(cluster: Cluster, tmp_path: Path) -> None:
    load_plugins([written(tmp_path, LENGTH)])
    (tmp_path / "mine.py").unlink()
    with ray_session(cluster.address):
        task = ray.remote(num_cpus=1, scheduling_strategy="SPREAD")(names_there)
        answers = ray.get([task.remote() for _ in range(6)])
    assert all("length" in names for names, _ in answers)
    assert len({node for _, node in answers}) == 2


def test_a_module_that_a_node_lacks_is_named(cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written(tmp_path, LENGTH, "only_here.py")
    monkeypatch.syspath_prepend(tmp_path)
    load_plugins(["only_here"])
    with (
        pytest.raises(WorkFailed, match=r"node [\d.]+ cannot run trials: --plugin: no module 'only_here'; install"),
        ray_session(cluster.address),
    ):
        pytest.fail("the session has begun")
