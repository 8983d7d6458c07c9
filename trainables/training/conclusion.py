"""What a training of a confirmation leaves: its ranker, and what that does on a split.

Its folder, here or in S3, holds `ranker/`, `training.json` and a folder for each split that the ranker was applied to:
its TREC run (or predictions of classes), per-query values and `result.json`. The two JSON files come last: they say
that what belongs to them is complete. A function that gave no checkpoint leaves only the folder of dev, with what it
reported.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from trainables.core import storage
from trainables.core.storage import is_remote, joined, retry_on_fault
from trainables.evaluation.metrics import dev_key
from trainables.training.checkpoint import SEAL, read_json, require_whole, seal, write_folder, write_json
from trainables.training.progress import Progress
from trainables.training.saves import DAMAGED

RANKER, TRAINING, RESULT = "ranker", "training.json", "result.json"


@dataclass(frozen=True)
class Conclusion:
    """Where a training leaves its ranker, and the split that this is applied to. `folder`: here or in S3."""

    folder: str
    split: str

    def as_config(self) -> dict[str, str]:
        """What Ray passes on."""
        return asdict(self)

    def is_trained(self) -> bool:
        """Whether an earlier confirmation has trained the ranker, whatever it has been applied to."""
        record = joined(self.folder, TRAINING) if is_remote(self.folder) else str(Path(self.folder) / TRAINING)
        return storage.is_there(record)

    def apply_again(self, training: Progress, note: Callable[[str], None]) -> dict[str, Any] | None:
        """Leaves what the ranker that was trained before does on the split; returns the record of that training. None
        if it is damaged, of which `note` is told."""
        with self._fetched() as trained:
            try:
                require_whole(trained)
                record = read_json(trained / TRAINING)  # which an earlier version left without a checksum
                retry_on_fault(lambda: training.restore_ranker(trained / RANKER))
            except DAMAGED as error:
                note(f"{self.folder} is damaged ({error}); the training starts again")
                return None
            with self._written() as folder:
                self._apply(training, record, folder)
            return record

    @contextmanager
    def _fetched(self) -> Iterator[Path]:
        names = []
        if is_remote(self.folder):
            below = retry_on_fault(lambda: storage.files_below(self.folder))
            names = [name for name in below if name in (TRAINING, SEAL) or name.startswith(f"{RANKER}/")]
        with storage.fetched(self.folder, *names) as folder:
            yield folder

    def write(self, training: Progress) -> None:
        """Leaves the ranker of a training that has ended, its record, and what the ranker does on the split."""
        with self._written() as folder:
            record = record_of(training)
            if training.has_ranker:
                training.save_ranker(folder / RANKER)
                training.restore_ranker(folder / RANKER)
                write_json(folder / TRAINING, record)
                seal(folder, TRAINING)
            self._apply(training, record, folder)

    def _apply(self, training: Progress, record: dict[str, Any], folder: Path) -> None:
        def write(temporary: Path) -> None:
            values, file = training.apply(self.split, temporary)
            means = {name: float(column.mean()) for name, column in values.items()}
            write_json(temporary / RESULT, {"metrics": means, "run_file": file.name, **record})
            seal(temporary)

        write_folder(folder / self.split, write)

    @contextmanager
    def _written(self) -> Iterator[Path]:
        """A folder on this machine; at the end of the block, what is in it is in the training's folder."""
        if not is_remote(self.folder):
            yield Path(self.folder)
            return
        with TemporaryDirectory(prefix="tune_cl-") as scratch:
            folder = Path(scratch) / "training"
            yield folder
            retry_on_fault(lambda: storage.upload(folder, self.folder, last=(TRAINING, RESULT)))


def record_of(training: Progress) -> dict[str, Any]:
    """How a training went. share_seen: of the pairs, up to the best iteration, where that is reported."""
    dev = [row[dev_key(training.run.metric)] for row in training.history]
    seconds = sum(row["seconds"] for row in training.history)
    reached = {"dev": training.best_value, "best_iteration": training.best_iteration}
    shares = [row["available_share"] for row in training.history[: training.best_iteration] if "available_share" in row]
    seen = {"share_seen": max(shares)} if shares else {}
    return {**reached, **seen, "iterations": len(dev), "seconds": seconds, "dev_by_iteration": dev}
