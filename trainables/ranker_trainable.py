"""A training as Ray Tune sees it: one `step` is one iteration."""

from __future__ import annotations

import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from ray import tune
from ray.train._internal.session import _TrainingResult
from ray.tune.result import DONE, SHOULD_CHECKPOINT

from trainables.config.objective import OBJECTIVE, AnyRun, ObjectiveRun, run_of
from trainables.core.errors import UserError, WorkFailed
from trainables.core.storage import fault_of
from trainables.training.conclusion import CONCLUSION, RUN, Conclusion
from trainables.training.device import limit_process, release
from trainables.training.factory import AnyTraining, make_training
from trainables.training.objective import FunctionFailed, ObjectiveTraining
from trainables.training.prepared import prepared_for
from trainables.training.saves import Saves, resumed

REPORTED, TRACE = "reported", "traceback"  # in a result: a function's metrics; what it failed with


class ClusterTrainable(tune.Trainable):
    """What any training needs on a cluster: checkpoints that hardly delay it.

    Each result says whether Tune should save a checkpoint now, while the training waits; Tune also saves one when a
    trial pauses or ends. Results leave out the trial's configuration, which the driver has: Ray would copy, flatten and
    keep its hundred keys with each result.
    """

    def __init__(self, *arguments: Any, **options: Any):
        self.saves = Saves()
        super().__init__(*arguments, **options)

    def reset(self, *arguments: Any, **options: Any) -> Any:
        self.saves = Saves()  # the next trial's checkpoints are of another size
        return super().reset(*arguments, **options)

    def train(self) -> dict[str, Any]:
        result = super().train()
        due = self.saves.due() and not result[DONE]  # at the end Tune saves anyway
        return result | {SHOULD_CHECKPOINT: due}

    def get_auto_filled_metrics(self, *arguments: Any, **options: Any) -> dict[str, Any]:
        filled = super().get_auto_filled_metrics(*arguments, **options)
        return {key: value for key, value in filled.items() if key != "config"}

    def save(self, checkpoint_dir: str | None = None) -> _TrainingResult:
        """A checkpoint of the last iteration."""
        scratch = TemporaryDirectory(prefix="tune_cl-")  # Ray would leave its own behind at each failure
        with scratch as folder, self.saves.timed():
            return super().save(checkpoint_dir or folder)


class RankerTrainable(ClusterTrainable):
    """`config`: the keys of the training that are in force, flat; `run`: all of them as JSON; `checkpoint`: the folder
    to resume from, or None; `threads`; `gpu`: how many GPUs, or what share of one, are reserved; `conclusion.*`: for a
    training of a confirmation, where it leaves its ranker and which split that is applied to.

    `prepared`: PreparedData by `prepared_key`, or those of a function, from the object store. An actor is reused for
    trial after trial: data and text side stay, only the training is new.
    """

    failed: str | None = None  # why the training could not be made
    conclusion: Conclusion | None = None
    trained = False  # whether an earlier confirmation trained the ranker

    def setup(self, config: dict[str, Any], prepared: dict[str, Any] | None = None) -> None:
        self.shared = dict(prepared or {})
        self._start(config)

    def reset_config(self, new_config: dict[str, Any]) -> bool:
        self._drop()
        self._start(new_config)
        return True

    def _drop(self) -> None:
        """Drops the training before the next is made: a device that trials share may not have room for both."""
        if (training := getattr(self, "training", None)) is not None:  # absent if the last one could not be made
            training.close()
            del self.training, training
        release()

    def cleanup(self) -> None:
        """Ray's last call of an actor."""
        self._drop()

    def _start(self, config: dict[str, Any]) -> None:
        self.run: AnyRun = run_of(json.loads(config[RUN]))
        concluding = {key.removeprefix(CONCLUSION): config[key] for key in config if key.startswith(CONCLUSION)}
        self.conclusion = Conclusion(**concluding) if concluding else None
        limit_process(config["threads"], config.get("gpu", 0), on_cpu=self.run.on_cpu)
        self.notes: list[str] = []
        self.failed = None
        self.machine_reported = False  # whether a result said what it computes with
        try:
            self.trained = self.conclusion is not None and self.conclusion.is_trained()
            if self.trained:
                self.training = self._new_training()
            else:
                self._resume(config["checkpoint"])
        except (UserError, WorkFailed) as error:  # becomes a result, as in `step`: Tune would retry
            if fault_of(error):
                raise
            self.failed = str(error)

    def _resume(self, checkpoint: str | None) -> None:
        """Goes on from a checkpoint; from the start if it is damaged, which the next result says."""
        self.training = resumed(self._new_training, checkpoint, self.notes.append)

    def _new_training(self) -> AnyTraining:
        if isinstance(self.run, ObjectiveRun):
            return make_training(self.run, self.shared[OBJECTIVE])
        # Data that was not foreseen is prepared now and not kept: the next trial has other keys.
        return make_training(self.run, prepared_for(self.run, self.shared))

    def step(self) -> dict[str, Any]:
        """The metrics of docs/how-to/mlflow.md, with `iteration` and `done`.

        A failure that no retry would fix (a loss that is not a number) becomes a result `failed: reason`, not an
        exception, because Tune retries a trial that raises. A fault of the machine stays an exception.
        """
        if self.failed is not None:
            return {"failed": self.failed, "iteration": 1, "done": True}
        try:
            return self._applied() or self._iterated()
        except (UserError, WorkFailed) as error:
            if fault_of(error):
                raise
            trace = {TRACE: error.trace} if isinstance(error, FunctionFailed) else {}
            return {"failed": str(error), "iteration": self.training.iteration + 1, "done": True} | trace

    def _applied(self) -> dict[str, Any] | None:
        """Applies the ranker of a training that has ended before; None if there is none, or only a damaged one."""
        if not (self.trained and self.conclusion):
            return None
        if record := self.conclusion.apply_again(self.training, self.notes.append):
            return {"iteration": record["iterations"], "done": True}
        self.trained = False
        self._drop()
        self._resume(None)
        return None

    def _iterated(self) -> dict[str, Any]:
        training = self.training
        restored = training.finished  # from its last checkpoint: reports that iteration again
        metrics = self._reported(training.history[-1] if restored else training.iterate())
        if not self.machine_reported:
            metrics["machine"], self.machine_reported = training.machine, True
        if notes := [*self.notes, *training.pop_notes()]:
            metrics["note"] = "; ".join(notes)
            self.notes = []
        if training.finished and self.conclusion:
            self.conclusion.write(training)
        return metrics | {"iteration": training.iteration, "done": training.finished}

    def _reported(self, metrics: dict[str, float]) -> dict[str, Any]:
        """The metrics as a result holds them: a function's own names stand apart, for Ray's may be the same."""
        return {REPORTED: dict(metrics)} if isinstance(self.training, ObjectiveTraining) else dict(metrics)

    def save_checkpoint(self, checkpoint_dir: str) -> None:
        over = self.conclusion and self.training.finished
        if self.failed is None and not self.trained and not over:  # else nothing is left to go on from
            self.training.save(Path(checkpoint_dir))

    def load_checkpoint(self, checkpoint: str | None) -> None:
        """Ray's call when a trial's process has died."""
        if checkpoint and self.failed is None and not self.trained:
            self._drop()
            self._resume(checkpoint)
