"""The number of trials put forward follows the nodes that are there."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import pytest

from trainables.core.errors import ConfigError
from tune_cl.experiment.load import load_experiment
from tune_cl.experiment.search_keys import Resources
from tune_cl.ray import concurrency as module
from tune_cl.ray.concurrency import READ_SECONDS, Concurrency, capacity_of, require_room

HEAD = {"CPU": 0.0}
WORKER = {"CPU": 8.0, "GPU": 2.0}


class Nodes:
    """Stands in for a cluster, and for the clock."""

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
    monkeypatch.setattr(module, "NodeCheck", lambda say: list)  # asks the nodes nothing
    return made


@pytest.mark.parametrize(
    ("cpu", "gpu", "expected"),
    [
        (1, 0, 8), (3, 0, 2), (16, 0, 0), (1, 3, 0),  # a trial cannot span nodes
        (1, 1, 2), (1, 2, 1), (1, 0.5, 4), (1, 0.4, 4), (1, 0.2, 8), (0, 0.1, 20), (0.5, 0.25, 8), (4, 0.25, 2),
    ],
)  # fmt: skip
def test_trials_of_a_cluster(nodes: Nodes, cpu: float, gpu: float, expected: int) -> None:
    assert capacity_of(nodes.nodes(), Resources(cpu=cpu, gpu=gpu)) == expected


def test_nodes_that_come_and_go_are_seen_while_the_search_runs(nodes: Nodes) -> None:
    places = Concurrency(Resources(gpu=0.5), None, cluster=True)
    assert places() == 4
    nodes.alive.append(WORKER)
    assert places() == 4 and nodes.reads == 1  # nodes are not read for each trial
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
    assert Concurrency(Resources(), at_most, cluster)() == expected


def test_a_trial_of_several_gpus_waits_for_a_node_that_has_them(nodes: Nodes) -> None:
    """One trial is put forward all the same, so that an autoscaler sees what is needed."""
    said: list[str] = []
    places = Concurrency(Resources(cpu=4, gpu=4), None, cluster=True, say=said.append)
    for _ in range(3):
        assert places() == 1
        nodes.now += READ_SECONDS
    assert said == ["note: waiting for a node that holds a trial (4 CPU, 4 GPU): none of the cluster does"]
    nodes.alive.append({"CPU": 16.0, "GPU": 8.0})
    assert places() == 2
    nodes.alive.pop()
    nodes.now += READ_SECONDS
    assert places() == 1 and len(said) == 2


@pytest.mark.parametrize(("gpu", "on_cpu", "told"), [(0, False, 1), (0, True, 0), (0.25, False, 0)])
def test_gpus_that_stay_idle_are_told_of_once(gpu: float, on_cpu: bool, told: int, nodes: Nodes) -> None:
    """Trees train on the CPU wherever they are."""
    said: list[str] = []
    places = Concurrency(Resources(gpu=gpu), None, cluster=True, say=said.append, on_cpu=on_cpu)
    for _ in range(2):
        places()
        nodes.now += READ_SECONDS
    assert said == [module.IDLE_GPUS] * told


def test_gpus_are_fractions_or_whole_numbers() -> None:
    with pytest.raises(ConfigError, match=r"search.resources.gpu: 1.5 is more than one GPU and not a whole number"):
        load_experiment("quickstart", ["search.resources.gpu=1.5"])


@pytest.mark.parametrize(
    ("need", "told"),
    [
        (Resources(cpu=4, gpu=2), []),
        (Resources(cpu=10_000, gpu=3), ["cpu: a trial takes 10000, this", "gpu: a trial takes 3, this machine has 2"]),
    ],
)
def test_a_machine_that_does_not_hold_a_trial_is_refused(
    need: Resources, told: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "this_machine", lambda: {"CPU": 4, "GPU": 2})
    with pytest.raises(ConfigError) if told else nullcontext() as refused:
        require_room(need)
    problems = map(str, refused.value.problems) if refused else []
    assert all(f"search.resources.{text}" in problem for text, problem in zip(told, problems, strict=True))
