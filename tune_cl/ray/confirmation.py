"""A confirmation's training whose folder is in S3: it works in a temporary folder and uploads what it leaves.

While it trains, the storage has its state as `state.tar`, one object that is replaced after each iteration and so whole
at any moment.
"""

from __future__ import annotations

import tarfile
from collections.abc import Callable, Mapping, Sequence
from math import inf
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import ray
from ray.exceptions import RayError

from trainables.config.objective import AnyRun, run_of
from trainables.core import storage
from trainables.core.errors import UserError, WorkFailed, last_line
from trainables.core.prose import say
from trainables.core.storage import patiently
from trainables.post import Group, new_cleaner
from trainables.training.checkpoint import SEAL, write_folder
from trainables.training.device import limit_process
from trainables.training.factory import AnyMaterials, key_of, make_training, shared_for
from trainables.training.objective import FunctionFailed
from trainables.workers import Workers, WorkersTraining
from tune_cl.confirmation.request import SeedRun
from tune_cl.confirmation.training import RANKER, RESULT, STATE, TRAINING, Make, confirm_run
from tune_cl.experiment.search_keys import Resources
from tune_cl.ray.slots import Room, alive_nodes, first_ended, group_of

PACKED = "state.tar"


def confirm_at(run: AnyRun, materials: Any, folder: str, split: str, make: Make = make_training) -> None:
    """`confirm_run` in a folder on this machine or in S3; raises what that raises."""
    if not storage.is_remote(folder):
        confirm_run(run, materials, Path(folder), split, make=make)
        return
    with TemporaryDirectory(prefix="tune_cl-") as scratch:
        own = Path(scratch) / "training"
        storage.patiently(lambda: fetch_earlier(folder, own))
        confirm_run(run, materials, own, split, lambda: storage.patiently(lambda: keep_state(own, folder)), make)
        storage.patiently(lambda: storage.upload(own, folder, last=(TRAINING, RESULT)))
        storage.patiently(lambda: storage.remove(storage.joined(folder, PACKED)))


def fetch_earlier(address: str, folder: Path) -> None:
    """Fetches what an earlier attempt left: the trained ranker, else the state after its last iteration, else
    nothing."""
    if storage.exists(storage.joined(address, TRAINING)):
        names = storage.files_below(address)
        needed = [name for name in names if name in (TRAINING, SEAL) or name.startswith(f"{RANKER}/")]
        storage.download(address, folder, needed)
    elif storage.exists(storage.joined(address, PACKED)):
        with storage.fetched(address, PACKED) as copy, tarfile.open(copy / PACKED) as archive:
            archive.extractall(folder, filter="data")


def keep_state(folder: Path, address: str) -> None:
    """Uploads the folder's present state for `fetch_earlier`, in place of any earlier one."""
    with TemporaryDirectory(prefix="tune_cl-") as scratch:
        packed = Path(scratch) / PACKED
        with tarfile.open(packed, "w") as archive:
            archive.add(folder / STATE, STATE)
        storage.upload_file(packed, storage.joined(address, PACKED))


def fetch_results(address: str, folder: Path) -> None:
    """Copies what a training left, except its ranker, to a folder on this machine."""
    names = [name for name in storage.files_below(address) if not name.startswith(f"{RANKER}/") and name != PACKED]
    write_folder(folder, lambda temporary: storage.download(address, temporary, names))


RETRIES = 3  # of a task whose process or node died; it goes on from its last checkpoint


def task(run: dict[str, Any], materials: AnyMaterials, folder: str, split: str, threads: int, gpu: float) -> str | None:
    """Runs one training of a confirmation, in a folder or in S3. Returns None, or why it failed if no retry would
    help."""
    try:
        training = run_of(run)
        limit_process(threads, gpu, on_cpu=training.grows_trees)
        confirm_at(training, materials, folder, split)
    except FunctionFailed as error:
        return f"{error} (traceback: {leave(error, folder)})"
    except (UserError, WorkFailed) as error:
        return str(error)
    return None


_workers: dict[Group, Workers] = {}  # of this process


def task_of_workers(
    run: dict[str, Any], shared: dict[str, Any], folder: str, split: str, group: Group, cleaner: Any
) -> str | None:
    """`task` by a group of processes, which read the materials in the object store. Those of this process's last task
    are still there, if it was not long ago."""
    workers = _workers.setdefault(group, Workers(group, cleaner))
    try:
        confirm_at(run_of(run), shared, folder, split, lambda run, shared: WorkersTraining(workers, run, shared))
    except (UserError, WorkFailed) as error:
        return str(error)
    return None


def leave(error: FunctionFailed, folder: str) -> str:
    """Writes the traceback of a user's function to the training's folder, here or in S3; returns its address."""
    if not storage.is_remote(folder):
        return str(error.write(Path(folder)))
    with TemporaryDirectory(prefix="tune_cl-") as scratch:
        file = error.write(Path(scratch))
        address = storage.joined(folder, file.name)
        storage.patiently(lambda: storage.upload_file(file, address))
    return address


class Crew:
    """Trains on the connected Ray cluster, whose object store holds data and text sides once."""

    def __init__(self, materials: Mapping[str, AnyMaterials], resources: Resources, split: str):
        self.materials = materials
        self.shared = {key: ray.put(one) for key, one in materials.items()}
        self.reserved, self.split = (resources.threads, resources.gpu), split
        self.room, self.group = Room(resources, say), group_of(resources)
        self.several = self.group.workers > 1
        self.cleaner = new_cleaner() if self.several else None
        work, cpu, gpu = task, resources.cpu, resources.gpu
        if self.several:  # the group reserves what a training takes
            work, cpu, gpu = task_of_workers, 0, 0
        options = {"num_cpus": cpu, "num_gpus": gpu, "max_retries": RETRIES}
        self.task: Any = ray.remote(**options)(work)

    def train(self, runs: Sequence[SeedRun], done: Callable[[SeedRun, str | None], None]) -> None:
        """Trains all runs; as each ends, calls `done` with it and why it failed, or None.

        By then the results of a run in S3 have been copied to its folder here.
        """
        left, waiting = list(runs), {}
        while left or waiting:
            while left and len(waiting) < self._at_once():
                run = left.pop(0)
                waiting[self._start(run)] = run
            ended = first_ended(waiting, self.room)
            run, why = waiting.pop(ended), reason(ended)
            if run.remote and why is None:
                patiently(lambda run=run, remote=run.remote: fetch_results(remote, run.folder))
            done(run, why)

    def _at_once(self) -> float:
        """How many trainings may be started: those that reserve something themselves wait for it in Ray."""
        return max(1, self.room(alive_nodes())) if self.several else inf

    def _start(self, run: SeedRun) -> Any:
        folder = run.remote or str(run.folder)
        if self.several:
            shared = {key_of(run.run): self._share(run.run)}
            return self.task.remote(run.run.model_dump(), shared, folder, self.split, self.group, self.cleaner)
        return self.task.remote(run.run.model_dump(), self._share(run.run), folder, self.split, *self.reserved)

    def _share(self, run: AnyRun) -> Any:
        """The materials in the object store."""
        key = key_of(run)
        if key not in self.shared:
            self.shared[key] = ray.put(shared_for(run, self.materials))
        return self.shared[key]


def reason(ended: Any) -> str | None:
    """Why a task failed, in a line; None if it did not."""
    try:
        return ray.get(ended)
    except RayError as error:
        return last_line(error)
