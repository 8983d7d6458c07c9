"""What Ray Tune runs: the trials of a search, or the trainings of a confirmation."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol

from trainables.config.objective import AnyRun
from trainables.core.files import write_text
from trainables.training.conclusion import CONCLUSION, RUN, Conclusion

WAIT, FINISHED = "wait", "finished"  # in place of a plan: none right now, none any more
TRACEBACK = "traceback.txt"  # of a user's function, in the folder of its trial


@dataclass(frozen=True)
class Plan:
    """A trial to start or to continue: its id, full configuration, and the checkpoint folder to go on from.
    `conclusion`: what it leaves at its end, if it is a training of a confirmation."""

    trial: str
    run: AnyRun
    checkpoint: str | None
    threads: int
    gpu: float  # GPUs that a trial reserves, or a share of one
    conclusion: Conclusion | None = None

    def as_config(self) -> dict[str, Any]:
        """What the trainable and Ray's callbacks get: the keys in force, flat, and OURS."""
        ours = {"trial": self.trial, "checkpoint": self.checkpoint, "threads": self.threads, "gpu": self.gpu}
        conclusion = asdict(self.conclusion) if self.conclusion else {}
        ours |= {f"{CONCLUSION}{key}": value for key, value in conclusion.items()}
        return {**self.run.in_force(), **ours, RUN: json.dumps(self.run.model_dump())}


class Trials(Protocol):
    """concurrent: how many trials may run, or wait for a node, now; set before each `next_trial`"""

    concurrent: int

    def next_trial(self) -> Plan | str:
        """The next plan; WAIT if there is none right now, FINISHED if there are no more."""
        ...

    def result(self, trial: str, metrics: dict[str, Any]) -> bool:
        """Takes in a result; returns whether the trial may go on."""
        ...

    def note(self, trial: str, text: str) -> None: ...  # that the user should know

    def machine(self, trial: str, text: str) -> None: ...  # what a trial computes with

    def checkpoint(self, trial: str, iteration: int, path: str) -> None: ...

    def ended(self, trial: str) -> None: ...  # by itself or by a decision

    def failed(self, trial: str, reason: str) -> None: ...  # more often than it may be retried

    def recorded(self) -> Mapping[str, list[str]]:
        """Addresses of all checkpoints of earlier sessions, by trial, oldest first."""
        ...

    def unneeded(self) -> list[str]:
        """Trials whose checkpoints nothing reads any more, since the last call."""
        ...


def reason_of(metrics: Mapping[str, Any], folder: Path) -> str:
    """Why a trial failed, of a result with `failed`. The traceback of a user's function, if it brings one, is written
    into the folder, and the reason says where it is."""
    if "traceback" not in metrics:
        return metrics["failed"]
    path = folder / TRACEBACK
    write_text(path, metrics["traceback"])
    return f"{metrics['failed']} (traceback: {path})"
