"""What a training of a confirmation leaves: its ranker, and what that does on a split.

Its folder holds `ranker/`, `training.json` and a folder for each split that the ranker was applied to:
its TREC run (or predictions of classes), per-query values and `result.json`. The two JSON files come last: they say
that what belongs to them is complete. A function that gave no checkpoint leaves only the folder of dev, with what it
reported.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trainables.core.errors import DataError
from trainables.evaluation.metrics import dev_key
from trainables.training.checkpoint import read_json, write_folder, write_json
from trainables.training.progress import Progress
from trainables.training.saves import DAMAGED

RANKER, TRAINING, RESULT = "ranker", "training.json", "result.json"
RUN = "run"  # in the configuration of a Ray trial: all keys of its training, as JSON
CONCLUSION = "conclusion."  # there: the prefix of the fields of a Conclusion


@dataclass(frozen=True)
class Conclusion:
    """Where a training leaves its ranker, and the split that this is applied to."""

    folder: str
    split: str

    def is_trained(self) -> bool:
        """Whether an earlier confirmation has trained the ranker, whatever it has been applied to."""
        return (Path(self.folder) / TRAINING).exists()

    def apply_again(self, training: Progress, note: Callable[[str], None]) -> dict[str, Any] | None:
        """Leaves what the ranker that was trained before does on the split; returns the record of that training. None
        if it is damaged, of which `note` is told."""
        folder = Path(self.folder)
        try:
            record = read_json(folder / TRAINING)
            training.restore_ranker(folder / RANKER)
        except (*DAMAGED, DataError) as error:
            note(f"{folder} is damaged ({error}); the training starts again")
            return None
        self._apply(training, record, folder)
        return record

    def write(self, training: Progress) -> None:
        """Leaves the ranker of a training that has ended, its record, and what the ranker does on the split."""
        folder, record = Path(self.folder), record_of(training)
        if training.has_ranker:
            training.save_ranker(folder / RANKER)
            training.restore_ranker(folder / RANKER)
            write_json(folder / TRAINING, record)
        self._apply(training, record, folder)

    def _apply(self, training: Progress, record: dict[str, Any], folder: Path) -> None:
        def write(temporary: Path) -> None:
            values, file = training.apply(self.split, temporary)
            means = {name: float(column.mean()) for name, column in values.items()}
            write_json(temporary / RESULT, {"metrics": means, "run_file": file.name, **record})

        write_folder(folder / self.split, write)


def record_of(training: Progress) -> dict[str, Any]:
    """How a training went. share_seen: of the pairs that weighed more than 0 up to the best iteration, where that is
    reported."""
    dev = [row[dev_key(training.run.metric)] for row in training.history]
    seconds = sum(row["seconds"] for row in training.history)
    reached = {"dev": training.best_value, "best_iteration": training.best_iteration}
    rows = [row for row in training.history[: training.best_iteration] if "available_share" in row]
    shares = [row.get("used_share", row["available_share"]) for row in rows]
    share = {"share_seen": max(shares)} if shares else {}
    return {**reached, **share, "iterations": len(dev), "seconds": seconds, "dev_by_iteration": dev}
