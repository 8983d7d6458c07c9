"""Whether the nodes of a cluster can run trials: Ray waits for ever, and says nothing, for an actor whose code a node
cannot import (seen with Ray 2.60). This module imports little, for nodes import it to answer."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import ray
from ray.exceptions import RayError, RayTaskError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from trainables.core import plugins
from trainables.core.errors import WorkFailed, last_line
from tune_cl.process import versions

SLOW = 60.0  # seconds in which a node has a process started, from a slow disk too
PACKAGES = ("tune-cl", "ray", "torch", "transformers", "tokenizers", "lightgbm", "gensim", "numpy", "scipy")
"""What a trial's numbers depend on: recorded with the search, and compared on every node."""


def versions_and_problem(packages: Iterable[str]) -> tuple[dict[str, str | None], str | None]:
    """The versions of packages where this runs, and why a plug-in of the driver could not be loaded there."""
    return versions(packages), plugins.problem_here


def ask(node: Mapping[str, Any]) -> Any:
    """A node's answer to come: `versions_and_problem` of PACKAGES."""
    on_node = NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
    return ray.remote(versions_and_problem).options(num_cpus=0, scheduling_strategy=on_node).remote(PACKAGES)


def alive_nodes() -> list[dict[str, Any]]:
    """The nodes that are there."""
    return [node for node in ray.nodes() if node["Alive"]]


class NodeCheck:
    """Asks each node once what it has installed. `say` is told of versions that differ from the driver's, and of a node
    that starts no process to answer.

    Raises WorkFailed naming a node that lacks the driver's packages or plug-ins, or cannot import tune_cl.
    """

    def __init__(self, say: Callable[[str], None]):
        self.say = say
        self.here = versions(PACKAGES)
        self.asked: dict[str, tuple[str, Any]] = {}  # node id -> address, answer (None once taken in)
        self.since: dict[str, float] = {}  # node id -> when asked; without nodes whose silence was reported

    def __call__(self, nodes: Iterable[Mapping[str, Any]]) -> None:
        """Asks new nodes and takes in answers, without waiting. `nodes`: those of `ray.nodes()` that hold trials."""
        for node in nodes:
            if node["NodeID"] not in self.asked:
                self.asked[node["NodeID"]] = node["NodeManagerAddress"], ask(node)
                self.since[node["NodeID"]] = time.monotonic()
        for name, (address, answer) in list(self.asked.items()):
            if answer is None:
                continue
            if ray.wait([answer], timeout=0)[0]:
                self.asked[name] = address, None
                self._check_answer(address, answer)
            elif name in self.since and time.monotonic() - self.since[name] > SLOW:
                del self.since[name]
                silent = f"note: node {address} has started no process for {SLOW:.0f} s, so no trial"
                self.say(f"{silent}; raylet.err there says why (/tmp/ray/session_latest/logs)")

    def _check_answer(self, address: str, answer: Any) -> None:
        cannot = f"node {address} cannot run trials"
        try:
            answered, problem = ray.get(answer)
        except RayTaskError as error:
            raise WorkFailed(f"{cannot}: {last_line(error)}; install tune-cl there, then resume") from None
        except RayError:  # the node is gone, and its trials go elsewhere
            return
        if problem:
            raise WorkFailed(f"{cannot}: {problem}; install the plug-in there, then resume")
        if lacking := [package for package, ours in self.here.items() if ours and not answered[package]]:
            raise WorkFailed(f"{cannot}: it lacks {', '.join(lacking)}; install them, then resume")
        if other := [
            f"{name} {answered[name]} ({ours} here)" for name, ours in self.here.items() if ours != answered[name]
        ]:
            self.say(f"note: node {address} has {', '.join(other)}: its trials' numbers may differ")
