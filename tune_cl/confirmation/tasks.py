"""The trainings of a confirmation as Ray tasks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import ray
from ray.exceptions import RayError

from trainables.config import TrainingRun
from trainables.errors import UserError, WorkFailed, last_line
from trainables.prose import say
from trainables.storage import patiently
from trainables.training.device import take
from trainables.training.materials import Materials, materials_for, materials_key
from tune_cl.confirmation.plan import SeedRun
from tune_cl.confirmation.remote import confirm_at, fetch_results
from tune_cl.search.config import Resources
from tune_cl.search.places import Room, first_ended

RETRIES = 3  # of a task whose process or node died; it goes on from its last checkpoint


def task(run: dict[str, Any], materials: Materials, folder: str, split: str, threads: int, gpu: float) -> str | None:
    """Runs one training of a confirmation, in a folder or in S3. Returns None, or why it failed if no retry would
    help."""
    try:
        training = TrainingRun.model_validate(run)
        take(threads, gpu, on_cpu=training.grows_trees)
        confirm_at(training, materials, folder, split)
    except (UserError, WorkFailed) as error:
        return str(error)
    return None


class Crew:
    """Trains on the connected Ray cluster, whose object store holds data and text sides once."""

    def __init__(self, materials: Mapping[str, Materials], resources: Resources, split: str):
        self.materials = materials
        self.shared = {key: ray.put(made) for key, made in materials.items()}
        self.reserved, self.split = (resources.threads, resources.gpu), split
        self.room = Room(resources, say)
        options = {"num_cpus": resources.cpu, "num_gpus": resources.gpu, "max_retries": RETRIES}
        self.task = ray.remote(**options)(task)

    def train(self, runs: Sequence[SeedRun], done: Callable[[SeedRun, str | None], None]) -> None:
        """Trains all runs; as each ends, calls `done` with it and why it failed, or None.

        By then the results of a run in S3 have been copied to its folder here.
        """
        waiting = {self._start(run): run for run in runs}
        while waiting:
            ended = first_ended(waiting, self.room)
            run, why = waiting.pop(ended), reason(ended)
            if run.remote and why is None:
                patiently(lambda run=run, remote=run.remote: fetch_results(remote, run.folder))
            done(run, why)

    def _start(self, run: SeedRun) -> Any:
        folder = run.remote or str(run.folder)
        return self.task.remote(run.run.model_dump(), self._share(run.run), folder, self.split, *self.reserved)

    def _share(self, run: TrainingRun) -> Any:
        """The materials in the object store."""
        key = materials_key(run)
        if key not in self.shared:
            self.shared[key] = ray.put(materials_for(run, self.materials))
        return self.shared[key]


def reason(ended: Any) -> str | None:
    """Why a task failed, in a line; None if it did not."""
    try:
        return ray.get(ended)
    except RayError as error:
        return last_line(error)
