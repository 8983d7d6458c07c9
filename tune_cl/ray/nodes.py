"""Whether the nodes of a cluster can run trials: Ray waits for ever, and says nothing, for an actor whose code a node
cannot import (seen with Ray 2.60). This module imports little, for nodes import it to answer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import ray
from ray.exceptions import RayError, RayTaskError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from trainables.core import plugins
from trainables.core.errors import WorkFailed, last_line
from tune_cl.process import versions

PACKAGES = ("tune-cl", "ray", "torch", "transformers", "tokenizers", "lightgbm", "gensim", "numpy", "scipy")
"""What a trial's numbers depend on: recorded with the search, and compared on every node."""


def versions_and_problem(packages: Iterable[str]) -> tuple[dict[str, str | None], str | None]:
    """The versions of packages where this runs, and why a plug-in of the driver could not be loaded there."""
    return versions(packages), plugins.problem_here


def alive_nodes() -> list[dict[str, Any]]:
    """The nodes that are there."""
    return [node for node in ray.nodes() if node["Alive"]]


class NodeCheck:
    """Asks each node once what it has installed. `say` is told of versions that differ from the driver's.

    Raises WorkFailed naming a node that cannot import tune_cl or load the driver's plug-ins.
    """

    def __init__(self, say: Callable[[str], None]):
        self.say = say
        self.here = versions(PACKAGES)
        self.asked: dict[str, Any] = {}  # answers by node id; None once taken in

    def __call__(self, nodes: Iterable[Mapping[str, Any]]) -> None:
        """Asks new nodes and takes in answers, without waiting. `nodes`: those of `ray.nodes()` that hold trials."""
        for node in nodes:
            name = node["NodeID"]
            if name not in self.asked:
                there = NodeAffinitySchedulingStrategy(name, soft=False)
                asking = ray.remote(versions_and_problem).options(num_cpus=0, scheduling_strategy=there)
                self.asked[name] = asking.remote(PACKAGES)
            if (answer := self.asked[name]) is not None and ray.wait([answer], timeout=0)[0]:
                self.asked[name] = None
                self._take_in(f"node {node['NodeManagerAddress']}", answer)

    def _take_in(self, node: str, answer: Any) -> None:
        try:
            answered, problem = ray.get(answer)
        except RayTaskError as error:
            raise WorkFailed(f"{node} cannot run trials: {last_line(error)}; install tune-cl there") from None
        except RayError:  # the node is gone, and its trials go elsewhere
            return
        if problem:
            raise WorkFailed(f"{node} cannot run trials: {problem}; install the plug-in there")
        other = [f"{name} {answered[name]} ({ours} here)" for name, ours in self.here.items() if ours != answered[name]]
        if other:
            self.say(f"note: {node} has {', '.join(other)}: its trials' numbers may differ")
