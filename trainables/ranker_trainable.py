"""A training as Ray Tune sees it: one `step` is one iteration."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from ray import tune
from ray.tune.result import SHOULD_CHECKPOINT

from trainables.config import TrainingRun
from trainables.errors import UserError, WorkFailed
from trainables.storage import earlier, fetched, patiently
from trainables.training.device import best_device, release, take
from trainables.training.factory import make_training
from trainables.training.materials import Materials, materials_for
from trainables.training.saves import DAMAGED, Saves
from trainables.training.training import Training

DIGITS = 4  # decimals of the dev queries' values in results


class ClusterTrainable(tune.Trainable):
    """What any training needs on a cluster. It waits while the storage is unreachable, and each result says whether a
    checkpoint is due; Tune also saves one when a trial pauses or ends. Results leave out the trial's configuration,
    which the driver has: Ray would copy, flatten and keep its hundred keys with each result."""

    def __init__(self, *arguments: Any, **options: Any):
        self.saves = Saves()
        super().__init__(*arguments, **options)

    def get_auto_filled_metrics(self, *arguments: Any, **options: Any) -> dict[str, Any]:
        filled = super().get_auto_filled_metrics(*arguments, **options)
        filled.pop("config", None)
        return filled | {SHOULD_CHECKPOINT: self.saves.due()}

    def save(self, checkpoint_dir: str | None = None) -> Any:
        """Saves a checkpoint. Waits for unreachable storage: a minute's outage would cost the trial all its retries."""
        with TemporaryDirectory(prefix="tune_cl-") as scratch:  # Ray would leave its own behind at each failure
            return patiently(lambda: self._save(checkpoint_dir or scratch))

    def _save(self, checkpoint_dir: str) -> Any:
        """One attempt. If it fails, the next one writes to the same folder; Ray would move on to the next folder."""
        index = self._storage.current_checkpoint_index if self._storage else 0
        try:
            with self.saves.timed():
                return super().save(checkpoint_dir)
        except OSError:
            if self._storage:
                self._storage.current_checkpoint_index = index
            raise


class RankerTrainable(ClusterTrainable):
    """`config`: {run: a TrainingRun as a nested mapping, checkpoint: folder (local or in S3) to resume from or None,
    threads: int, gpu: how many GPUs, or what share of one, are reserved, queries: whether results hold the dev queries'
    values, adopt: whether the checkpoint belongs to another configuration}.

    `materials`: Materials by `materials_key`, from the object store. An actor is reused for trial after
    trial: data and text side stay, only the training is new.
    """

    failed: str | None = None  # why the training could not be made

    def setup(self, config: dict[str, Any], materials: dict[str, Materials] | None = None) -> None:
        self.shared = dict(materials or {})
        self._start(config)

    def reset_config(self, new_config: dict[str, Any]) -> bool:
        self._drop()
        self._start(new_config)
        return True

    def _drop(self) -> None:
        """Drops the training before the next is made: a device that trials share may not have room for both."""
        self.__dict__.pop("training", None)  # absent if the last one could not be made
        release()

    def _start(self, config: dict[str, Any]) -> None:
        run = TrainingRun.model_validate(config["run"])
        take(config["threads"], config.get("gpu", 0), on_cpu=run.grows_trees)
        self.reports_queries = config.get("queries", False)
        if best_device().type == "cuda":
            torch.cuda.reset_peak_memory_stats()
        self.notes: list[str] = []
        try:
            self._make_training(run, config)
        except (UserError, WorkFailed) as error:  # becomes a result, as in `step`: Tune would retry
            self.failed = str(error)
        else:
            self.failed = None

    def _make_training(self, run: TrainingRun, config: dict[str, Any]) -> None:
        self.training = training = make_training(run, self._materials(run))
        self.told = False  # whether a result said what it computes with
        if config.get("adopt") and isinstance(training, Training):
            with fetched(config["checkpoint"]) as folder:
                patiently(lambda: training.adopt(folder))
        elif config["checkpoint"]:
            self._load(config["checkpoint"])

    def _load(self, checkpoint: str) -> None:
        """Resumes from a checkpoint or, if it is damaged, from the latest intact one before it, or else from the start.
        The next result says so. The training repeats the same steps, so only time is lost."""
        run, materials = self.training.run, self.training.materials
        for address in (checkpoint, *earlier(checkpoint)):
            if self._loads(address):
                return
            self._drop()
            self.training = make_training(run, materials)  # without what the failed load had read

    def _loads(self, address: str) -> bool:
        """Loads a checkpoint; False if damaged. Not in `_load`, where the exception would keep the training alive."""
        try:
            with fetched(address) as folder:
                patiently(lambda: self.training.load(folder))
            return True
        except DAMAGED as error:
            self.notes.append(f"{address} is damaged ({error}); the training goes back behind it")
            return False

    def _materials(self, run: TrainingRun) -> Materials:
        """Those that were not foreseen are not kept: the next trial has others."""
        return materials_for(run, self.shared)

    def step(self) -> dict[str, Any]:
        """The metrics of docs/tracking.md, with `iteration` and `done`.

        A failure that no retry would fix (a loss that is not a number) becomes a result `failed: reason`, not an
        exception, because Tune retries a trial that raises.
        """
        if self.failed is not None:
            return {"failed": self.failed, "iteration": 1, "done": True}
        if self.training.finished:  # restored from its last checkpoint: reports that iteration again
            return self.training.history[-1] | {"iteration": self.training.iteration, "done": True}
        try:
            metrics: dict[str, Any] = dict(self.training.iterate())
        except (UserError, WorkFailed) as error:
            return {"failed": str(error), "iteration": self.training.iteration + 1, "done": True}
        if self.reports_queries:
            metrics["queries"] = [round(float(value), DIGITS) for value in self.training.dev_values]
        metrics |= device_memory()
        if not self.told:
            metrics["machine"], self.told = self.training.machine, True
        if notes := [*self.notes, *self.training.take_notes()]:
            metrics["note"] = "; ".join(notes)
            self.notes = []
        return metrics | {"iteration": self.training.iteration, "done": self.training.finished}

    def save_checkpoint(self, checkpoint_dir: str) -> None:
        if self.failed is None:  # Tune also saves trials that end by failing
            self.training.save(Path(checkpoint_dir))

    def load_checkpoint(self, checkpoint: str | None) -> None:
        if checkpoint and self.failed is None:
            self._load(checkpoint)


def device_memory() -> dict[str, float]:
    """Peak GPU memory of the trial's tensors so far, in MiB; empty without a GPU. CUDA's own part in each process, some
    hundred MiB, and what the allocator holds back come on top."""
    if best_device().type != "cuda":
        return {}
    return {"device_memory_mib": torch.cuda.max_memory_allocated() / 2**20}
