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
from trainables.training.materials import Materials, materials_for, materials_key
from trainables.training.saves import DAMAGED, Saves
from trainables.training.training import Training

DIGITS = 4  # of the dev queries' values in results


class ClusterTrainable(tune.Trainable):
    """What any training needs on a cluster. It waits for storage that is away, and says with each result whether a
    checkpoint is due; Tune adds one where a trial pauses or ends. Results come without the trial's configuration, which
    the driver has: with its hundred keys Ray would copy and flatten it at each result, and keep it."""

    def __init__(self, *arguments: Any, **options: Any):
        self.saves = Saves()
        super().__init__(*arguments, **options)

    def get_auto_filled_metrics(self, *arguments: Any, **options: Any) -> dict[str, Any]:
        filled = super().get_auto_filled_metrics(*arguments, **options)
        filled.pop("config", None)
        return filled | {SHOULD_CHECKPOINT: self.saves.due()}

    def save(self, checkpoint_dir: str | None = None) -> Any:
        """A checkpoint in the storage. Storage that is away for a minute would cost the trial all its retries."""
        with TemporaryDirectory(prefix="tune_cl-") as scratch:  # Ray leaves its own behind at each failure
            return patiently(lambda: self._save(checkpoint_dir or scratch))

    def _save(self, checkpoint_dir: str) -> Any:
        """One attempt. The next one writes to the same place: Ray's would be the folder after it."""
        index = self._storage.current_checkpoint_index if self._storage else 0
        try:
            with self.saves.timed():
                return super().save(checkpoint_dir)
        except OSError:
            if self._storage:
                self._storage.current_checkpoint_index = index
            raise


class RankerTrainable(ClusterTrainable):
    """`config`: {run: a TrainingRun as a nested mapping, checkpoint: folder (here or in S3) to go on from or None,
    threads: int, gpu: how many, or what share of one, are reserved, queries: whether results hold the dev queries'
    values, adopt: whether the checkpoint is of another configuration}.

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
        """Lets the training go before the next is made: a device that trials share may not hold both."""
        self.__dict__.pop("training", None)  # none where the last one could not be made
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
        except (UserError, WorkFailed) as error:  # a result, as in `step`: Tune would retry
            self.failed = str(error)
        else:
            self.failed = None

    def _make_training(self, run: TrainingRun, config: dict[str, Any]) -> None:
        self.training = training = make_training(run, self._materials(run))
        if config.get("adopt") and isinstance(training, Training):
            with fetched(config["checkpoint"]) as folder:
                patiently(lambda: training.adopt(folder))
        elif config["checkpoint"]:
            self._load(config["checkpoint"])

    def _load(self, checkpoint: str) -> None:
        """Goes on from a checkpoint; where it is damaged, from the one before it, or else from the start. The next
        result says so: a training repeats what it did, so only time is lost."""
        run, materials = self.training.run, self.training.materials
        for address in (checkpoint, *earlier(checkpoint)):
            if self._loads(address):
                return
            self._drop()
            self.training = make_training(run, materials)  # without what the load had read until then

    def _loads(self, address: str) -> bool:
        """Whether the checkpoint was whole. Apart from `_load`, because an exception keeps the training alive."""
        try:
            with fetched(address) as folder:
                patiently(lambda: self.training.load(folder))
            return True
        except DAMAGED as error:
            self.notes.append(f"{address} is damaged ({error}); the training goes back behind it")
            return False

    def _materials(self, run: TrainingRun) -> Materials:
        key = materials_key(run)
        if key not in self.shared:
            self.shared[key] = materials_for(run, self.shared)
        return self.shared[key]

    def step(self) -> dict[str, Any]:
        """Metrics of docs/tracking.md, with `iteration` and, at the end of the training, `done`.

        What no retry would mend (a loss that is no number) is a result `failed: reason`, not an exception:
        Tune retries a trial that raises.
        """
        if self.failed is not None:
            return {"failed": self.failed, "iteration": 1, "done": True}
        if self.training.finished:  # restored from its last checkpoint: that iteration once more
            return self.training.history[-1] | {"iteration": self.training.iteration, "done": True}
        try:
            metrics: dict[str, Any] = dict(self.training.iterate())
        except (UserError, WorkFailed) as error:
            return {"failed": str(error), "iteration": self.training.iteration + 1, "done": True}
        if self.reports_queries:
            metrics["queries"] = [round(float(value), DIGITS) for value in self.training.dev_values]
        metrics |= device_memory()
        if self.notes:
            metrics["note"] = "; ".join(self.notes)
            self.notes = []
        return metrics | {"iteration": self.training.iteration, "done": self.training.finished}

    def save_checkpoint(self, checkpoint_dir: str) -> None:
        if self.failed is None:  # Tune saves a trial that ends, whatever it came to
            self.training.save(Path(checkpoint_dir))

    def load_checkpoint(self, checkpoint: str | None) -> None:
        if checkpoint and self.failed is None:
            self._load(checkpoint)


def device_memory() -> dict[str, float]:
    """The most MiB of the GPU that the trial's tensors took at once so far; nothing without a GPU. CUDA's own part of
    each process, some hundred MiB, and what the allocator holds back come on top."""
    if best_device().type != "cuda":
        return {}
    return {"device_memory_mib": torch.cuda.max_memory_allocated() / 2**20}
