"""How many trials are put forward follows the nodes that are there."""

from __future__ import annotations

from typing import Any

import pytest

from tune_cl.search import places as module
from tune_cl.search.config import Resources
from tune_cl.search.places import READ_SECONDS, Places, held

HEAD = {"CPU": 0.0}
WORKER = {"CPU": 8.0, "GPU": 2.0}


class Nodes:
    """Stands for a cluster, and for the clock."""

    def __init__(self, *resources: dict[str, float]):
        self.alive = list(resources)
        self.lost: list[dict[str, float]] = []
        self.reads, self.now = 0, 100.0

    def nodes(self) -> list[dict[str, Any]]:
        self.reads += 1
        shown = [(node, True) for node in self.alive] + [(node, False) for node in self.lost]
        return [{"Resources": resources, "Alive": alive} for resources, alive in shown]

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def nodes(monkeypatch: pytest.MonkeyPatch) -> Nodes:
    made = Nodes(HEAD, WORKER)
    monkeypatch.setattr(module.ray, "nodes", made.nodes)
    monkeypatch.setattr(module.time, "monotonic", made.monotonic)
    return made


@pytest.mark.parametrize(
    ("cpu", "gpu", "expected"),
    [
        (1, 0, 8), (3, 0, 2), (16, 0, 1),  # a trial lies on one node; never 0
        (1, 1, 2), (1, 2, 1), (1, 0.5, 4), (1, 0.4, 4), (1, 0.2, 8), (0, 0.1, 20), (0.5, 0.25, 8), (4, 0.25, 2),
    ],
)  # fmt: skip
def test_trials_of_a_cluster(nodes: Nodes, cpu: float, gpu: float, expected: int) -> None:
    assert held(Resources(cpu=cpu, gpu=gpu)) == expected


def test_resources_of_several_nodes_are_not_one_pool(nodes: Nodes) -> None:
    nodes.alive = [{"CPU": 3.0}, {"CPU": 3.0}]
    assert held(Resources(cpu=2)) == 2


def test_nodes_that_come_and_go_are_seen_while_the_search_runs(nodes: Nodes) -> None:
    places = Places(Resources(gpu=0.5), None, cluster=True)
    assert places() == 4
    nodes.alive.append(WORKER)
    assert places() == 4 and nodes.reads == 1  # not asked at each trial
    nodes.now += READ_SECONDS
    assert places() == 8
    nodes.lost, nodes.alive = nodes.alive[1:], nodes.alive[:1]
    nodes.now += READ_SECONDS
    assert places() == 1 and nodes.reads == 3


@pytest.mark.parametrize(
    ("at_most", "cluster", "expected"), [(3, False, 3), (30, False, 8), (3, True, 3), (30, True, 30)]
)
def test_a_cluster_is_asked_for_more_than_it_holds_and_a_machine_is_not(
    nodes: Nodes, at_most: int, cluster: bool, expected: int
) -> None:
    assert Places(Resources(), at_most, cluster)() == expected
