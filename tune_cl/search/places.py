"""How many trials may run, or wait for a node, at a time: it follows the cluster as nodes come and go."""

from __future__ import annotations

import time
from collections.abc import Mapping
from math import inf

import ray

from tune_cl.search.config import Resources

READ_SECONDS = 5.0  # between looks at the cluster


class Places:
    """Asked before each trial; looks at the cluster at most every READ_SECONDS.

    In a local Ray `at_most` (`search.max_concurrent`) caps what the machine holds. A cluster can grow: there as many
    trials as `at_most` says are put forward, whatever it holds now, because its autoscaler starts nodes only for
    trials that wait; without `at_most`, as many as it holds.
    """

    def __init__(self, need: Resources, at_most: int | None, cluster: bool):
        self.need, self.at_most, self.cluster = need, at_most, cluster
        self._read_at, self._held = -inf, 1

    def __call__(self) -> int:
        if self.cluster and self.at_most:
            return self.at_most
        if time.monotonic() - self._read_at >= READ_SECONDS:
            self._held = held(self.need)
            self._read_at = time.monotonic()
        return min(self._held, self.at_most or self._held)


def held(need: Resources) -> int:
    """Trials that the living nodes hold together, each on one node; at least 1, so that a search never stands still."""
    return max(1, sum(_on(node["Resources"], need) for node in ray.nodes() if node["Alive"]))


def _on(node: Mapping[str, float], need: Resources) -> int:
    """Trials that one node holds. A share of a GPU lies on one device: two hold four trials of 0.4, not five."""
    limits = []
    if need.cpu:
        limits.append(_times(node.get("CPU", 0), need.cpu))
    if need.gpu:
        devices = int(node.get("GPU", 0))
        limits.append(devices * _times(1, need.gpu) if need.gpu < 1 else _times(devices, need.gpu))
    return min(limits, default=1)


def _times(whole: float, share: float) -> int:
    return int(whole / share + 1e-9)
