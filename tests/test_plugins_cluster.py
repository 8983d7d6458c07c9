"""Parts of one's own on a Ray cluster of two nodes besides the head: files travel, packages must be there."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import ray
from ray.cluster_utils import Cluster

from tests.support.plugins import LENGTH, unload, written
from trainables.core.errors import WorkFailed
from trainables.core.plugins import load_plugins
from tune_cl.cli import main
from tune_cl.ray.session import ray_session

pytestmark = pytest.mark.slow
SPACE = """
name: own
data: docstrings
ranker: {name: knrm, vector_size: 8}
curriculum: {scoring: {choice: [length, turns]}, pacing: linear}
training: {batch_size: 4, batches_per_iteration: 1, max_iterations: 1, max_length: 16}
baseline: {curriculum.pacing: none}
search: {trials: 3, searcher: grid}
"""
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


def test_a_search_runs_with_a_plugin_and_asks_for_it_again(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    file, space = written(tmp_path, LENGTH), written(tmp_path, SPACE, "own.yaml")
    assert main(["run", space, "--plugin", file, "--address", cluster.address, "--name", "a", "--json"]) == 0
    document = json.loads(capfd.readouterr().out)
    assert (document["trials"], document["errored"]) == (3, 0)
    first = json.loads((tmp_path / "tune_cl_runs" / "a" / "journal.jsonl").read_text().splitlines()[0])
    assert [record["file"] for record in first["plugins"]] == [file]
