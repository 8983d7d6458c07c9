"""How many trials may run, or wait for a node, at a time, as nodes of the cluster come and go."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from math import inf
from typing import Any

import ray

from trainables.core.errors import ConfigError, Problem
from tune_cl.experiment.experiment import Experiment
from tune_cl.experiment.search_keys import Resources, SearchConfig
from tune_cl.ray.nodes import NodeCheck, alive_nodes
from tune_cl.ray.session import this_machine

READ_SECONDS = 5.0  # between looks at the cluster
IDLE_GPUS = (
    "note: there are GPUs, but a trial reserves none and trains on the CPU; search.resources.gpu=1 would use them, or "
    "a fraction such as 0.25, so that several trials share one"
)


def require_room(need: Resources) -> None:
    """Raises ConfigError if this machine, or the Ray that the user has started in this process, cannot hold a single
    trial, which would wait for ever: a local Ray gets no other nodes."""
    if problems := lacking(need):
        raise ConfigError(problems)


def lacking(need: Resources) -> list[Problem]:
    """What a trial needs and this machine lacks, or the Ray that runs in this process already."""
    nodes = [node["Resources"] for node in alive_nodes()] if ray.is_initialized() else [this_machine()]
    problems = []
    for kind, wanted in (("cpu", need.cpu), ("gpu", need.gpu)):
        room = max((node.get(kind.upper(), 0) for node in nodes), default=0)
        if wanted > room:
            wrong = f"a trial takes {wanted:g}, this machine has {room:g}"
            problems.append(Problem(f"search.resources.{kind}", wrong, "less, or --address of a larger cluster"))
    return problems


def at_a_time(search: SearchConfig) -> int:
    """How many trials this machine runs at a time; 1 if it holds none."""
    capacity = max(1, capacity_of([{"Resources": this_machine()}], search.resources))
    return min(capacity, search.max_concurrent or capacity)


class Concurrency:
    """Called before each trial; looks at the cluster at most every READ_SECONDS.

    In a local Ray, `at_most` (`search.max_concurrent`) caps what the machine holds. A cluster can grow, but its
    autoscaler starts nodes only for trials that wait: there `at_most` trials are put forward, whatever it holds now;
    without `at_most`, as many as it holds, and at least one.

    `say` is told when no node can hold a trial, what NodeCheck finds, and once of GPUs that a training could use
    (`on_cpu`: it could not) and reserves none of. Raises WorkFailed for a node that cannot run trials (NodeCheck).
    """

    def __init__(
        self,
        need: Resources,
        at_most: int | None,
        cluster: bool,
        say: Callable[[str], None] = lambda line: None,
        on_cpu: bool = True,
    ):
        self.need, self.at_most, self.cluster, self.say = need, at_most, cluster, say
        self._could_use_gpus = not (on_cpu or need.gpu)
        self._read_at, self._capacity = -inf, 1
        self._check = NodeCheck(say) if cluster else None  # a local process has the same packages as the driver

    @classmethod
    def of(cls, experiment: Experiment, address: str | None, say: Callable[[str], None]) -> Concurrency:
        """That of a search's trainings, on the cluster at the address or here."""
        search, on_cpu = experiment.search, experiment.base.run.on_cpu
        return cls(search.resources, search.max_concurrent, address is not None, say, on_cpu)

    def __call__(self) -> int:
        if time.monotonic() - self._read_at >= READ_SECONDS:
            self._read_at = time.monotonic()
            self.look(alive_nodes())
        if self.cluster and self.at_most:
            return self.at_most
        return max(1, min(self._capacity, self.at_most or self._capacity))

    def look(self, nodes: Iterable[Mapping[str, Any]]) -> None:
        """Counts how many trials the nodes hold; says what the user should know of them."""
        if self._check:
            self._check(node for node in nodes if _on(node["Resources"], self.need))
        before, self._capacity = self._capacity, capacity_of(nodes, self.need)
        if before and not self._capacity:
            wanted = f"{self.need.cpu:g} CPU, {self.need.gpu:g} GPU"
            self.say(f"note: waiting for a node that holds a trial ({wanted}): none of the cluster does")
        if self._could_use_gpus and any(node["Resources"].get("GPU") for node in nodes):
            self._could_use_gpus = False
            self.say(IDLE_GPUS)


def capacity_of(nodes: Iterable[Mapping[str, Any]], need: Resources) -> int:
    """How many trials the nodes hold together."""
    return sum(_on(node["Resources"], need) for node in nodes)


def _on(node: Mapping[str, float], need: Resources) -> int:
    """How many trials one node holds. A share of a GPU lies on one device: two hold four trials of 0.4,
    not five."""
    limits = []
    if need.cpu:
        limits.append(_times(node.get("CPU", 0), need.cpu))
    if need.gpu:
        devices = int(node.get("GPU", 0))
        limits.append(devices * _times(1, need.gpu) if need.gpu < 1 else _times(devices, need.gpu))
    return min(limits, default=1)


def _times(whole: float, share: float) -> int:
    return int(whole / share + 1e-9)
