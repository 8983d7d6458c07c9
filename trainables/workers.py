"""A training that several processes compute: the workers of Ray Train, which starts them, joins them to PyTorch's
process group, and starts them again when one is lost.

The process of a trial asks, the workers do, all of them the same, and the first one answers. Between them is an actor,
the queue (`trainables.command_queue`). It gives workers that have just started the command with which the training
began, which holds the last checkpoint, and then the last command. Each command says which iteration must be complete
first: so workers that start again do, with the same numbers, what was lost.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Thread
from typing import Any, cast

import numpy as np
import ray
from ray.train import FailureConfig, RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer
from ray.util import get_current_placement_group
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from trainables.command_queue import BEGIN, Command, CommandQueue, Group, ProgressReport
from trainables.config.objective import AnyRun
from trainables.core.errors import UserError, WorkFailed, last_line
from trainables.core.storage import fault_of
from trainables.training.checkpoint import write_folder
from trainables.training.device import device_memory, forget_device_memory, limit_process, release
from trainables.training.factory import make_training, shared_for
from trainables.training.parallel import Ranks
from trainables.training.progress import Progress
from trainables.training.saves import DAMAGED
from trainables.training.trainer import Training

RETRIES = 3  # starts of the workers after one was lost
METRICS, SNAPSHOT, SAVE_RANKER, APPLY = "metrics", "snapshot", "save_ranker", "apply"
Files = dict[str, np.ndarray]
"""Files of a folder: their bytes by path below it."""


def files_of(folder: Path) -> Files:
    files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    return {str(path.relative_to(folder)): np.fromfile(path, np.uint8) for path in files}


def write_files(files: Files, folder: Path) -> None:
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content.data)


def written_by(write: Callable[[Path], Any]) -> Files:
    """The files that `write` puts into a folder."""
    with TemporaryDirectory(prefix="tune_cl-") as folder:
        write(Path(folder))
        return files_of(Path(folder))


def read_by(read: Callable[[Path], Any], files: Files) -> None:
    """Calls `read` with a folder that holds the files."""
    with TemporaryDirectory(prefix="tune_cl-") as folder:
        write_files(files, Path(folder))
        read(Path(folder))


def scaling_of(group: Group) -> ScalingConfig:
    """What Ray Train places: one bundle a process, on as few nodes as hold them."""
    each = {"CPU": group.cpu, "GPU": group.gpu}
    return ScalingConfig(num_workers=group.workers, use_gpu=group.gpu > 0, resources_per_worker=each)


# -- in the workers ----------------------------------------------------------------------------------------------


class Worker:
    """One process of the group, and its copy of the training."""

    ranks: Ranks
    training: Training | None = None

    def do(self, command: Command) -> tuple[Any, ProgressReport]:
        if command.name == BEGIN:
            self.begin(*command.arguments)
            return None, self.progress_report()
        while self.trained.iteration < command.iterations:
            self.trained.iterate()
        value = getattr(self, command.name)(*command.arguments)
        return value, self.progress_report()

    @property
    def trained(self) -> Training:
        if self.training is None:
            raise WorkFailed("the workers have no training")
        return self.training

    def begin(self, run: AnyRun, shared: dict[str, Any], group: Group, state: Any) -> None:
        """Makes the training and, if there is a `state`, loads it."""
        self.training, self.ranks = None, Ranks.of_group()  # a device may not have room for two
        release()
        limit_process(group.threads, group.gpu)
        forget_device_memory()
        prepared = shared_for(run, {key: ray.get(one) for key, one in shared.items()})
        training = make_training(run, prepared, None, self.ranks)
        assert isinstance(training, Training)
        if state is not None:
            read_by(training.load, ray.get(state))
        self.training = training

    def progress_report(self) -> ProgressReport:
        training = self.trained
        reached = training.history, training.best_iteration, training.dev_values
        return ProgressReport(*reached, training.machine, training.pop_notes())

    def metrics(self) -> dict[str, float]:
        return self.trained.history[-1] | device_memory()

    def snapshot(self) -> Files | None:
        write = self.trained.snapshot()
        return written_by(write) if self.ranks.rank == 0 else None

    def save_ranker(self) -> Files:
        return written_by(self.trained.save_ranker)

    def apply(self, split: str, ranker: Any) -> tuple[dict[str, np.ndarray], str, Files]:
        read_by(self.trained.restore_ranker, ray.get(ranker))
        with TemporaryDirectory(prefix="tune_cl-") as folder:
            values, file = self.trained.apply(split, Path(folder))
            return values, file.name, files_of(Path(folder))


def work(config: dict[str, Any]) -> None:
    """What Ray Train runs in each worker."""
    queue, ranks = config["queue"], Ranks.of_group()
    worker, number = Worker(), 0
    if ranks.rank == 0:
        config["cleaner"].watch.remote(queue, get_current_placement_group())
    while (command := cast("Command | None", ray.get(queue.next.remote(ranks.rank, number)))) is not None:
        number = command.number
        try:
            value = worker.do(command)
        except Exception as error:
            worded = isinstance(error, (UserError, WorkFailed, *DAMAGED)) or fault_of(error)
            if not (worded and ray.get(queue.all_fail.remote(ranks.rank, ranks.count, number, error))):
                raise  # Ray Train starts all again
        else:
            if ranks.rank == 0:
                ray.get(queue.answer.remote(number, value))


# -- in the process that asks ------------------------------------------------------------------------------------


class Workers:
    """The workers of a process's trainings, one training after another: to start them takes longer than to begin a
    training. They end when nothing was asked of them for a while, and start again at the next question."""

    def __init__(self, group: Group, cleaner: Any):
        self.group, self.cleaner = group, cleaner
        self.number = 0  # of the last command
        self.thread: Thread | None = None
        self.queue: Any = None
        self.failed: WorkFailed | None = None

    def command(self, name: str, iterations: int = 0, *arguments: Any) -> Command:
        self.number += 1
        return Command(self.number, name, iterations, arguments)

    def ask(self, first: Command, command: Command) -> tuple[Any, ProgressReport, int]:
        """What the first worker answers, how far the training is, and how often the workers started. Raises the error
        of a worker, or WorkFailed if Ray Train gave up."""
        while True:
            if self.thread is None:
                self._start()
            if (answer := ray.get(self.queue.ask.remote(first, command))) is not None:
                value, starts = answer
                if isinstance(value, Exception):
                    raise value
                return *value, starts
            self._wait()

    def _start(self) -> None:
        here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=True)
        self.queue = ray.remote(num_cpus=0)(CommandQueue).options(scheduling_strategy=here).remote()
        self.thread = Thread(target=self._run, name="workers", daemon=True)
        self.thread.start()

    def _run(self) -> None:
        """Runs the workers to their end."""
        try:
            with TemporaryDirectory(prefix="tune_cl-") as folder:  # what Ray Train writes, and nobody reads
                TorchTrainer(
                    work,
                    train_loop_config={"queue": self.queue, "cleaner": self.cleaner},
                    scaling_config=scaling_of(self.group),
                    run_config=RunConfig(
                        name="workers", storage_path=folder, failure_config=FailureConfig(max_failures=RETRIES)
                    ),
                ).fit()
        except Exception as error:  # noqa: BLE001 - raised where an answer is waited for
            self.failed = WorkFailed(f"the workers of the training failed: {last_line(error)}")
            self.failed.__cause__ = error
        ray.get(self.queue.end.remote())

    def _wait(self) -> None:
        """Waits for the end of workers that are about to end."""
        if self.thread is not None:
            self.thread.join()
        self.thread = None
        failed, self.failed = self.failed, None
        if failed is not None:
            raise failed

    def close(self) -> None:
        if self.thread is not None:
            ray.get(self.queue.end.remote())
            with suppress(WorkFailed):
                self._wait()


class WorkersTraining(Progress):
    """A training by a group of workers, for the process that runs the trial. `shared`: prepared data by key, in the
    object store. It begins with the first question; where it stands is known from the last answer."""

    def __init__(self, workers: Workers, run: AnyRun, shared: dict[str, Any]):
        super().__init__("")  # the workers know the data
        self.run, self.workers, self.shared = run, workers, shared
        self.first: Command | None = None
        self.saved = self.starts = 0  # iterations in the state that the training goes on from; starts of the workers
        self.ranker: Any = None
        self.computes_with = ""

    def _begin(self, state: Any = None) -> None:
        self.starts = 0
        self.first = self.workers.command(BEGIN, 0, *self._beginning(state))
        self._ask(self.first, self.first)
        self.saved = self.iteration

    def _beginning(self, state: Any) -> tuple[Any, ...]:
        return self.run, self.shared, self.workers.group, state

    def _answer(self, name: str, iterations: int, *arguments: Any) -> Any:
        if self.first is None:
            self._begin()
        assert self.first is not None
        return self._ask(self.first, self.workers.command(name, iterations, *arguments))

    def _ask(self, first: Command, command: Command) -> Any:
        value, report, starts = self.workers.ask(first, command)
        if self.starts and starts > self.starts:
            self.notes.append(
                f"a process of the training was lost: all of its {self.workers.group.workers} started again and went "
                f"on from iteration {self.saved}"
            )
        self.starts = starts
        self.history, self.best_iteration = report.history, report.best_iteration
        self.dev_values, self.computes_with = report.dev_values, report.machine
        self.notes += report.notes
        return value

    @property
    def machine(self) -> str:
        return f"{self.computes_with}; processes: {self.workers.group.workers}"

    def iterate(self) -> dict[str, float]:
        return self._answer(METRICS, self.iteration + 1)

    def load(self, folder: Path) -> None:
        self._begin(state=ray.put(files_of(folder)))

    def snapshot(self) -> Callable[[Path], None]:
        files = self._answer(SNAPSHOT, self.iteration)
        assert self.first is not None
        self.first = replace(self.first, arguments=self._beginning(ray.put(files)))
        self.saved = self.iteration
        return lambda folder: write_files(files, folder)

    def save_ranker(self, folder: Path) -> None:
        files = self._answer(SAVE_RANKER, self.iteration)
        write_folder(folder, lambda temporary: write_files(files, temporary))

    def restore_ranker(self, folder: Path) -> None:
        self.ranker = ray.put(files_of(folder))

    def apply(self, split: str, folder: Path) -> tuple[dict[str, np.ndarray], Path]:
        values, file, files = self._answer(APPLY, 0, split, self.ranker)
        write_files(files, folder)
        return values, folder / file
