"""What Ray says of processes that its memory monitor has ended: of fifty lines, the facts."""

from __future__ import annotations

import re
from dataclasses import dataclass

NODE = re.compile(r"was ([\d.]+)GB used / ([\d.]+)GB limit")
ENDED = re.compile(r"Selected to kill: .*?actual memory used=([\d.]+)GB")


@dataclass(frozen=True)
class MemoryKill:
    """Memory in GB: what was `used` of a node's `limit`, and what each process had that Ray ended."""

    used: float
    limit: float
    processes: tuple[float, ...]

    @classmethod
    def of(cls, text: str) -> MemoryKill | None:
        """The facts in the text of an error; None if it is of no process that was ended for memory."""
        if not (node := NODE.search(text)):
            return None
        return cls(float(node[1]), float(node[2]), tuple(map(float, ENDED.findall(text))))

    def __str__(self) -> str:
        several = len(self.processes) > 1
        whose = f"the {len(self.processes)} processes that were killed" if several else "its process"
        node = f"{self.used:.1f} of the machine's {self.limit:.1f} GB were in use"
        return f"killed for lack of memory: {node}, {sum(self.processes):.1f} GB by {whose}"
