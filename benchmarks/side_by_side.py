"""Two ways of doing the same work, timed alternately in one process, and their ratio with its spread."""

from __future__ import annotations

import gc
import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median


@dataclass(frozen=True)
class Comparison:
    """Seconds of each repeat; `ours[i]` and `peer[i]` were taken one after the other."""

    work: str
    against: str
    ours: list[float]
    peer: list[float]

    @property
    def ratios(self) -> list[float]:
        return [peer / ours for ours, peer in zip(self.ours, self.peer, strict=True)]

    def line(self) -> str:
        """For people: medians, and the ratio's median with its range over the repeats."""
        return (
            f"{self.work}: {median(self.ours):.4g} s, {self.against}: {median(self.peer):.4g} s, "
            f"ratio {median(self.ratios):.2f} [{min(self.ratios):.2f}, {max(self.ratios):.2f}]"
        )

    def document(self) -> str:
        """The same as one JSON line, which `benchmarks/all.py` collects."""
        return json.dumps(
            {
                "work": self.work,
                "against": self.against,
                "ours_s": median(self.ours),
                "peer_s": median(self.peer),
                "ratio": median(self.ratios),
                "low": min(self.ratios),
                "high": max(self.ratios),
            }
        )


def seconds(call: Callable[[], object]) -> float:
    """Wall time of one call."""
    gc.collect()
    started = time.perf_counter()
    call()
    return time.perf_counter() - started


def compare(
    work: str, against: str, ours: Callable[[], object], peer: Callable[[], object], repeats: int = 5, warm_up: int = 1
) -> Comparison:
    """Times both `repeats` times, alternately, after `warm_up` calls of each that do not count."""
    for _ in range(warm_up):
        ours()
        peer()
    taken = [(seconds(ours), seconds(peer)) for _ in range(repeats)]
    return Comparison(work, against, [pair[0] for pair in taken], [pair[1] for pair in taken])


def tell(comparison: Comparison, as_json: bool) -> None:
    print(comparison.document() if as_json else comparison.line(), flush=True)
