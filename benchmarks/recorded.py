"""Recorded learning curves: what the simulator and the schedulers' benchmark read instead of training.

A file holds JSON lines, one per training, gzipped if its name ends in .gz:

    settings    flat keys of `curriculum` in force, and `training.lr`
    seed        of the training
    budget      its iterations
    dev         mean dev value after each iteration
    per_query   the dev queries' values after each iteration, uint8 [iterations, queries] in base64: value * 255
    seconds     of the whole training
"""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from trainables.config.keys import TrainingRun

LEVELS = 255
RATE = "training.lr"


@dataclass(frozen=True)
class Curve:
    """One recorded training; the fields are those of the file."""

    settings: Mapping[str, Any]
    seed: int
    budget: int
    dev: tuple[float, ...]
    per_query: str
    seconds: float

    @classmethod
    def of(cls, run: TrainingRun, values: np.ndarray, seconds: float) -> Curve:
        """`values`: each dev query's value after each iteration, float [iterations, queries], from 0 to 1."""
        levels = np.rint(values * LEVELS).astype(np.uint8)
        text = base64.b64encode(levels.tobytes()).decode()
        dev = tuple(round(float(value), 6) for value in values.mean(axis=1))
        return cls(varied(run), run.seed, len(dev), dev, text, round(seconds, 2))

    def values(self) -> np.ndarray:
        """Values of the dev queries, to 1/255, float64 [iterations, queries]."""
        levels = np.frombuffer(base64.b64decode(self.per_query), np.uint8)
        return levels.reshape(len(self.dev), -1) / LEVELS

    def same_training(self, run: TrainingRun) -> bool:
        return (self.settings, self.seed) == (varied(run), run.seed)


def varied(run: TrainingRun) -> dict[str, Any]:
    """The settings in force that recorded trainings differ in."""
    return {key: value for key, value in run.in_force().items() if key.startswith("curriculum.") or key == RATE}


def append_curve(file: Path, curve: Curve) -> None:
    """Adds a curve to a file that is not gzipped."""
    with file.open("a", encoding="utf-8") as out:
        out.write(json.dumps(asdict(curve)) + "\n")


def read_curves(file: Path) -> list[Curve]:
    """All curves of a file; none where there is no file."""
    if not file.exists():
        return []
    content = file.read_bytes()
    text = (gzip.decompress(content) if file.suffix == ".gz" else content).decode()
    read = (json.loads(line) for line in text.splitlines())
    return [Curve(**{**fields, "dev": tuple(fields["dev"])}) for fields in read]
