"""A training as Ray Tune sees it: one `step` is one iteration."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from ray import tune

from trainables.config import TrainingRun
from trainables.errors import UserError, WorkFailed
from trainables.training.materials import Materials, materials_key, prepare
from trainables.training.training import Training


class RankerTrainable(tune.Trainable):
    """`config`: {run: a TrainingRun as a nested mapping, checkpoint: folder to go on from or None, threads: int}.

    `materials`: Materials by `materials_key`, from the object store. An actor is reused for trial after
    trial: data and text side stay, only the training is new.
    """

    def setup(self, config: dict[str, Any], materials: dict[str, Materials] | None = None) -> None:
        self.shared = dict(materials or {})
        self._start(config)

    def reset_config(self, new_config: dict[str, Any]) -> bool:
        self._start(new_config)
        return True

    def _start(self, config: dict[str, Any]) -> None:
        torch.set_num_threads(config["threads"])
        run = TrainingRun.model_validate(config["run"])
        self.training = Training(run, self._materials(run))
        if config["checkpoint"]:
            self.training.load(Path(config["checkpoint"]))

    def _materials(self, run: TrainingRun) -> Materials:
        key = materials_key(run)
        if key not in self.shared:
            self.shared[key] = prepare(run)
        return self.shared[key]

    def step(self) -> dict[str, Any]:
        """Metrics of interface section 7, with `iteration` and, at the end of the training, `done`.

        What no retry would mend (a loss that is no number) is a result `failed: reason`, not an exception:
        Tune retries a trial that raises.
        """
        if self.training.finished:  # restored from its last checkpoint: that iteration once more
            return self.training.history[-1] | {"iteration": self.training.iteration, "done": True}
        try:
            metrics: dict[str, Any] = dict(self.training.iterate())
        except (UserError, WorkFailed) as error:
            return {"failed": str(error), "iteration": self.training.iteration + 1, "done": True}
        return metrics | {"iteration": self.training.iteration, "done": self.training.finished}

    def save_checkpoint(self, checkpoint_dir: str) -> None:
        self.training.save(Path(checkpoint_dir))

    def load_checkpoint(self, checkpoint: str | None) -> None:
        if checkpoint:
            self.training.load(Path(checkpoint))
